"""Memory under tensor, pipeline and expert parallelism: what each rank holds beside its share of the weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cfglint.estimate.result import MemoryEstimate
from cfglint.estimate.training import estimate_training
from cfglint.estimate.training.activations import activations_of
from cfglint.estimate.training.estimator import fullest_stage
from cfglint.estimate.training.parameters import count_parameters
from cfglint.estimate.training.resolve import resolve
from tests.estimate.test_training import MISTRAL_7B, complete

MEGATRON: dict[str, Any] = {
    "framework": "megatron", "master_weights": True, "zero_stage": 1, "gpus": 8, "micro_batch_size": 4,
    "sequence_length": 4096, "gradient_checkpointing": "none", "attention": "flash2",
}  # fmt: skip


def memory(**facts: Any) -> MemoryEstimate:
    return estimate_training(complete(**facts)).memory


def test_megatron_gradient_buffers_are_there_in_forward_without_accumulation() -> None:
    """``main_grad`` buffers are made with the model (Megatron ``param_and_grad_buffer.py``)."""
    one, two = memory(**MEGATRON), memory(**MEGATRON, gradient_accumulation_steps=2)
    assert one.phases == two.phases
    gradients = next(c.bytes for c in one.components if c.name == "gradients")
    assert gradients == pytest.approx(7.2417e9 * 4, rel=0.001)


MIXTRAL: dict[str, Any] = {
    "model_type": "mixtral", "hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 1000, "num_local_experts": 8,
    "num_experts_per_tok": 2, "tie_word_embeddings": False,
}  # fmt: skip


@pytest.mark.parametrize(("splits", "copies"), [(1, 2), (2, 1)])
def test_ranks_that_hold_the_same_experts_share_their_states(splits: int, copies: int) -> None:
    """Of 16 ranks with tensor 2 and expert 4: two times two hold the same whole experts, or two the same halves of them."""
    facts = {**MEGATRON, "config": MIXTRAL, "gpus": 16, "tensor_parallel_size": 2, "expert_parallel_size": 4}
    found = {c.name: c.bytes for c in memory(**facts, expert_tensor_parallel_size=splits).components}
    experts, rest = 4 * 8 * 3 * 1024 * 2048, 4 * 4 * 1024 * 1024 + 2 * 1000 * 1024
    assert found["master weights"] == pytest.approx(4 * (experts + rest) / 16, rel=0.02)
    assert found["weights"] == pytest.approx(2 * (experts / 8 * copies + rest / 2), rel=0.01)


@pytest.mark.parametrize("framework", ["megatron", "torchtitan"])
def test_sequence_parallelism_divides_the_whole_residual_stream(framework: str) -> None:
    facts = {
        **MEGATRON,
        "framework": framework,
        "tensor_parallel_size": 8,
        "micro_batch_size": 1,
        "compute_dtype": "bf16",
    }
    plan = resolve(complete(**facts))
    assert plan.architecture is not None
    run = activations_of(plan, plan.architecture, (0, 32), last=True).runs[0]
    whole = activations_of(replace(plan, sequence_parallel=False), plan.architecture, (0, 32), last=True).runs[0]
    # the stream before each norm and each norm's output: four of hidden size
    assert whole.kept - run.kept == 4 * 2 * 4096 * 4096 * 7 / 8
    assert run.footprint.output * 8 == whole.footprint.output == 2 * 4096 * 4096


def test_a_loss_parallel_cross_entropy_makes_one_fp32_copy_more_each_way() -> None:
    """14 and 16 bytes of a logit at the peaks of forward and backward, where torch's own kernels take 10 and 12."""
    facts = {
        **MEGATRON,
        "framework": "torchtitan",
        "tensor_parallel_size": 8,
        "compute_dtype": "bf16",
        "micro_batch_size": 2,
    }
    plan = resolve(complete(**facts))
    assert plan.architecture is not None
    plain = replace(plan, profile=replace(plan.profile, parallel_loss=False))
    distributed, whole = (activations_of(p, plan.architecture, (0, 32), last=True).head for p in (plan, plain))
    assert distributed is not None and whole is not None
    logit = 2 * 4096 * 32000 // 8
    assert distributed.forward_saving - whole.forward_saving == pytest.approx(4 * logit)
    assert distributed.backward - whole.backward == pytest.approx(4 * logit)
    assert distributed.saved == whole.saved


