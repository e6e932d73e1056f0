"""PAR104."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cfglint.jobs.job import ServingJob
from cfglint.jobs.named_models import published_as, stated_name, without_format
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.dimensions import Dimensions, dimensions
from ..serving.server import before, called, engine, number, runs, size, stated, switch

REFINED_BY = "0.26"
"""Later than 0.25.1, which refuses; 0.33.0 refines the blocks of routed experts (vllm/model_executor/layers/quantization/
fp8.py, ``weight_scale_refine``). What lies between was not read."""
BLOCK_PUBLISHERS = ("Qwen", "deepseek-ai", "stepfun-ai")
"""Publish the FP8 checkpoints of their models in blocks; others (zai-org's GLM-4.5, nvidia, RedHatAI) per channel or tensor."""
REQUANTIZERS = frozenset({"redhatai", "neuralmagic", "nm-testing", "nvidia", "amd", "intel", "unsloth", "cyankiwi"})
"""Owners that quantize models of others in their own way."""
USUAL_BLOCK = 128


class Fp8BlocksNotDivisible(Rule):
    """Blocks of a block-quantized FP8 checkpoint do not fit into the slices of tensor parallelism.

    Each GPU's slice of a matrix must hold whole blocks of 128. vLLM ends while it makes the weights: "The output_size of
    gate's and up's weight = 192 is not divisible by weight quantization block_n = 128".

    How sure: block size and widths come from the checkpoint's config. With expert parallelism routed experts stay whole.
    Experts are an error for releases up to 0.25 and a warning otherwise, since 0.33 can split their blocks further. Where the
    config is not at hand and the name alone says FP8, of a model whose publisher makes blocks of 128, it is a warning.
    """

    code = "PAR104"
    name = "fp8-blocks-not-divisible"
    family = "parallel"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/issues/17569",
        "https://github.com/vllm-project/vllm/issues/54178",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/model_executor/layers/quantization/utils/fp8_utils.py",
    )
    catalogue = ("quant-fp8-block-tp",)
    good = (
        example("serve.sh", "vllm serve Qwen/Qwen3-235B-A22B-FP8 --tensor-parallel-size 4"),
        example("serve.sh", "vllm serve Qwen/Qwen3-235B-A22B-FP8 --tensor-parallel-size 8 --enable-expert-parallel"),
        example(
            "serve.sh",
            "vllm serve nvidia/Qwen3-235B-A22B-FP8 --tensor-parallel-size 8",
            note="quantized by another, who does not make blocks",
        ),
    )
    bad = (
        example(
            "serve.sh",
            "vllm serve Qwen/Qwen3-235B-A22B-FP8 --tensor-parallel-size 8",
            at="tensor_parallel_size",
            count=1,
        ),
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path stepfun-ai/Step-3.5-Flash-FP8 --tp 4",
            at="tp_size",
            note="the shared expert's 1,280 over 4",
        ),
        example(
            {
                "serve.sh": "vllm serve Qwen/Qwen3-235B-A22B-FP8 --tensor-parallel-size 8",
                "requirements.txt": "vllm==0.10.2",
            }
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        asked, sizes = number(job, "tensor_parallel_size"), dimensions(job)
        if asked is None or asked.value < 2 or sizes is None or not runs(job, "vllm", "sglang"):
            return
        block, named = block_of(sizes.quantization), False
        if block is None and not sizes.quantization:
            block = _block_by_name(job)
            named = block is not None
        if block is None:
            return
        experts_whole = switch(job, "enable_expert_parallel") is True
        sglang = engine(job) == "sglang"
        if sglang:
            ranks = size(job, "expert_parallel_size")
            if ranks is None or switch(job, "enable_dp_attention") or stated(job, "moe_a2a_backend"):
                return
            experts_whole = ranks == asked.value or stated(job, "enable_ep_moe") or stated(job, "enable_deepep_moe")
        found = _misfit(sizes, asked.value, block, experts_whole)
        if found is None:
            return
        what, width, routed = found
        fitting = [
            n
            for n in range(min(asked.value - 1, sizes.heads), 0, -1)
            if sizes.heads % n == 0 and _misfit(sizes, n, block, experts_whole) is None
        ]
        certain = not named and sizes.certain and (sglang or not routed or before(job, REFINED_BY))
        helps = [f"{called(job, 'tensor_parallel_size')}: {fitting[0]}"] if fitting else []
        if routed and _misfit(sizes, asked.value, block, True) is None:
            helps.append(
                f"{'ep_size: ' + str(asked.value) if sglang else 'enable_expert_parallel'} keeps experts whole"
            )
        whose = "the usual" if named else "the checkpoint's"
        yield self.finding(
            f"{what} of {width} over {called(job, 'tensor_parallel_size')} {asked.value} gives {width / asked.value:g}, not a multiple of {whose} FP8 block {block}",
            asked,
            (
                job.model_id,
                f"FP8 by its name, and the publisher's blocks are {block}" if named else f"blocks of {block}",
            ),
            help="; ".join(helps),
            severity="error" if certain else "warning",
            confidence="high" if certain else "medium",
            data={"width": width, "block": block, "tensor_parallel_size": asked.value},
            job=job,
        )


def block_of(quantization: Mapping[str, object]) -> int | None:
    """The side of the weight blocks, where an FP8 checkpoint has them."""
    size = quantization.get("weight_block_size")
    if str(quantization.get("quant_method", "")).lower() != "fp8" or not isinstance(size, list) or len(size) != 2:
        return None
    side = max((n for n in size if isinstance(n, int)), default=0)
    return side if side > 1 else None


def _block_by_name(job: ServingJob) -> int | None:
    """The publisher's block, where the config is not at hand and the name says FP8 of a model that is published so."""
    name = stated_name(job)
    base, label = without_format(name)
    if job.architecture is not None or label is None or label.lower() != "fp8":
        return None
    if "/" in name and name.split("/")[0].lower() in REQUANTIZERS:
        return None
    found = published_as(base)
    return USUAL_BLOCK if found is not None and found.id.split("/")[0] in BLOCK_PUBLISHERS else None


def _misfit(sizes: Dimensions, tp: int, block: int, experts_whole: bool) -> tuple[str, int, bool] | None:
    """The first width whose slice is no multiple of the block: (what, width, whether it is the experts')."""
    if sizes.expert_width and not experts_whole and (sizes.expert_width / tp) % block:
        return "the experts' intermediate size", sizes.expert_width, True
    if sizes.shared_width and (sizes.shared_width / tp) % block:
        return "the shared expert's intermediate size", sizes.shared_width, True
    for width in sizes.widths:
        if (width / tp) % block:
            return "the intermediate size", width, False
    return None
