"""SRV105."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .server import number, runs, since, size, stated, statement, switch, text


class SglangClash(Rule):
    """SGLang arguments that its own checks do not let stand together.

    The server ends with an AssertionError before the model is loaded: ranks that do not divide over ``nnodes``, copies
    (``dp_size``) over several nodes without DP attention, a ``chunked_prefill_size`` that is no multiple of ``page_size``, LoRA without
    adapters and without rank and target modules, or with room for fewer adapters than one batch may use.

    How sure: the assertions were read in 0.5.23 (arg_groups/validation_hook.py and lora_hook.py). All numbers are stated.
    """

    code = "SRV105"
    name = "sglang-clash"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = ("https://docs.sglang.io/advanced_features/server_arguments.html",)
    catalogue = ("par-sgl-nodes", "sgl-chunk-page", "lora-sgl-init", "lora-sgl-counts", "sgl-compile-padding")
    good = (
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 16 --dp 8 --enable-dp-attention --nnodes 2 --node-rank 0 --dist-init-addr 10.0.0.1:5000",
        ),
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --chunked-prefill-size -1 --page-size 64",
            note="switched off",
        ),
    )
    bad = (
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8 --nnodes 3 --node-rank 0 --dist-init-addr 10.0.0.1:5000",
            at="nnodes",
            count=1,
        ),
        example(
            "serve.sh",
            "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --chunked-prefill-size 1000 --page-size 64",
            at="chunked_prefill_size",
            count=1,
        ),
        example("serve.sh", "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --enable-lora", count=1),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs(job, "sglang"):
            return
        nodes = number(job, "nnodes")
        tp, pp = size(job, "tensor_parallel_size"), size(job, "pipeline_parallel_size")
        if nodes is not None and nodes.value > 1 and tp is not None and pp is not None:
            if (tp * pp) % nodes.value:
                yield self.finding(
                    f"tp_size {tp}{f' × pp_size {pp}' if pp > 1 else ''} cannot be divided over nnodes {nodes.value}",
                    nodes,
                    (job.tensor_parallel_size, f"tp_size {tp}"),
                    help=f"a tp_size that is a multiple of {nodes.value}, or as many nodes as divide it",
                    job=job,
                )
            copies = number(job, "data_parallel_size")
            shared = stated(job, "enable_dp_attention") or stated(job, "attn_dp_size")
            if copies is not None and copies.value > 1 and not shared:
                yield self.finding(
                    f"dp_size {copies.value} makes copies of the model, and copies over {nodes.value} nodes are not supported",
                    copies,
                    (nodes, f"nnodes {nodes.value}"),
                    help="--enable-dp-attention, or one server for each node behind a router",
                    job=job,
                )
        chunk, page = number(job, "max_num_batched_tokens"), number(job, "page_size")
        decode = text(job, "disaggregation_mode")
        misfit = chunk is not None and page is not None and chunk.value % page.value != 0
        if chunk is not None and page is not None and misfit and (decode is None or decode.value != "decode"):
            yield self.finding(
                f"chunked_prefill_size {chunk.value} is no multiple of page_size {page.value}",
                chunk,
                (page, f"page_size {page.value}"),
                help=f"chunked_prefill_size: {max(1, chunk.value // page.value) * page.value}",
                job=job,
            )
        yield from self._lora(job)
        if switch(job, "disable_cuda_graph_padding") and switch(job, "enable_torch_compile"):
            yield self.finding(
                "disable_cuda_graph_padding and enable_torch_compile together compile for every batch size",
                statement(job, "disable_cuda_graph_padding"),
                (statement(job, "enable_torch_compile"), "enable_torch_compile"),
                help="leave one of them out",
                severity="error" if since(job, "0.5.16") else "warning",
                confidence="high" if since(job, "0.5.16") else "medium",
                job=job,
            )

    def _lora(self, job: ServingJob) -> Iterator[Finding]:
        on = statement(job, "enable_lora")
        if on is not None and on.value is True and not stated(job, "lora_paths"):
            missing = [n for n in ("max_lora_rank", "lora_target_modules") if not stated(job, n)]
            if missing:
                yield self.finding(
                    f"enable_lora without lora_paths needs {' and '.join(missing)}",
                    on,
                    help="--lora-paths name=path, or --max-lora-rank and --lora-target-modules",
                    job=job,
                )
        loaded, batch = number(job, "max_loaded_loras"), number(job, "max_loras")
        if loaded is not None and batch is not None and loaded.value < batch.value:
            yield self.finding(
                f"max_loaded_loras {loaded.value} is below max_loras_per_batch {batch.value}",
                loaded,
                (batch, f"max_loras_per_batch {batch.value}"),
                help=f"max_loaded_loras: {batch.value} or more",
                job=job,
            )
