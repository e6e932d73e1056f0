"""EVL002."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cfglint.jobs.facts import Fact
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..trainer import argument, trainer_readings

DATA_KEYS = ("eval_dataset", "validation_file", "eval_file", "dataset_name", "dataset")
PERPLEXITIES = ("perplexity", "eval_perplexity", "ppl", "eval_ppl")


class PerplexityAcrossTokenizers(Rule):
    """Two runs measure perplexity on the same data with different tokenizers, so the numbers do not compare.

    Perplexity is per token. A tokenizer that cuts the same text into fewer tokens gives a higher perplexity for the same
    quality: between a vocabulary of 32 k and one of 150 k the difference is easily larger than any that training makes.
    Bits per byte compare: loss / ln 2 × tokens / bytes (`cfglint calc perplexity` with `--tokens` and `--text-bytes`).

    How sure: the metric and the data are read, the tokenizers are taken to differ where the vocabularies' sizes do. Nobody
    says that the two are compared, so it is information for strict readers, once for each set of data.
    """

    code = "EVL002"
    name = "perplexity-across-tokenizers"
    family = "evaluation"
    severity = "info"
    confidence = "medium"
    persona = "strict"
    evidence = (
        "https://huggingface.co/docs/transformers/perplexity",
        "https://arxiv.org/abs/2101.00027",
    )
    good = (
        example(
            {
                "a/sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                dataset_name: our/wiki
                per_device_train_batch_size: 4
                num_train_epochs: 3
                eval_strategy: epoch
                metric_for_best_model: perplexity
                greater_is_better: false
                """,
                "b/sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-1.5B
                dataset_name: our/wiki
                per_device_train_batch_size: 4
                num_train_epochs: 3
                eval_strategy: epoch
                metric_for_best_model: perplexity
                greater_is_better: false
                """,
            },
            note="one tokenizer",
        ),
    )
    bad = (
        example(
            {
                "a/sft.yaml": """
                model_name_or_path: Qwen/Qwen2.5-0.5B
                dataset_name: our/wiki
                per_device_train_batch_size: 4
                num_train_epochs: 3
                eval_strategy: epoch
                metric_for_best_model: perplexity
                greater_is_better: false
                """,
                "b/sft.yaml": """
                model_name_or_path: EleutherAI/pythia-410m
                dataset_name: our/wiki
                per_device_train_batch_size: 4
                num_train_epochs: 3
                eval_strategy: epoch
                metric_for_best_model: perplexity
                greater_is_better: false
                """,
            },
            at="metric_for_best_model",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        metric, data = self._metric(job), argument(job, *DATA_KEYS)
        if metric is None or data is None or not isinstance(data.value, str) or job.architecture is None:
            return
        vocabulary = (job.architecture.tensors and job.architecture.vocab_size) or job.architecture.vocab_size
        if not vocabulary or job.model is None:
            return
        first: dict[str, tuple[Fact[Any], int, str]] = context.shared.setdefault(self.code, {})
        known = first.setdefault(data.value, (metric, vocabulary, job.model.id))
        if known[1] == vocabulary or known[1] < 0 or job.model.row is None:
            return
        first[data.value] = (known[0], -1, known[2])
        yield self.finding(
            f"perplexity on {data.value} with {job.model.id} ({vocabulary} tokens) and with {known[2]} ({known[1]} tokens) "
            "does not compare",
            metric,
            (known[0], f"measured with {known[2]}"),
            help="compare bits per byte: `cfglint calc perplexity` with --tokens and --text-bytes",
            job=job,
        )

    def _metric(self, job: TrainingJob) -> Fact[Any] | None:
        found = argument(job, "metric_for_best_model") if trainer_readings(job) else None
        return found if found is not None and str(found.value).lower() in PERPLEXITIES else None
