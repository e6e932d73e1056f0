"""Vision-language models whose classes stand beside their checkpoints (remote code): towers and what joins them to the text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cfglint.catalog.architecture import Tensor
from cfglint.catalog.families.config import Config
from cfglint.catalog.families.parts import Attention, Decoder, Family, Mlp, Where, linear, matrix, norm, vector
from cfglint.catalog.families.vision import PROJECTOR, VisionLanguage, internvl, joined_norm, molmo2, two_layers


def phi3_v(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    """Phi-3 Vision: four patches side by side, separators between sub-images."""
    yield from two_layers(outer, 4 * vision.size("hidden_size"), text)
    for module in ("glb_GN", "sub_GN"):
        yield from vector(module, 4 * vision.size("hidden_size"), PROJECTOR)


def llava_mistral(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    yield from two_layers(outer, vision.size("hidden_size"), text)


def fast_vlm(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    yield from two_layers(outer, vision.size("hidden_size", 3072), text)


def phi4mm(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    """Phi-4 multimodal: two layers to the text, separators between sub-images."""
    yield from two_layers(outer, vision.size("hidden_size"), text)
    for module in ("glb_GN", "sub_GN"):
        yield from vector(module, vision.size("hidden_size"), PROJECTOR)


def resampler(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    """MiniCPM-V: learned queries attend to the patches."""
    hidden = text.size("hidden_size")
    yield from matrix("query", (outer.size("query_num", 64), hidden), PROJECTOR)
    yield from linear("kv_proj", hidden, vision.size("hidden_size"), PROJECTOR)
    yield from matrix("in_proj", (3 * hidden, hidden), PROJECTOR)
    yield from vector("in_proj", 3 * hidden, PROJECTOR, bias=True)
    yield from linear("out_proj", hidden, hidden, PROJECTOR, bias=True)
    for module in ("ln_q", "ln_kv", "ln_post"):
        yield from norm(module, hidden, bias=True, role=PROJECTOR)
    yield from matrix("proj", (hidden, hidden), PROJECTOR)


def locate_anything(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    joined = 4 * vision.size("hidden_size")
    yield from joined_norm(joined)
    yield from two_layers(outer, joined, text)


def mage(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    joined = 4 * vision.size("hidden_size")
    yield Tensor("ln_q", (vision.size("hidden_size"),), PROJECTOR)
    yield Tensor("ln_q", (vision.size("hidden_size"),), PROJECTOR, bias=True)
    yield from linear("0", joined, joined, PROJECTOR, bias=True)
    yield from linear("2", text.size("hidden_size"), joined, PROJECTOR, bias=True)


def molmo(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    """Molmo 1: attention over windows of patches seen in two layers of the tower, then a gated MLP; 128 tokens of its own."""
    seen, hidden = vision.size("hidden_size"), text.size("hidden_size")
    yield from matrix("new_embedding", (128, hidden), "embedding")
    yield from matrix("pad_embed", (2, 2 * seen), PROJECTOR)
    for module in ("wq", "wk", "wv"):
        yield from linear(module, seen, 2 * seen, PROJECTOR, bias=True)
    yield from linear("wo", seen, seen, PROJECTOR, bias=True)
    width = text.size("intermediate_size")
    yield from linear("w1", width, seen, PROJECTOR)
    yield from linear("w3", width, seen, PROJECTOR)
    yield from linear("w2", hidden, width, PROJECTOR)


def cogvlm2(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    """CogVLM 2: every layer has projections of its own for image tokens (visual experts)."""
    hidden, width, heads = text.size("hidden_size"), text.size("intermediate_size"), text.size("num_attention_heads")
    groups = text.size("num_key_value_heads", heads)
    where = Where("decoder", tuple(range(text.size("num_hidden_layers"))))
    fused = hidden + 2 * groups * (hidden // heads)
    yield from linear("vision_expert_query_key_value", fused, hidden, "attention", where, bias=True)
    yield from linear("vision_expert_dense", hidden, hidden, "attention", where)
    for module, out, inner in (("gate_proj", width, hidden), ("up_proj", width, hidden), ("down_proj", hidden, width)):
        yield from linear(module, out, inner, "mlp", where)
    seen = vision.size("hidden_size")
    yield from _glm_projector(seen, seen, hidden, width)


def _glm_projector(seen: int, joined: int, hidden: int, width: int) -> Iterator[Tensor]:
    """A convolution joins four patches of ``seen`` into ``joined``, then a gated MLP, and marks of an image's ends."""
    yield from matrix("conv", (joined, seen, 2, 2), PROJECTOR)
    yield from vector("conv", joined, PROJECTOR, bias=True)
    yield from linear("linear_proj", hidden, joined, PROJECTOR)
    yield from norm("norm1", hidden, bias=True, role=PROJECTOR)
    yield from linear("gate_proj", width, hidden, PROJECTOR)
    yield from linear("dense_h_to_4h", width, hidden, PROJECTOR)
    yield from linear("dense_4h_to_h", hidden, width, PROJECTOR)
    yield from matrix("boi", (1, hidden), PROJECTOR)
    yield from matrix("eoi", (1, hidden), PROJECTOR)


