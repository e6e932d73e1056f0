"""SCH001."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix
from cfglint.lint.fixes import rename_key
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Scalar

from .standing import newest, surely_refused, title, unknown_keys, within_table, written


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
    catalogue = ("ds.unknown-zero-key", "hf.unknown-key")
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
    )
    bad = (
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
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        for schema, found, stated in unknown_keys(reading, context):
            if found.effect != "error":
                continue
            if (
                schema.name == "deepspeed"
                and isinstance(found.entry.value, Scalar)
                and found.entry.value.value == "auto"
            ):
                continue
            meant = schema.typo_of(str(found.route[-1]), found.route[:-1])
            certain = surely_refused(schema, found, stated) and (meant is not None or within_table(schema, stated))
            where = written(found.route)
            meant = meant or (found.suggestions[0] if found.suggestions else None)
            edit = rename_key(reading, found.route, meant) if meant else None
            yield self.finding(
                f"{title(schema)} does not know {where}, and stops at keys it does not know"
                if certain
                else f"{where} is no key of {newest(schema)} or the releases before it, which stop at unknown keys",
                reading.origin(*found.route),
                help=f"is {meant} meant?" if meant else "remove it, or state the release that has it",
                fixes=(Fix(f"rename to {meant}", (edit,), safe=False),) if edit and meant else (),
                severity="error" if certain else "warning",
                confidence="high" if certain else "medium",
            )
