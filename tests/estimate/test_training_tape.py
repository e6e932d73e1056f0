"""The autograd tape against tensors counted by hand, in bytes."""

from __future__ import annotations

import pytest

from cfglint.estimate.training.activations import numerics_of
from cfglint.estimate.training.blocks import BlockWriter, block_footprint
from cfglint.estimate.training.families import STYLES, Style
from cfglint.estimate.training.loss import Head, head_footprint
from cfglint.estimate.training.resolve import resolve
from cfglint.estimate.training.shapes import Delta, Numerics, Scan, Shape
from cfglint.estimate.training.tape import Tape, Value, Weight
from cfglint.jobs.facts import FlagOrigin
from cfglint.jobs.job import TrainingJob


def start(tape: Tape, elements: float, dtype: str = "bf16") -> Value:
    return tape.external(elements, dtype, grad=True)


def test_linear_saves_its_input_only_where_the_weight_trains() -> None:
    for trains, saves in ((True, True), (False, False)):
        tape = Tape()
        x = start(tape, 10)
        y = tape.linear(x, Weight(50, "bf16", trains), 5)
        footprint = tape.footprint(x, y)
        assert footprint.saves_input is saves
        assert footprint.gradients == (100 if trains else 0)
        assert footprint.saved == 0  # the block's own input is counted by its maker


def test_backward_of_linear_holds_both_gradients() -> None:
    tape = Tape()
    x = start(tape, 10)
    y = tape.linear(x, Weight(50, "bf16", True), 5)
    # incoming 10 bytes, input gradient 20, weight gradient 100
    assert tape.footprint(x, y).backward == 130


def test_silu_saves_its_input_and_a_product_both_sides() -> None:
    tape = Tape()
    x = start(tape, 8)
    gate = tape.linear(x, Weight(1, "bf16", False), 16)
    up = tape.linear(x, Weight(1, "bf16", False), 16)
    y = tape.mul(tape.unary(gate), up)
    # gate for silu, silu's output and up for the product: three of 32 bytes
    assert tape.footprint(x, y).saved == 96


def test_without_saving_tensors_die_after_their_last_use() -> None:
    tape = Tape()
    x = start(tape, 4)
    y = x
    for _ in range(5):
        y = tape.unary(y)
    footprint = tape.footprint(x, y)
    assert footprint.forward_plain == 16  # one tensor and its successor
    assert footprint.forward_saving == 40  # five outputs of 8 bytes; all but the last saved
    assert footprint.saved == 32


def test_autocast_casts_input_and_weight_and_keeps_trainable_casts() -> None:
    tape = Tape("bf16")
    x = start(tape, 10, "fp32")
    y = tape.linear(x, Weight(50, "fp32", True), 5)
    footprint = tape.footprint(x, y)
    assert footprint.casts == 100
    assert footprint.saved == 20 + 100  # the input's and the weight's 16-bit copies
    assert footprint.gradients == 200  # fp32
    assert y.dtype == "bf16"


def test_frozen_weights_are_cast_but_not_cached() -> None:
    tape = Tape("bf16")
    x = start(tape, 10, "fp32")
    y = tape.linear(x, Weight(50, "fp32", False), 5)
    footprint = tape.footprint(x, y)
    assert footprint.casts == 0
    assert footprint.saved == 100


def test_packed_weights_are_unpacked_only_while_used() -> None:
    tape = Tape()
    x = start(tape, 10)
    y = tape.linear(x, Weight(50, "bf16", False, "packed"), 5)
    footprint = tape.footprint(x, y)
    assert footprint.saved == 0
    assert footprint.forward_plain == 10 + 100
    assert footprint.backward == 10 + 20 + 100


def test_a_residual_hands_one_gradient_to_both_sides() -> None:
    tape = Tape()
    x = start(tape, 10)
    y = tape.add(x, tape.unary(x))
    # incoming 20, shared by both sides, and the branch's 20, which is added to it in place once the branch let go
    assert tape.footprint(x, y).backward == 20 + 20


def test_gradients_still_shared_are_summed_into_a_new_tensor() -> None:
    tape = Tape()
    x = start(tape, 10)
    kept = tape.scale(x)
    y = tape.add(kept, tape.add(kept, x))
    # one gradient of 20 reaches kept twice while x waits with it: the sum is a second tensor
    assert tape.footprint(x, y).backward == 20 + 20 + 20


