"""PAR020."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import boolean, integer, texts
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

from ..hardware.capability import HOPPER, below, described


class TorchtitanSettings(Rule):
    """torchtitan settings that exclude each other: pipeline micro-batches, async tensor parallelism, FSDP memory.

    With pipeline parallelism the local batch must be a multiple of `pipeline_parallel_microbatch_size` ("we'll hang or error
    during training" otherwise, says its comment). `enable_async_tensor_parallel` needs `compile.enable` with the model among
    the components. `enable_fsdp_symm_mem` needs compute capability 9.0. Each is a ValueError at the start.

    How sure: the checks of torchtitan 0.3 (config/configs.py, trainer.py), the first two also in older releases.
    """

    code = "PAR020"
    name = "torchtitan-settings"
    family = "parallel"
    severity = "error"
    catalogue = ("titan.pp-microbatch", "par.titan-async-tp", "hw.titan-symm-mem")
    evidence = (
        "https://github.com/pytorch/torchtitan/blob/main/torchtitan/config/configs.py",
        "https://github.com/pytorch/torchtitan/blob/main/torchtitan/distributed/pipeline_parallel.py",
    )
    _CONFIG = """
            [job]
            dump_folder = "./outputs"

            [model]
            name = "llama3"
            flavor = "8B"

            [training]
            local_batch_size = {batch}
            seq_len = 4096
            steps = 100

            [parallelism]
            pipeline_parallel_degree = 2
            pipeline_parallel_microbatch_size = 2
            {more}
            """
    good = (example("train.toml", _CONFIG.format(batch=4, more="")),)
    bad = (
        example("train.toml", _CONFIG.format(batch=3, more=""), at="local_batch_size", count=1),
        example(
            "train.toml",
            _CONFIG.format(batch=4, more="enable_async_tensor_parallel = true"),
            at="enable_async_tensor_parallel",
            count=1,
        ),
        example(
            "train.toml",
            _CONFIG.format(batch=4, more="enable_fsdp_symm_mem = true"),
            gpu="A100-80GB",
            at="enable_fsdp_symm_mem",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        reading = job.reading("torchtitan")
        if reading is None or reading.context.get("layout") == "primus" or reading.context.get("trains") is False:
            return
        stages = integer(reading.value("parallelism", "pipeline_parallel_degree"))
        part = integer(reading.value("parallelism", "pipeline_parallel_microbatch_size"))
        batch = integer(reading.value("training", "local_batch_size"))
        if stages and stages > 1 and part and part > 0 and batch and batch % part:
            yield self.finding(
                f"local_batch_size {batch} is no multiple of pipeline_parallel_microbatch_size {part}",
                reading.origin("training", "local_batch_size"),
                (reading.origin("parallelism", "pipeline_parallel_microbatch_size"), f"micro-batches of {part}"),
                help=f"local_batch_size = {-(-batch // part) * part}",
                job=job,
            )
        for table in ("parallelism", "compile"):
            if boolean(reading.value(table, "enable_async_tensor_parallel")) is not True:
                continue
            compiled = boolean(reading.value("compile", "enable")) is True or (
                boolean(reading.value("training", "compile")) is True
            )
            components = texts(reading.at("compile", "components"))
            if not compiled or (components is not None and "model" not in components):
                yield self.finding(
                    "enable_async_tensor_parallel needs a compiled model: torchtitan stops",
                    reading.origin(table, "enable_async_tensor_parallel"),
                    help='[compile] enable = true, with "model" among its components',
                    job=job,
                )
        if boolean(reading.value("parallelism", "enable_fsdp_symm_mem")) is True and below(job, HOPPER):
            yield self.finding(
                f"enable_fsdp_symm_mem needs compute capability 9.0, the accelerator is {described(job)}",
                reading.origin("parallelism", "enable_fsdp_symm_mem"),
                (job.hardware.origin, "before Hopper"),
                help="leave it out",
                job=job,
            )
