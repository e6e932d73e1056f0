"""RLH006."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Route, Scalar, Sequence


class WeightsPerPart(Rule):
    """The weights and what they weigh differ in number: rewards, or losses of DPO.

    GRPO raises "Number of reward weights (…) must match number of reward functions (…)", DPO "`loss_weights` must have the
    same length as `loss_type`", Axolotl the like for ``dpo_loss_weights``.

    How sure: read in TRL 0.16 to 1.16. ``reward_model_name_or_path`` counts as one more reward, as in TRL's own script; a
    script that adds rewards in code is not seen, so rewards of TRL are a warning.
    """

    code = "RLH006"
    name = "weights-per-part"
    family = "preference"
    severity = "error"
    evidence = (
        "https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/grpo_trainer.py",
        "https://github.com/huggingface/trl/blob/v1.16.0/trl/trainer/dpo_config.py",
        "https://github.com/axolotl-ai-cloud/axolotl/blob/main/src/axolotl/utils/schemas/validation.py",
    )
    catalogue = ("rl.reward-weights-len", "rl.dpo-loss-weights")
    good = (
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/DeepMath-103K
            per_device_train_batch_size: 8
            num_generations: 8
            learning_rate: 1.0e-6
            reward_funcs: [accuracy, format]
            reward_weights: [1.0, 0.5]
            """,
        ),
    )
    bad = (
        example(
            "grpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/DeepMath-103K
            per_device_train_batch_size: 8
            num_generations: 8
            learning_rate: 1.0e-6
            reward_funcs: [accuracy, format, tag_count]
            reward_weights: [1.0, 0.5]
            """,
            at="reward_weights",
            count=1,
        ),
        example(
            "dpo.yaml",
            """
            model_name_or_path: Qwen/Qwen2.5-0.5B
            dataset_name: trl-lib/ultrafeedback_binarized
            per_device_train_batch_size: 2
            learning_rate: 5.0e-7
            beta: 0.1
            loss_type: [sigmoid, sft]
            loss_weights: [1.0]
            """,
            at="loss_weights",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        if reading.dialect == "trl":
            extra = int(isinstance(reading.value("reward_model_name_or_path"), str))
            pairs: tuple[tuple[Route, Route, int], ...] = (
                (("reward_funcs",), ("reward_weights",), extra),
                (("loss_type",), ("loss_weights",), 0),
            )
        elif reading.dialect == "axolotl":
            pairs = (
                (("trl", "reward_funcs"), ("trl", "reward_weights"), 0),
                (("dpo_loss_type",), ("dpo_loss_weights",), 0),
            )
        else:
            return
        for parts, weights, extra in pairs:
            count, weighed = _length(reading, parts), _length(reading, weights)
            if not isinstance(reading.at(*weights), Sequence) or count is None or weighed is None:
                continue
            if count + extra != weighed:
                own = parts[-1] == "reward_funcs" and reading.dialect == "trl"
                yield self.finding(
                    f"{weights[-1]} has {weighed} value{'' if weighed == 1 else 's'} for {count + extra} of {parts[-1]}",
                    reading.origin(*weights),
                    (reading.origin(*parts), f"{count} here"),
                    help="give one weight for each",
                    severity="warning" if own else "error",
                    confidence="medium" if own else "high",
                )


def _length(reading: Reading, route: Route) -> int | None:
    node = reading.at(*route)
    if isinstance(node, Sequence):
        return len(node.items)
    return 1 if isinstance(node, Scalar) and isinstance(node.value, str) else None
