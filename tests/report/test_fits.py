"""The page and the tables of what would fit, rendered from fixed findings."""

from __future__ import annotations

import json

from cfglint.catalog.accelerators import Accelerator
from cfglint.estimate.fit.result import Change, Fit, KeptBatch, Largest, OnAccelerator, Setting
from cfglint.estimate.result import GIB, Estimate, Interval, MemoryEstimate, ServingEstimate
from cfglint.jobs.facts import FlagOrigin
from cfglint.jobs.job import Hardware, ServingJob, TrainingJob
from cfglint.report.fits import JobFit, as_json, as_markdown, as_text

CARD = Accelerator("H0-80GB", "NVIDIA", "none", None, 80.0, 79.0, True, None)
HARDWARE = Hardware((CARD,), "H0-80GB", 8, 1, FlagOrigin("--gpu"), FlagOrigin("--gpus"))


def made(verdict: str, low: float, expected: float, high: float, host: float = 0.0) -> Estimate:
    used = Interval(low * GIB, expected * GIB, high * GIB)
    return Estimate(MemoryEstimate(verdict, used=used, host=Interval.exactly(host * GIB)))


def setting(key: str, value: object, path: str = "sft.yaml") -> Setting:
    return Setting("trl", key, value, path)


BATCH = (setting("per_device_train_batch_size", 2), setting("gradient_accumulation_steps", 6))
RECOMPUTE = (setting("gradient_checkpointing", True),)
ZERO = (setting("deepspeed", "ds_zero2.json"), Setting("deepspeed", "zero_optimization.stage", 2))


def training() -> JobFit:
    job = TrainingJob("sft.yaml")
    job.hardware = HARDWARE
    batch = Change(
        "micro-batch 2 with 6 accumulation steps", {"micro_batch_size": 2, "gradient_accumulation_steps": 6}, BATCH,
        made("fits", 55.0, 61.25, 70.0), cost="same effective batch in smaller passes", rank=2,
    )  # fmt: skip
    shorter = Change(
        "sequence length 2,048", {"sequence_length": 2048}, (setting("max_length", 2048),), made("tight", 60.0, 70.0, 81.0),
        changes_training_result=True, cost="longer samples are cut", rank=3,
    )  # fmt: skip
    offload = Change(
        "the optimizer offloaded to the CPU (ZeRO stage 2)", {"offload_optimizer": "cpu"}, ZERO,
        made("oom", 80.0, 85.0, 99.0, host=13.1), cost="slow optimizer steps on the CPU", rank=6,
    )  # fmt: skip
    fit = Fit(
        made("oom", 91.2, 94.1, 97.0),
        micro_batch=Largest(5, 7),
        sequence_length=Largest(2048, 8256),
        model_limit=8192,
        kept_batch=KeptBatch(4, 3, 12, 15, BATCH),
        changes=[batch, shorter, offload],
        accelerators=[
            OnAccelerator("H0-80GB", CARD.usable_bytes, 8, 2, made("fits", 50.0, 60.0, 70.0), None, True),
            OnAccelerator("B0", 180 * GIB, 4, 1, made("fits", 90.0, 100.0, 110.0), batch),
        ],
        too_small=["T4", "L4"],
    )
    return JobFit(job, fit)


PAGE = """\
sft.yaml  training, no file
  model      not stated
  hardware   8 × H0-80GB (79.00 GiB usable)  (--gpu · --gpus)
  now        94.1 GiB per GPU (91.2–97.0): does not fit
  largest    micro-batch 5 (7 as expected)
             sequence length 2,048 (8,256 as expected); the model was made for 8,192
  batch      4 × 3 accumulation steps = 12 sequences per GPU and step, as now; 5 does not divide them: 3 steps would make 15

  any of these fits
       61.2 GiB (55.0–70.0)     per_device_train_batch_size: 2 (sft.yaml), gradient_accumulation_steps: 6 (sft.yaml)
                                same effective batch in smaller passes
       70.0 GiB (60.0–81.0)     max_length: 2048 (sft.yaml)
                                longer samples are cut; changes the training result; tight: not with the high end of the
                                estimate

  fewest GPUs    GiB per GPU: expected, at most, usable
    H0-80GB  8 × 2 nodes   60.0   70.0 of  79.0  (stated)
    B0       4            100.0  110.0 of 180.0  with micro-batch 2 with 6 accumulation steps
    too small: T4, L4
"""


def test_the_page_of_a_training_job() -> None:
    page = as_text([training()])
    assert page == PAGE.replace(" (sft.yaml)", "")


