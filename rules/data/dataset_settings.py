"""DAT005."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean, number
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..peft.adapter_facts import given, on


class DatasetSettings(Rule):
    """Dataset settings of LLaMA-Factory or Axolotl that exclude each other.

    A share held out beside a dataset for evaluation, a share or a sample limit of a stream, ``mask_history`` with
    ``train_on_prompt``, packed evaluation with generation tables, ``neftune_noise_alpha`` of 0 or twice: each raises before
    the data is read.

    How sure: checks of LLaMA-Factory's ``DataArguments`` (0.9.5) and of Axolotl's schema (0.5 to 0.19).
    """

    code = "DAT005"
    name = "dataset-settings"
    family = "data"
    severity = "error"
    evidence = (
        "https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/hparams/data_args.py",
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/validation.py",
    )
    catalogue = ("data.val-size-conflict", "data.train-on-prompt-conflict", "data.packing-eval", "data.neftune")
    good = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B-Instruct
            stage: sft
            finetuning_type: lora
            template: qwen
            dataset: identity
            val_size: 0.1
            output_dir: out
            """,
        ),
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            test_datasets:
              - path: our/test
                type: alpaca
                split: test
            val_set_size: 0
            sequence_len: 2048
            micro_batch_size: 2
            """,
        ),
    )
    bad = (
        example(
            "train.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-7B-Instruct
            stage: sft
            finetuning_type: lora
            template: qwen
            dataset: identity
            eval_dataset: alpaca_en_demo
            val_size: 0.1
            output_dir: out
            """,
            at="val_size",
            count=1,
        ),
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-7B
            datasets:
              - path: our/data
                type: alpaca
            test_datasets:
              - path: our/test
                type: alpaca
                split: test
            val_set_size: 0.05
            sequence_len: 2048
            micro_batch_size: 2
            """,
            at="val_set_size",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.context.get("layout") == "v1" or reading.context.get("trains") is False:
            return
        clashes = {"llamafactory": _llamafactory, "axolotl": _axolotl}.get(reading.dialect)
        for key, other, message, advice in clashes(reading) if clashes is not None else ():
            related = () if other == key else ((reading.origin(other), "stated here"),)
            yield self.finding(message, reading.origin(key), *related, help=advice)


_Clash = tuple[str, str, str, str]


def _llamafactory(reading: Reading) -> Iterator[_Clash]:
    share = number(reading.value("val_size")) or 0.0
    if share > 1e-6 and given(reading, "eval_dataset"):
        yield "val_size", "eval_dataset", "val_size and eval_dataset are both set", "keep one of them"
    if on(reading, "streaming"):
        if 1e-6 < share < 1:
            yield (
                "val_size",
                "streaming",
                f"val_size {share:g} of a stream: a stream has no share",
                "give a number of samples",
            )
        if given(reading, "max_samples"):
            yield "max_samples", "streaming", "max_samples does not go with streaming", "remove it, and state max_steps"
    if on(reading, "mask_history") and on(reading, "train_on_prompt"):
        yield "mask_history", "train_on_prompt", "mask_history and train_on_prompt are both on", "keep one of them"
    if on(reading, "predict_with_generate") and on(reading, "compute_accuracy"):
        yield (
            "compute_accuracy", "predict_with_generate",
            "compute_accuracy does not go with predict_with_generate", "keep one of them",
        )  # fmt: skip


def _axolotl(reading: Reading) -> Iterator[_Clash]:
    share = number(reading.value("val_set_size")) or 0.0
    if share > 0 and given(reading, "test_datasets"):
        yield "val_set_size", "test_datasets", "val_set_size and test_datasets are both set", "set val_set_size: 0"
    packed = on(reading, "sample_packing") and boolean(reading.value("eval_sample_packing")) is not False
    if packed and (number(reading.value("eval_table_size")) or 0) > 0:
        yield (
            "eval_table_size", "sample_packing",
            "eval_table_size does not go with packed evaluation samples", "set eval_sample_packing: false",
        )  # fmt: skip
    if on(reading, "do_causal_lm_eval") and on(reading, "eval_sample_packing"):
        yield (
            "eval_sample_packing", "do_causal_lm_eval",
            "do_causal_lm_eval does not go with packed evaluation samples", "set eval_sample_packing: false",
        )  # fmt: skip
    if given(reading, "noisy_embedding_alpha") and given(reading, "neftune_noise_alpha"):
        yield (
            "noisy_embedding_alpha", "neftune_noise_alpha",
            "noisy_embedding_alpha is the old name of neftune_noise_alpha, and both are set", "remove noisy_embedding_alpha",
        )  # fmt: skip
    noise = number(reading.value("neftune_noise_alpha"))
    if noise is not None and noise <= 0:
        yield (
            "neftune_noise_alpha", "neftune_noise_alpha",
            f"neftune_noise_alpha {noise:g}: Axolotl takes only numbers above 0", "remove it to train without noise",
        )  # fmt: skip