def test_a_pipeline_stage_under_fsdp2_stays_gathered_and_keeps_whole_gradients() -> None:
    """``torch/distributed/pipelining/stage.py`` reduces and reshards after the last micro-batch only."""
    facts = {**MEGATRON, "framework": "torchtitan", "zero_stage": None, "fsdp": "full_shard", "fsdp_version": 2}
    facts |= {
        "weight_dtype": "fp32",
        "compute_dtype": "bf16",
        "pipeline_parallel_size": 2,
        "gradient_accumulation_steps": 8,
    }
    facts |= {"micro_batch_size": 1, "gradient_checkpointing": "full"}
    found = {c.name: c.bytes for c in memory(**facts).components}
    stage = 32 / 2 * 218.11e6 + 32000 * 4096
    assert found["gradients"] == pytest.approx(4 * stage, rel=0.001)
    assert found["gathered parameters"] == pytest.approx(2 * stage, rel=0.001)
    assert found["weights"] == pytest.approx(4 * stage / 4, rel=0.001)


def test_streams_of_fsdp2_do_not_share_what_they_reserve() -> None:
    """Reserved: the compute stream's peak, all gradient shards, and the flat buffers of the head and of one block."""
    facts = {**MEGATRON, "framework": "torchtitan", "zero_stage": None, "fsdp": "full_shard", "fsdp_version": 2}
    facts |= {"weight_dtype": "fp32", "compute_dtype": "bf16", "gradient_checkpointing": "full", "micro_batch_size": 1}
    stage = fullest_stage(resolve(complete(**facts, config={**MISTRAL_7B, "vocab_size": 128256})))
    assert stage is not None
    head, block = 128256 * 4096, 218.11e6
    parameters, logits = 32 * block + 2 * head, 4096 * 128256
    # weights and Adam; 32 block inputs, the head's and its norm's; the head's backward with 12 bytes a logit, beside the
    # gathered head
    compute = 12 * parameters / 8 + 2 * 4096 * 4096 * 34 + 12 * logits + 2 * head
    assert stage.pools == pytest.approx(compute + 4 * parameters / 8 + 2 * (head + block), rel=0.01)
    assert stage.peak.total < stage.pools


def test_an_embedding_that_is_a_unit_of_its_own_is_gathered_alone() -> None:
    """torchtitan ``distributed/fsdp.py``; elsewhere one unit around the blocks holds both tables until backward ends."""
    facts = {**MEGATRON, "framework": "torchtitan", "zero_stage": None, "fsdp": "full_shard", "fsdp_version": 2}
    facts |= {"weight_dtype": "fp32", "compute_dtype": "bf16", "micro_batch_size": 1, "sequence_length": 64}
    plan = resolve(complete(**facts))
    around = replace(plan, wraps_ends=False)
    apart, whole = fullest_stage(plan), fullest_stage(around)
    assert apart is not None and whole is not None
    table = 32000 * 4096 * 2
    # neither table is there while blocks run forward
    assert whole.peak.phases["forward"] - apart.peak.phases["forward"] == pytest.approx(2 * table, rel=0.001)


def test_megatron_dtypes_of_gradients_moments_and_masters() -> None:
    """bf16 buffers, bf16 moments, and 16 bits beside a bf16 weight where the optimizer is precision-aware."""
    parameters = 7.2417e9
    plain = {c.name: c.bytes for c in memory(**MEGATRON).components}
    found = memory(**MEGATRON, gradient_dtype="bf16", optimizer_state_dtype="bf16", precision_aware_optimizer=True)
    narrow = {c.name: c.bytes for c in found.components}
    for name, wide, small in (
        ("gradients", 4, 2),
        ("master weights", 4 / 8, 2 / 8),
        ("optimizer states", 8 / 8, 4 / 8),
    ):
        assert plain[name] == pytest.approx(wide * parameters, rel=0.001), name
        assert narrow[name] == pytest.approx(small * parameters, rel=0.001), name


def test_megatron_leaves_fp32_copies_on_the_device_unless_the_optimizer_is_precision_aware() -> None:
    """``HybridDeviceOptimizer`` copies the shards it is handed: fp32 ones, which stay, or the 16-bit weights."""
    facts = {**MEGATRON, "offload_optimizer": "cpu"}
    stays = {c.name: c.bytes for c in memory(**facts, precision_aware_optimizer=False).components}
    goes = {c.name: c.bytes for c in memory(**facts, precision_aware_optimizer=True).components}
    assert stays["master weights"] == pytest.approx(7.2417e9 * 4 / 8, rel=0.001)
    assert "master weights" not in goes and "optimizer states" not in stays


def kept_by_layer(**facts: Any) -> list[tuple[int, float]]:
    plan = resolve(complete(**{**MEGATRON, "micro_batch_size": 1, **facts}))
    assert plan.architecture is not None
    layers = (0, len(plan.architecture.layers))
    return [(run.count, run.kept) for run in activations_of(plan, plan.architecture, layers, last=True).runs]


