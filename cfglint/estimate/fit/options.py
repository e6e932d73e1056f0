"""What a training job could change: knobs, each with its options from the mildest to the strongest.

Ranks order changes by what they cost in time; costs in words come from the sources named at each knob.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from cfglint.estimate.fit.settings import accumulation_follows, states_facts
from cfglint.estimate.training.plan import RL_METHODS, Plan
from cfglint.estimate.training.rollout import rollout_of
from cfglint.estimate.training.states import optimizer_kind
from cfglint.jobs.defaults import in_force
from cfglint.jobs.job import TrainingJob

LIGER_MODELS: Final = frozenset({
    "llama", "llama4", "llama4_text", "mllama", "mistral", "ministral", "mixtral", "gemma", "gemma2", "gemma3",
    "gemma3_text", "qwen2", "qwen2_vl", "qwen2_5_vl", "qwen3", "qwen3_moe", "qwen3_next", "qwen3_vl", "qwen3_vl_moe",
    "phi3", "granite", "glm4", "glm4v", "glm4v_moe", "olmo2", "olmo3", "internvl", "llava", "paligemma", "smollm3",
    "falcon_h1", "exaone4", "gpt_oss", "hunyuan_v1_dense", "hunyuan_v1_moe", "deepseek_v3", "smolvlm", "pixtral",
})  # fmt: skip
"""Model types with a fused linear loss: liger_kernel 0.8, transformers/monkey_patch.py."""

LARGEST_MICRO_BATCH: Final = 4096
"""Sequences above which no micro-batch is proposed: no accelerator holds more of any length worth training on."""
SHORTEST_SEQUENCE: Final = 512
"""Tokens below which a shorter sequence is not proposed."""
SMALLEST_RANK: Final = 8
USUAL_RANK: Final = 16
"""Rank of a LoRA proposed instead of training all weights (TRL's default)."""

SHARE_STEP: Final = 0.1
"""Steps in which a smaller share of the rollout engine is proposed."""
LEAST_CACHE: Final = 0.25
"""KV cache and graphs that a proposed share leaves at least, relative to the engine's weights on one device."""
BYTES_OF_16_BIT: Final = 2

NESTED_NF4: Final = frozenset({"axolotl", "llamafactory"})
"""Frameworks whose 4-bit switch means NF4 with double quantization."""


@dataclass(frozen=True, slots=True)
class Option:
    """One value of a knob. ``facts`` go to the estimator; ``says`` are what the files must say (``facts`` where None)."""

    words: str
    facts: Mapping[str, Any]
    says: Mapping[str, Any] | None = None
    cost: str = ""
    rank: float = 0.0
    alters: bool = False

    @property
    def said(self) -> Mapping[str, Any]:
        """What the files must say."""
        return self.facts if self.says is None else self.says


@dataclass(frozen=True, slots=True)
class Knob:
    """Options from the mildest to the strongest. Knobs of one ``group`` exclude each other."""

    group: str
    options: tuple[Option, ...]


def knobs_of(job: TrainingJob, plan: Plan) -> list[Knob]:
    """Every knob that is not already at its end."""
    made = (
        Knob("optimizer kernel", tuple(_optimizer_kernel(plan))),
        Knob("rollout engine", tuple(_rollout(job, plan))),
        Knob("trainer asleep", tuple(_trainer_sleeps(job, plan))),
        Knob("evaluation", tuple(evaluation_batches(plan))),
        Knob("attention", tuple(_attention(plan))),
        Knob("loss", tuple(_loss(plan))),
        Knob("reference", tuple(_reference(job, plan))),
        Knob("reduction", tuple(each_reduction(plan) if plan.whole_gradients else ())),
        Knob("batch", tuple(_micro_batches(job, plan))),
        Knob("sharding", tuple(_zero(plan))),
        Knob("sharding", tuple(_fsdp(plan))),
        Knob("checkpointing", tuple(checkpointing(plan))),
        Knob("offload", tuple(_offload(plan))),
        Knob("optimizer", tuple(_small_optimizers(plan))),
        Knob("rank", tuple(_ranks(plan))),
        Knob("sequence", tuple(_sequences(plan))),
        Knob("method", tuple(_quantized_base(job, plan))),
        Knob("method", tuple(_adapters(job, plan))),
    )
    return [
        Knob(knob.group, tuple(_settled(job, plan, option) for option in knob.options)) for knob in made if knob.options
    ]


def _settled(job: TrainingJob, plan: Plan, option: Option) -> Option:
    """The option with the facts that follow from it: other defaults, and what an engine does to the model."""
    further = dict(_consequences(job, plan, option.facts))
    return replace(option, facts={**option.facts, **further}, says=option.said) if further else option


def _consequences(job: TrainingJob, plan: Plan, facts: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if states_facts(job):
        # everything is stated as it is: nothing follows
        return
    framework = str(job.value("framework")).lower()
    if "zero_stage" in facts and not plan.sharding.startswith("zero") and plan.compute_dtype in ("bf16", "fp16"):
        # as cfglint.jobs.precision settles it where a DeepSpeed file is there
        yield "weight_dtype", plan.compute_dtype
        yield "master_weights", True
    if "fsdp" in facts and not plan.sharding.startswith("fsdp"):
        yield "fsdp_version", _fsdp_version(job)
    if "quantization" in facts:
        yield "method", "qlora"
        if framework in ("trl", "llamafactory", "axolotl"):
            yield "upcast_unquantized", False
    if "method" in facts and framework == "trl":
        yield "lora_dropout", TRL_DROPOUT


TRL_DROPOUT: Final = 0.05
"""``lora_dropout`` of TRL's ``ModelConfig`` (trl/trainer/model_config.py)."""


def _fsdp_version(job: TrainingJob) -> int:
    """The version that the added keys mean: Accelerate's file 1, Axolotl's keys state 2, trainers by their release."""
    if job.reading("accelerate"):
        return 1
    if job.reading("axolotl", "torchtitan"):
        return 2
    return 2 if in_force(">=5.10", job.versions.get("transformers")) else 1


def _rollout(job: TrainingJob, plan: Plan) -> Iterator[Option]:
    """The engine beside the trainer: asleep during updates, and with a smaller share while its weights still fit in."""
    rollout = rollout_of(job) if plan.objective in RL_METHODS else None
    if rollout is None:
        return
    asleep = {} if rollout.sleeps else {"rollout_sleeps": True}
    if asleep:
        cost = "the engine frees and refills the device in every step"
        yield Option("the rollout engine asleep during updates", asleep, cost=cost, rank=1)
    parameters = plan.architecture.total_parameters if plan.architecture else None
    if not parameters:
        return
    least = parameters * BYTES_OF_16_BIT * (1 + LEAST_CACHE)
    usable = min((accelerator.usable_bytes for accelerator in job.hardware.candidates), default=0)
    share = round(rollout.share - SHARE_STEP, 2)
    while share * usable > least:
        words = f"{share:g} of the device for the rollout engine"
        facts = {"rollout_gpu_memory_utilization": share, **asleep}
        words += ", asleep during updates" if asleep else ""
        yield Option(words, facts, cost="a smaller cache: fewer sequences are generated at once", rank=1.5)
        share = round(share - SHARE_STEP, 2)


def _trainer_sleeps(job: TrainingJob, plan: Plan) -> Iterator[Option]:
    """Parameters and states on the host while the engine generates (verl ``fsdp_config.param_offload``)."""
    rollout = rollout_of(job) if plan.objective in RL_METHODS else None
    if rollout is not None and rollout.sleeps and not rollout.trainer_sleeps:
        words = "the trainer's parameters and states on the host while the engine generates"
        yield Option(words, {"trainer_sleeps": True}, cost="they travel over PCIe in every step", rank=1.2)


PRECOMPUTES: Final = frozenset({"trl", "axolotl"})
"""Frameworks with ``precompute_ref_log_probs``; what TRL's trainer scores before training it does not hold afterwards."""


def _reference(job: TrainingJob, plan: Plan) -> Iterator[Option]:
    """The reference's scores made before training, so that no second model stands beside the trained one."""
    synced = any((r.context.get("trainer_settings") or {}).get("sync_ref_model") for r in job.readings)
    scored = plan.reference == "model" and plan.objective not in RL_METHODS
    if scored and plan.profile.name in PRECOMPUTES and not synced:
        words = "the reference's log-probabilities computed before training"
        yield Option(words, {"reference": "precomputed"}, cost="one pass over the data first", rank=0.3)


def _optimizer_kernel(plan: Plan) -> Iterator[Option]:
    """``foreach`` makes temporaries as large as the parameters in ``step()`` (torch/optim/adamw.py)."""
    if plan.offload_optimizer == "none" and plan.optimizer in ("adamw_torch", "adamw", "adamw_hf", "adam"):
        kind, _ = optimizer_kind(plan)
        if kind.workspace == "foreach":
            facts = {"optimizer": "adamw_torch_fused"}
            yield Option("the fused AdamW kernel", facts, cost="not slower", rank=0)


def _attention(plan: Plan) -> Iterator[Option]:
    capped = plan.architecture is not None and plan.architecture.config.get("attn_logit_softcapping")
    if plan.attention == "eager" and not capped:
        yield Option("SDPA attention", {"attention": "sdpa"}, cost="faster", rank=0.1)


LIGER_BLOCKS: Final = ("norm", "rotary", "mlp")
"""What ``use_liger_kernel`` computes in the blocks (transformers ``integrations/liger.py``)."""


def _loss(plan: Plan) -> Iterator[Option]:
    model_type = plan.architecture.model_type if plan.architecture else ""
    if (
        plan.loss_kernel in ("torch", "triton")
        and plan.objective == "sft"
        and model_type in LIGER_MODELS
        and plan.tensor_parallel == 1
    ):
        says = {"loss_kernel": "fused_linear"}
        # Trainer's switch turns on the kernels of the blocks too; Axolotl has a key for each
        blocks = (
            {"block_kernels": [*LIGER_BLOCKS]} if plan.profile.name in ("transformers", "trl", "llamafactory") else {}
        )
        words = "a fused linear cross-entropy (Liger)"
        yield Option(words, {**says, **blocks}, says, cost="not slower; needs liger-kernel", rank=0.2)


def each_reduction(plan: Plan) -> Iterator[Option]:
    """``sync_each_batch`` (accelerate ``GradientAccumulationPlugin``): gradients stay sharded between micro-steps."""
    if plan.profile.defers_reduction and not plan.adapter:
        facts = {"reduces_each_micro_step": True}
        yield Option("gradients reduced in every micro-step", facts, cost="they travel in every micro-step", rank=1.8)


def rank_sequences(job: TrainingJob, plan: Plan) -> int:
    """Sequences of one data-parallel rank in an optimizer step."""
    micro = plan.micro_batch or 1
    if accumulation_follows(job):
        stated = job.value("global_batch_size")
        if isinstance(stated, int) and stated >= micro * plan.data_parallel and stated % plan.data_parallel == 0:
            return stated // plan.data_parallel
    return micro * plan.accumulation


def _micro_batches(job: TrainingJob, plan: Plan) -> Iterator[Option]:
    """Smaller micro-batches that keep the effective batch exactly."""
    if plan.micro_batch is None:
        return
    total = rank_sequences(job, plan)
    for size in range(min(plan.micro_batch - 1, LARGEST_MICRO_BATCH), 0, -1):
        if total % size == 0:
            steps = total // size
            yield Option(
                f"micro-batch {size} with {steps} accumulation steps",
                {"micro_batch_size": size, "gradient_accumulation_steps": steps},
                cost="same effective batch in smaller passes",
                rank=2,
            )


def evaluation_batches(plan: Plan) -> Iterator[Option]:
    """Smaller batches of evaluation: the loss is the mean over the same samples."""
    size = plan.evaluation_batch or 1
    while size > 1:
        size //= 2
        facts = {"eval_micro_batch_size": size}
        yield Option(f"evaluation in batches of {size}", facts, cost="more passes in evaluation", rank=0.05)


def can_shard(plan: Plan) -> bool:
    """Plain data parallelism: nothing else divides the model yet."""
    return (
        plan.pipeline_parallel == plan.tensor_parallel == plan.expert_parallel == 1
        and plan.profile.name != "megatron"
        and plan.context_parallel == 1
    )


def gains_masters(plan: Plan) -> bool:
    """DeepSpeed adds fp32 masters to a run that would train 16-bit weights alone (runtime/bf16_optimizer.py)."""
    return not plan.adapter and not plan.master_weights and plan.weight_dtype in ("bf16", "fp16")


def _zero(plan: Plan, assume_ranks: bool = False) -> Iterator[Option]:
    """ZeRO (arXiv 1910.02054, section 7): stages 1 and 2 communicate as data parallelism, stage 3 half as much again."""
    if not can_shard(plan) or plan.sharding.startswith("fsdp") or not (plan.world > 1 or assume_ranks):
        return
    current = int(plan.sharding[-1]) if plan.sharding.startswith("zero") else 0
    alters = current == 0 and gains_masters(plan)
    masters = "; adds fp32 master weights" if alters else ""
    costs = {
        1: "not slower",
        2: "gradients are reduced in every micro-step" if plan.accumulation > 1 else "not slower",
        3: "half as much communication again",
    }
    for stage in (1, 2, 3):
        if stage > current and not (stage == 3 and plan.quantization):
            yield Option(
                f"ZeRO stage {stage}", {"zero_stage": stage}, cost=costs[stage] + masters, rank=stage, alters=alters
            )


def _fsdp(plan: Plan, assume_ranks: bool = False) -> Iterator[Option]:
    if not can_shard(plan) or plan.sharding.startswith("zero") or plan.quantization:
        return
    facts = {"fsdp": "full_shard"}
    if plan.sharding.startswith("fsdp") and not plan.reshard:
        yield Option("FSDP full sharding", facts, cost="parameters are gathered again in backward", rank=2.9)
    elif plan.sharding in ("none", "ddp") and (plan.world > 1 or assume_ranks):
        # accelerate keeps what is trained in fp32 under FSDP with mixed precision (utils/fsdp_utils.py)
        upcast = plan.upcasts_trainable and plan.compute_dtype is not None and gains_masters(plan)
        cost = "half as much communication again" + ("; keeps parameters in fp32" if upcast else "")
        yield Option("FSDP full sharding", facts, cost=cost, rank=3.1, alters=upcast)


def full_sharding(job: TrainingJob, plan: Plan) -> tuple[Option, ...]:
    """The strongest sharding by each engine, for more GPUs than the job states."""
    zero = [option for option in _zero(plan, assume_ranks=True) if option.facts.get("zero_stage") == 3]
    return tuple(_settled(job, plan, option) for option in (*zero, *_fsdp(plan, assume_ranks=True)))


def checkpointing(plan: Plan) -> Iterator[Option]:
    """One more forward pass of what is dropped (arXiv 1604.06174): a third of the FLOPs at most."""
    if plan.checkpointing != "full":
        facts = {"gradient_checkpointing": "full"}
        yield Option("gradient checkpointing", facts, cost="20–30 % more compute", rank=4)


def _offload(plan: Plan) -> Iterator[Option]:
    """ZeRO-Offload (arXiv 2101.06840) and FSDP's CPU offload: states and step on the host."""
    if not can_shard(plan) or plan.optimizer.startswith("paged"):
        return
    slower = "slow optimizer steps on the CPU"
    if plan.sharding.startswith("fsdp"):
        if plan.offload_parameters == "none":
            facts = {"offload_parameters": "cpu", "offload_optimizer": "cpu"}
            cost = f"{slower}; parameters travel over PCIe"
            yield Option("FSDP offload to the CPU", facts, {"fsdp_offload": "cpu"}, cost, rank=7)
        return
    current = int(plan.sharding[-1]) if plan.sharding.startswith("zero") else 0
    alters = current == 0 and gains_masters(plan)
    if plan.offload_optimizer == "none":
        stage = {"zero_stage": 2} if current == 0 else {}
        words = "the optimizer offloaded to the CPU" + (" (ZeRO stage 2)" if stage else "")
        yield Option(words, {**stage, "offload_optimizer": "cpu"}, cost=slower, rank=6, alters=alters)
    if plan.offload_parameters == "none" and not plan.quantization:
        stage = {"zero_stage": 3} if current < 3 else {}
        rest = {"offload_optimizer": "cpu"} if plan.offload_optimizer == "none" else {}
        yield Option(
            "parameters and optimizer offloaded to the CPU" + (" (ZeRO stage 3)" if stage else ""),
            {**stage, **rest, "offload_parameters": "cpu"},
            cost=f"{slower}; parameters travel over PCIe",
            rank=7,
            alters=alters,
        )


def _small_optimizers(plan: Plan) -> Iterator[Option]:
    """Block-wise 8-bit states (arXiv 2110.02861); bitsandbytes does not go with flat FSDP parameters."""
    adam = plan.optimizer in ("adamw_torch", "adamw_torch_fused", "adamw", "adamw_hf", "adam")
    if not adam or plan.sharding.startswith("fsdp") or plan.offload_optimizer != "none":
        return
    eight = {"optimizer": "adamw_8bit"}
    yield Option("an 8-bit optimizer", eight, cost="not slower; needs bitsandbytes", rank=1, alters=True)
    paged = {"optimizer": "paged_adamw_8bit"}
    cost = "needs bitsandbytes; states move to the host under pressure"
    yield Option("a paged 8-bit optimizer", paged, cost=cost, rank=1.5, alters=True)


def _ranks(plan: Plan) -> Iterator[Option]:
    rank = plan.lora_rank // 2
    while plan.adapter and rank >= SMALLEST_RANK:
        yield Option(f"LoRA rank {rank}", {"lora_rank": rank}, cost="fewer parameters learn", rank=2, alters=True)
        rank //= 2


def _sequences(plan: Plan) -> Iterator[Option]:
    if plan.sequence is None or plan.objective in RL_METHODS:
        return
    length = plan.sequence // 2
    what = "samples are packed shorter" if plan.packs else "longer samples are cut"
    while length >= SHORTEST_SEQUENCE:
        yield Option(f"sequence length {length:,}", {"sequence_length": length}, cost=what, rank=3, alters=True)
        length //= 2


def _quantized_base(job: TrainingJob, plan: Plan) -> Iterator[Option]:
    """QLoRA (arXiv 2305.14314): weights are dequantized in every pass."""
    if plan.adapter and plan.quantization is None and plan.sharding in ("none", "ddp", "zero1", "zero2"):
        nested = str(job.value("framework")).lower() in NESTED_NF4
        facts = {"quantization": "nf4-double" if nested else "nf4"}
        cost = "the base in 4 bits (QLoRA); slower: weights are dequantized in every pass"
        yield Option("a 4-bit base (QLoRA)", facts, {"quantization": "nf4"}, cost, rank=5, alters=True)


def _adapters(job: TrainingJob, plan: Plan) -> Iterator[Option]:
    if plan.adapter or plan.pretrains or plan.objective != "sft" or not can_shard(plan):
        return
    facts: dict[str, Any] = {"method": "lora", "lora_rank": USUAL_RANK, "lora_targets": ["all-linear"]}
    if str(job.value("framework")).lower() == "llamafactory" and plan.compute_dtype:
        # adapter.py: frozen weights are kept in the compute dtype
        facts["weight_dtype"] = plan.compute_dtype
    cost = "trains adapters instead of all weights"
    yield Option(f"LoRA of rank {USUAL_RANK}", facts, {"method": "lora"}, cost, rank=8, alters=True)
    if plan.sharding in ("none", "ddp", "zero1", "zero2"):
        nested = str(job.value("framework")).lower() in NESTED_NF4
        four = {**facts, "quantization": "nf4-double" if nested else "nf4"}
        says = {"method": "lora", "quantization": "nf4"}
        cost = f"{cost}, over a 4-bit base"
        yield Option(f"QLoRA of rank {USUAL_RANK}", four, says, cost, rank=9, alters=True)
