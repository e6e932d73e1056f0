"""PFT009."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean, integer
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Sequence

from .adapter_facts import given, names

_TABLES = ("embed_tokens", "lm_head", "wte", "embed_in", "embed_out", "word_embeddings", "embeddings")


class NewTokensNotTrained(Rule):
    """Tokens are added, but only adapters are trained: the new rows of the embedding stay as they were made.

    LoRA leaves the embedding and the output head frozen unless they are listed among the modules to save. Axolotl raises
    "`lora_modules_to_save` not properly set when adding new tokens"; LLaMA-Factory logs "Remember to add embedding layers to
    `additional_target`" and goes on.

    How sure: Axolotl's check runs when the model is loaded, for ``tokens``; LLaMA-Factory's is a log line. Tokens that the
    tokenizer has already need no new rows, which a file does not show: hence a warning.
    """

    code = "PFT009"
    name = "new-tokens-not-trained"
    family = "peft"
    severity = "warning"
    evidence = (
        "https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/hparams/parser.py",
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/loaders/utils.py",
        "https://github.com/huggingface/peft/blob/v0.21.2/src/peft/tuners/lora/config.py",
    )
    catalogue = ("peft.new-tokens-not-trained",)
    good = (
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
            tokens: ["<|think|>"]
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
            special_tokens:
              pad_token: "<|endoftext|>"
            """,
            note="a padding token needs no training",
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
            tokens: ${TOKENS}
            """,
            note="a placeholder",
        ),
    )
    bad = (
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
            tokens: ["<|think|>", "<|/think|>"]
            """,
            at="tokens",
            count=1,
        ),
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B-Instruct
            stage: sft
            finetuning_type: lora
            template: qwen
            dataset: identity
            output_dir: out
            resize_vocab: true
            """,
            at="resize_vocab",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.role != "run":
            return
        listed = isinstance(reading.at("tokens"), Sequence)  # not a placeholder that something fills in
        if reading.dialect == "axolotl" and given(reading, "adapter") and listed and given(reading, "tokens"):
            saved = names(reading, "lora_modules_to_save")
            if given(reading, "peft_trainable_token_indices") or any(name in _TABLES for name in saved):
                return
            yield self._finding(reading, "tokens", "lora_modules_to_save: [embed_tokens, lm_head]")
        elif reading.dialect == "llamafactory" and reading.context.get("finetuning_type") == "lora":
            added = next(
                (k for k in ("add_tokens", "add_special_tokens", "new_special_tokens") if given(reading, k)), None
            )
            resized = boolean(reading.value("resize_vocab")) is True
            if reading.context.get("trains") is False or not (resized or added) or given(reading, "additional_target"):
                return
            if added is None and integer(reading.value("quantization_bit")) is not None:
                return  # PFT013: a quantized model's embedding cannot be resized at all
            yield self._finding(reading, added or "resize_vocab", "additional_target: embed_tokens,lm_head")

    def _finding(self, reading: Reading, key: str, advice: str, severity: Severity | None = None) -> Finding:
        return self.finding(
            "tokens are added, but the embedding and the output head are frozen: the new tokens are never learned",
            reading.origin(key),
            help=f"add {advice}",
            severity=severity,
        )
