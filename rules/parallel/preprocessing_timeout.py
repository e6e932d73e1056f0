"""PAR010."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Parameter, Rule, example

from ..trainer import argument, argument_number, argument_on, shown, trainer_readings

NCCL_TIMEOUT_SECONDS = 1800
"""``ddp_timeout`` of transformers where it is not given."""


class PreprocessingTimeout(Rule):
    """Other ranks wait for the first one's tokenization, no longer than `ddp_timeout` allows.

    The first process tokenizes while the others stand at a barrier. A pretraining corpus with one or two workers takes
    hours, the barrier 30 minutes by default: "Watchdog caught collective operation timeout … ran for 1800328 milliseconds
    before timing out", and the work is lost.

    How sure: reported with the numbers. Said where a file names a million samples or more, and for LLaMA-Factory's
    pretraining with few preprocessing workers, where the size of the data is not in the file; a tokenized data set on disk,
    streaming, one GPU, many workers and a longer timeout are left out.
    """

    code = "PAR010"
    name = "preprocessing-timeout"
    family = "parallel"
    severity = "warning"
    confidence = "medium"
    catalogue = ("par.ddp-timeout-preprocess",)
    evidence = (
        "https://github.com/hiyouga/LlamaFactory/issues/2424",
        "https://github.com/hiyouga/LlamaFactory/issues/956",
        "https://github.com/huggingface/nanotron/pull/280",
    )
    parameters = {
        "workers": Parameter(2, "preprocessing workers up to which a pretraining corpus is taken to be slow"),
        "samples": Parameter(1_000_000, "samples per worker from which tokenizing may outlast the timeout"),
    }
    good = (
        example(
            "pt.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            stage: pt
            do_train: true
            finetuning_type: full
            dataset: big_corpus
            preprocessing_num_workers: 32
            ddp_timeout: 1800
            """,
            gpu="A100-80GB",
            gpus=8,
        ),
    )
    bad = (
        example(
            "pt.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            stage: pt
            do_train: true
            finetuning_type: full
            dataset: big_corpus
            preprocessing_num_workers: 1
            ddp_timeout: 1800
            """,
            gpu="A100-80GB",
            gpus=8,
            at="ddp_timeout",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        workers = argument_number(job, "preprocessing_num_workers", "dataset_num_proc", "preprocessing_workers")
        samples, timeout = argument_number(job, *SAMPLES), argument_number(job, "ddp_timeout")
        few, many = self.options["workers"], self.options["samples"]
        if not isinstance(few, int) or not isinstance(many, int) or job.hardware.world_size == 1:
            return
        if samples is not None:
            if samples.value < many * max(1.0, workers.value if workers is not None else 1.0):
                return
        elif workers is None or workers.value > few or not pretrains_with_llamafactory(job):
            return
        if (timeout is None and argument(job, "ddp_timeout") is not None) or (
            timeout is not None and timeout.value > NCCL_TIMEOUT_SECONDS
        ):
            return
        streaming = argument_on(job, "streaming")
        if argument(job, "tokenized_path", "data_shared_file_system") is not None or (streaming and streaming.value):
            return
        seconds = NCCL_TIMEOUT_SECONDS if timeout is None else timeout.value
        hands = f"{shown(int(workers.value))} worker{'s' if workers.value != 1 else ''}" if workers else "one worker"
        what = f"{int(samples.value):,} samples are" if samples is not None else "the corpus is"
        yield self.finding(
            f"{what} tokenized by {hands} while the other ranks wait {shown(seconds)} s at most",
            *(place for place in (timeout, samples, workers) if place is not None),
            help="tokenize once beforehand, use more preprocessing workers, or raise ddp_timeout to some hours",
            job=job,
        )


SAMPLES = ("num_samples", "num_train_samples", "max_train_samples", "max_samples", "dataset_size")
"""How files name the number of samples."""


def pretrains_with_llamafactory(job: TrainingJob) -> bool:
    return any(r.dialect == "llamafactory" and r.context.get("trainer") == "pt" for r in trainer_readings(job))
