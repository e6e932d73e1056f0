"""Jobs: the facts of one run, linked across documents. Field names are the field's standard terms (see the job file)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from cfglint.jobs.facts import DerivedOrigin, FactField, FactSet, Origin, Reading

if TYPE_CHECKING:
    from cfglint.catalog.accelerators import Accelerator
    from cfglint.catalog.architecture import Architecture
    from cfglint.jobs.named_models import NamedModel


@dataclass(frozen=True)
class ModelFacts:
    """What is known of a job's model. ``architecture`` is None where nothing could be found; ``problem`` says why."""

    id: str
    architecture: Architecture | None
    source: str
    """``catalogue``, or the path of the config.json."""
    origin: Origin
    row: Any = None
    """The catalogue's row (:class:`cfglint.catalog.models.Model`), where there is one."""
    problem: str = ""
    config: Mapping[str, Any] | None = None
    """The config.json found, where its dimensions alone do not make an architecture."""
    taken_as: str = ""
    """In words, where the id is not known and the name says what it is: ``X is taken as Y``."""
    format: str | None = None
    """The quantization that such a name states, as it is spelled there: ``GPTQ``, ``bnb-4bit``."""
    guess: NamedModel | None = None
    """The known model whose name a path ends in, or a name without an owner is. What lies there may be another: estimates
    take it, with no verdict that is certain; rules do not."""


@dataclass(frozen=True)
class Hardware:
    """``candidates`` are the accelerators a name can mean; empty where the name is unknown or none was given."""

    candidates: tuple[Accelerator, ...]
    name: str
    gpus_per_node: int | None
    nodes: int | None
    origin: Origin | None
    """Where the accelerator's name came from."""
    count_origin: Origin | None = None
    host_memory_bytes: int | None = None
    nodes_open: bool = False
    """How many nodes there are is stated, by something that is not known here (``--nnodes $N``)."""

    @property
    def accelerator(self) -> Accelerator | None:
        """The accelerator, where the name means just one."""
        return self.candidates[0] if len(self.candidates) == 1 else None

    @property
    def world_size(self) -> int | None:
        if self.gpus_per_node is None or (self.nodes is None and self.nodes_open):
            return None
        return self.gpus_per_node * (self.nodes or 1)


class Job(FactSet):
    """Facts common to training and serving."""

    kind = "train"

    model_id = FactField[str]("Hub id or path, as written")
    framework = FactField[str]()
    framework_version = FactField[str]("a version, or a range as requirements write it")
    gpu = FactField[str]("accelerator name as written")
    gpus_per_node = FactField[int]()
    nodes = FactField[int]()
    quantization = FactField[str]("nf4, nf4-double, fp4, int8, gptq-int4, awq-int4, fp8 …")
    tensor_parallel_size = FactField[int]()
    pipeline_parallel_size = FactField[int]()
    data_parallel_size = FactField[int]()
    context_parallel_size = FactField[int]()
    expert_parallel_size = FactField[int]()
    expert_tensor_parallel_size = FactField[int]("ranks that split each expert")
    trust_remote_code = FactField[bool]()

    def __init__(self, name: str, readings: list[Reading] | None = None) -> None:
        super().__init__()
        self.name = name
        self.readings: list[Reading] = readings or []
        self.model: ModelFacts | None = None
        self.hardware = Hardware((), "", None, None, None)
        self.versions: dict[str, str] = {}
        """Framework to version or specifier, from requirements, lock files, image tags or settings."""
        self.partial = False
        """True for a DeepSpeed or Accelerate file that no run names: it has precision and sharding, but no model."""

    @property
    def primary(self) -> Reading | None:
        """The reading the job is named after."""
        return self.readings[0] if self.readings else None

    def reading(self, *dialects: str) -> Reading | None:
        """The job's first reading of one of these dialects."""
        for reading in self.readings:
            if reading.dialect in dialects:
                return reading
        return None

    @property
    def dialects(self) -> list[str]:
        return list(dict.fromkeys(r.dialect for r in self.readings))

    @property
    def documents(self) -> list[str]:
        return list(dict.fromkeys(r.document.path for r in self.readings))

    @property
    def architecture(self) -> Architecture | None:
        return self.model.architecture if self.model else None


