"""CON010."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.jobs.facts import DerivedOrigin, Fact, FileOrigin, FlagOrigin, Reading
from cfglint.jobs.job import TrainingJob
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example

PROCESSES = frozenset({
    "nproc_per_node", "nproc-per-node", "num_processes", "num_gpus", "include", "NPROC_PER_NODE", "n_procs",
})  # fmt: skip
"""Keys that say how many processes are started; every other source of a GPU count says how many GPUs there are."""


class ProcessesAgainstGpus(Rule):
    """More or fewer processes are started on a machine than it has GPUs.

    Launchers start one process per GPU. With more processes than GPUs the surplus ones stop with "CUDA error: invalid
    device ordinal" (or "Duplicate GPU detected" from NCCL); with fewer, GPUs that are paid for stand idle. Accelerate's
    `num_processes` counts all machines together, torchrun's `nproc_per_node` one machine, and mixing these up is the usual
    cause.

    How sure: both numbers are read, from the launcher on one side and from SLURM, Kubernetes, a settings comment or `--gpus`
    on the other; values that depend on variables are left out. Fewer processes than GPUs can be meant (a GPU is kept for a
    generation server), so that is information for strict readers.
    """

    code = "CON010"
    name = "processes-against-gpus"
    family = "consistency"
    severity = "warning"
    catalogue = ("accel.num-processes-vs-hardware",)
    evidence = (
        "https://huggingface.co/docs/accelerate/package_reference/cli",
        "https://pytorch.org/docs/stable/elastic/run.html",
    )
    good = (
        example(
            "train.sbatch",
            """
            #!/bin/bash
            #SBATCH --nodes=2
            #SBATCH --gres=gpu:a100:8
            accelerate launch --num_machines 2 --num_processes 16 train.py \\
                --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 1 --learning_rate 1e-5 --num_train_epochs 1
            """,
        ),
        example(
            {
                "train.slurm": """
                #!/bin/bash
                #SBATCH --gres=gpu:4
                N=$(nvidia-smi --list-gpus | wc -l)
                accelerate launch --config_file accelerate.yaml --num_processes $N train.py --output_dir out
                """,
                "accelerate.yaml": """
                compute_environment: LOCAL_MACHINE
                distributed_type: MULTI_GPU
                mixed_precision: bf16
                num_machines: 1
                num_processes: 8
                """,
            },
            note="the command line's number wins, and is not known here",
        ),
    )
    bad = (
        example(
            "accelerate.yaml",
            """
            compute_environment: LOCAL_MACHINE
            distributed_type: MULTI_GPU
            mixed_precision: bf16
            num_machines: 2
            num_processes: 8
            """,
            gpu="A100-80GB",
            gpus=8,
            nodes=2,
            at="num_processes",
            count=1,
        ),
        example(
            "train.sbatch",
            """
            #!/bin/bash
            #SBATCH --nodes=1
            #SBATCH --gres=gpu:a100:4
            torchrun --nproc_per_node 8 train.py \\
                --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 1 --learning_rate 1e-5 --num_train_epochs 1
            """,
            count=1,
        ),
    )

    def check_training(self, job: TrainingJob, context: Context) -> Iterator[Finding]:
        if any(r.role == "launch" and _computed(r) for r in job.readings):
            return  # a script works the number out, which the file's own gives way to
        started: Fact[int] | None = None
        present: Fact[int] | None = None
        for fact in job.statements("gpus_per_node"):
            if not isinstance(fact.value, int) or isinstance(fact.value, bool) or not fact.certain:
                continue
            origin = fact.origin
            if isinstance(origin, DerivedOrigin):
                origin = next((o for o in origin.inputs if isinstance(o, FileOrigin)), origin)
            if isinstance(origin, FlagOrigin):
                present = present or Fact(fact.value, origin)
                continue
            if not isinstance(origin, FileOrigin):
                continue
            key = str(origin.route[-1]) if origin.route else ""
            if key in PROCESSES:
                started = started or Fact(fact.value, origin)
            else:
                present = present or Fact(fact.value, origin)
        if started is None or present is None or started.value == present.value:
            return
        more = started.value > present.value
        machines = job.value("nodes")
        if isinstance(machines, int) and machines > 1 and started.value * machines == present.value:
            yield self.finding(
                f"num_processes counts all {machines} machines: {started.value} of {present.value} GPUs are used on each",
                (started, f"{started.value * machines} processes in all"),
                (present, f"{present.value} GPUs per machine"),
                help=f"num_processes: {present.value * machines}",
                job=job,
            )
            return
        finding = self.finding(
            f"{started.value} process{' is' if started.value == 1 else 'es are'} started per machine, which has {present.value} "
            f"GPU{'s' if present.value != 1 else ''}",
            (started, f"{started.value} processes per machine"),
            (present, f"{present.value} GPUs"),
            help="start one process per GPU"
            if more
            else f"{present.value - started.value} GPUs stay idle unless something else uses them",
            severity="warning" if more else "info",
            confidence="high" if more else "medium",
            job=job,
        )
        if not more:
            finding.persona = "strict"
        yield finding


def _computed(launch: Reading) -> bool:
    """Whether a launcher is given a number of processes that a variable holds."""
    return any(
        launch.entry(key) is not None and not isinstance(launch.value(key), int)
        for key in ("num_processes", "nproc_per_node")
    )
