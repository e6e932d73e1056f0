"""What a block is written from: its sizes on one rank, and the dtypes and kernels it runs in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Numerics:
    """Dtypes and kernels that hold for every block of a run."""

    weight_dtype: str
    """Dtype of linear weights as the block sees them (gathered, or the compute dtype of packed weights)."""
    norm_dtype: str
    """Dtype of norms and of what is not quantized."""
    residual_dtype: str
    """Dtype of the hidden states that enter the first block."""
    autocast: str | None
    train_base: bool
    packed: bool
    """Linear weights of the blocks are quantized."""
    attention: str
    """``flash`` (no score matrix, no expansion), ``sdpa``, ``eager``."""
    expand_kv: bool
    """Keys and values are repeated to all query heads before attention."""
    contiguous_queries: bool = False
    """sdpa gets queries that were made contiguous."""
    packed_keeps: bool = False
    """Quantized linears keep their input (bitsandbytes before it left that out)."""
    packed_copies: int = 1
    """Weights quantized from fp16 are unpacked as fp16, and converted to the compute dtype."""
    joins_qkv: bool = False
    """One projection makes queries, keys and values, which are repeated to all heads before they are rotated (litgpt)."""
    composed: bool = False
    """No fused kernel takes sdpa's dtype on this device: torch composes attention of products and a softmax in fp32."""
    mask: bool = False
    """``sdpa`` gets a dense mask, converted to the queries' dtype and saved in every layer."""
    norm_kernel: str = "modeling"
    """``modeling`` (as written in the modeling file), ``fused`` (one kernel that saves its input)."""
    rotary_kernel: str = "modeling"
    mlp_kernel: str = "modeling"
    """``fused``: gate and up saved, the product recomputed; ``in_place``: their gradients are written over them too (Liger)."""
    tiled_mlp: bool = False
    """The MLP runs on one piece of the sequence after the other, in backward again."""
    mlp_pieces: int | None = None
    attention_ranks: int = 1
    """Ulysses: so many ranks exchange parts of the sequence for heads around attention."""
    weighs_activation: bool = False
    """Experts: one kernel multiplies by the router's weights too, and keeps no more than gate and up."""
    input_grad: bool = True
    """A gradient flows to the block's input: not to the first block's where only adapters train."""
    checkpointed: bool = False
    compiled: bool = False
    """torch.compile: elementwise chains (norms, rotary, gated activation) are one kernel each."""
    modeling: bool = True
    """Activations as transformers composes them; other frameworks call one fused kernel."""
    dropout: float = 0.0
    """Probability on the residual stream; its value does not matter, only whether masks exist."""
    attention_dropout: float = 0.0
    lora_slots: frozenset[str] = frozenset()
    expert_adapters: frozenset[str] = frozenset()
    """Fused expert parameters that carry adapters: ``gate_up``, ``down``."""
    bare_experts: bool = False
    """Routed experts carry none, though shared ones may."""
    lora_kernels: frozenset[str] = frozenset()
    """``mlp``, ``qkv``, ``o``: one kernel computes projections and adapters (Axolotl)."""
    lora_rank: int = 0
    lora_dtype: str = "fp32"
    lora_dropout: float = 0.0
    dora: bool = False
    cuda: bool = False
    """As CUDA's kernels do it, where they differ from the CPU's, on which the oracle ran: softmax reads fp16 and writes
    fp32 at once (``half_to_float``, ``SoftMax.cpp``; not bf16), its backward multiplies gradient and output into a
    temporary and returns the input's dtype (``SoftMax.cu``), and autocast runs softmax, pow and layer_norm in fp32
    (``autocast_mode.h``)."""
    norm_autocasts: bool = True
    """The framework leaves norms to autocast."""
    fuses_weight_gradients: bool = False
    """Products add weights' gradients to buffers made at start."""
    wide_norms: bool = False
    """``layer_norm`` computes and returns fp32 whatever it gets."""


@dataclass(frozen=True, slots=True)
class Delta:
    """A gated delta rule (Qwen3-Next, Qwen3.5): its value heads, and the widths of all heads' keys and values."""

    heads: int
    keys: int
    values: int
    state: int
    """Elements of the state of all heads."""
    joined: bool
    """Queries, keys, values and gate come of one projection, head by head (Qwen3-Next)."""


@dataclass(frozen=True, slots=True)
class Scan:
    """A Mamba-2 mixer: width of its input projection, of its heads, and elements of their states."""

    projected: int
    inner: int
    state: int
    beside: bool
    """Attention reads the same input, and the two outputs are added (Falcon-H1)."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of one block on one rank, in elements; ``batch`` and ``sequence`` are the attention's own."""

    batch: int
    sequence: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    intermediate: int
    experts: int = 0
    local_experts: float = 0.0
    """Experts' worth of weights on this rank: divided by expert parallelism."""
    top_k: float = 0
    """Copies of each token that this rank's experts compute; divided by the tensor-parallel ranks that do not split experts."""
    expert_intermediate: int = 0
    expert_hidden: int = 0
    """Width that experts read and write where it is not the block's (Nemotron 3's latent experts)."""
    shared_intermediate: int = 0
    tensor_parallel: int = 1
    sequence_parallel: bool = False
    kv_lora_rank: int = 0
    q_lora_rank: int = 0
    rope_dim: int = 0
    cross_sequence: int = 0
    keys: int = 0
    """Keys each query sees; ``sequence`` where 0."""
    moe_loop: bool = False
    has_mixer: bool = True
    convolves: bool = False
    """The mixer is a gated short convolution (LFM2)."""
    delta: Delta | None = None
    scan: Scan | None = None
    has_feed_forward: bool = True

    @property
    def tokens(self) -> int:
        return self.batch * self.sequence