@pytest.mark.parametrize(
    ("modules", "elements"),
    [
        (["core_attn"], 0),
        (["layernorm"], 2 * 1024),
        # gate, up and their product, 2 experts a token, in their one width; then the scattered tokens, what comes back of
        # them and the router's probabilities too
        (["moe_act"], 2 * 2048),
        (["moe"], None),
    ],
)
def test_selective_recomputation_of_modules(modules: list[str], elements: int | None) -> None:
    """Megatron's ``recompute_modules``: what a token's layer no longer keeps."""
    facts = {"config": MIXTRAL, "gradient_checkpointing": "selective"}
    ((_, all_kept),) = kept_by_layer(**facts)
    ((_, kept),) = kept_by_layer(**facts, recompute_modules=modules)
    if elements is not None:
        assert all_kept - kept == 4096 * 2 * elements
        return
    # of the feed-forward its norm's input and output are left, before it four widths of attention and the norm's two
    assert kept == pytest.approx(4096 * 2 * (2 + 2 + 4) * 1024, rel=0.01)


def test_the_block_method_recomputes_some_layers_of_a_stage() -> None:
    whole = kept_by_layer(gradient_checkpointing="full")
    none = kept_by_layer(gradient_checkpointing="none")
    some = kept_by_layer(gradient_checkpointing="full", recompute_layers=10)
    assert some == [(10, whole[0][1]), (22, none[0][1])]


def test_one_weight_of_each_shape_stands_in_for_gradients_that_products_accumulate() -> None:
    """TransformerEngine's ``get_dummy_wgrad``; a block's backward makes no weight gradient of its own then."""
    layer = 4096 * (2 * 4096 + 2 * 1024 + 3 * 14336)
    found = memory(**MEGATRON)
    placeholders = next(c.bytes for c in found.components if c.name == "gradient placeholders")
    assert placeholders == 2 * layer
    plan = resolve(complete(**MEGATRON))
    assert plan.architecture is not None
    run = activations_of(plan, plan.architecture, (0, 32), last=True).runs[0]
    assert run.footprint.gradients == 0 and run.footprint.backward == run.footprint.backward_accumulating
    # of eight experts, one; on four ranks of two experts the shapes are the same, on two that split them half as large
    experts = {**MEGATRON, "config": MIXTRAL, "gpus": 8}
    attention, expert = 4 * 1024 * 1024, 3 * 1024 * 2048
    for facts, elements in (
        ({"expert_parallel_size": 4}, attention + expert),
        ({"tensor_parallel_size": 2}, (attention + expert) / 2),
    ):
        components = memory(**{**experts, **facts}).components
        assert next(c.bytes for c in components if c.name == "gradient placeholders") == 2 * elements
    assert not any(c.name == "gradient placeholders" for c in memory(**{**MEGATRON, "method": "lora"}).components)


def test_tensor_parallel_models_of_transformers_have_the_embedding_and_all_logits_on_every_rank() -> None:
    """``lm_head`` is ``colwise_gather_output`` in their ``_tp_plan``; NeMo Automodel leaves its output cut."""
    heads = {}
    for framework in ("transformers", "nemo-automodel"):
        facts = {
            **MEGATRON,
            "framework": framework,
            "zero_stage": None,
            "compute_dtype": "none",
            "weight_dtype": "bf16",
        }
        plan = resolve(complete(**facts, tensor_parallel_size=8))
        assert plan.architecture is not None
        heads[framework] = activations_of(plan, plan.architecture, (0, 32), last=True).head
        parameters = count_parameters(plan.architecture, plan, (0, 32), True, True)
        assert parameters.embedding == 32000 * 4096 / (1 if framework == "transformers" else 8)
        assert parameters.head == 32000 * 4096 / 8
    whole, cut = heads["transformers"], heads["nemo-automodel"]
    assert whole is not None and cut is not None
    logits = 4 * 4096 * 32000
    # fp32 log-probabilities are kept for backward, of which an eighth is cut's; Automodel names its 16-bit logits too
    assert whole.saved - cut.saved == pytest.approx(logits * 7 / 8 * 4 - logits / 8 * 2, rel=0.001)
    assert whole.gradients == cut.gradients


def test_experts_have_groups_that_divide_the_gpus() -> None:
    """Sixteen ranks of experts on eight GPUs were estimated as if they were there."""
    from cfglint.testing import lint_files

    text = "cfglint: 1\nkind: train\nmodel: Qwen/Qwen3-30B-A3B\nframework: megatron\nmicro_batch_size: 1\nsequence_length: 2048\n"
    for expert, tensor, fits in ((8, 1, True), (4, 2, True), (8, 2, False), (1, 16, False)):
        sizes = f"expert_parallel_size: {expert}\nexpert_tensor_parallel_size: {tensor}\n"
        result = lint_files({"job.yaml": text + sizes}, gpu="H100-SXM", gpus=8)
        (job,) = result.context.jobs.training
        made = result.context.estimate(job)
        named = f"8 GPUs cannot be divided into expert tensor {tensor} × expert {expert} × pipeline 1 ranks"
        assert (named in made.problems) == (not fits)
        assert fits or made.memory.verdict == "unknown"
