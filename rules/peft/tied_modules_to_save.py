"""PFT010."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .adapter_facts import hugging_face


class TiedModulesToSave(Rule):
    """One of embedding and output head is trained as a whole, in a model that ties the two.

    PEFT trains a copy of the listed module; the other half of the tie keeps the old weights. Input and output embeddings part
    ways without a word, and merging the adapter gives a model that is neither.

    How sure: the model's config says that the two are tied. PEFT 0.18 and later can keep the tie with
    ``ensure_weight_tying``, which is respected. With both listed PEFT trains two copies; that is left to the reader.
    """

    code = "PFT010"
    name = "tied-modules-to-save"
    family = "peft"
    severity = "warning"
    evidence = (
        "https://github.com/huggingface/peft/issues/2777",
        "https://github.com/huggingface/peft/issues/2864",
    )
    catalogue = ("peft.modules-to-save-tied",)
    good = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-0.5B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 2
            adapter: lora
            lora_modules_to_save: [embed_tokens, lm_head]
            """,
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
            adapter: lora
            lora_modules_to_save: [embed_tokens]
            """,
            note="this one is not tied",
        ),
    )
    bad = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-0.5B
            datasets:
              - path: our/data
                type: alpaca
            sequence_len: 2048
            micro_batch_size: 2
            adapter: lora
            lora_modules_to_save: [embed_tokens]
            """,
            at="lora_modules_to_save",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        saved, architecture = job.lora_modules_to_save, job.architecture
        if saved is None or architecture is None or not architecture.tie_word_embeddings or not hugging_face(job):
            return
        listed = saved.value if isinstance(saved.value, list) else []
        halves = [name for name in ("embed_tokens", "lm_head") if name in listed]
        kept = any(
            boolean(reading.value(key)) is True
            for reading in job.readings
            for key in ("peft_ensure_weight_tying", "ensure_weight_tying")
        )
        if len(halves) != 1 or kept:
            return
        other = "lm_head" if halves[0] == "embed_tokens" else "embed_tokens"
        yield self.finding(
            f"{halves[0]} is trained as a whole, {other} is not, and this model ties them: the two part ways",
            saved,
            (job.model_id, "tie_word_embeddings is true"),
            help=f"list {other} too, or use ensure_weight_tying (PEFT 0.18 and later)",
            job=job,
        )
