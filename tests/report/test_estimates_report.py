"""Estimates as a person, a pull request and a program see them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from cfglint.catalog.accelerators import Accelerator
from cfglint.estimate.result import (
    GIB,
    BatchEstimate,
    Component,
    ComputeEstimate,
    Estimate,
    Input,
    Interval,
    MemoryEstimate,
    ServingEstimate,
)
from cfglint.jobs.facts import CatalogueOrigin, FlagOrigin, Reading
from cfglint.jobs.job import Hardware, Job, ModelFacts, ServingJob, TrainingJob
from cfglint.report.estimates import FitsOn, JobEstimate, as_json, as_markdown, as_text
from cfglint.source.node import Mapping
from cfglint.source.text import parse_text

Golden = Callable[[str, str], None]
GPU = Accelerator("X1-80GB", "acme", "one", (9, 0), 80, 79.15, True, None)


def around(expected: float, low: float, high: float) -> Interval:
    return Interval(low * GIB, expected * GIB, high * GIB)


def known(job: Job, gpus: int | None) -> None:
    file = parse_text("conf/sft.yaml", "base_model: acme/one-8b\n")
    root = file.documents[0].root
    assert isinstance(root, Mapping)
    job.readings = [Reading("axolotl", file.documents[0], root)]
    job.state("model_id", "acme/one-8b", job.readings[0].origin("base_model"))
    job.model = ModelFacts("acme/one-8b", None, "catalogue", CatalogueOrigin("https://example.org"))
    if gpus:
        job.hardware = Hardware((GPU,), "X1-80GB", gpus, 1, FlagOrigin("--gpu"), FlagOrigin("--gpus"))


def training(verdict: str = "oom", gpus: int | None = 8) -> JobEstimate:
    job = TrainingJob("conf/sft.yaml")
    known(job, gpus)
    memory = MemoryEstimate(
        verdict,
        around(82.0, 79.5, 90.0),
        around(88.0, 81.0, 95.0),
        around(89.5, 82.0, 97.0),
        around(0, 0, 0),
        {"backward": 82.0 * GIB, "load": 15.0 * GIB, "forward": 70.0 * GIB, "step": 60.0 * GIB},
        [
            Component("weights", 15.0 * GIB, "8.03 B × 2 bytes", (Input("weight_dtype", "bf16", "conf/sft.yaml:9"),)),
            Component("optimizer", 45.0 * GIB, "8.03 B × 12 bytes / 2 ranks"),
            Component("activations", 22.0 * GIB, "2 × 4096 tokens", (Input("micro_batch_size", "2", "--set:3"),)),
        ],
        [] if gpus else ["gpu", "sequence_length"],
        int(79.15 * GIB) if gpus else None,
    )
    batch = BatchEstimate(2, 8, gpus, 2 * 8 * gpus if gpus else None, 4096, 2 * 8 * gpus * 4096 if gpus else None, 1200)
    compute = ComputeEstimate(2.5e16, {"mfu_40": 7.9, "mfu_60": 0.053})
    made = Estimate(memory, batch, compute, None, ["attention is not stated: sdpa"], 8_030_261_248, 20_971_520)
    fits = [FitsOn("T4", 1, "oom", around(89.5, 82, 97), int(14.56 * GIB)), FitsOn("H200", 1, "fits", None, 139 * GIB)]
    return JobEstimate(job, made, [] if gpus else fits)


def serving() -> JobEstimate:
    job = ServingJob("serve.sh")
    known(job, 1)
    job.state("max_model_len", 8192, FlagOrigin("--set"))
    memory = MemoryEstimate("fits", used=around(72, 71, 73), capacity=int(79.15 * GIB))
    memory.components = [Component("weights", 14.25 * GIB, "7.62 B × 2 bytes"), Component("KV cache", 55 * GIB, "rest")]
    engine = ServingEstimate("vllm", 57344.0, 14.25 * GIB, 0.5 * GIB, 0.2 * GIB, 0.8 * GIB, around(55, 54, 57))
    engine.kv_tokens, engine.max_model_len, engine.max_concurrency = Interval(1e6, 1.04e6, 1.07e6), 32768, 130.2
    return JobEstimate(job, Estimate(memory, serving=engine, parameters=7_620_000_000))


@pytest.mark.parametrize(
    ("name", "made"), [("train.txt", training()), ("unknown.txt", training("unknown", None)), ("serve.txt", serving())]
)
def test_golden_text(name: str, made: JobEstimate, golden: Golden) -> None:
    golden(f"estimate-{name}", as_text([made]))


def test_golden_ascii_and_markdown(golden: Golden) -> None:
    bar = next(line for line in as_text([training()], unicode=False).splitlines() if line.startswith("  |"))
    assert bar.isascii() and len(bar) == 64
    golden("estimate.md", as_markdown([training(), serving()]))


def test_json_is_the_contract() -> None:
    content = json.loads(as_json([training(), serving(), training("unknown", None)]))
    train, serve, unknown = content["jobs"]
    assert content["version"] == 1
    assert (train["name"], train["kind"], train["dialects"]) == ("conf/sft.yaml", "train", ["axolotl"])
    assert train["model"]["parameters"] == 8_030_261_248
    assert train["hardware"]["capacity_gib"] == 79.15 and train["hardware"]["source"] == "--gpu"
    assert train["memory"]["used_gib"] == {"low": 82.0, "expected": 89.5, "high": 97.0}
    assert set(train["memory"]["phases"]) == {"load", "forward", "backward", "step"}
    assert train["memory"]["components"][0]["inputs"][0]["origin"] == "conf/sft.yaml:9"
    assert train["batch"]["sequences"] == 128 and train["compute"]["seconds_per_step"]["mfu_40"] == 7.9
    assert train["serving"] is None
    assert serve["serving"]["kv_tokens"] == {"low": 1000000, "expected": 1040000, "high": 1070000}
    assert serve["serving"]["max_concurrency"] == 130.2
    assert unknown["memory"]["missing"] == ["gpu", "sequence_length"]
    assert [f["gpu"] for f in unknown["fits_on"]] == ["T4", "H200"]


def test_what_cannot_fit() -> None:
    assert training("oom").cannot_fit and training("kv-too-small").cannot_fit
    assert not training("likely-oom").cannot_fit


def _served(verdict: str, cache: Interval, used: Interval, engine: str = "vllm") -> str:
    item = serving()
    assert item.estimate.serving is not None
    item.estimate.memory.verdict, item.estimate.memory.used = verdict, used
    item.estimate.serving.kv_cache, item.estimate.serving.engine = cache, engine
    return as_text([item])


def test_a_server_whose_share_is_too_small_is_not_said_to_exceed_the_memory() -> None:
    text = _served("oom", around(-5.8, -6.9, -4.7), around(37, 33.6, 40.6))
    assert "memory per GPU: does not start: what the engine may take of the memory has no room for a KV cache\n" in text
    assert "even the low end" not in text
    assert "does not fit: even the low end" in _served("oom", around(-5.8, -6.9, -4.7), around(89, 88, 90))
    text = _served("likely-oom", around(2, -1, 4), around(37, 33.6, 40.6))
    assert "probably does not start: the KV cache cannot hold one request of max_model_len" in text


def test_no_cache_of_less_than_nothing() -> None:
    assert "2.00 GiB (0.0–4.0)" in _served("tight", around(2, -1, 4), around(37, 33.6, 40.6))
    assert "none: 1.00 GiB short (0.0–3.0)" in _served("likely-oom", around(-1, -3, 2), around(37, 33.6, 40.6))


def test_the_slots_of_a_context_are_counted_in_its_own_lengths() -> None:
    text = _served("fits", around(55, 54, 57), around(72, 71, 73), "llama.cpp")
    assert "has 32,768 tokens; 130.2 requests of that length at once" in text
    assert "130.2 requests of max_model_len 8,192 at once" in as_text([serving()])


def test_form_factors_of_one_card_have_the_memory_of_the_smaller() -> None:
    item = training()
    other = Accelerator("X1-PCIe-80GB", "acme", "one", (9, 0), 80, 79.25, True, None)
    item.job.hardware = Hardware((other, GPU), "X1", 8, 1, FlagOrigin("--gpu"), FlagOrigin("--gpus"))
    item.estimate.memory.capacity = None
    assert "  usable       79.15 GiB  10." in as_text([item])


def test_accelerators_that_differ_are_why_there_is_no_verdict() -> None:
    item = training("unknown")
    other = Accelerator("X1-94GB", "acme", "one", (9, 0), 94, 99.0, True, None)
    item.job.hardware = Hardware((other, GPU), "X1", 8, 1, FlagOrigin("--gpu"), FlagOrigin("--gpus"))
    item.estimate.memory.capacity = None
    text = as_text([item])
    assert "memory per GPU: no verdict, as the accelerators differ: fits on X1-94GB; oom on X1-80GB\n" in text
    assert "usable" not in text
    item.estimate.memory.missing = ["sharding"]
    assert "memory per GPU: no verdict\n" in as_text([item])


def test_what_the_rollout_engine_takes_is_no_fragmentation() -> None:
    item = training()
    assert "GiB  fragmentation, CUDA context" in as_text([item])
    item.estimate.memory.phases["generation"] = 85.0 * GIB
    assert "GiB  the rollout engine while it generates, fragmentation, CUDA context" in as_text([item])


def test_less_than_one_request_is_not_shown_as_one() -> None:
    item = serving()
    assert item.estimate.serving is not None
    for number, shown in ((0.962, "0.96"), (0.999, "0.99"), (0.04, "0.04"), (0.42, "0.4"), (1.0, "1.0")):
        item.estimate.serving.max_concurrency = number
        assert f"; {shown} requests of max_model_len" in as_text([item])


def test_tokens_that_a_window_shortens_are_of_at_most_so_many_bytes() -> None:
    item = serving()
    assert "tokens of 57,344 bytes" in as_text([item])
    assert item.estimate.serving is not None
    item.estimate.serving.kv_tokens = Interval(2e6, 2.1e6, 2.2e6)
    assert "= 2,100,000 tokens of up to 57,344 bytes" in as_text([item])
