"""PFT008."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean
from cfglint.jobs.job import TrainingJob
from cfglint.jobs.versions import always_at_least
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import trains_adapters


class CheckpointingWithoutInputGradients(Rule):
    """Adapters with reentrant gradient checkpointing in a script of one's own: inputs need gradients.

    With every base weight frozen, the input of a checkpointed block needs no gradient, and reentrant checkpointing then cuts
    the graph: "None of the inputs have requires_grad=True. Gradients will be None", and the adapters do not learn, or "element
    0 of tensors does not require grad" ends the run.

    How sure: reentrant is the default up to transformers 4.57, not from 5.0 on. TRL, LLaMA-Factory, Axolotl and
    ``prepare_model_for_kbit_training`` take care of it; a script may do so in code, which is not seen. Hence information.
    """

    code = "PFT008"
    name = "checkpointing-without-input-gradients"
    family = "peft"
    severity = "info"
    confidence = "medium"
    evidence = (
        "https://github.com/huggingface/peft/issues/1142",
        "https://github.com/huggingface/transformers/issues/26334",
        "https://github.com/huggingface/transformers/issues/42489",
        "https://github.com/huggingface/transformers/blob/v4.57.1/src/transformers/modeling_utils.py",
    )
    catalogue = ("peft.ckpt-input-grads",)
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B
            per_device_train_batch_size: 1
            num_train_epochs: 1
            use_lora: true
            gradient_checkpointing: true
            gradient_checkpointing_kwargs: {use_reentrant: false}
            """,
        ),
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/Capybara
            per_device_train_batch_size: 4
            learning_rate: 2.0e-4
            use_peft: true
            gradient_checkpointing: true
            """,
            note="TRL takes care of it",
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
            gradient_checkpointing: true
            """,
            at="gradient_checkpointing",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        reading = job.reading("hf-training-args")
        checkpointing = job.gradient_checkpointing
        if reading is None or checkpointing is None or checkpointing.value == "none" or job.stated("quantization"):
            return
        named = str(reading.value("adapter") or "").lower() in ("lora", "dora")
        if not (trains_adapters(job) or named) or always_at_least(context.version(job, "transformers"), "5") is True:
            return
        for key in ("gradient_checkpointing_kwargs", "activation_checkpointing_kwargs"):
            if boolean(reading.value(key, "use_reentrant")) is False:
                return
        yield self.finding(
            "reentrant checkpointing (the default before transformers 5) over frozen weights: the adapters learn nothing unless "
            "the script makes the inputs need gradients",
            checkpointing,
            (job.method, "only adapters are trained"),
            help="gradient_checkpointing_kwargs: {use_reentrant: false}, or model.enable_input_require_grads() in the script",
            job=job,
        )
