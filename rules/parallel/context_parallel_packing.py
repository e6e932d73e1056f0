"""PAR022."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean, integer
from cfglint.jobs.facts import DefaultOrigin, Fact, FileOrigin, Reading
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import accelerate_reading, guessed, trainer_readings

TRL_REFUSES_FROM = "1.12"
"""First TRL release read that refuses the pair; 1.8 trains on with documents that see each other."""

CHECKED_FROM = "4.56"
"""First transformers release whose trainer splits the context; it takes SDPA alone, as all later ones read do."""


class ContextParallelPacking(Rule):
    """Context parallelism with packed samples, or with attention it cannot split.

    Accelerate's context parallelism drops the mask that keeps packed documents apart: TRL from 1.12 on stops with "Packing is
    not compatible with context parallelism", older releases train on, and documents see each other. Axolotl's ring attention
    takes flash_attention_2 alone, and packed samples only with a micro-batch of 1. transformers' trainer stops at the first step
    with "Context parallelism is supported only with SDPA attention".

    How sure: the checks of TRL (1.12 to 1.16), transformers (4.56 to 5.24) and Axolotl's schema (0.12 to 0.19). Where the
    release of TRL or transformers is not known it is a warning; an attention that Axolotl's file does not state is left to it.
    """

    code = "PAR022"
    name = "context-parallel-packing"
    family = "parallel"
    severity = "error"
    catalogue = ("par.cp-packing", "par.cp-attn")
    evidence = (
        "https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/sft_trainer.py",
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/validation.py",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/trainer.py",
    )
    _AXOLOTL = """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 32768
            micro_batch_size: {micro}
            num_epochs: 1
            sample_packing: true
            context_parallel_size: 4
            attn_implementation: {attention}
            """
    good = (example("train.yml", _AXOLOTL.format(micro=1, attention="flash_attention_2")),)
    bad = (
        example(
            {
                "run.sh": "accelerate launch --config_file cp.yaml train.py --config sft.yaml",
                "cp.yaml": """
                compute_environment: LOCAL_MACHINE
                distributed_type: FSDP
                num_machines: 1
                num_processes: 8
                fsdp_config:
                  fsdp_version: 2
                parallelism_config:
                  parallelism_config_dp_shard_size: 2
                  parallelism_config_cp_size: 4
                """,
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                attn_implementation: flash_attention_2
                bf16: true
                per_device_train_batch_size: 1
                num_train_epochs: 1
                """,
            },
            at="attn_implementation",
            count=1,
        ),
        example(
            "train.yml", _AXOLOTL.format(micro=2, attention="flash_attention_2"), at="context_parallel_size", count=1
        ),
        example("train.yml", _AXOLOTL.format(micro=1, attention="sdpa"), at="context_parallel_size", count=1),
        example(
            {
                "run.sh": "accelerate launch --config_file cp.yaml train.py --config sft.yaml",
                "cp.yaml": """
                compute_environment: LOCAL_MACHINE
                distributed_type: FSDP
                num_machines: 1
                num_processes: 8
                fsdp_config:
                  fsdp_version: 2
                parallelism_config:
                  parallelism_config_dp_shard_size: 2
                  parallelism_config_cp_size: 4
                """,
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                dataset_name: trl-lib/Capybara
                per_device_train_batch_size: 1
                learning_rate: 2.0e-5
                max_length: 32768
                packing: true
                """,
                "requirements.txt": "trl==1.16.0",
            },
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        axolotl = job.reading("axolotl")
        if axolotl is not None:
            yield from self._axolotl(job, axolotl)
            return
        trl, accelerate = job.reading("trl"), accelerate_reading(job)
        if accelerate is None or guessed(job, accelerate):
            return
        key = ("parallelism_config", "parallelism_config_cp_size")
        size = integer(accelerate.value(*key))
        if size is None or size < 2:
            return
        kernel = job.attention if trainer_readings(job) else None
        stated = kernel is not None and isinstance(kernel.origin, FileOrigin)
        if kernel is not None and stated and kernel.value in ("flash2", "flash3", "flex", "eager"):
            yield self._needs_sdpa(job, kernel, accelerate.origin(*key), size, context)
        if trl is None or boolean(trl.value("packing")) is not True:
            return
        version = context.version(job, "trl")
        refused, mixed = always_at_least(version, TRL_REFUSES_FROM), always_below(version, TRL_REFUSES_FROM)
        effect = "TRL stops with a ValueError" if refused else "packed documents see each other"
        yield self.finding(
            f"packing with context parallelism over {size} ranks: {effect}"
            + ("" if refused or mixed else f" (TRL {TRL_REFUSES_FROM} and later stop)"),
            trl.origin("packing"),
            (accelerate.origin(*key), f"context parallelism over {size}"),
            help="packing: false, or leave context parallelism out",
            severity="error" if refused else "warning",
            confidence="high" if refused or mixed else "medium",
            job=job,
        )

    def _needs_sdpa(
        self, job: TrainingJob, kernel: Fact[str], where: FileOrigin, size: int, context: Context
    ) -> Finding:
        """transformers' trainer gives context parallelism to SDPA alone."""
        sure = always_at_least(context.version(job, "transformers"), CHECKED_FROM) is True
        return self.finding(
            f"context parallelism over {size} ranks needs sdpa, the attention is {kernel.value}",
            kernel,
            (where, f"context parallelism over {size}"),
            help="attn_implementation: sdpa",
            severity="error" if sure else "warning",
            confidence="high" if sure else "medium",
            job=job,
        )

    def _axolotl(self, job: TrainingJob, reading: Reading) -> Iterator[Finding]:
        size = integer(reading.value("context_parallel_size"))
        if size is None or size < 2 or boolean(reading.value("use_glm_dsa_kernels")):
            return
        kernel, micro = job.attention, job.micro_batch_size
        where = reading.origin("context_parallel_size")
        if kernel is not None and not isinstance(kernel.origin, DefaultOrigin) and kernel.value in ("sdpa", "eager"):
            yield self.finding(
                f"context_parallel_size {size} needs flash_attention_2, the attention is {kernel.value}",
                where,
                (kernel, f"{kernel.value} here"),
                help="attn_implementation: flash_attention_2",
                job=job,
            )
        elif boolean(reading.value("sample_packing")) is True and micro is not None and micro.value > 1:
            yield self.finding(
                f"context_parallel_size {size} takes packed samples with micro_batch_size 1 only, it is {micro.value}",
                where,
                (micro, f"micro-batch {micro.value}"),
                help="micro_batch_size: 1, with more gradient_accumulation_steps",
                job=job,
            )
