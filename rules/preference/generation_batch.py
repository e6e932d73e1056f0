"""RLH001."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Any

from cfglint.dialects.values import integer
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .sampling_batch import SamplingBatch, completions, in_words, sampling_batch

COUNTS_ACCUMULATION_SINCE = "0.17"
"""First TRL release that counts micro-batches of a step into the generation batch."""


class GenerationBatch(Rule):
    """GRPO's generation batch is no multiple of `num_generations`: groups would be cut.

    The trainer raises "generation_batch_size (…) must be divisible by num_generations (…)" after the processes are up. The
    batch is ``per_device_train_batch_size`` × processes × ``steps_per_generation``, which is
    ``gradient_accumulation_steps`` unless stated; up to TRL 0.16 accumulation did not count. Axolotl checks micro-batch ×
    accumulation on its own since 0.17.

    How sure: read in TRL 0.15 to 1.16. Reported only where the number of processes is known (from the files, a launcher or
    ``--gpus``) or does not matter. Without a stated release the newer, milder meaning is used, and what only the older one
    refuses is information.
    """

    code = "RLH001"
    name = "generation-batch"
    family = "preference"
    severity = "error"
    evidence = (
        "https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/grpo_config.py",
        "https://github.com/huggingface/trl/issues/2876",
        "https://github.com/huggingface/open-r1/issues/236",
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/validation.py",
    )
    catalogue = ("rl.grpo-gen-batch-divisible",)
    good = (
        example(
            {
                "grpo.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                dataset_name: trl-lib/DeepMath-103K
                per_device_train_batch_size: 1
                gradient_accumulation_steps: 8
                num_generations: 8
                learning_rate: 1.0e-6
                """,
                "requirements.txt": "trl==1.16.0",
            },
            gpus=1,
            gpu="H100",
        ),
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/DeepMath-103K
            per_device_train_batch_size: 1
            num_generations: 8
            learning_rate: 1.0e-6
            """,
            note="how many processes there are is not known",
        ),
    )
    bad = (
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/DeepMath-103K
            per_device_train_batch_size: 1
            gradient_accumulation_steps: 4
            num_generations: 16
            learning_rate: 1.0e-6
            """,
            gpus=3,
            gpu="H100",
            at="num_generations",
            count=1,
        ),
        example(
            {
                "grpo.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                dataset_name: trl-lib/DeepMath-103K
                per_device_train_batch_size: 1
                gradient_accumulation_steps: 8
                num_generations: 8
                learning_rate: 1.0e-6
                """,
                "requirements.txt": """
                trl==0.16.1
                """,
            },
            gpus=1,
            gpu="H100",
            at="num_generations",
            count=1,
            note="accumulation does not count before 0.17",
        ),
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/DeepMath-103K
            per_device_train_batch_size: 4
            generation_batch_size: 30
            num_generations: 8
            learning_rate: 1.0e-6
            """,
            at="num_generations",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        batch = sampling_batch(job)
        if batch is None or batch.num_generations < 2 or (batch.generation_batch and batch.steps_per_generation):
            return
        stated = context.version(job, "trl")
        if always_below(stated, "0.15"):
            return
        old = batch.reading.dialect == "trl" and always_below(stated, COUNTS_ACCUMULATION_SINCE)
        micro = int(batch.micro_batch.value)
        whole = integer(batch.generation_batch.value) if batch.generation_batch else None
        if whole is not None:
            yield from self._stated_batch(job, batch, whole, micro)
            return
        steps = integer(batch.steps_per_generation.value) if batch.steps_per_generation else None
        turns = 1 if old else steps or int(batch.accumulation.value)
        axolotl = batch.reading.dialect == "axolotl"
        world = batch.world_size
        if world is None:
            if (
                axolotl
                and micro * turns % batch.num_generations
                and always_at_least(context.version(job, "axolotl"), "0.17")
            ):
                world = 1  # its own check leaves the processes out
            else:
                return
        total = micro * world * turns
        if total % batch.num_generations == 0:
            if stated is None and turns > 1 and batch.steps_per_generation is None and not axolotl:
                yield from self._before_accumulation(job, batch, micro, world)
            return
        factors = f"{micro} × {in_words(world)}" + (f" × {turns}" if turns != 1 or not old else "")
        yield self.finding(
            f"the generation batch is {completions(total)} ({factors}), no multiple of num_generations "
            f"{batch.num_generations}",
            *_places(batch, old),
            help=_advice(batch, micro, world, turns, old),
            job=job,
            data={"generation_batch": total, "num_generations": batch.num_generations},
        )

    def _before_accumulation(self, job: TrainingJob, batch: SamplingBatch, micro: int, world: int) -> Iterator[Finding]:
        """TRL's earlier check left accumulation out: what the current release takes, it refused."""
        if micro * world % batch.num_generations == 0:
            return
        yield self.finding(
            f"the generation batch is {completions(micro * world)} with TRL before {COUNTS_ACCUMULATION_SINCE}, which leaves "
            f"accumulation out: no multiple of num_generations {batch.num_generations}",
            *_places(batch, True),
            help=f"state TRL's release, {COUNTS_ACCUMULATION_SINCE} or later",
            severity="info",
            confidence="low",
            job=job,
        )

    def _stated_batch(self, job: TrainingJob, batch: SamplingBatch, whole: int, micro: int) -> Iterator[Finding]:
        if whole % batch.num_generations:
            yield self.finding(
                f"generation_batch_size {whole} is no multiple of num_generations {batch.num_generations}",
                batch.generations or batch.generation_batch,
                (batch.generation_batch, "completions per generation"),
                help=f"generation_batch_size: {-(-whole // batch.num_generations) * batch.num_generations} is the next one",
                job=job,
            )
        elif batch.world_size is not None and batch.reading.dialect == "trl" and whole % (micro * batch.world_size):
            step = micro * batch.world_size
            yield self.finding(
                f"generation_batch_size {whole} is no multiple of the global batch {step} ({micro} × "
                f"{in_words(batch.world_size)})",
                batch.generation_batch,
                (batch.micro_batch, "micro-batch"),
                (batch.processes, "processes"),
                help=f"generation_batch_size: {-(-whole // step) * step} is the next one",
                job=job,
            )


def _places(batch: SamplingBatch, old: bool) -> Iterator[Any]:
    if batch.generations is not None:
        yield batch.generations
    yield (batch.micro_batch, "micro-batch")
    if not old:
        yield (batch.steps_per_generation or batch.accumulation, "micro-batches per generation")
    if batch.processes is not None:
        yield (batch.processes, "processes")


def _advice(batch: SamplingBatch, micro: int, world: int, turns: int, old: bool) -> str:
    wanted = batch.num_generations
    if old:
        step = wanted // gcd(wanted, world)
        better = -(-micro // step) * step
        return f"per_device_train_batch_size: {better} fits, or num_generations that divides {micro * world}"
    step = wanted // gcd(wanted, micro * world)
    better = -(-turns // step) * step
    key = "steps_per_generation" if batch.steps_per_generation else "gradient_accumulation_steps"
    total = micro * world * turns
    divisors = [n for n in range(2, min(total, 64) + 1) if total % n == 0]
    near = min(divisors, key=lambda n: abs(n - wanted)) if divisors else None
    return f"{key}: {better} fits" + (f", or num_generations: {near}" if near else "")
