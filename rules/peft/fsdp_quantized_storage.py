"""PFT006."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least, always_below
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .adapter_facts import BITSANDBYTES_4BIT, fsdp_1, fsdp_fact


class FsdpQuantizedStorage(Rule):
    """4-bit weights under FSDP 1, stored as uint8: FSDP cannot flatten them with the adapters.

    ``BitsAndBytesConfig`` stores 4-bit weights as uint8 unless ``bnb_4bit_quant_storage`` names a floating dtype. FSDP puts
    all parameters of a unit into one flat tensor and raises "Must flatten tensors with uniform dtype" or "Cannot flatten
    integer dtype tensors". Adapters kept in fp32 beside bf16 storage raise the same: wrap them in units of their own.

    How sure: Axolotl and LLaMA-Factory set the storage dtype themselves and are left out; TRL did from 0.10 to
    0.25 and has an argument for it since. FSDP 2 shards parameter by parameter; where it is not known which of them runs
    (transformers took FSDP 1 before 5.10), this is information. In a script of one's own the storage may be set in code,
    so it is never more than a warning.
    """

    code = "PFT006"
    name = "fsdp-quantized-storage"
    family = "peft"
    severity = "warning"
    confidence = "medium"
    evidence = (
        "https://github.com/huggingface/peft/issues/1432",
        "https://github.com/huggingface/trl/issues/1723",
        "https://huggingface.co/docs/bitsandbytes/fsdp_qlora",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/utils/quantization_config.py",
    )
    catalogue = ("quant.fsdp-qlora-storage", "quant.fsdp-adapter-fp32")
    good = (
        example(
            {
                "train.yaml": """
                model_name_or_path: Qwen/Qwen2.5-7B
                per_device_train_batch_size: 1
                num_train_epochs: 1
                use_lora: true
                load_in_4bit: true
                bnb_4bit_quant_storage: bfloat16
                bf16: true
                fsdp: full_shard auto_wrap
                fsdp_config:
                  version: 1
                """
            }
        ),
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 2
            adapter: qlora
            load_in_4bit: true
            fsdp: [full_shard, auto_wrap]
            """,
            note="Axolotl stores 4-bit weights as bfloat16",
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
            bf16: true
            fsdp: full_shard auto_wrap
            fsdp_config:
              version: 1
            """,
            at="load_in_4bit",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        quantization, sharding = job.quantization, fsdp_fact(job)
        if quantization is None or quantization.value not in BITSANDBYTES_4BIT or sharding is None:
            return
        sure = fsdp_1(job)
        if sure is False:
            return
        reading = job.reading("trl", "hf-training-args")
        if reading is None or job.reading("axolotl", "llamafactory") is not None:
            return
        if any(reading.at(*route) is not None and reading.value(*route) != "uint8" for route in _STORAGE):
            return
        if reading.dialect == "trl":
            stated = context.version(job, "trl")
            if always_at_least(stated, "0.10") is not False and always_below(stated, "0.26"):
                return
        yield self.finding(
            "4-bit weights are stored as uint8 unless bnb_4bit_quant_storage says otherwise: FSDP 1 "
            + ("" if sure else "(transformers before 5.10) ")
            + "cannot shard them with the adapters",
            quantization,
            (sharding, "sharded here"),
            help="bnb_4bit_quant_storage: bfloat16 (the dtype the model is loaded in), and adapters in the same dtype",
            severity="warning" if sure else "info",
            job=job,
        )


_STORAGE = (
    ("bnb_4bit_quant_storage",),
    ("quantization_config", "bnb_4bit_quant_storage"),
    ("model_init_kwargs", "quantization_config", "bnb_4bit_quant_storage"),
    ("bnb_4bit_quant_storage_dtype",),
)
"""Where scripts take the storage dtype."""
