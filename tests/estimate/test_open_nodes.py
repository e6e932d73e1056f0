"""A number of nodes that a launch leaves open: shown on one, judged on any."""

from cfglint.estimate.undecided import estimate_undecided
from cfglint.jobs.job import TrainingJob
from cfglint.testing import lint_files

TRAIN = (
    "--nproc_per_node 8 train.py --model_name_or_path meta-llama/Llama-3.1-70B --per_device_train_batch_size 1 --learning_rate 1e-5 "
    "--output_dir o --bf16 True --gradient_checkpointing True --fsdp full_shard --max_seq_length 4096\n"
)


def job_of(nodes: str) -> tuple[TrainingJob, list[str]]:
    result = lint_files({"run.sh": f"torchrun --nnodes {nodes} {TRAIN}"}, gpu="H100-80GB")
    (job,) = result.context.jobs.training
    return job, [f.code for f in result.findings if f.severity == "error"]


def test_no_verdict_where_more_nodes_would_fit() -> None:
    job, errors = job_of("$NNODES")
    estimate = estimate_undecided(job)
    assert (estimate.memory.verdict, errors) == ("unknown", [])
    assert estimate.memory.used is not None
    one, found = job_of("1")
    plain = estimate_undecided(one)
    assert (plain.memory.verdict, found) == ("oom", ["MEM001"])
    assert plain.memory.used is not None
    assert estimate.memory.used.expected == plain.memory.used.expected, "shown on one node"
    assert estimate.memory.used.low < plain.memory.used.low
