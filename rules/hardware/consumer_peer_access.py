"""HWF016."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.base import Launch
from cfglint.jobs.facts import Reading
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import trainer_readings

DRIVER: Final = "550.40.07"
"""First NVIDIA driver with which Accelerate lets several RTX 40 cards run as they are."""

CHECKED_SINCE: Final = "0.25"
"""First Accelerate release that looks."""

LAUNCHERS: Final = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "deepspeed")
"""What starts processes without setting NCCL's variables; ``accelerate launch`` sets them itself."""

VARIABLES: Final = ("NCCL_P2P_DISABLE", "NCCL_IB_DISABLE")


class ConsumerPeerAccess(Rule):
    """Several RTX 40 cards under a bare torchrun: Accelerate refuses them with an older driver.

    RTX 40 cards have no peer-to-peer access. With a driver before 550.40.07 Accelerate, and with it transformers' trainer,
    stops with "Using RTX 4000 series doesn't support faster communication broadband via P2P or IB. Please set
    `NCCL_P2P_DISABLE="1"` and `NCCL_IB_DISABLE="1"` or use `accelerate launch`".

    How sure: Accelerate's source (0.25 to 1.15). The driver is in no file, so it is information, and only where the command
    that starts the run is in sight and does not set the variables.
    """

    code = "HWF016"
    name = "consumer-peer-access"
    family = "hardware"
    severity = "info"
    confidence = "medium"
    catalogue = ("hw.consumer-p2p",)
    evidence = (
        "https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/utils/environment.py",
        "https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/state.py",
        "https://github.com/huggingface/accelerate/issues/2328",
    )
    good = (
        example(
            {
                "run.sh": "accelerate launch --num_processes 2 train.py --config sft.yaml",
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                per_device_train_batch_size: 4
                num_train_epochs: 1
                """,
            },
            gpu="RTX4090",
            gpus=2,
            note="accelerate launch sets the variables",
        ),
        example(
            "run.sh",
            """
            export NCCL_P2P_DISABLE=1 NCCL_IB_DISABLE=1
            torchrun --nproc_per_node 2 train.py --model_name_or_path Qwen/Qwen2.5-0.5B --output_dir out \\
              --per_device_train_batch_size 4 --num_train_epochs 1 --bf16
            """,
            gpu="RTX4090",
        ),
    )
    bad = (
        example(
            "run.sh",
            """
            torchrun --nproc_per_node 2 train.py --model_name_or_path Qwen/Qwen2.5-0.5B --output_dir out \\
              --per_device_train_batch_size 4 --num_train_epochs 1 --bf16
            """,
            gpu="RTX4090",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        candidates = job.hardware.candidates
        if not candidates or not all(a.id.upper().startswith("RTX-40") for a in candidates):
            return
        started = next((r for r in job.readings if r.role == "launch" and _bare(r)), None)
        count = job.hardware.gpus_per_node
        if started is None or count is None or count < 2 or not trainer_readings(job):
            return
        if always_below(job.versions.get("accelerate"), CHECKED_SINCE):
            return
        yield self.finding(
            f"{count} {job.hardware.name} without NCCL_P2P_DISABLE and NCCL_IB_DISABLE: Accelerate stops with a driver before "
            f"{DRIVER}",
            started,
            (job.hardware.origin, "no peer-to-peer access"),
            help="export NCCL_P2P_DISABLE=1 NCCL_IB_DISABLE=1, or start with accelerate launch",
            job=job,
        )


def _bare(reading: Reading) -> bool:
    """Whether a launch starts processes with nothing said of peer access."""
    launch = reading.context.get("launch")
    if not isinstance(launch, Launch) or not reading.why.startswith(LAUNCHERS):
        return False
    return not all(name in launch.environment for name in VARIABLES)