def test_split_joins_gradients_instead_of_adding_them() -> None:
    tape = Tape()
    x = start(tape, 12)
    left, right = tape.split(x, 6, 6)
    y = tape.mul(left, right)
    footprint = tape.footprint(x, y)
    # incoming 12, two gradients of 12; then the joined one of 24 beside them
    assert footprint.backward == 12 + 12 + 24


def test_held_tensors_count_as_saved_until_the_end() -> None:
    tape = Tape()
    x = start(tape, 4)
    y = tape.scale(x)
    tape.hold(y)
    footprint = tape.footprint(x, tape.scale(y))
    assert footprint.held == 8
    assert footprint.saved == 8


NUMERICS = Numerics("bf16", "bf16", "bf16", None, True, False, "flash", False)


def mixer(**more: object) -> Shape:
    """A block of a mixer alone: 2 sequences of 64 tokens, 32 wide."""
    return Shape(2, 64, 32, 4, 4, 8, 8, 1, has_feed_forward=False, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("joined", [True, False])
def test_a_gated_delta_layer_keeps_what_its_kernels_save(joined: bool) -> None:
    shape = mixer(delta=Delta(heads=4, keys=16, values=32, state=4 * 4 * 8, joined=joined))
    saved = block_footprint(shape, Style(norm="layernorm"), NUMERICS).saved
    # norm; the convolution's input; queries, keys, values; products within a chunk; scan's output, gate, and their product
    assert saved == pytest.approx(2 * 64 * 2 * (32 + 64 + 64 + 4 * 64 + 32 + 32 + 32), rel=0.01)


def test_a_short_convolution_keeps_three_parts_and_three_products() -> None:
    saved = block_footprint(mixer(convolves=True), Style(norm="layernorm"), NUMERICS).saved
    # norm; B, C and x; B * x; the convolution's output; the product laid out by token
    assert saved == pytest.approx(2 * 64 * 2 * (32 + 96 + 32 + 32 + 32), rel=0.01)


def test_gated_attention_keeps_its_output_and_the_gate() -> None:
    plain, gated = (
        block_footprint(mixer(), Style(norm="layernorm", output_gate=gate), NUMERICS).saved for gate in (False, True)
    )
    # the sigmoid's output and the product beside attention's own output
    assert gated - plain == 2 * 64 * 2 * 2 * 32


def test_a_scan_keeps_its_projection_and_its_output() -> None:
    alone, plain, both = (
        block_footprint(shape, Style(norm="layernorm"), NUMERICS).saved
        for shape in (
            mixer(scan=Scan(projected=160, inner=64, state=64 * 16, beside=False)),
            mixer(),
            mixer(scan=Scan(projected=160, inner=64, state=64 * 16, beside=True)),
        )
    )
    assert alone == pytest.approx(2 * 64 * 2 * (32 + 160 + 64), rel=0.01)
    # the norm before them is one
    assert both - plain == 2 * 64 * 2 * (160 + 64)


def _eager(scores: str, cuda: bool) -> float:
    """Backward's peak of one eager attention block whose score matrices outweigh everything else, in bytes a score."""
    length, heads = 4096, 8
    shape = Shape(1, length, 8, heads, heads, 1, 1, 8)
    numerics = Numerics(scores, scores, scores, None, False, False, "eager", False, cuda=cuda)
    return block_footprint(shape, Style(), numerics).backward / (heads * length**2)


def test_softmax_on_cuda_reads_fp16_and_holds_a_product_in_backward() -> None:
    # on the CPU: output, its gradient and the input's, each in fp32
    assert _eager("fp32", cuda=False) == pytest.approx(12, abs=0.02)
    assert _eager("bf16", cuda=False) == pytest.approx(12, abs=0.02)
    # on CUDA gradient times output beside them
    assert _eager("fp32", cuda=True) == pytest.approx(16, abs=0.02)
    assert _eager("bf16", cuda=True) == pytest.approx(16, abs=0.02)
    # fp16 scores get their gradient in fp16 at once
    assert _eager("fp16", cuda=True) == pytest.approx(14, abs=0.02)


def test_lora_kernels_save_their_input_and_the_gates_alone() -> None:
    tokens, hidden, width, rank = 1024, 64, 256, 4
    slots = frozenset({"q", "k", "v", "o", "gate", "up", "down"})
    shape = Shape(1, tokens, hidden, 1, 1, hidden, hidden, width)

    def saved(*kernels: str) -> float:
        numerics = Numerics(
            "bf16", "bf16", "bf16", "bf16", False, False, "flash", False,
            lora_slots=slots, lora_rank=rank, lora_kernels=frozenset(kernels),
        )  # fmt: skip
        return block_footprint(shape, Style(), numerics).saved

    line = 2 * tokens  # bytes of one feature of all tokens
    # PEFT's chain keeps a 16-bit copy of each adapter's input (they were fp32) and the product of its first factor; the
    # activation's output beside them. A kernel keeps the input itself, which attention's output is already
    chain, kernel = saved("qkv", "o"), saved("mlp", "qkv", "o")
    assert chain - kernel == 2 * width * line + (2 - 1) * hidden * line + 3 * rank * line
    assert saved() - saved("o") == hidden * line + rank * line
    assert saved() - saved("qkv") == (3 - 1) * hidden * line + 3 * rank * line


@pytest.mark.parametrize(
    ("activation", "plain", "autocast"),
    # bytes an element that torch's hooks on saved tensors counted in bf16 (transformers 5.24, torch 2.13), and the same
    # with pow's input and what follows it in fp32
    [
        ("silu", 2, 2),
        ("gelu", 2, 2),
        ("relu2", 2, 2 + 4),
        ("quick_gelu", 4, 4),
        ("gelu_python", 6, 6),
        ("gelu_new", 8, 2 + 4 + 4 + 4),
        ("gelu_fast", 14, 14),
    ],
)
def test_activations_written_out_in_python(activation: str, plain: int, autocast: int) -> None:
    def saved(dtype: str | None, cuda: bool) -> float:
        numerics = Numerics("bf16", "bf16", "bf16", dtype, True, False, "flash", False, cuda=cuda)
        writer = BlockWriter(Shape(1, 1, 1, 1, 1, 1, 1, 1), Style(activation=activation), numerics)
        x = writer.tape.external(10, "bf16", True)
        made = writer.tape.op((x,), 1000, "bf16")
        return writer.tape.footprint(x, writer.activate(made)).saved / 1000

    assert saved(None, False) == saved("bf16", False) == saved(None, True) == plain
    assert saved("bf16", True) == autocast


@pytest.mark.parametrize(
    ("kv_heads", "keys_and_values"),
    # equal heads: rotated queries and keys, and the whole projection of which values are a view; grouped: copies of all
    # three as wide as the queries; one: values are a view of a projection of eight heads and two
    [(8, 8 + 24), (2, 8 + 8), (1, 8 + 10)],
)
def test_litgpt_joins_queries_keys_and_values(kv_heads: int, keys_and_values: int) -> None:
    head = 16
    shape = Shape(1, 1024, 128, 8, kv_heads, head, head, 8, has_feed_forward=False)
    numerics = Numerics("bf16", "bf16", "bf16", None, False, False, "flash", False, joins_qkv=True, modeling=False)
    writer = BlockWriter(shape, Style(), numerics)
    x = writer.tape.external(1024 * 128, "bf16", True)
    footprint = writer.tape.footprint(x, writer.attention(x))
    # queries and the output, eight heads each, and an fp32 figure a row
    assert footprint.saved == 1024 * (2 * head * (8 + 8 + keys_and_values) + 4 * 8)


def test_litgpt_pads_adapted_parts_and_keeps_them() -> None:
    """``index_copy`` of two adapted parts of three into zeros keeps the two; of all three nothing is padded."""
    shape = Shape(1, 512, 128, 8, 8, 16, 16, 8, has_feed_forward=False)
    found = {}
    for slots in (("q", "v"), ("q", "k", "v")):
        numerics = Numerics(
            "bf16", "bf16", "bf16", None, False, False, "flash", False, joins_qkv=True, modeling=False,
            lora_slots=frozenset(slots), lora_rank=8, lora_dtype="bf16",
        )  # fmt: skip
        writer = BlockWriter(shape, Style(), numerics)
        x = writer.tape.external(512 * 128, "bf16", True)
        found[slots] = writer.tape.footprint(x, writer.attention(x)).saved
    # the outputs of two parts, less the third part's share of what the first factor makes
    assert found["q", "v"] - found["q", "k", "v"] == 512 * 2 * (2 * 128 - 8)


def test_old_quantized_linears_keep_their_input_until_the_graph_goes() -> None:
    """bitsandbytes 0.42: ``ctx.tensors = (A, B)``; weights packed from fp16 are unpacked to fp16 and then converted."""
    for keeps, copies, held in ((False, 1, 0), (True, 2, 2 * 10)):
        tape = Tape(None, keeps, copies)
        source = start(tape, 10)
        x = tape.op((source,), 10, "bf16")
        y = tape.linear(x, Weight(1000, "bf16", False, "packed"), 5)
        footprint = tape.footprint(source, y)
        assert footprint.held == footprint.saved == held
        assert footprint.forward_saving == 20 + 10 + 2000 * copies


@pytest.mark.parametrize(
    ("framework", "versions", "quantization", "keeps"),
    [
        ("transformers", {}, "nf4", False),
        ("transformers", {"bitsandbytes": "0.42.0"}, "nf4", True),
        ("transformers", {"bitsandbytes": "0.43.3"}, "nf4-double", False),
        ("transformers", {"bitsandbytes": "0.44.1"}, "int8", True),
        ("transformers", {"bitsandbytes": "0.45.0"}, "int8", False),
        # pinned by the framework until 0.5.5
        ("litgpt", {}, "nf4", None),
        ("litgpt", {"litgpt": "0.5.4"}, "nf4", True),
        ("litgpt", {"litgpt": "0.5.7"}, "nf4", False),
        ("litgpt", {}, None, False),
    ],
)
def test_which_releases_keep_quantized_inputs(
    framework: str, versions: dict[str, str], quantization: str | None, keeps: bool | None
) -> None:
    job = _framework(framework)
    job.versions.update(versions)
    for name, value in {"quantization": quantization, "framework_version": versions.get(framework)}.items():
        if value is not None:
            job.state(name, value, FlagOrigin(f"--{name}"))
    assert resolve(job).keeps_packed_inputs is keeps


@pytest.mark.parametrize(
    ("release", "kernel"),
    [(None, "float"), ("0.1.0", "float"), ("0.4.0.dev0", "modeling"), ("0.4.5", "modeling"), ("0.4.6", "float")],
)
def test_litgpts_norms_were_cast_before_their_scale_for_some_releases(release: str | None, kernel: str) -> None:
    """The thunder runs of the training hold-out, of 0.4.0.dev0, are within 0.1 % so and were 3 to 5 % off in fp32."""
    job = _framework("litgpt")
    if release is not None:
        job.state("framework_version", release, FlagOrigin("--framework_version"))
    assert numerics_of(resolve(job), STYLES["llama"]).norm_kernel == kernel


@pytest.mark.parametrize(
    ("torch", "kernel"),
    [(None, "fused"), ("2.6.0", "modeling"), ("==2.8.0", "float"), ("2.9.1", "fused"), (">=2.6", "fused")],
)
def test_torchs_own_norm_is_one_kernel_on_cuda_since_2_9(torch: str | None, kernel: str) -> None:
    """Without it a block of torchtitan that is not compiled keeps two fp32 copies a norm: 15 % of the peak, measured."""
    job = _framework("torchtitan")
    if torch is not None:
        job.versions["torch"] = torch
    plan = resolve(job)
    assert numerics_of(plan, STYLES["llama"]).norm_kernel == kernel
    assert ("torch" in plan.loose) == (torch in (None, ">=2.6"))


def test_chunked_loss_gives_log_probabilities_back_piece_by_piece() -> None:
    """10,000 logits in eight pieces: 16-bit logits beside fp32 log-probabilities and the last piece on its way there, then
    fp32 log-probabilities and both gradients of a piece; litgpt holds the logits in fp32, and the step's before till then.
    """
    shape = Shape(1, 100, 8, 1, 1, 1, 1, 1)
    numerics = Numerics("bf16", "bf16", "bf16", None, False, False, "flash", False)

    def found(held: bool, carries: bool = True) -> tuple[float, float]:
        head = Head(100, "chunked", "bf16", False, 100, 8, hold_logits=held, holds_wide_logits=held, carries=carries)
        footprint = head_footprint(shape, Style(), numerics, head)
        return footprint.forward_saving // 1e4, footprint.backward // 1e4

    assert found(False) == (2 + 4, 4 + 1)
    assert found(True) == (4 + 2 + 4, 4 + 4 + 1)
    assert found(True, carries=False) == (4 + 4, 4 + 4 + 1)  # of a short batch before


def test_litgpt_writes_capped_attention_out() -> None:
    """Gemma 2's scores exist in litgpt whatever kernel is asked for."""
    found = [
        numerics_of(resolve(job), STYLES["gemma2"]).attention
        for job in (_framework("litgpt"), _framework("transformers"))
    ]
    assert found == ["eager", "sdpa"]


def _framework(name: str) -> TrainingJob:
    job = TrainingJob("job")
    for key, value in {"framework": name, "attention": "sdpa", "method": "lora"}.items():
        job.state(key, value, FlagOrigin(f"--{key}"))
    return job
