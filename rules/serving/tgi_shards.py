"""SRV104."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.job import ServingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from .server import runs, statement, switch, text


class TgiShards(Rule):
    """TGI is told a number of shards that it refuses.

    ``sharded: true`` with one shard or none ends with "`sharded` is true but `num_shard` <= 1", a number below one with
    "`num_shard` cannot be < 1", and EXL2 checkpoints cannot be sharded at all.

    How sure: the checks are in launcher/src/main.rs and the numbers are stated.
    """

    code = "SRV104"
    name = "tgi-shards"
    family = "serving"
    severity = "error"
    kinds = ("serve",)
    evidence = (
        "https://github.com/huggingface/text-generation-inference/blob/db931fcf42da018a3657580c64bf2720f167f9ab/launcher/src/main.rs",
    )
    catalogue = ("tgi-sharded-num", "quant-tgi-exl2-shard")
    good = (
        example(
            "serve.sh", "text-generation-launcher --model-id Qwen/Qwen2.5-14B-Instruct --sharded true --num-shard 2"
        ),
        example("serve.sh", "text-generation-launcher --model-id Qwen/Qwen2.5-7B-Instruct --sharded false"),
    )
    bad = (
        example(
            "serve.sh",
            "text-generation-launcher --model-id Qwen/Qwen2.5-14B-Instruct --sharded true --num-shard 1",
            at="num_shard",
            count=1,
        ),
        example(
            "serve.sh",
            "text-generation-launcher --model-id our/model-exl2 --quantize exl2 --num-shard 2",
            at="quantize",
            count=1,
        ),
    )

    def check_serving(self, job: ServingJob, context: Context) -> Iterator[Finding]:
        if not runs(job, "tgi"):
            return
        shards = statement(job, "num_shard")
        count = shards.value if shards is not None else None
        if shards is None or not isinstance(count, int) or isinstance(count, bool):
            return
        if count < 1:
            yield self.finding(
                f"num_shard is {count}, and must be at least 1",
                shards,
                help="num_shard: the number of GPUs, or leave it out for all",
                job=job,
            )
        elif count == 1 and switch(job, "sharded") is True:
            yield self.finding(
                "sharded is true with num_shard 1",
                shards,
                (statement(job, "sharded"), "sharded"),
                help="leave sharded out, or a larger num_shard",
                job=job,
            )
        quantize = text(job, "quantization")
        if quantize is not None and quantize.value.lower() == "exl2" and count > 1:
            yield self.finding(
                f"EXL2 checkpoints cannot be sharded, and num_shard is {count}",
                quantize,
                (shards, f"num_shard {count}"),
                help="num_shard: 1, or a checkpoint in another format",
                job=job,
            )
