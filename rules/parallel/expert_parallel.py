"""PAR106."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.dimensions import dimensions
from ..serving.server import number, runs, runs_vllm, served, size, stated, statement, switch


class ExpertParallelImpossible(Rule):
    """Expert parallelism that the model cannot have: no experts, or a number that does not divide.

    For a dense model vLLM ends with "Number of experts in the model must be greater than 0 when expert parallelism is
    enabled". Experts are dealt out evenly over tensor × data parallel ranks: 256 experts on 3 ranks end in an assertion.
    ``enable_eplb`` needs ``enable_expert_parallel``.

    How sure: experts come from the model's config. An uneven number is a warning where the release is not known to refuse
    it: newer ones deal experts out unevenly for some models.
    """

    code = "PAR106"
    name = "expert-parallel-impossible"
    family = "parallel"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/issues/52435",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/model.py",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/config/parallel.py",
    )
    catalogue = ("par-ep-dense", "par-ep-divisible", "par-eplb-combo")
    good = (example("serve.sh", "vllm serve Qwen/Qwen3-30B-A3B --tensor-parallel-size 4 --enable-expert-parallel"),)
    bad = (
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen2.5-7B-Instruct --tensor-parallel-size 4 --enable-expert-parallel",
            at="enable_expert_parallel",
            count=1,
        ),
        example("serve.sh", "vllm serve Qwen/Qwen3-30B-A3B --data-parallel-size 3 --enable-expert-parallel", count=1),
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen3-30B-A3B --tensor-parallel-size 4 --enable-eplb",
            at="enable_eplb",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if runs(job, "sglang"):
            yield from self._sglang(job)
        if not runs_vllm(job):
            return
        on = switch(job, "enable_expert_parallel") is True
        if switch(job, "enable_eplb") is True and not on and not stated(job, "enable_expert_parallel"):
            yield self.finding(
                "enable_eplb is set without enable_expert_parallel",
                statement(job, "enable_eplb"),
                help="add --enable-expert-parallel",
                job=job,
            )
        sizes = dimensions(job)
        if not on or sizes is None:
            return
        asked = statement(job, "enable_expert_parallel")
        if not sizes.experts:
            arch, sure = served(job)
            if arch is not None and arch.moe is None and not arch.missing and sure and arch.tensors:
                yield self.finding(
                    f"{arch.model_type} has no experts, and enable_expert_parallel is set",
                    asked,
                    help="leave it out",
                    job=job,
                )
            return
        tp, dp = size(job, "tensor_parallel_size"), size(job, "data_parallel_size")
        if tp is None or dp is None or tp * dp < 2 or stated(job, "eplb_config"):
            return
        experts = sizes.experts
        if experts % (tp * dp):
            yield self.finding(
                f"{experts} experts cannot be dealt out evenly over {tp * dp} ranks",
                asked,
                (number(job, "tensor_parallel_size"), f"tensor_parallel_size {tp}"),
                (number(job, "data_parallel_size"), f"data_parallel_size {dp}"),
                help=f"{max(n for n in range(1, tp * dp) if experts % n == 0)} ranks divide them",
                severity="warning",
                confidence="medium",
                job=job,
            )

    def _sglang(self, job: ServingJob) -> Iterator[Finding]:
        ranks, sizes = number(job, "expert_parallel_size"), dimensions(job)
        if ranks is None or sizes is None or not sizes.experts or sizes.experts % ranks.value == 0:
            return
        if stated(job, "ep_num_redundant_experts"):
            return
        yield self.finding(
            f"{sizes.experts} experts cannot be dealt out evenly over ep_size {ranks.value}",
            ranks,
            help=f"ep_size: {max(n for n in range(1, ranks.value) if sizes.experts % n == 0)}",
            severity="warning",
            confidence="medium",
            job=job,
        )
