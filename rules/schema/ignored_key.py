"""SCH002."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix, route_text
from cfglint.lint.fixes import rename_key
from cfglint.lint.rule import Rule, example

from .standing import title, unknown_keys


class IgnoredKey(Rule):
    """A misspelled key that the framework drops without a word: the default is in force.

    DeepSpeed's top level, Axolotl's file and Accelerate's nested blocks take any key and read the ones they know. With
    ``gradient_cliping`` nothing fails; the run simply is not clipped as its file says.

    How sure: the key is in no release read, and a known key is spelled almost the same. A project that keeps keys of its own
    in such a file can silence a name that only looks like a slip.
    """

    code = "SCH002"
    name = "ignored-key"
    family = "schema"
    severity = "warning"
    fixable = "unsafe"
    evidence = (
        "https://huggingface.co/docs/transformers/deepspeed",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/config.py",
        "https://docs.pydantic.dev/latest/concepts/models/#extra-data",
    )
    catalogue = ("ds.unknown-top-level-key", "ds.unknown-precision-key")
    good = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": "auto",
              "gradient_clipping": "auto",
              "zero_optimization": {"stage": 2},
              "our_experiment": "ablation-3"
            }
            """,
            note="a key of one's own, like no key of DeepSpeed's",
        ),
    )
    bad = (
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": "auto",
              "gradient_cliping": 1.0,
              "zero_optimization": {"stage": 2}
            }
            """,
            at="gradient_cliping",
            count=1,
        ),
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 4096
            micro_batch_size: 2
            context_parapllel_size: 2
            """,
            at="context_parapllel_size",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        for schema, found, _ in unknown_keys(reading, context):
            if found.effect not in ("ignored", "warning") or not found.suggestions:
                continue
            name = str(found.route[-1])
            meant = schema.typo_of(name, found.route[:-1])
            sure = meant is not None
            meant = meant or found.suggestions[0]
            edit = rename_key(reading, found.route, meant)
            yield self.finding(
                f"{title(schema)} passes over {route_text(found.route)} without a word: no release has such a key",
                reading.origin(*found.route),
                help=f"is {meant} meant?",
                fixes=(Fix(f"rename to {meant}", (edit,), safe=False),) if edit else (),
                confidence="high" if sure else "medium",
            )
