"""PFT021."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cfglint.dialects.values import dtype, scalar
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Route

from ..hardware.capability import AMPERE, below
from .adapter_facts import on

KEY: Final = "bnb_4bit_compute_dtype"

PLACES: Final[tuple[Route, ...]] = (("quantization_config",), ("model_init_kwargs", "quantization_config"))


class FourBitCompute(Rule):
    """4-bit layers compute in another dtype than the run, or in fp32 because none is named.

    `BitsAndBytesConfig` computes in float32 unless `bnb_4bit_compute_dtype` names a dtype, and hands that on. bitsandbytes has
    held to what it is handed since pull request 1623 (May 2025): every 4-bit layer casts its inputs to fp32, without a word;
    before, it went over to bf16 inputs' dtype and warned of fp16. Autocast may bring the products themselves back to 16 bit. A
    named `float16` in a bf16 run casts inputs to fp16, where values beyond 65,504 become inf.

    How sure: bitsandbytes' (0.49) and transformers' sources. It costs speed or range, not the run: information. Of bf16 on a GPU
    without it bf16-before-ampere tells.
    """

    code = "PFT021"
    name = "four-bit-compute"
    family = "peft"
    severity = "info"
    confidence = "medium"
    catalogue = ("quant.bnb-compute-fp32-default", "quant.compute-dtype-vs-amp")
    evidence = (
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/utils/quantization_config.py",
        "https://github.com/bitsandbytes-foundation/bitsandbytes/pull/1623",
        "https://github.com/bitsandbytes-foundation/bitsandbytes/pull/2077",
    )
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            num_train_epochs: 1
            use_lora: true
            bf16: true
            quantization_config:
              load_in_4bit: true
              bnb_4bit_compute_dtype: bfloat16
            """,
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-1.5B
            per_device_train_batch_size: 1
            num_train_epochs: 1
            use_lora: true
            fp16: true
            load_in_4bit: true
            bnb_4bit_compute_dtype: bfloat16
            """,
            gpu="T4",
            note="that the T4 has no bf16 is bf16-before-ampere's",
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: facebook/opt-6.7b
            per_device_train_batch_size: 1
            num_train_epochs: 1
            use_lora: true
            fp16: true
            quantization_config:
              load_in_4bit: true
            """,
            at="load_in_4bit",
            count=1,
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            num_train_epochs: 1
            use_lora: true
            bf16: true
            load_in_4bit: true
            bnb_4bit_compute_dtype: float16
            """,
            at="bnb_4bit_compute_dtype",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        compute, reading = job.compute_dtype, job.reading("trl", "hf-training-args")
        if reading is None or compute is None or compute.value not in ("bf16", "fp16"):
            return
        for place in ((), *PLACES):
            if not on(reading, *place, "load_in_4bit"):
                continue
            named = scalar(reading.at(*place, KEY))
            kind = dtype(named)
            wanted = "bfloat16" if compute.value == "bf16" else "float16"
            if named is None and place:
                yield self.finding(
                    f"{KEY} is not set: 4-bit layers cast their inputs to fp32",
                    reading.origin(*place, "load_in_4bit"),
                    (compute, f"the run is in {compute.value}"),
                    help=f"{KEY}: {wanted}",
                    job=job,
                )
            elif kind in ("bf16", "fp16") and kind != compute.value and not (kind == "bf16" and below(job, AMPERE)):
                yield self.finding(
                    f"4-bit layers compute in {named!s}, the run in {compute.value}",
                    reading.origin(*place, KEY),
                    (compute, f"{compute.value} here"),
                    help=f"{KEY}: {wanted}",
                    job=job,
                )
            return
