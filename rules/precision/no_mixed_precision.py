"""PRC019."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import DefaultOrigin
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Parameter, Rule, example

from .stated_precision import TRAINERS, inference_only, supports, uses_deepspeed


class NoMixedPrecision(Rule):
    """The model is trained in fp32 on an accelerator with bf16 and TF32 tensor cores.

    Neither bf16 nor fp16 is on, and the weights are fp32, so every product runs in fp32: several times slower than in bf16,
    with twice the memory for activations. Where fp32 is wanted, ``tf32: true`` lets the tensor cores take the products; torch
    leaves it off for matrix products.

    How sure: what the file says. Precision may come from a launcher that is not in sight (``accelerate launch`` with
    mixed_precision), and fp32 may be the point of the run, so it is information. Nothing is said where a file names fp32 or
    TF32 itself, for small models, or where the accelerator is not known.
    """

    code = "PRC019"
    name = "no-mixed-precision"
    family = "precision"
    severity = "info"
    confidence = "medium"
    parameters = {"min_parameters": Parameter(1_000_000_000, "smallest model (parameters) that is reported")}
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/training_args.py",
        "https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/hparams/parser.py",
    )
    catalogue = ("prec.no-mixed-precision", "hw.tf32-off-ampere-fp32")
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-1.5B
            bf16: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="A100-80GB",
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-1.5B
            torch_dtype: float32
            tf32: true
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            gpu="A100-80GB",
            note="fp32 on purpose, products in TF32",
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-1.5B
            per_device_train_batch_size: 4
            num_train_epochs: 1
            """,
            note="the accelerator is not known",
        ),
    )
    bad = (
        example(
            {
                "train.yaml": """
                model_name_or_path: Qwen/Qwen2.5-1.5B
                per_device_train_batch_size: 4
                num_train_epochs: 1
                """,
                "requirements.txt": """
                transformers==4.57.1
                """,
            },
            gpu="A100-80GB",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        compute, weights = job.compute_dtype, job.weight_dtype
        if compute is None or compute.value != "none" or not isinstance(compute.origin, DefaultOrigin):
            return
        if weights is None or weights.value != "fp32" or not isinstance(weights.origin, DefaultOrigin):
            return
        if supports(job, "bf16") is not True or job.tf32 is not None or uses_deepspeed(job) or inference_only(job):
            return
        if job.value("quantization") is not None or job.value("fp8_linear") or job.value("compile"):
            return
        parameters = job.architecture.total_parameters if job.architecture else None
        if parameters is None or parameters < self.options["min_parameters"]:
            return
        reading = job.reading(*TRAINERS, "axolotl")
        if reading is None or any(reading.at(key) is not None for key in ("bf16", "fp16")):
            return  # a file that switches them off has chosen
        yield self.finding(
            f"every product runs in fp32: neither bf16 nor fp16 is on, and {job.hardware.name} has tensor cores for bf16 and TF32",
            reading,
            (job.hardware.origin, "has bf16"),
            help="set bf16: true, or tf32: true where fp32 is wanted",
            job=job,
        )