J = TypeVar("J", bound=Job)

WHAT_IF = DerivedOrigin("what if")


def likely_architecture(job: Job) -> Architecture | None:
    """The model's architecture, or that of the model which its name makes likely (:attr:`ModelFacts.guess`)."""
    if job.model is None or job.model.architecture is not None or job.model.guess is None:
        return job.architecture
    return job.model.guess.architecture


def with_facts(job: J, **facts: Any) -> J:
    """A copy of ``job`` in which ``facts`` win over what files state. The original is not touched."""
    other = copy(job)
    other._facts = {name: list(stated) for name, stated in job._facts.items()}
    for name, value in facts.items():
        other.state_first(name, value, WHAT_IF)
    return other


class TrainingJob(Job):
    """One training run."""

    kind = "train"
    sharding_open = False
    """True where several GPUs are known but no file says how they share the model: the launch was not seen."""

    method = FactField[str]("full, lora, qlora, dora, pretrain, dpo, orpo, kto, reward, grpo, ppo, distill, dpo+lora …")
    reference = FactField[str](
        "where a preference or RL run has the reference's log-probabilities from: model, adapter, precomputed, none"
    )
    completion_length = FactField[int]("tokens of a sequence that are scored, where its prompt is not")
    lora_rank = FactField[int]()
    lora_alpha = FactField[float]()
    lora_dropout = FactField[float]()
    lora_targets = FactField[list[str]]("module names, or ['all-linear']")
    lora_modules_to_save = FactField[list[str]]()
    recompute_modules = FactField[list[str]](
        "Megatron's selective recomputation: core_attn, mlp, moe, moe_act, layernorm …"
    )
    recompute_layers = FactField[int]("layers of a pipeline stage that are recomputed, where not all are")
    lora_kernels = FactField[list[str]]("what one kernel computes with its adapters: mlp, qkv, o (Axolotl)")
    weight_dtype = FactField[str]("dtype parameters are stored in: fp32, bf16, fp16, fp8")
    compute_dtype = FactField[str]("autocast or engine dtype: bf16, fp16, fp8, or null for none (value 'none')")
    master_weights = FactField[bool]("an fp32 copy beside 16-bit weights")
    gradient_dtype = FactField[str]("dtype of gradient buffers where the framework makes them (Megatron): fp32, bf16")
    optimizer = FactField[str]("Hugging Face name")
    optimizer_state_dtype = FactField[str](
        "dtype of Adam's moments where it is not that of what is stepped: bf16, fp16, fp8"
    )
    precision_aware_optimizer = FactField[bool](
        "Megatron: the optimizer itself holds what fp32 copies have beyond 16 bits"
    )
    micro_batch_size = FactField[int]()
    gradient_accumulation_steps = FactField[int]()
    global_batch_size = FactField[int]("sequences per optimizer step, where a file states it")
    sequence_length = FactField[int]()
    packing = FactField[bool]()
    padding_free = FactField[bool]("a batch goes through the model as one row, without padding")
    gradient_checkpointing = FactField[str]("none, full, selective")
    checkpoint_every = FactField[int](
        "selective by layers: of so many layers one is checkpointed, the others keep everything"
    )
    attention = FactField[str]("flash2, flash3, sdpa, flex, eager, xformers")
    loss_kernel = FactField[str]("torch, compiled, triton, smoothed, selective, chunked, checkpointed, fused_linear")
    block_kernels = FactField[list[str]]("what Liger's kernels compute in the blocks: norm, rotary, mlp")
    tiled_mlp = FactField[bool]("the MLP runs on pieces of the sequence, and again in backward (ALST)")
    mlp_pieces = FactField[int]("how many; as many as the sequence holds hidden sizes where no file says")
    upcast_logits = FactField[bool]("the loss converts 16-bit logits to fp32 first")
    compile = FactField[bool]()
    optimizer_foreach = FactField[bool]()
    optimizer_in_backward = FactField[bool]()
    activation_offloading = FactField[bool]("what backward needs waits on the host")
    upcast_unquantized = FactField[bool]()
    fp8_linear = FactField[bool]()
    quantize_experts = FactField[bool]("experts fused into one parameter are quantized with the linear layers")
    zero_stage = FactField[int]()
    fsdp = FactField[str]("full_shard, shard_grad_op, hybrid_shard, no_shard, none")
    fsdp_version = FactField[int]()
    fsdp_wraps_ends = FactField[bool]("embedding and head are FSDP units of their own")
    offload_optimizer = FactField[str]("none, cpu, nvme")
    offload_parameters = FactField[str]("none, cpu, nvme")
    reduces_each_micro_step = FactField[bool]("gradients are reduced in every micro-step of an accumulation")
    sequence_parallel = FactField[bool]()
    rollout_gpu_memory_utilization = FactField[float](
        "share of each device that an RL run's engine takes on the same GPUs"
    )
    rollout_sleeps = FactField[bool]("the engine frees the device while the policy is updated")
    trainer_sleeps = FactField[bool]("the trainer waits on the host while the engine generates")
    dataset_tokens = FactField[int]()
    epochs = FactField[float]()
    max_steps = FactField[int]()
    learning_rate = FactField[float]()
    lr_scheduler = FactField[str]("Hugging Face name: linear, cosine, constant_with_warmup …")
    warmup_steps = FactField[int]()
    warmup_ratio = FactField[float]()
    weight_decay = FactField[float]()
    max_grad_norm = FactField[float]()
    tf32 = FactField[bool]()
    evaluates = FactField[bool]("the run stops to evaluate")
    eval_micro_batch_size = FactField[int]("sequences per GPU in a batch of evaluation")
    eval_sequence_length = FactField[int]("tokens of an evaluated sequence, where it is not sequence_length")
    eval_loss_kernel = FactField[str]("loss_kernel of evaluation, where it is another than in training")
    use_cache = FactField[bool]("the model keeps keys and values while it is evaluated")
    saves = FactField[bool]("checkpoints are written")
    state_dict = FactField[str]("how sharded parameters are handed to a checkpoint: full, sharded, none")
    saves_optimizer = FactField[bool]("checkpoints hold the optimizer's states")
    trains_vision = FactField[bool]("the vision and audio towers are trained with the language model")


