"""BAT014."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Fact
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..peft.adapter_facts import given
from ..trainer import argument, argument_number, argument_on, trainer_readings


class StreamingWithoutSteps(Rule):
    """The data is streamed and `max_steps` is not set, so the run's length is not known.

    A streamed data set has no length. LLaMA-Factory stops with "Please specify `max_steps` in streaming mode"; Axolotl with
    "max_steps must be set when using iterable pretraining_dataset"; transformers' trainer with "The train_dataset does not
    implement __len__, so the number of training steps cannot be inferred; max_steps has to be specified".

    How sure: the checks are in the frameworks' sources (LLaMA-Factory 0.9.5, Axolotl 0.5 to 0.19, transformers 5.24, whose
    trainer ms-swift uses). For these three it is an error; a script may give a stream a length of its own, so it is a
    warning there. Megatron's runs count iterations and are left out.
    """

    code = "BAT014"
    name = "streaming-without-steps"
    family = "batch"
    severity = "error"
    catalogue = ("hf.streaming-needs-max-steps",)
    evidence = (
        "https://github.com/hiyouga/LLaMA-Factory/blob/v0.9.5/src/llamafactory/hparams/parser.py",
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/validation.py",
        "https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/trainer.py",
        "https://github.com/modelscope/ms-swift/issues/6827",
    )
    good = (
        example(
            "pt.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            stage: pt
            do_train: true
            finetuning_type: full
            dataset: c4_demo
            streaming: true
            max_steps: 10000
            """,
        ),
        example(
            "sft.sh",
            "megatron sft --model Qwen/Qwen2.5-7B-Instruct --dataset our/data --streaming true --train_iters 2000",
            note="Megatron counts iterations",
        ),
    )
    bad = (
        example(
            "axolotl.yaml",
            """
            base_model: Qwen/Qwen2.5-0.5B
            pretraining_dataset:
              - path: allenai/c4
                name: en
            sequence_len: 2048
            micro_batch_size: 4
            num_epochs: 1
            """,
            at="pretraining_dataset",
            count=1,
        ),
        example(
            "pt.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            stage: pt
            do_train: true
            finetuning_type: full
            dataset: c4_demo
            streaming: true
            num_train_epochs: 1
            """,
            at="streaming",
            count=1,
        ),
        example(
            "sft.sh",
            "swift sft --model Qwen/Qwen2.5-7B-Instruct --dataset our/data --streaming true --num_train_epochs 1",
            at="streaming",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        dialects = {r.dialect for r in trainer_readings(job)}
        streams: Fact[bool] | None = None
        if dialects <= {"llamafactory", "hf-training-args", "trl"} or (
            dialects == {"ms-swift"} and job.value("framework") == "ms-swift"
        ):
            streams = argument_on(job, "streaming", "dataset_streaming")
        elif dialects == {"axolotl"}:
            axolotl = job.reading("axolotl")
            if axolotl is not None and given(axolotl, "pretraining_dataset"):
                streams = Fact(True, axolotl.origin("pretraining_dataset"))
        if streams is None or not streams.value or (job.reading("llamafactory") is None and not trains(job)):
            return
        steps = argument_number(job, "max_steps")
        if (steps is None and argument(job, "max_steps") is not None) or (steps is not None and steps.value >= 1):
            return
        yield self.finding(
            "streamed data has no length and max_steps is not set: training stops before it starts",
            streams,
            help="state max_steps, or load the data without streaming",
            severity="error" if dialects <= {"llamafactory", "axolotl", "ms-swift"} else "warning",
            confidence="high" if dialects <= {"llamafactory", "axolotl", "ms-swift"} else "medium",
            job=job,
        )


def trains(job: TrainingJob) -> bool:
    """Whether the run is not evaluation alone."""
    training = argument_on(job, "do_train")
    return training is None or training.value
