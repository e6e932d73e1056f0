"""SCH001."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.schema import Schema
from cfglint.jobs.facts import Reading
from cfglint.jobs.versions import exact
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix, route_text
from cfglint.lint.fixes import rename_key
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Route, Scalar

from .standing import newest, surely_refused, title, unknown_keys, within_table

SHOWN = 4
"""Keys of one block that a message names."""


class UnknownKey(Rule):
    """A key that the framework does not know, in a file whose reader stops at unknown keys.

    LLaMA-Factory raises "Some keys are not used by the HfArgumentParser", Accelerate "The config file had unknown keys",
    DeepSpeed's ZeRO block "Extra inputs are not permitted". The job ends before it starts, often after it waited for its
    machines.

    How sure: the key tables are read from the frameworks' own releases. It is an error where the name is one slip away
    from a known one or the stated release is one of those read; a key that may come from a newer release is a warning.
    Formats that drop unknown keys are SCH002's, scripts' own arguments SCH004's.
    """

    code = "SCH001"
    name = "unknown-key"
    family = "schema"
    severity = "error"
    fixable = "unsafe"
    evidence = (
        "https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/commands/config/config_args.py",
        "https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/runtime/config_utils.py",
        "https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/hparams/parser.py",
    )
    catalogue = ("ds.unknown-zero-key", "ds.unknown-precision-key", "hf.unknown-key", "ds.aio-inside-zero")
    good = (
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: MULTI_GPU
            mixed_precision: bf16
            num_machines: 1
            num_processes: 8
            """,
        ),
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 2,
              "gradient_clipping": 1.0,
              "zero_optimization": {"stage": 3, "my_experiment": "auto"}
            }
            """,
            note="keys set to auto are dropped before DeepSpeed looks",
        ),
        example(
            {
                "ds.json": """
                {
                  "train_micro_batch_size_per_gpu": 2,
                  "gradient_clipping": 1.0,
                  "bf16": {"enabled": true, "loss_scale": 0, "hysteresis": 2},
                  "zero_optimization": {"stage": 1}
                }
                """,
                "requirements.txt": "deepspeed==0.9.5",
            },
            note="releases before 0.17 pass over what they do not know in bf16",
        ),
    )
    bad = (
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: MULTI_GPU
            mixed_precision: bf16
            num_machines: 1
            num_proceses: 8
            """,
            at="num_proceses",
            count=1,
        ),
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 2,
              "gradient_clipping": 1.0,
              "zero_optimization": {"stage": 3, "reduce_bucket_sise": 500000000}
            }
            """,
            at="reduce_bucket_sise",
            count=1,
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B-Instruct
            stage: sft
            finetuning_type: lora
            template: qwen
            dataset: identity
            cut_off_len: 4096
            output_dir: out
            per_device_train_batch_size: 1
            """,
            at="cut_off_len",
            count=1,
        ),
        example(
            "job.yaml",
            """
            cfglint: 1
            kind: train
            model: Qwen/Qwen2.5-7B
            micro_batch: 4
            """,
            at="micro_batch",
            count=1,
        ),
        example(
            "ds.json",
            """
            {
              "train_micro_batch_size_per_gpu": 2,
              "gradient_clipping": 1.0,
              "bf16": {"enabled": true, "loss_scale": 0, "hysteresis": 2},
              "zero_optimization": {"stage": 1}
            }
            """,
            count=1,
            note="one finding for a block",
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        alike: dict[tuple[str, Route, bool], tuple[Schema, list[Route]]] = {}
        for schema, found, stated in unknown_keys(reading, context):
            if found.effect != "error":
                continue
            if (
                schema.name == "deepspeed"
                and isinstance(found.entry.value, Scalar)
                and found.entry.value.value == "auto"
            ):
                continue
            single = exact(stated)
            if single is not None and schema.unknown_effect(found.route[:-1], single) != "error":
                continue  # the stated release passes over it
            meant = schema.typo_of(str(found.route[-1]), found.route[:-1])
            certain = surely_refused(schema, found, stated) and (meant is not None or within_table(schema, stated))
            meant = meant or (found.suggestions[0] if found.suggestions else None)
            if meant is None:
                _, routes = alike.setdefault((schema.name, found.route[:-1], certain), (schema, []))
                routes.append(found.route)
                continue
            edit = rename_key(reading, found.route, meant)
            fixes = (Fix(f"rename to {meant}", (edit,), safe=False),) if edit else ()
            yield self._finding(schema, reading, [found.route], certain, f"is {meant} meant?", fixes)
        for (_, _, certain), (schema, routes) in alike.items():
            them = "it" if len(routes) == 1 else "them"
            help = f"remove {them}, or state the release that has {them}"
            yield self._finding(schema, reading, routes, certain, help)

    def _finding(
        self,
        schema: Schema,
        reading: Reading,
        routes: list[Route],
        certain: bool,
        help: str,
        fixes: tuple[Fix, ...] = (),
    ) -> Finding:
        """One finding for all keys of a block, with a place for each."""
        names = [route_text(route) for route in routes]
        shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        few = len(names) == 1
        return self.finding(
            f"{title(schema)} does not know {shown}, and stops at keys it does not know"
            if certain
            else f"no release up to {newest(schema)} has {shown}, and {newest(schema)} stops at {'it' if few else 'them'}",
            *(reading.origin(*route) for route in routes),
            help=help,
            fixes=fixes,
            severity="error" if certain else "warning",
            confidence="high" if certain else "medium",
        )
