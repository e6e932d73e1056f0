"""PAR008."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import integer
from cfglint.jobs.facts import Fact
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding, Where
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping

from ..trainer import Settings, guessed, trainer_readings

SIZES = ("dp_replicate_size", "dp_shard_size", "tp_size", "cp_size", "sp_size")


class ParallelProduct(Rule):
    """The parallel sizes do not multiply to the number of processes, or exclude each other.

    Accelerate's `parallelism_config` places every process once: dp_replicate × dp_shard × tp × cp must be the number of
    processes ("ParallelismConfig total_size does not match num_processes"). Context and sequence parallelism exclude each
    other, and tensor or context parallelism needs a sharded data-parallel dimension beside a replicated one.

    How sure: the checks are in Accelerate's parallelism_config.py (1.15). DeepSpeed's sequence parallelism is left out of
    the product, as there; a product that is 1 means that nothing is stated.
    """

    code = "PAR008"
    name = "parallel-product"
    family = "parallel"
    severity = "error"
    catalogue = ("par.accel-parallelism-product", "par.accel-cp-sp-exclusive")
    evidence = (
        "https://github.com/huggingface/accelerate/blob/v1.15.0/src/accelerate/parallelism_config.py",
        "https://huggingface.co/docs/accelerate/en/concept_guides/sequence_parallelism",
    )
    good = (
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: FSDP
            num_machines: 1
            num_processes: 8
            fsdp_config:
              fsdp_version: 2
            parallelism_config:
              parallelism_config_dp_shard_size: 4
              parallelism_config_tp_size: 2
            """,
        ),
    )
    bad = (
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: FSDP
            num_machines: 1
            num_processes: 8
            fsdp_config:
              fsdp_version: 2
            parallelism_config:
              parallelism_config_dp_shard_size: 4
              parallelism_config_tp_size: 4
            """,
            at="parallelism_config_dp_shard_size",
            count=1,
        ),
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: FSDP
            num_machines: 1
            num_processes: 8
            parallelism_config:
              parallelism_config_cp_size: 2
              parallelism_config_sp_size: 4
            """,
            at="parallelism_config_cp_size",
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        for reading in [*trainer_readings(job), *(r for r in job.readings if r.dialect == "accelerate")]:
            if not isinstance(reading.at("parallelism_config"), Mapping):
                continue
            settings = Settings(reading, ("parallelism_config",), not guessed(job, reading))
            sizes = self._sizes(settings)
            if sizes is not None:
                yield from self._judge(job, sizes)
            return

    def _sizes(self, settings: Settings) -> dict[str, Fact[int]] | None:
        """The stated sizes; None where one of them is no positive number."""
        found: dict[str, Fact[int]] = {}
        for name in SIZES:
            for key in (f"parallelism_config_{name}", name):
                value = settings.value(key)
                if value is None:
                    continue
                number = integer(value)
                if number is None or number < 1:
                    return None
                found[name] = Fact(number, settings.origin(key), settings.certain)
                break
        return found

    def _judge(self, job: TrainingJob, sizes: dict[str, Fact[int]]) -> Iterator[Finding]:
        def size(name: str) -> int:
            return sizes[name].value if name in sizes else 1

        places: list[Where | tuple[Where, str]] = list(sizes.values())
        if size("cp_size") > 1 and size("sp_size") > 1:
            yield self.finding(
                f"cp_size {size('cp_size')} and sp_size {size('sp_size')} exclude each other: Accelerate stops with a "
                "ValueError",
                sizes["cp_size"],
                sizes["sp_size"],
                help="set one of them to 1",
                job=job,
            )
            return
        if size("sp_size") > 1:
            return
        product = 1
        for name in SIZES:
            product *= size(name)
        world = job.hardware.world_size
        if product == 1 or world is None or product == world:
            return
        words = " × ".join(f"{name.removesuffix('_size')} {fact.value}" for name, fact in sizes.items())
        yield self.finding(
            f"{words} = {product}, {world} processes are started: Accelerate stops with a ValueError",
            *places,
            (job.hardware.count_origin, f"{world} processes"),
            help=f"the product must be {world}",
            job=job,
        )
