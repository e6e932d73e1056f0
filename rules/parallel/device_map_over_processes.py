"""PAR017."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import argument, trainer_readings, word

MAPS = ("auto", "balanced", "balanced_low_0", "sequential")


class DeviceMapOverProcesses(Rule):
    """A `device_map` that spreads the model over the GPUs is used with one process per GPU.

    `device_map: auto` puts layers on all the GPUs a process sees; with several processes each of them does. Accelerate stops
    with "You can't train a model that has been loaded with `device_map='auto'` in any distributed mode".

    How sure: the check is in Accelerate's source (1.15) and fires where the model really was spread. The script may use its
    argument otherwise, so it is a warning, and only where more than one process is known to be started. ZeRO-3 is
    device-map-with-zero3's.
    """

    code = "PAR017"
    name = "device-map-over-processes"
    family = "parallel"
    severity = "warning"
    confidence = "medium"
    catalogue = ("par.device-map-auto-ddp",)
    evidence = ("https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/accelerator.py",)
    good = (
        example(
            {
                "run.sh": "python train.py --config sft.yaml",
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                device_map: auto
                per_device_train_batch_size: 1
                num_train_epochs: 1
                """,
            },
            note="one process spreads the model over all GPUs: that is what the map is for",
        ),
    )
    bad = (
        example(
            {
                "run.sh": "torchrun --nproc_per_node 8 train.py --config sft.yaml",
                "sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                device_map: auto
                per_device_train_batch_size: 1
                num_train_epochs: 1
                """,
            },
            at="device_map",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        readings = trainer_readings(job)
        if not readings or any(r.dialect != "hf-training-args" for r in readings) or job.value("zero_stage") == 3:
            return
        spread = argument(job, "device_map")
        if spread is None or (word(spread) or str(spread.value).strip().lower()) not in MAPS:
            return
        launch = next((r for r in job.readings if r.role == "launch"), None)
        processes = launch.facts.fact("gpus_per_node") if launch is not None else None
        if processes is None or not isinstance(processes.value, int) or processes.value < 2:
            return
        if launch is None or launch.context.get("program") is None or not self._starts_several(launch.root):
            return
        yield self.finding(
            f"device_map {spread.value} in each of {processes.value} processes: Accelerate refuses to train a model that is "
            "spread over GPUs",
            spread,
            (processes, f"{processes.value} processes"),
            help="take device_map out, or start a single process",
            job=job,
        )

    def _starts_several(self, root: object) -> bool:
        """Whether the launcher's own flags say how many processes it starts."""
        keys = root.keys() if hasattr(root, "keys") else ()
        return any(key in keys for key in ("nproc_per_node", "nproc-per-node", "num_processes", "num_gpus"))
