"""PAR024."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.base import Launch
from cfglint.jobs.facts import Reading
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import argument, trainer_readings, uses_deepspeed

RANK_VARIABLES: Final = ("WORLD_SIZE", "LOCAL_RANK", "RANK")
"""What a launcher gives its processes; where a script sets them, it starts the processes itself."""


class PlainPython(Rule):
    """A script for several GPUs is started with plain `python`, which makes one process.

    transformers' trainer then wraps the model in `nn.DataParallel`: every step takes the batch size times the number of
    GPUs, the model is copied anew for each step, and the first GPU holds the rest. FSDP stops with "Using fsdp only works in
    distributed training", DeepSpeed looks for MPI.

    How sure: transformers' source (4.30 to 5.24). Said only where the command is in sight and several GPUs are stated;
    commands under srun or mpirun, and those that set the ranks themselves, are left out. A script may spread the model over
    the GPUs with a device map of its own, so it is information, and a warning only for FSDP.
    """

    code = "PAR024"
    name = "plain-python"
    family = "parallel"
    severity = "warning"
    confidence = "medium"
    catalogue = ("hf.dataparallel-implicit", "par.fsdp-needs-launcher")
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/trainer.py",
        "https://huggingface.co/docs/transformers/perf_train_gpu_many",
    )
    good = (
        example(
            "run.sh",
            """
            torchrun --nproc_per_node 4 train.py --model_name_or_path Qwen/Qwen2.5-0.5B --output_dir out \\
              --per_device_train_batch_size 4 --num_train_epochs 1 --bf16
            """,
            gpu="A100-80GB",
        ),
        example(
            "run.sh",
            """
            CUDA_VISIBLE_DEVICES=0 python train.py --model_name_or_path Qwen/Qwen2.5-0.5B --output_dir out \\
              --per_device_train_batch_size 4 --num_train_epochs 1 --bf16
            """,
            gpu="A100-80GB",
            note="one GPU is visible",
        ),
    )
    bad = (
        example(
            "run.sh",
            """
            CUDA_VISIBLE_DEVICES=0,1,2,3 python train.py --model_name_or_path Qwen/Qwen2.5-0.5B --output_dir out \\
              --per_device_train_batch_size 4 --num_train_epochs 1 --bf16
            """,
            gpu="A100-80GB",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        started = next((r for r in job.readings if r.role == "launch"), None)
        readings = trainer_readings(job)
        if (
            started is None
            or not _plain(started)
            or any(r.dialect not in ("hf-training-args", "trl") for r in readings)
        ):
            return
        count = job.hardware.gpus_per_node
        if not readings or (count is not None and count < 2) or _on_xla(started):
            return
        sharding = job.fsdp
        if sharding is not None and sharding.value not in (None, "none", "no_shard"):
            yield self.finding(
                "plain python starts one process: FSDP only works in distributed training",
                (started, "no launcher"),
                (sharding, "asked for here"),
                help="start it with torchrun or accelerate launch",
                job=job,
            )
        elif count is not None and argument(job, "device_map") is None and not uses_deepspeed(job):
            yield self.finding(
                f"plain python starts one process for {count} GPUs: nn.DataParallel takes {count} times the batch per step",
                (started, "no launcher"),
                (job.gpus_per_node, f"{count} GPUs"),
                help=f"torchrun --nproc_per_node {count}, or CUDA_VISIBLE_DEVICES=0 for one GPU",
                severity="info",
                job=job,
            )


def _plain(reading: Reading) -> bool:
    """Whether a launch is a script that python itself starts."""
    launch = reading.context.get("launch")
    if not isinstance(launch, Launch) or not launch.words or not reading.why.endswith(".py"):
        return False
    first = launch.words[0].text.rsplit("/", 1)[-1]
    return first.startswith("python") and not any(name in launch.environment for name in RANK_VARIABLES)


def _on_xla(reading: Reading) -> bool:
    """Whether the run is for TPUs, where one process drives several chips."""
    launch = reading.context.get("launch")
    if not isinstance(launch, Launch):
        return False
    chip = str(launch.gpu[0]) if launch.gpu is not None else ""
    return chip.lower().startswith("tpu") or any(name.startswith(("PJRT_", "XLA_")) for name in launch.environment)
