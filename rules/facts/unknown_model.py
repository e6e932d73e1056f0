"""FCT001."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import Job, ServingJob, TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example


class UnknownModel(Rule):
    """The model is not known, so nothing can be said of its memory.

    The model's dimensions are looked for on disk, in the project's ``.cfglint/models``, in the Hugging Face cache and in
    the catalogue. Where none of them has it, rules that need them stay silent: this line says why, once per model. A path that
    ends in a known model's name, or such a name without an owner, is taken as that model in estimates, whose verdicts then make
    no errors.

    How sure: looked up. It is information: an unknown model is never an error.
    """

    code = "FCT001"
    name = "unknown-model"
    family = "facts"
    severity = "info"
    kinds = ("train", "serve")
    evidence = ("https://huggingface.co/docs/transformers/main_classes/configuration",)
    good = (
        example(
            "sft.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            per_device_train_batch_size: 2
            learning_rate: 2.0e-5
            num_train_epochs: 1
            """,
        ),
    )
    bad = (
        example(
            "sft.yaml",
            """
            model_name_or_path: our-company/secret-7b
            per_device_train_batch_size: 2
            learning_rate: 2.0e-5
            num_train_epochs: 1
            """,
            at="model_name_or_path",
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        yield from self._check(job, context)

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        yield from self._check(job, context)

    def _check(self, job: Job, context: Context) -> Iterator[Finding]:
        model = job.model
        if model is None or model.architecture is not None or model.row is not None:
            return
        seen: set[str] = context.shared.setdefault(self.code, set())
        if model.id in seen:
            return
        seen.add(model.id)
        from cfglint.catalog.models import similar_models

        local = model.id.startswith((".", "/", "~")) or model.id.count("/") != 1
        near = [] if local else list(similar_models(model.id, 3))
        why = model.problem or "no facts on this model"
        message = f"memory and precision of {model.id} cannot be judged: {why}"
        if model.guess is not None:
            message = f"{model.id} is taken as {model.guess.id}, as its name says: of its memory nothing is certain"
        elif isinstance(job, ServingJob):
            from cfglint.estimate.serving.model_source import served_model

            served = served_model(job)
            if served.architecture is not None and served.assumption:
                message = f"{served.assumption}: its own config.json is not known"
        yield self.finding(
            message,
            job.model_id,
            help=(
                "point at a folder with its config.json, or keep a copy under "
                f".cfglint/models/{model.id.strip('./~')}/config.json"
                if local
                else f"`cfglint models add {model.id}` stores its config.json in the project"
            ),
            notes=(f"known and alike: {', '.join(near)}",) if near else (),
            job=job,
        )