class ServingJob(Job):
    """One server, or one group of ranks that serve one model."""

    kind = "serve"

    dtype = FactField[str]("auto, bf16, fp16, fp32")
    kv_cache_dtype = FactField[str]()
    max_model_len = FactField[int]()
    max_num_seqs = FactField[int]()
    max_num_batched_tokens = FactField[int]()
    gpu_memory_utilization = FactField[float]()
    mem_fraction_static = FactField[float]()
    enforce_eager = FactField[bool]()
    block_size = FactField[int]()
    cpu_offload_gb = FactField[float]()
    swap_space = FactField[float]("GiB of host memory per GPU")
    enable_prefix_caching = FactField[bool]()
    enable_lora = FactField[bool]()
    max_loras = FactField[int]()
    max_lora_rank = FactField[int]()
    limit_mm_per_prompt = FactField[dict[str, int]]()
    speculative = FactField[dict[str, Any]]("speculative_config as a mapping")
    enable_expert_parallel = FactField[bool]()
    engine_args = FactField[dict[str, Any]]("any other argument of the engine, by its name with underscores")


@dataclass(slots=True, eq=False)
class Jobs:
    """All jobs found in a run, with the readings that belong to none."""

    training: list[TrainingJob] = field(default_factory=list)
    serving: list[ServingJob] = field(default_factory=list)

    def __iter__(self) -> Iterator[Job]:
        yield from self.training
        yield from self.serving