def test_what_does_not_suffice_is_shown_where_nothing_does() -> None:
    item = training()
    item.fit.changes = item.fit.changes[2:]
    page = as_text([item])
    assert "  not enough, alone or together\n       85.0 GiB (80.0–99.0)     deepspeed: ds_zero2.json" in page
    assert "deepspeed: ds_zero2.json (zero_optimization.stage: 2)\n" in page
    assert "slow optimizer steps on the CPU; 13.1 GiB of host memory on each node" in page
    item.fit.stacked = [Change("a + b", {}, (*BATCH, *RECOMPUTE), made("fits", 40, 50, 60), cost="slower")]
    page = as_text([item])
    assert "  these fit together\n       50.0 GiB (40.0–60.0)     per_device_train_batch_size: 2, " in page
    assert "  not enough alone\n" in page


def test_nothing_from_outside_steers_the_terminal() -> None:
    item = training()
    item.job.name = "a\x1b[31m.yaml"
    assert "\x1b" not in as_text([item])
    assert "\x1b[1m" in as_text([item], colour=True)


def test_the_page_of_a_server() -> None:
    job = ServingJob("serve.sh")
    job.hardware = HARDWARE
    base = made("kv-too-small", 70.0, 71.0, 72.0)
    base.serving = ServingEstimate("vllm", kv_tokens=Interval(30000, 34336, 35000), max_concurrency=0.26)
    longer = made("fits", 70.0, 71.0, 72.0)
    longer.serving = ServingEstimate("vllm", kv_tokens=Interval(30000, 34336, 35000), max_concurrency=1.1)
    change = Change(
        "the longest that fits", {"max_model_len": 30000}, (Setting("vllm", "--max-model-len", 30000, "serve.sh"),), longer,
        cost="longer requests are refused", freed=GIB,
    )  # fmt: skip
    ranks = Change("the smallest that fits: 2 GPUs", {"tensor_parallel_size": 2}, (), longer)
    fit = Fit(
        base,
        max_model_len=Largest(29952, 34304),
        tensor_parallel=ranks,
        changes=[change],
        accelerators=[OnAccelerator("H0-80GB", CARD.usable_bytes, 2, 1, longer, ranks, True)],
    )
    assert as_text([JobFit(job, fit)]) == (
        "serve.sh  serving, no file\n"
        "  model      not stated\n"
        "  hardware   8 × H0-80GB (79.00 GiB usable)  (--gpu · --gpus)\n"
        "  now        71.0 GiB per GPU (70.0–72.0): holds no request of max_model_len\n"
        "  KV cache   34,336 tokens (30,000–35,000), 0.3 requests of full length at once\n"
        "  largest    max_model_len 29,952 (34,304 as expected)\n"
        "  smallest   tensor parallel size 2 (now 1)\n"
        "\n"
        "  any of these fits\n"
        "         34,336 tokens --max-model-len 30000\n"
        "                       the longest that fits; longer requests are refused\n"
        "\n"
        "  fewest GPUs    KV tokens, requests of full length\n"
        "    H0-80GB  2                34,336     1.1  with the smallest that fits: 2 GPUs  (stated)\n"
    )


def test_json() -> None:
    (job,) = json.loads(as_json([training()]))["jobs"]
    assert job["used_gib"] == {"low": 91.2, "expected": 94.1, "high": 97.0} and job["capacity_gib"] == 79.0
    assert (job["largest_micro_batch_size"], job["largest_micro_batch_size_expected"]) == (5, 7)
    assert job["kept_batch"]["largest_would_make"] == 15
    assert [c["verdict"] for c in job["changes"]] == ["fits", "tight", "oom"]
    assert job["changes"][0]["settings"][0] == {
        "dialect": "trl", "key": "per_device_train_batch_size", "value": 2, "path": "sft.yaml",
    }  # fmt: skip
    assert job["changes"][2]["host_gib"]["expected"] == 13.1
    assert job["accelerators"][0] == {
        "gpu": "H0-80GB", "usable_gib": 79.0, "gpus_per_node": 8, "nodes": 2, "verdict": "fits", "stated": True,
        "sequences": None, "lacks": None, "with": None, "used_gib": {"low": 50.0, "expected": 60.0, "high": 70.0},
    }  # fmt: skip
    assert job["too_small"] == ["T4", "L4"]


def test_markdown() -> None:
    page = as_markdown([training()])
    assert page.startswith("### `sft.yaml`\n\n94.1 GiB (91.2–97.0) per GPU, does not fit\n\n- largest")
    assert (
        "| per_device_train_batch_size: 2, gradient_accumulation_steps: 6 | 61.2 | same | "
        "same effective batch in smaller passes |\n"
        "| max_length: 2048 | 70.0 | differs | longer samples are cut |\n"
    ) in page
    assert "| B0 | 4 | 100.0 | 180.0 | micro-batch 2 with 6 accumulation steps |\n" in page
