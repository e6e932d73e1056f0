"""PRC102."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.catalog.architecture import native_dtype
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.server import (
    DTYPES,
    NEWEST_SAMPLED,
    all_below,
    before,
    capability,
    checkpoint_method,
    dtype,
    exact_version,
    runs_vllm,
    served,
    since,
    statement,
    text,
    version,
)
from .serving_fp16_refused import REFUSED

MARLIN = {"awq": "awq_marlin", "gptq": "gptq_marlin"}
"""Kernels that vLLM takes by itself on Ampere and later, unless the plain ones are asked for by name."""
FIRST_SAMPLED = "0.4.3"
"""The oldest release read. vllm#1114, #1592 and #1823 tell of the same check in 0.1.7 to 0.2.2."""
MERGED = "0.25"
"""From 0.25 (auto_awq, auto_gptq) on bf16 is taken on every GPU."""


class QuantizationDtype(Rule):
    """``dtype`` is not one that the quantization method computes in.

    vLLM ends with "torch.bfloat16 is not supported for quantization method awq. Supported dtypes: [torch.float16]". Plain AWQ
    and GPTQ kernels took float16 alone up to 0.18; mxfp4 takes bfloat16 alone; hardly any takes float32. A model that vLLM
    refuses in float16 (Gemma 3) in a format that needs it cannot be served at all.

    How sure: dtypes were read from eight releases. On Ampere and later AWQ and GPTQ checkpoints get Marlin kernels, which
    take both, unless ``quantization`` asks for the plain ones by name. Where ``dtype`` is left to the engine, the dtype of the
    checkpoint's own config counts. Without a stated release or GPU that decides it is a warning;
    where the method is read from a checkpoint's name alone and the release is not stated, information.
    """

    code = "PRC102"
    name = "quantization-dtype"
    family = "precision"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/vllm.py",
        "https://github.com/vllm-project/vllm/issues/13462",
        "https://github.com/vllm-project/vllm/issues/1823",
    )
    catalogue = ("dtype-quant-bf16-unsupported", "dtype-quant-fp32", "dtype-mxfp4-bf16-only", "dtype-unsatisfiable-set")
    good = (
        example(
            {"serve.sh": "vllm serve our/llama-awq --quantization awq --dtype half", "requirements.txt": "vllm==0.10.2"}
        ),
        example(
            {
                "serve.sh": "vllm serve our/llama-awq --quantization awq --dtype bfloat16",
                "requirements.txt": "vllm==0.33.0",
            }
        ),
        example("serve.sh", "vllm serve openai/gpt-oss-20b"),
    )
    bad = (
        example(
            {
                "serve.sh": "vllm serve our/llama-awq --quantization awq --dtype bfloat16",
                "requirements.txt": "vllm==0.10.2",
            },
            at="dtype",
            count=1,
        ),
        example("serve.sh", "vllm serve openai/gpt-oss-20b --dtype float16", at="dtype"),
        example(
            {
                "serve.sh": "python3 -m vllm.entrypoints.openai.api_server --model our/mistral-awq --quantization awq",
                "requirements.txt": "vllm==0.2.2",
                ".cfglint/models/our/mistral-awq/config.json": '{"model_type": "mistral", "torch_dtype": "bfloat16", "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}',
            },
            at="quantization",
            note="the checkpoint says bfloat16",
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs_vllm(job):
            return
        from cfglint.catalog.engines import quantization_needs

        asked = dtype(job)
        stated = text(job, "quantization")
        own, certain = checkpoint_method(job)
        taken = asked.value if asked is not None else _own_dtype(job)
        if asked is None and (stated is None or all_below(job, (8, 0)) or self._stated_otherwise(job)):
            return  # before Ampere the checkpoint's bf16 is not taken as it is
        method = stated.value.lower() if stated is not None else own
        if (
            method is None
            or taken is None
            or (version(job) is not None and exact_version(job) is None and not since(job, NEWEST_SAMPLED))
        ):
            return
        release = exact_version(job)
        plain = method in MARLIN
        if plain and (since(job, MERGED) or taken == "float16"):
            return
        needs = quantization_needs(method, release if release is not None or not plain else "0.18.1")
        if needs is None and plain and before(job, FIRST_SAMPLED):
            needs = quantization_needs(method, FIRST_SAMPLED)
        if needs is None or not needs.dtypes or taken in needs.dtypes:
            return
        sure = stated is not None or certain
        if plain and stated is None:
            lowest = capability(job)
            if lowest is not None and lowest >= (8, 0):
                return  # Marlin
            sure = certain and all_below(job, (8, 0))
        sure = sure and (not plain or (version(job) is not None and before(job, MERGED)))
        guessed = plain and stated is None and not certain and version(job) is None
        allowed = " or ".join(needs.dtypes)
        arch, _ = served(job)
        never = arch is not None and arch.model_type in REFUSED and needs.dtypes == ("float16",)
        release_words = f"vLLM {needs.version}" if release or not plain else "vLLM up to 0.18"
        yield self.finding(
            f"{method} computes in {allowed} in {release_words}, "
            + (f"dtype is {taken}" if asked is not None else f"and the checkpoint's own dtype is {taken}")
            + (f"; and {arch.model_type} is refused in float16" if never and arch is not None else ""),
            asked or stated,
            (stated, method) if stated is not None and asked is not None else (job.model_id, method),
            help="another checkpoint (compressed-tensors), or vLLM 0.25 or later"
            if never
            else f"dtype: {needs.dtypes[0] if 'bfloat16' not in needs.dtypes else 'auto'}",
            severity="error" if sure else "info" if guessed else "warning",
            confidence="high" if sure else "low" if guessed else "medium",
            data={"method": method, "dtype": taken, "allowed": list(needs.dtypes)},
            job=job,
        )

    def _stated_otherwise(self, job: ServingJob) -> bool:
        """A dtype that is stated, as something not known here."""
        given = statement(job, "dtype")
        return given is not None and given.value != "auto"


def _own_dtype(job: ServingJob) -> str | None:
    """What ``auto`` takes: the dtype of a quantized checkpoint's own config."""
    arch, config = job.architecture, job.model.config if job.model is not None else None
    if arch is not None and arch.quantization:
        return DTYPES.get(arch.native_dtype or "")
    if config is None or "quantization_config" not in config:
        return None
    return DTYPES.get(native_dtype(config) or "")
