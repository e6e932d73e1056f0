"""CON006."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Fact, FileOrigin, Reading
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix, Where
from cfglint.lint.fixes import remove_key
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping

from ..trainer import Settings, argument, guessed, trainer_readings

REFUSED = (
    "gradient_accumulation_steps", "gradient_clipping", "zero_stage", "offload_optimizer_device", "offload_param_device",
    "offload_param_nvme_path", "offload_optimizer_nvme_path", "zero3_save_16bit_model",
)  # fmt: skip
"""Fields of ``deepspeed_config`` that Accelerate refuses beside a DeepSpeed file (utils/dataclasses.py,
``DeepSpeedPlugin._deepspeed_config_checks``)."""


class FieldsBesideDeepspeedFile(Rule):
    """Accelerate's file states DeepSpeed settings beside a DeepSpeed file that already holds them.

    With a DeepSpeed file, Accelerate refuses the short settings of its own (`zero_stage`, `gradient_accumulation_steps`,
    `gradient_clipping`, the offload devices, `zero3_save_16bit_model`, and a `mixed_precision`): "When using
    `deepspeed_config_file`, the following accelerate config variables will be ignored", a ValueError. It does not matter
    whether the DeepSpeed file is named in Accelerate's file or by the trainer's `deepspeed` argument.

    How sure: the check is in Accelerate's source (since 0.16, read in 1.15) and looks only at what the Accelerate file
    states, not at the values. `mixed_precision: no` is left alone. Fields that are only passed on the command line are not
    looked at, since Accelerate accepts them.
    """

    code = "CON006"
    name = "fields-beside-deepspeed-file"
    family = "consistency"
    severity = "error"
    fixable = "unsafe"
    catalogue = ("accel.ds-file-plus-fields", "accel.mixed-precision-vs-ds")
    evidence = (
        "https://github.com/huggingface/accelerate/pull/941",
        "https://github.com/yuvalkirstain/PickScore/issues/2",
        "https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/utils/dataclasses.py",
    )
    good = (
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: DEEPSPEED
            num_machines: 1
            num_processes: 8
            deepspeed_config:
              deepspeed_config_file: ds.json
              zero3_init_flag: true
            """,
            note="zero3_init_flag is Accelerate's own",
        ),
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: DEEPSPEED
            num_machines: 1
            num_processes: 8
            mixed_precision: bf16
            deepspeed_config:
              zero_stage: 3
              gradient_accumulation_steps: 4
            """,
        ),
    )
    bad = (
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: DEEPSPEED
            num_machines: 1
            num_processes: 8
            mixed_precision: bf16
            deepspeed_config:
              deepspeed_config_file: ds.json
              zero_stage: 2
              gradient_accumulation_steps: 4
            """,
            at="gradient_accumulation_steps",
            count=1,
        ),
        example(
            {
                "run.sh": "accelerate launch --config_file zero3.yaml train.py --config sft.yaml",
                "zero3.yaml": """
                compute_environment: LOCAL_MACHINE
                distributed_type: DEEPSPEED
                num_machines: 1
                num_processes: 8
                deepspeed_config:
                  zero_stage: 3
                  offload_optimizer_device: none
                """,
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                learning_rate: 1.0e-5
                num_train_epochs: 1
                deepspeed: ds.json
                """,
                "ds.json": """
                {"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}
                """,
            },
            at="zero_stage",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        for reading in job.readings:
            if reading.dialect != "accelerate" or reading.context.get("distributed_type") != "DEEPSPEED":
                continue
            settings = Settings(reading, ("deepspeed_config",), not guessed(job, reading))
            if not isinstance(settings.node(), Mapping):
                continue
            seen: set[int] = context.shared.setdefault(self.code, set())
            file = self._file(job, settings)
            if file is None or id(reading) in seen:
                continue
            seen.add(id(reading))
            yield from self._report(job, reading, settings, file)

    def _file(self, job: TrainingJob, settings: Settings) -> Fact[str] | None:
        """What names the DeepSpeed file."""
        named = settings.value("deepspeed_config_file")
        if isinstance(named, str) and named.strip():
            return settings.fact("deepspeed_config_file")
        if not trainer_readings(job):
            return None
        said = argument(job, "deepspeed")
        if said is not None and isinstance(said.value, str):
            return Fact(said.value, said.origin, settings.certain)
        return None

    def _report(self, job: TrainingJob, reading: Reading, settings: Settings, file: Fact[str]) -> Iterator[Finding]:
        refused = [key for key in REFUSED if settings.has(key)]
        places: list[Where | tuple[Where, str]] = [settings.fact(key) for key in refused]
        edits = [remove_key(reading, ("deepspeed_config", key)) for key in refused]
        precision = reading.value("mixed_precision")
        if precision in ("fp16", "bf16", "fp8"):
            refused.append("mixed_precision")
            places.append(Fact(precision, reading.origin("mixed_precision"), settings.certain))
            edits.append(remove_key(reading, ("mixed_precision",)))
        if not refused:
            return
        made = tuple(edit for edit in edits if edit is not None)
        inner = settings.node()
        if isinstance(inner, Mapping) and all(key in refused for key in inner.index):
            made = ()  # taking all of them out would leave a key without a mapping
        beside = isinstance(file.origin, FileOrigin) and file.origin.document is reading.document
        yield self.finding(
            f"{', '.join(refused)} beside the DeepSpeed file {file.value}: Accelerate stops with a ValueError",
            *places,
            (file, "" if beside else "the trainer names a DeepSpeed file"),
            help="keep these settings in the DeepSpeed file alone",
            fixes=(Fix("remove the settings Accelerate refuses", made, safe=False),) if len(made) == len(edits) else (),
            job=job,
        )
