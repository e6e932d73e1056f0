"""MEM001."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.estimate import estimate
from cfglint.estimate.result import GIB, Estimate
from cfglint.jobs.facts import DefaultOrigin
from cfglint.jobs.job import TrainingJob, with_facts
from cfglint.jobs.versions import always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Where, place
from cfglint.lint.rule import Rule, example

from .wording import accelerator_words

LABELLED_PARTS = 4
"""The largest parts of the peak that are shown at the settings which cause them."""

SHOWN_CHANGES = 2
"""Ways out that the help line names."""

SMALLEST_LABELLED = 0.05
"""A part of the peak below this share is not worth a label."""

ROLLOUTS = ("grpo", "ppo", "rloo")
"""Methods whose samples are as long as the model makes them."""

TRAINS = ("micro_batch_size", "learning_rate", "epochs", "max_steps")
"""Facts of which a file that is meant for training states one."""

PADS = ("pad_to_sequence_len", "pad_to_max_length")
"""Keys that fill every sample up to the stated length."""


class TrainingOutOfMemory(Rule):
    """Training needs more memory per GPU than the accelerator has.

    The peak of the fullest GPU is worked out from the model's tensors, the precision, the optimizer, the activations of
    one micro-batch or of one batch of evaluation, sharding, and what CUDA and NCCL take besides. The estimate is an interval: it is an error only where
    even its low end is above what the driver reports as usable, and a warning where the expected value is. Where samples are
    padded to the longest of a batch only, and half of the stated length would fit, it is information: the data decide.

    How sure: the interval states it; `cfglint estimate` shows every part with its formula and where each input comes
    from. With an unknown model or accelerator nothing is said; without a sequence length only that the states alone are
    too much.
    """

    code = "MEM001"
    name = "training-out-of-memory"
    family = "memory"
    severity = "error"
    catalogue = ("mem.full-ft-does-not-fit", "mem.logits-large-vocab", "mem.grad-ckpt-off-long")
    evidence = (
        "https://huggingface.co/docs/transformers/model_memory_anatomy",
        "https://arxiv.org/abs/1910.02054",
        "https://arxiv.org/abs/2205.05198",
    )
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            torch_dtype: bfloat16
            bf16: true
            per_device_train_batch_size: 1
            gradient_accumulation_steps: 8
            gradient_checkpointing: true
            max_length: 1024
            dataset_name: our/data
            learning_rate: 2.0e-5
            """,
            gpu="A100-80GB",
            gpus=1,
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: meta-llama/Llama-3.1-8B
            torch_dtype: float32
            bf16: true
            per_device_train_batch_size: 8
            gradient_accumulation_steps: 1
            gradient_checkpointing: true
            max_length: 4096
            dataset_name: our/data
            learning_rate: 2.0e-5
            """,
            gpu="A100-40GB",
            gpus=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        if job.partial or not job.hardware.candidates:
            return
        made = context.estimate(job)
        memory = made.memory
        if memory.verdict == "oom" and memory.used is None and memory.floor is not None:
            if any(place(job.fact(name)) is not None for name in TRAINS):
                yield self._by_states_alone(job, made, memory.floor)
            return
        if memory.verdict not in ("oom", "likely-oom") or memory.used is None:
            return
        capacity = memory.capacity or max(a.usable_bytes for a in job.hardware.candidates)
        fuses = may_fuse_adapters(job, context)
        certain = memory.verdict == "oom" and not fuses
        low, expected, high = (v / GIB for v in (memory.used.low, memory.used.expected, memory.used.high))
        gpu = accelerator_words(job)
        by_data = not certain and data_decide(job)
        verb = "needs" if certain else "may need" if by_data else "probably needs"
        in_evaluation = " in evaluation" if memory.at == "evaluation" else ""
        if_long = ", if samples reach the stated length" if by_data else ""
        yield self.finding(
            f"{verb} {low:.1f}–{high:.1f} GiB per GPU{in_evaluation} (expected {expected:.1f}), {gpu} has {capacity / GIB:.1f}{if_long}",
            *self._where(job, made),
            severity="error" if certain else "info" if by_data else "warning",
            confidence="high" if certain else "low" if by_data else "medium",
            help=self._help(job, gpu),
            notes=(*((FUSED,) if fuses else ()), *made.assumptions[:3]),
            data={
                "used_gib": {"low": round(low, 2), "expected": round(expected, 2), "high": round(high, 2)},
                "capacity_gib": round(capacity / GIB, 2),
            },
            job=job,
        )

    def _by_states_alone(self, job: TrainingJob, made: Estimate, floor: float) -> Finding:
        """Too much before any activation is counted: the sequence length is not known, and does not matter."""
        capacity = made.memory.capacity or max(a.usable_bytes for a in job.hardware.candidates)
        gpu = accelerator_words(job)
        method = job.method
        said = method is not None and not isinstance(method.origin, DefaultOrigin)
        sure = said or job.reading("hf-training-args") is None  # a script of one's own may bring adapters
        return self.finding(
            f"needs at least {floor / GIB:.1f} GiB per GPU for weights, gradients and optimizer states, without any "
            f"activations{'' if sure else ', if all parameters are trained'}; {gpu} has {capacity / GIB:.1f}",
            *self._where(job, made),
            severity="error" if sure else "warning",
            confidence="high" if sure else "medium",
            help=self._help(job, gpu),
            notes=tuple(made.assumptions[:3]),
            data={"least_gib": round(floor / GIB, 2), "capacity_gib": round(capacity / GIB, 2)},
            job=job,
        )

    def _where(self, job: TrainingJob, made: Estimate) -> list[Where | tuple[Where, str]]:
        """The batch of training or of evaluation first, then the settings that drive the largest parts."""
        labels: dict[str, list[str]] = {}
        whole = sum(part.bytes for part in made.memory.components)
        for part in sorted(made.memory.components, key=lambda c: -c.bytes)[:LABELLED_PARTS]:
            if part.bytes < SMALLEST_LABELLED * whole:
                break
            for fact_name in part.fact_names:
                if place(job.fact(fact_name)) is not None:
                    labels.setdefault(fact_name, []).append(f"{part.name} {part.bytes / GIB:.1f} GiB")
                    break
        batch = ("eval_micro_batch_size", "evaluates") if made.memory.at == "evaluation" else ("micro_batch_size",)
        order = [*batch, *labels]
        places: list[Where | tuple[Where, str]] = []
        for fact_name in dict.fromkeys(order):
            fact = job.fact(fact_name)
            if fact is not None:
                places.append((fact, ", ".join(labels.get(fact_name, ()))))
        return places

    def _help(self, job: TrainingJob, gpu: str) -> str:
        """The cheapest changes with which it fits, in the user's own keys; none of them touches the effective batch."""
        from cfglint.estimate.fit import fitting_changes  # a search that only a job that does not fit needs

        primary = job.documents[0] if job.documents else ""
        words = []
        for change in fitting_changes(job)[:SHOWN_CHANGES]:
            used = change.estimate.memory.used
            if used is None:
                continue
            verb = "fit together" if change.parts else "fits" if len(change.settings) < 2 else "fit"
            result = ", changes the training result" if change.changes_training_result else ""
            words.append(f"{change.settings_words(primary)} {verb} ({used.expected / GIB:.1f} GiB expected{result})")
        if words:
            return "; or ".join(words)
        return f"none of the usual changes makes it fit on {gpu}: `cfglint fit` shows which accelerators carry it"


