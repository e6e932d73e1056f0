"""PFT019."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, Node, Scalar

from .adapter_facts import BITSANDBYTES_4BIT


class QuantizedDeviceMap(Rule):
    """A quantized model is spread over the GPUs with `device_map` auto while several processes train it.

    Every process then wants all GPUs. Accelerate raises "You can't train a model that has been loaded in 8-bit or 4-bit
    precision on multiple devices in any distributed mode"; each process needs the whole model on its own GPU. With one GPU
    for the whole model (``{"": 0}``) all processes load there, and those of the other GPUs stop with "… on a different device
    than the one you're training on".

    How sure: a check of Accelerate 1.15. Reported where the file states the map and the launcher or the files state more than
    one process. A script may override the map, so it is a warning.
    """

    code = "PFT019"
    name = "quantized-device-map"
    family = "peft"
    severity = "warning"
    confidence = "medium"
    evidence = ("https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/accelerator.py",)
    catalogue = ("quant.distributed-device-map",)
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            num_train_epochs: 1
            use_lora: true
            load_in_4bit: true
            device_map: auto
            """,
            gpu="RTX4090",
            gpus=1,
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            num_train_epochs: 1
            use_lora: true
            load_in_4bit: true
            device_map: auto
            """,
            gpu="RTX4090",
            gpus=4,
            at="device_map",
            count=1,
        ),
        example(
            {
                "run.sh": "torchrun --nproc_per_node 2 train.py --config train.yaml",
                "train.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                num_train_epochs: 1
                use_lora: true
                load_in_4bit: true
                device_map: {"": 0}
                """,
            },
            at="device_map",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        quantization, world = job.quantization, job.hardware.world_size
        if quantization is None or quantization.value not in (BITSANDBYTES_4BIT | {"int8"}) or (world or 1) < 2:
            return
        reading = job.reading("hf-training-args", "trl")
        if reading is None:
            return
        for route in (("device_map",), ("model_init_kwargs", "device_map")):
            if reading.value(*route) in ("auto", "balanced", "sequential", "balanced_low_0"):
                yield self.finding(
                    f"device_map {reading.value(*route)} spreads a quantized model over {world} GPUs, and {world} processes "
                    "train it",
                    reading.origin(*route),
                    (quantization, "quantized"),
                    (job.gpus_per_node, "processes"),
                    help="leave device_map out, or start a single process",
                    job=job,
                )
            elif (device := _single_device(reading.at(*route))) is not None:
                yield self.finding(
                    f"device_map puts the quantized model on GPU {device} in each of {world} processes",
                    reading.origin(*route),
                    (quantization, "quantized"),
                    (job.gpus_per_node, "processes"),
                    help="leave device_map out: each process then takes its own GPU",
                    job=job,
                )


def _single_device(node: Node | None) -> int | None:
    """The GPU that ``{"": N}`` names for the whole model; None for any other map."""
    device = node.get("") if isinstance(node, Mapping) and len(node.entries) == 1 else None
    said = str(device.value) if isinstance(device, Scalar) else ""
    number = said.removeprefix("cuda:")
    return int(number) if number.isdecimal() else None
