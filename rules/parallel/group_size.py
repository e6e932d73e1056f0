"""PAR105."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cfglint.jobs.facts import Fact
from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..serving.dimensions import Dimensions, dimensions
from ..serving.server import before, called, checkpoint_method, engine, number, runs, stated

USUAL_GROUP = 128
"""Group size of nearly all AWQ and GPTQ checkpoints, taken where only the name says what the checkpoint is."""
SMALLEST = 32
"""MoeWNA16 halves the group until it fits, and asserts that it is no smaller (0.8.5 to 0.33.0)."""
PADDED = re.compile(r"qwen2(\.5)?(-vl)?-72b", re.IGNORECASE)
"""Names whose publisher's AWQ and GPTQ checkpoints have 29,696 for 29,568 (QwenLM/Qwen3 issue 698), and others' may not."""
FALLBACK_WORKS = "0.10.2"
"""0.9.1 still failed in the kernel (issue 17604)."""


class GroupsNotDivisible(Rule):
    """Groups of an AWQ or GPTQ checkpoint do not fit into the slices of tensor parallelism.

    The down projection is split along its input, and each slice must hold whole quantization groups. vLLM ends with "The
    input size is not aligned with the quantized weight shape. This can be caused by too large tensor parallel size".

    How sure: width and group size come from the checkpoint's config: an error. Where the config is not at hand and the name
    alone says AWQ or GPTQ, the original model's width and a group of 128 are taken: a warning, and information for the 72B
    models of Qwen2, whose publisher pads the width. GPTQ with ``desc_act`` is left alone. Experts are never an error: vLLM then takes slower
    kernels, which halve the group down to 32 and refuse less; 0.8 and 0.9 ended with "size_k must divisible by BLOCK_SIZE_K".
    """

    code = "PAR105"
    name = "groups-not-divisible"
    family = "parallel"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/vllm-project/vllm/issues/5675",
        "https://github.com/QwenLM/Qwen3/issues/698",
        "https://github.com/vllm-project/vllm/issues/17604",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/model_executor/layers/quantization/auto_awq.py",
    )
    catalogue = ("quant-group-tp-alignment",)
    good = (
        example(
            {
                "serve.sh": "vllm serve our/llama-awq --tensor-parallel-size 2",
                ".cfglint/models/our/llama-awq/config.json": '{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}',
            }
        ),
    )
    bad = (
        example(
            {
                "serve.sh": "vllm serve our/qwen-awq --tensor-parallel-size 2",
                ".cfglint/models/our/qwen-awq/config.json": '{"model_type": "qwen2", "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 152064, "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}}',
            },
            at="tensor_parallel_size",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        asked = number(job, "tensor_parallel_size")
        if asked is None or asked.value < 2 or not runs(job, "vllm", "sglang"):
            return
        method, sure = checkpoint_method(job)
        sizes = dimensions(job)
        if method not in ("awq", "gptq") or sizes is None:
            return
        config = sizes.quantization
        group = config.get("group_size", None if sure else USUAL_GROUP)
        if not isinstance(group, int) or isinstance(group, bool) or group < 2 or config.get("desc_act") is True:
            return
        widths = sizes.widths
        width = next((w for w in widths if (w / asked.value) % group), None)
        if width is None:
            yield from self._experts(job, asked, sizes, method, group)
            return
        padded = not sure and PADDED.search(str(job.value("model_id") or "")) is not None
        sure = sure and engine(job) == "vllm"  # SGLang's Marlin path pads some shapes
        fitting = next(
            n
            for n in range(asked.value - 1, 0, -1)
            if sizes.heads % n == 0 and (n == 1 or not any((w / n) % group for w in widths))
        )
        yield self.finding(
            f"the intermediate size of {width} over {called(job, 'tensor_parallel_size')} {asked.value} gives {width / asked.value:g}, not a multiple of the {method.upper()} group {group}",
            asked,
            (job.model_id, f"{method.upper()}, groups of {group}"),
            help=f"{called(job, 'tensor_parallel_size')}: {fitting}, with pipeline_parallel_size for the rest, or a checkpoint with a padded width",
            severity="error" if sure else "info" if padded else "warning",
            confidence="high" if sure else "low" if padded else "medium",
            data={"width": width, "group": group, "tensor_parallel_size": asked.value},
            job=job,
        )

    def _experts(
        self, job: ServingJob, asked: Fact[int], sizes: Dimensions, method: str, group: int
    ) -> Iterator[Finding]:
        width = sizes.expert_width
        share = width / asked.value
        if not width or share % group == 0 or engine(job) != "vllm" or stated(job, "enable_expert_parallel"):
            return
        refused = bool(share % SMALLEST)
        earlier = before(job, FALLBACK_WORKS)
        yield self.finding(
            f"the experts' intermediate size of {width} over {called(job, 'tensor_parallel_size')} {asked.value} gives {share:g}, not a multiple of the {method.upper()} group {group}: "
            + ("no kernel takes it" if refused else "the Marlin kernels for experts are not used"),
            asked,
            (job.model_id, f"{method.upper()}, groups of {group}"),
            help="enable_expert_parallel keeps experts whole, or a smaller tensor_parallel_size",
            severity="warning" if refused or earlier else "info",
            confidence="medium",
            data={"width": width, "group": group, "tensor_parallel_size": asked.value},
            job=job,
        )
