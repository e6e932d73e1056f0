"""SRV005."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cfglint.jobs.facts import Fact, FileOrigin
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.shell import Word

from .server import before, called, engine, json_argument, launch_of, number, runs, runs_vllm, since, stated, switch

LENGTH_KEYS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_target_positions", "max_sequence_length",
    "max_seq_length", "seq_len",
)  # fmt: skip
"""vllm/transformers_utils/model_arch_config_convertor.py: the smallest of those present is the model's length, unless the
config has ``model_max_length`` (Command-R), which then is."""
SCALED_ALREADY = frozenset({"su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling"})
"""Rope types whose factor is not applied to the stated length (0.33.0)."""
OVERRIDES = {
    "vllm": "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
    "sglang": "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN",
}
"""Variables by which engines take any length."""
OWN_LIMIT = ("cohere",)
"""Families whose configs state ``model_max_length``, which the catalogue's rows leave out."""
UNSCALED_UNTIL_YARN = frozenset({"yarn", "deepseek_yarn"})
"""Up to 0.25.1 yarn's own original length times its factor was taken."""


class LengthAboveModel(Rule):
    """``max_model_len`` is above the length the model's config gives.

    vLLM refuses to start: "User-specified max_model_len is greater than the derived max_model_len". Where
    VLLM_ALLOW_LONG_MAX_MODEL_LEN forces it, positions past the trained range give NaN or nonsense, or an out-of-bounds
    access with absolute positions.

    How sure: the length is worked out as vLLM does it from the config's own keys and its rope scaling, with both releases'
    readings of YaRN: an error. The catalogue's rows leave rope scaling out, so for a model without a config.json at hand
    it is a warning. ``model_max_length`` of the config is respected, and so are ``hf_overrides``; YaRN given there without a
    length is an error for 0.33, and information where no release is stated. The tokenizer's own limit is not seen here and
    can only lower it. The variable that switches the check off is information where no length above the model's is seen.
    """

    code = "SRV005"
    name = "length-above-model"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/model.py",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/transformers_utils/model_arch_config_convertor.py",
    )
    catalogue = (
        "maxlen-gt-derived", "maxlen-override-env", "sglang-context-gt-derived", "rope-yarn-derive-change",
        "sliding-window-disable-shrinks",
    )  # fmt: skip
    good = (
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 32768"),
        example(
            "serve.sh",
            """vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 131072 --hf-overrides '{"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, "max_position_embeddings": 131072}'""",
            note="the length is scaled by hand, as 0.33 wants it",
        ),
    )
    bad = (
        example(
            "serve.sh", "vllm serve microsoft/Phi-3-mini-4k-instruct --max-model-len 16384", at="max_model_len", count=1
        ),
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path microsoft/Phi-3-mini-4k-instruct --context-length 16384",
            at="context_length",
            count=1,
        ),
        example(
            "serve.sh",
            "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 vllm serve microsoft/Phi-3-mini-4k-instruct --max-model-len 16384",
            note="forced: a warning",
        ),
        example(
            "serve.sh",
            "export VLLM_ALLOW_LONG_MAX_MODEL_LEN=1\nvllm serve our/model --max-model-len 131072",
            at="VLLM_ALLOW_LONG_MAX_MODEL_LEN",
            note="whether the model can take it is not known: information",
            count=1,
        ),
        example(
            {
                "serve.sh": """vllm serve Qwen/Qwen2.5-7B-Instruct --max-model-len 131072 --hf-overrides '{"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}'""",
                "requirements.txt": "vllm==0.33.0",
            },
            at="max_model_len",
            note="0.33 does not multiply by the factor",
        ),
        example(
            {
                "serve.sh": "vllm serve our/mistral --disable-sliding-window --max-model-len 16384",
                ".cfglint/models/our/mistral/config.json": '{"model_type": "mistral", "max_position_embeddings": 32768, "sliding_window": 4096}',
            },
            at="max_model_len",
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        found = list(self._above(job)) if runs(job, "vllm", "sglang") else []
        yield from found
        word = _override(job)
        if not found and word is not None and number(job, "max_model_len") is not None:
            name, launch = OVERRIDES[engine(job)], launch_of(job)
            yield self.finding(
                f"with {name} any length is taken, also one that the model was not made for",
                FileOrigin(launch.document, (name,), word.span, word.span) if launch is not None else None,
                (number(job, "max_model_len"), "the length asked for"),
                help="leave it out: a length that the config or its rope scaling gives is taken without it",
                severity="info",
                confidence="medium",
                job=job,
            )

    def _above(self, job: ServingJob) -> Iterator[Finding]:
        wanted = number(job, "max_model_len")
        arch = job.architecture
        given = job.model.config if job.model is not None else None
        if wanted is None or (arch is None and given is None):
            return
        yield from self._yarn_override(job, wanted, given or (arch.config if arch is not None else {}))
        if any(
            stated(job, name)
            for name in ("hf_overrides", "rope_scaling", "rope_theta", "hf_config_path", "json_model_override_args")
        ):
            return
        config = given or (arch.config if arch is not None else {})
        limit, key = derived_length(config, new_yarn=runs_vllm(job) and since(job, "0.33.0"))
        window = config.get("sliding_window")
        if switch(job, "disable_sliding_window") and runs_vllm(job) and isinstance(window, int) and window > 0:
            limit, key = min(limit or window, window), "sliding_window, with disable_sliding_window"
        if limit is None or wanted.value <= limit:
            return
        listed = given is None and job.model is not None and job.model.source == "catalogue"
        if listed and str(config.get("model_type", "")).startswith(OWN_LIMIT):
            return
        allowed = _override(job) is not None
        known = job.model.id if job.model else "the model"
        yield self.finding(
            f"{called(job, 'max_model_len')} {wanted.value:,} is above the {limit:,} tokens of {known} ({key})",
            wanted,
            help=f"{called(job, 'max_model_len')}: {limit}, or a rope scaling that the model was made for",
            severity="warning" if allowed or listed else "error",
            confidence="medium" if listed else "high",
            data={"max_model_len": wanted.value, "derived": limit},
            job=job,
        )

    def _yarn_override(self, job: ServingJob, wanted: Fact[int], config: Mapping[str, Any]) -> Iterator[Finding]:
        """YaRN by ``hf_overrides`` alone: 0.33 takes the length beside it as scaled already."""
        overrides = json_argument(job, "hf_overrides")
        if overrides is None or not runs_vllm(job) or before(job, SCALED_SINCE):
            return
        rope = overrides.value.get("rope_parameters") or overrides.value.get("rope_scaling")
        if not isinstance(rope, Mapping) or rope.get("rope_type", rope.get("type")) not in UNSCALED_UNTIL_YARN:
            return
        length = overrides.value.get("max_position_embeddings", config.get("max_position_embeddings"))
        if not isinstance(length, int) or isinstance(length, bool) or wanted.value <= length:
            return
        exact = since(job, SCALED_SINCE)
        yield self.finding(
            f"max_model_len {wanted.value:,} is above max_position_embeddings {length:,}, which vLLM {SCALED_SINCE} takes as "
            "scaled by YaRN already" + ("" if exact else "; earlier releases multiply it by the factor"),
            wanted,
            (overrides, "YaRN"),
            help=f'add "max_position_embeddings": {wanted.value} to hf_overrides',
            severity="error" if exact else "info",
            confidence="high" if exact else "low",
            job=job,
        )


def _override(job: ServingJob) -> Word | None:
    """The variable that switches the check off, where it is set to."""
    launch, name = launch_of(job), OVERRIDES.get(engine(job), "")
    word = launch.environment.get(name) if launch is not None else None
    return word if word is not None and word.text.strip().lower() in ("1", "true") else None


SCALED_SINCE = "0.33.0"
"""vllm/config/model.py, ``_get_and_verify_max_len``: YaRN's factor is not applied any more. 0.25.1 applied it."""


def derived_length(config: Mapping[str, Any], *, new_yarn: bool) -> tuple[int | None, str]:
    """Tokens that vLLM derives from a config, the larger of its releases' readings, and the key it comes from.

    ``config`` is flattened: the text part's keys stand at the top.
    """
    found = {
        k: config[k] for k in LENGTH_KEYS if isinstance(config.get(k), int) and not isinstance(config.get(k), bool)
    }
    own = config.get("model_max_length")
    if isinstance(own, int) and not isinstance(own, bool):
        found = {"model_max_length": own}
    if not found:
        return None, ""
    key = min(found, key=lambda k: found[k])
    length = float(found[key])
    rope = config.get("rope_parameters") or config.get("rope_scaling")
    model_type = str(config.get("model_type", ""))
    if isinstance(rope, Mapping) and "gemma3" not in model_type:
        parts = [p for p in rope.values() if isinstance(p, Mapping)] or [rope]
        for part in parts:
            kind = str(part.get("rope_type") or part.get("type") or "default")
            factor = part.get("factor")
            if not isinstance(factor, (int, float)) or isinstance(factor, bool) or factor <= 0:
                continue
            if kind in UNSCALED_UNTIL_YARN and not new_yarn:
                original = part.get("original_max_position_embeddings")
                base = float(original) if isinstance(original, int) else length
                length = max(length, base * factor)
            elif kind not in SCALED_ALREADY and kind != "mrope":
                length *= factor
                break
    return int(length), key
