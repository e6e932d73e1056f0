"""PRC101."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.jobs.versions import in_words
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Fix
from cfglint.lint.fixes import replace_value
from cfglint.lint.rule import Rule, example

from ..serving.server import all_below, before, dtype, readings, runs, runs_vllm, served, since, version

REFUSED = frozenset({"gemma2", "gemma3", "gemma3_text", "glm4"})
"""``_FLOAT16_NOT_SUPPORTED_MODELS`` of vllm/config/model.py, 0.9.1 to 0.33.0."""
UNSTABLE = frozenset({"t5", "mt5"})
"""Known to overflow in fp16 (transformers issue 9295), and not refused."""
REFUSED_SINCE = "0.9.1"
"""The first release with the list; 0.9.0 has none. gemma2 and gemma3 give empty or endless output there."""
PLAMO2_UNTIL = "0.26"
NAMED = re.compile(r"(gemma-?[23]|glm-?4)(?![.\dnv])", re.IGNORECASE)
"""In the name of a model whose config is not at hand; Gemma 3n, GLM-4.5 and GLM-4V are other models."""
NAMED_KINDS = {
    "gemma-2": "gemma2",
    "gemma2": "gemma2",
    "gemma-3": "gemma3",
    "gemma3": "gemma3",
    "glm-4": "glm4",
    "glm4": "glm4",
}


class ServingFp16Refused(Rule):
    """float16 for a model that overflows in it: vLLM refuses, or answers are empty or endless.

    Activations of Gemma 2, Gemma 3 and GLM-4 leave fp16's range. From 0.9.1 on vLLM ends with "The model type 'gemma3' does not
    support float16. Reason: Numerical instability"; before, and in other engines, the server starts and answers with
    padding tokens or exclamation marks.

    How sure: the list is vLLM's own, and ``dtype`` is stated. Without a stated release it is an error all the same, since
    either thing happens; for other engines it is a warning. A local path counts where its config is known or the name says gemma-3.
    """

    code = "PRC101"
    name = "serving-fp16-refused"
    family = "precision"
    severity = "error"
    kinds = ("serve",)
    fixable = "unsafe"
    evidence = (
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/model.py",
        "https://github.com/vllm-project/vllm/issues/14817",
        "https://github.com/vllm-project/vllm/issues/18733",
    )
    catalogue = ("dtype-fp16-rejected-model", "dtype-fp16-unstable-silent")
    good = (
        example("serve.sh", "vllm serve google/gemma-3-4b-it --dtype bfloat16"),
        example("serve.sh", "vllm serve Qwen/Qwen2.5-7B-Instruct --dtype half"),
    )
    bad = (
        example("serve.sh", "vllm serve google/gemma-3-4b-it --dtype float16", at="dtype", count=1),
        example("serve.sh", "python3 -m sglang.launch_server --model-path google/gemma-2-9b-it --dtype half", count=1),
        example({"serve.sh": "vllm serve google/gemma-2-9b-it --dtype half", "requirements.txt": "vllm==0.8.5"}),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        asked = dtype(job)
        if asked is None or asked.value != "float16" or not runs(job, "vllm", "sglang", "tgi", "lmdeploy"):
            return
        arch, sure = served(job)
        if arch is not None:
            kind = arch.model_type
        else:
            named = NAMED.search(str(job.value("model_id") or "").rsplit("/", 1)[-1])
            kind = NAMED_KINDS[named[1].lower()] if named is not None else ""
        plamo = kind == "plamo2" and runs_vllm(job) and since(job, REFUSED_SINCE) and before(job, PLAMO2_UNTIL)
        if kind not in REFUSED and kind not in UNSTABLE and not plamo:
            return
        refused = runs_vllm(job) and since(job, REFUSED_SINCE) and kind not in UNSTABLE
        sure = sure and runs_vllm(job)
        instead = "float32" if all_below(job, (8, 0)) else "bfloat16"
        if refused:
            effect = f"vLLM {in_words(version(job))} refuses to start"
        elif runs_vllm(job) and version(job) is None and kind not in UNSTABLE:
            effect = "vLLM refuses to start from 0.9.1 on, and answers are empty or endless before"
        else:
            effect = "answers are empty or endless"
        edits = [replace_value(r, ("dtype",), instead) for r in readings(job) if r.entry("dtype") is not None][:1]
        yield self.finding(
            f"{kind} overflows in float16: {effect}",
            asked,
            (job.model_id, kind),
            help=f"dtype: {instead}",
            severity="error" if sure and kind not in UNSTABLE else "warning",
            confidence="high" if sure and kind not in UNSTABLE else "medium",
            fixes=tuple(Fix(f"Set dtype to {instead}", (edit,), safe=False) for edit in edits if edit is not None),
            job=job,
        )