def glm_edge(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    """GLM-Edge-V: a convolution joins four patches, then a gated MLP as wide as the text's."""
    hidden, width = text.size("hidden_size"), text.size("intermediate_size")
    yield from _glm_projector(vision.size("hidden_size"), hidden, hidden, width)


def molmo_point(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    """MolmoPoint: Molmo 2 without the output projection of its pooling, and heads that point at patches and parts of them."""
    for tensor in molmo2(outer, vision, text):
        if tensor.module != "o_proj":
            yield tensor
    hidden, seen, width = text.size("hidden_size"), 2 * vision.size("hidden_size"), outer.size("patch_embed_dim", 512)
    yield from matrix("new_output_embeddings", (outer.size("additional_vocab_size", 128), hidden), "lm_head")
    yield from linear("build_vit_embedding", hidden, seen, PROJECTOR, bias=True)
    for module, inner in (("patch_q", hidden), ("patch_k", hidden), ("subpatch_q", hidden), ("subpatch_k", seen)):
        yield from linear(module, width, inner, PROJECTOR, bias=True)
    yield from vector("add_no_point_class_embed", width, PROJECTOR)
    yield from linear("subpatch_loc_k", 9, hidden, PROJECTOR, bias=True)
    yield from norm("x_norm", hidden, role=PROJECTOR)


class ModalAttention(Attention):
    """HY-Embodied: image tokens have projections of their own (a mixture of transformers)."""

    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        for tensor in super().tensors(c, where):
            yield tensor
            if tensor.role == "attention":
                yield replace(tensor, module=f"{tensor.module}_v")


class ModalMlp(Mlp):
    def tensors(self, c: Config, where: Where) -> Iterator[Tensor]:
        for tensor in super().tensors(c, where):
            yield tensor
            yield replace(tensor, module=f"{tensor.module}_v")


def pooled(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    """HY-Embodied: four patches are pooled by weights that a small network gives them."""
    hidden = text.size("hidden_size")
    yield from linear("proj1", hidden, vision.size("hidden_size"), PROJECTOR, bias=True)
    yield from linear("proj2", hidden, hidden, PROJECTOR, bias=True)
    yield from linear("predictor.0", hidden, 2 * hidden, PROJECTOR, bias=True)
    yield from linear("predictor.2", hidden, hidden, PROJECTOR, bias=True)


FAMILIES: dict[str, Family] = {
    "molmo_point": VisionLanguage("molmo2_text", "molmo2_vision", molmo_point),
    "hunyuan_vl_mot": VisionLanguage("hunyuan_vl_mot_text", "hyvit2", pooled),
    "hunyuan_vl_mot_text": Decoder(
        mixers={"full_attention": ModalAttention(qk_norm="head", q_norm="query_layernorm", k_norm="key_layernorm")},
        feed_forwards={"dense": ModalMlp()},
        norms=("input_layernorm", "post_attention_layernorm", "input_layernorm_v", "post_attention_layernorm_v"),
    ),
    "glm_edge_v": VisionLanguage("glm", "siglip_vision_model", glm_edge),
    "llava_qwen2": VisionLanguage("qwen2", "fast_vit", fast_vlm),
    "phi4mm": VisionLanguage("phi3", "siglip_vision_model", phi4mm),
    "phi3_v": VisionLanguage("phi3", "clip_vision_model", phi3_v),
    "phi4-siglip": VisionLanguage("phi3", "siglip2_vision_model", llava_mistral),
    "llava_mistral": VisionLanguage("mistral", "clip_vision_model", llava_mistral),
    "minicpmv": VisionLanguage("minicpm", "siglip_navit", resampler),
    "locateanything": VisionLanguage("qwen2", "moonvit", locate_anything),
    "penguinvl_qwen3": VisionLanguage("qwen3", "penguin_vision", llava_mistral),
    "interns1": VisionLanguage("qwen3", "internvl_vision", internvl),
    "mage_vl": VisionLanguage("qwen3", "mage_vl_vision", mage),
    "molmo": VisionLanguage("qwen2", "molmo_vision", molmo),
    "cogvlm2": VisionLanguage("llama", "eva2_clip", cogvlm2),
}