FUSES_SINCE = "0.9"
"""First Axolotl release that may switch its LoRA kernels on by itself."""

FUSED = f"Axolotl {FUSES_SINCE} and later may switch fused LoRA kernels on by itself: they keep fewer activations"


def may_fuse_adapters(job: TrainingJob, context: Context) -> bool:
    """Whether Axolotl may choose kernels for the adapters that keep fewer activations than were counted.

    It does so for LoRA and QLoRA outside RL, depending on its release, the adapters' dropout and the way of sharding,
    where no kernel is named (utils/schemas/config.py, ``check_auto_enable_lora_kernels``). With checkpointing it
    concerns one layer at a time.
    """
    axolotl = job.reading("axolotl")
    if axolotl is None or job.value("gradient_checkpointing") != "none" or axolotl.value("rl") is not None:
        return False
    if not str(job.value("method") or "").endswith("lora") or always_below(
        context.version(job, "axolotl"), FUSES_SINCE
    ):
        return False
    return not any(axolotl.entry(f"lora_{part}_kernel") is not None for part in ("mlp", "qkv", "o"))


def data_decide(job: TrainingJob) -> bool:
    """Whether the stated length is an upper bound that the data need not reach, and half of it would fit."""
    method = job.value("method") or ""
    if method.startswith(ROLLOUTS):
        return True
    if job.value("packing") is True or method.startswith("pretrain"):
        return False
    if any(reading.value(key) is True for reading in job.readings for key in PADS):
        return False
    length = job.value("sequence_length")
    if not isinstance(length, int) or length < 2:
        return False
    return estimate(with_facts(job, sequence_length=length // 2)).memory.verdict in ("fits", "tight")
