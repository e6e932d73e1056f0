"""SRV101."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import Reading
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Severity
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping

from .dropped_in import SGLANG_DROPPED_IN
from .server import managed, runs, since, version

INSTEAD = {
    "cuda_graph_max_bs": "--cuda-graph-max-bs-decode (and --cuda-graph-max-bs-prefill)",
    "cuda_graph_bs": "--cuda-graph-bs-decode (and --cuda-graph-bs-prefill)",
    "enable_ep_moe": "--ep-size with --moe-runner-backend",
    "enable_deepep_moe": "--moe-a2a-backend deepep",
    "enable_flashinfer_cutlass_moe": "--moe-runner-backend flashinfer_cutlass",
    "enable_flashinfer_trtllm_moe": "--moe-runner-backend flashinfer_trtllm",
    "enable_flashinfer_mla": "--attention-backend flashinfer",
    "enable_flashmla": "--attention-backend flashmla",
    "disable_flashinfer": "--attention-backend triton",
}
"""What replaced an argument."""
AMBIGUOUS = frozenset({"cuda_graph_max_bs", "cuda_graph_bs"})
"""Arguments whose name is since then the beginning of two others: argparse refuses them as ambiguous."""


class SglangRemovedArgument(Rule):
    """Argument that this SGLang release no longer has.

    SGLang's parser ends with "unrecognized arguments", or with "ambiguous option" where two newer arguments begin with the
    old one's name (``--cuda-graph-max-bs``). Backends for attention and experts moved from switches of their own to values of
    ``--attention-backend``, ``--moe-runner-backend`` and ``--moe-a2a-backend``.

    How sure: arguments were read from seven releases between 0.3.6 and 0.5.23, removed ones from 18 more. With a
    release stated in which the argument is gone it is an error; without one it is information, since an older release
    may be meant. Between two samples that differ nothing is said.
    """

    code = "SRV101"
    name = "sglang-removed-argument"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = ("https://github.com/sgl-project/sglang/issues/23769",)
    catalogue = ("cli-removed-flag-sglang", "cli-sglang-ambiguous-prefix")
    good = (
        example(
            "serve.sh",
            "docker run --gpus all -p 30000:30000 lmsysorg/sglang:v0.5.6 python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --host 0.0.0.0 --cuda-graph-max-bs 64",
        ),
    )
    bad = (
        example(
            "serve.sh",
            "docker run --gpus all -p 30000:30000 lmsysorg/sglang:v0.5.23 python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --host 0.0.0.0 --cuda-graph-max-bs 64",
            at="cuda_graph_max_bs",
            count=1,
        ),
        example(
            {
                "serve.sh": "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8 --enable-ep-moe",
                "requirements.txt": "sglang==0.5.16",
            },
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        from cfglint.catalog.engines import engine_argument

        if not runs(job, "sglang"):
            return
        for reading in job.readings:
            if reading.dialect != "sglang" or not isinstance(reading.root, Mapping):
                continue
            for key in reading.root.index:
                name = key.replace("-", "_")
                argument = engine_argument("sglang", f"--{name}")
                if argument is None or argument.absent_from is None or argument.name != f"--{name.replace('_', '-')}":
                    continue
                finding = self._one(job, reading, key, name, SGLANG_DROPPED_IN.get(name, argument.absent_from))
                if finding is not None:
                    yield finding

    def _one(self, job: ServingJob, reading: Reading, key: str, name: str, gone: str) -> Finding | None:
        stated = version(job)
        if (stated is not None and not since(job, gone)) or (stated is None and managed(job)):
            return None
        severity: Severity = "error" if stated is not None else "info"
        flag = f"--{name.replace('_', '-')}"
        what = f"SGLang {stated} " if stated is not None else "the SGLang version is not stated here: newer ones "
        if name in AMBIGUOUS:
            message = f"{what}{'takes' if stated else 'take'} {flag} for the beginning of two arguments and refuse{'s' if stated else ''} it (since {gone})"
        else:
            message = f"{what}{'has' if stated else 'have'} no {flag}: it is gone by {gone}"
        return self.finding(
            message,
            reading.origin(key),
            help=INSTEAD.get(name, "leave it out"),
            severity=severity,
            confidence="high" if stated is not None else "medium",
            data={"argument": name, "absent_from": gone, "version": stated},
            job=job,
        )
