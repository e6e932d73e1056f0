"""Vision-language models: a text model of its own family, a vision tower, a projector between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from cfglint.catalog.architecture import Role, Tensor, UnknownArchitecture
from cfglint.catalog.families.audio import EARS, embedder
from cfglint.catalog.families.config import Config, Flag, class_defaults, divide, whole
from cfglint.catalog.families.parts import Body, Family, linear, matrix, vector
from cfglint.catalog.families.series import forecaster
from cfglint.catalog.families.towers import TOWERS, side

UNSTATED = object()

Projector = Callable[[Config, Config, Config], Iterator[Tensor]]
"""Tensors between vision and text, from the outer, the vision and the text config."""
PROJECTOR: Role = "projector"


def seen(outer: Config, vision: Config) -> int:
    """Width of what the projector sees: one vision layer's output, or several side by side."""
    chosen = outer.get("vision_feature_layer")
    return vision.size("hidden_size") * (len(chosen) if isinstance(chosen, (list, tuple)) and chosen else 1)


def two_layers(outer: Config, width: int, text: Config, bias: Flag = True) -> Iterator[Tensor]:
    hidden, biased = text.size("hidden_size"), outer.flag(bias, True)
    yield from linear("linear_1", hidden, width, PROJECTOR, bias=biased)
    yield from linear("linear_2", hidden, hidden, PROJECTOR, bias=biased)


def llava(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    yield from two_layers(outer, seen(outer, vision), text, "multimodal_projector_bias")


def llava_next(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    yield from llava(outer, vision, text)
    yield from vector("image_newline", text.size("hidden_size"), PROJECTOR)


def gemma3(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    width = vision.size("hidden_size")
    yield from matrix("mm_input_projection_weight", (width, text.size("hidden_size")), PROJECTOR)
    yield from vector("mm_soft_emb_norm", width, PROJECTOR)


def paligemma(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    # PaliGemmaConfig sets vision_config.projection_dim from its own; both are the text width in what is published.
    width = outer.raw.get("projection_dim") or vision.raw.get("projection_dim") or text.size("hidden_size")
    yield from linear(
        "linear", whole("projection_dim", width, at_least=1), vision.size("hidden_size"), PROJECTOR, bias=True
    )


def idefics3(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    shuffled = vision.size("hidden_size") * outer.size("scale_factor", 2) ** 2
    yield from linear("proj", text.size("hidden_size"), shuffled, PROJECTOR)


def joined_norm(width: int) -> Iterator[Tensor]:
    """A LayerNorm over several patches side by side."""
    yield Tensor("layer_norm", (width,), PROJECTOR)
    yield Tensor("layer_norm", (width,), PROJECTOR, bias=True)


def internvl(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    ratio = outer.get("downsample_ratio", 0.5)
    if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or not 0 < ratio <= 1:
        raise UnknownArchitecture(f"downsample_ratio is {ratio!r}, expected a number up to 1")
    width = vision.size("hidden_size") * int(1 / ratio) ** 2
    yield from joined_norm(width)
    yield from two_layers(outer, width, text)


def mistral3(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    width, merge = seen(outer, vision), outer.size("spatial_merge_size", 2)
    inner = vision.size("hidden_size")
    yield Tensor("norm", (inner,), PROJECTOR)
    yield from linear("merging_layer", inner, inner * merge * merge, PROJECTOR)
    yield from two_layers(outer, width, text, "multimodal_projector_bias")


def qwen2_vl(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    old = "embed_dim" in vision.raw or vision.model_type == "qwen2_vl_vision"
    width = vision.size("embed_dim") if old else vision.size("hidden_size")
    out = vision.size("hidden_size") if old else vision.size("out_hidden_size")
    joined = width * vision.size("spatial_merge_size", 2) ** 2
    yield Tensor("ln_q", (width,), PROJECTOR)
    if old:
        yield Tensor("ln_q", (width,), PROJECTOR, bias=True)
    yield from linear("0", joined, joined, PROJECTOR, bias=True)
    yield from linear("2", out, joined, PROJECTOR, bias=True)


def qwen_merger(c: Config, out: int, *, deep: int = 0) -> Iterator[Tensor]:
    """Qwen3-VL joins ``spatial_merge_size`` squared patches; ``deep`` mergers feed the first text layers."""
    hidden = c.size("hidden_size")
    joined = hidden * c.size("spatial_merge_size", 2) ** 2
    for normed, count in ((hidden, 1), (joined, deep)):
        if not count:
            continue
        yield Tensor("norm", (normed,), "projector", count)
        yield Tensor("norm", (normed,), "projector", count, bias=True)
        for module, shape in (("linear_fc1", (joined, joined)), ("linear_fc2", (out, joined))):
            yield Tensor(module, shape, "projector", count, linear=True)
            yield Tensor(module, shape[:1], "projector", count, bias=True)


def qwen3_vl(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    deep = vision.sequence("deepstack_visual_indexes")
    yield from qwen_merger(vision, vision.size("out_hidden_size"), deep=3 if deep is None else len(deep))


def qwen3_5(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    yield from qwen_merger(vision, vision.size("out_hidden_size"))


def glm4v(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    hidden, out = vision.size("hidden_size"), vision.size("out_hidden_size")
    width = vision.size("projection_intermediate_size", vision.size("intermediate_size"))
    merge = vision.size("spatial_merge_size", 2)
    yield from linear("proj", out, out, PROJECTOR)
    yield Tensor("post_projection_norm", (out,), PROJECTOR)
    yield Tensor("post_projection_norm", (out,), PROJECTOR, bias=True)
    yield from linear("gate_proj", width, out, PROJECTOR)
    yield from linear("up_proj", width, out, PROJECTOR)
    yield from linear("down_proj", out, width, PROJECTOR)
    yield from matrix("downsample", (out, hidden, merge, merge), PROJECTOR)
    yield from vector("downsample", out, PROJECTOR, bias=True)


def deepseek_v41(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    hidden, merge = text.size("hidden_size"), vision.size("downsample_ratio", 3)
    yield from linear("w1", hidden, merge * merge * vision.size("hidden_size"), PROJECTOR, bias=True)
    yield from linear("w2", hidden, hidden, PROJECTOR, bias=True)
    for module in ("image_start", "image_newline", "image_end"):
        yield from vector(module, hidden, PROJECTOR)


def mllama(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    yield from linear(
        "multi_modal_projector", text.size("hidden_size"), vision.size("vision_output_dim"), PROJECTOR, bias=True
    )


def llama4(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    yield from linear("linear_1", text.size("hidden_size"), vision.size("vision_output_dim"), PROJECTOR)


def gemma4(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    yield from linear("embedding_projection", text.size("hidden_size"), vision.size("hidden_size"), PROJECTOR)


def kimi_vl(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    """A norm, then two layers over ``merge_kernel_size`` joined patches."""
    width = vision.size("hidden_size", vision.size("vt_hidden_size", 1152))
    sides = vision.sequence("merge_kernel_size") or (2, 2)
    joined = width
    for edge in sides:
        joined *= whole("merge_kernel_size", edge, at_least=1)
    yield Tensor("pre_norm", (width,), PROJECTOR)
    yield Tensor("pre_norm", (width,), PROJECTOR, bias=True)
    yield from linear("linear_1", joined, joined, PROJECTOR, bias=True)
    yield from linear("linear_2", text.size("hidden_size"), joined, PROJECTOR, bias=True)


def lfm2_vl(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    joined = vision.size("hidden_size") * outer.size("downsample_factor", 2) ** 2
    hidden, width = text.size("hidden_size"), outer.size("projector_hidden_size", 2560)
    bias = outer.flag("projector_bias", True)
    if outer.flag("projector_use_layernorm", True):
        yield from joined_norm(joined)
    yield from linear("linear_1", width, joined, PROJECTOR, bias=bias)
    yield from linear("linear_2", hidden, width, PROJECTOR, bias=bias)


def mimo(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    width = vision.size("hidden_size")
    joined = width * vision.size("spatial_merge_size", 2) ** 2
    yield Tensor("ln_q", (width,), PROJECTOR)
    yield from linear("0", joined, joined, PROJECTOR)
    yield from linear("2", vision.size("out_hidden_size"), joined, PROJECTOR)


def molmo2(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    """Molmo 2: attention over windows of patches seen in two layers of the tower, then a gated MLP; 128 tokens of its own."""
    adapter = outer.part("adapter_config", "molmo2_adapter")
    seen, hidden, width = vision.size("hidden_size"), text.size("hidden_size"), adapter.size("intermediate_size")
    yield from matrix("new_embedding", (outer.size("additional_vocab_size", 128), hidden), "embedding")
    for module in ("q_proj", "k_proj", "v_proj"):
        yield from linear(module, seen, 2 * seen, PROJECTOR, bias=True)
    yield from linear("o_proj", seen, seen, PROJECTOR, bias=True)
    yield from linear("gate_proj", width, seen, PROJECTOR)
    yield from linear("up_proj", width, seen, PROJECTOR)
    yield from linear("down_proj", adapter.size("text_hidden_size", hidden), width, PROJECTOR)


def exaone(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    joined = vision.size("hidden_size") * vision.size("spatial_merge_size", 2) ** 2
    yield Tensor("ln_q", (vision.size("hidden_size"),), PROJECTOR)
    yield from linear("0", joined, joined, PROJECTOR, bias=True)
    yield from linear("2", vision.size("out_hidden_size"), joined, PROJECTOR, bias=True)


def ernie(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    """ERNIE 4.5 VL: patches joined in space, then in time."""
    joined = vision.size("hidden_size") * vision.size("spatial_merge_size", 2) ** 2
    for first in (joined, joined * vision.size("temporal_merge_size", 2)):
        yield from linear("fc1", joined, first, PROJECTOR, bias=True)
        yield from linear("fc2", joined, joined, PROJECTOR, bias=True)
        yield Tensor("ln", (joined,), PROJECTOR)
        yield Tensor("ln", (joined,), PROJECTOR, bias=True)
    yield from linear("mlp", text.size("hidden_size"), joined, PROJECTOR, bias=True)
    yield Tensor("after_norm", (text.size("hidden_size"),), PROJECTOR)


def kimi_k3(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    joined = 4 * vision.size("vt_hidden_size", 1024)
    yield from linear("linear_1", joined, joined, PROJECTOR)
    yield from linear("linear_2", text.size("hidden_size"), joined, PROJECTOR)
    yield Tensor("post_norm", (text.size("hidden_size"),), PROJECTOR)


def minicpm(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    """MiniCPM-V 4.6: four patches joined once more."""
    joined = 4 * vision.size("hidden_size")
    yield from joined_norm(joined)
    yield from linear("linear_1", joined, joined, PROJECTOR, bias=True)
    yield from linear("linear_2", text.size("hidden_size"), joined, PROJECTOR, bias=True)


def youtu(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    joined = vision.size("hidden_size") * 4
    yield Tensor("ln_q", (vision.size("hidden_size"),), PROJECTOR)
    yield from linear("0", joined, joined, PROJECTOR, bias=True)
    yield from linear("2", text.size("hidden_size"), joined, PROJECTOR, bias=True)


def step(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    yield from linear("multi_modal_projector", text.size("hidden_size"), 4 * vision.size("hidden_size"), PROJECTOR)


def ling(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    """Ling 3 VL: patches normed and joined, then two layers."""
    width = vision.size("hidden_size")
    yield Tensor("norm", (width,), PROJECTOR)
    yield Tensor("norm", (width,), PROJECTOR, bias=True)
    yield from two_layers(outer, width * vision.size("spatial_merge_size", 2) ** 2, text)


def cohere2(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    joined = vision.size("hidden_size") * outer.size("downsample_factor", 2) ** 2
    aligned = outer.size("alignment_intermediate_size")
    yield from linear("linear_1", aligned, joined, PROJECTOR, bias=True)
    half = divide("alignment_intermediate_size", aligned, "two halves of a gated unit,", 2)
    yield from linear("linear_2", text.size("hidden_size"), half, PROJECTOR, bias=True)


def gemma4_unified(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    """Gemma 4 12B sees without a tower: patches of pixels are embedded as tokens are."""
    width, hidden = vision.size("mm_embed_dim", 3840), text.size("hidden_size")
    joined = side(vision, "patch_size") * vision.size("pooling_kernel_size", 3)
    pixels = 3 * joined * joined
    yield from matrix("pos_embedding", (vision.size("mm_posemb_size", 1120), 2, width), "vision")
    for module, size in (("patch_ln1", pixels), ("patch_ln2", width), ("pos_norm", width)):
        yield Tensor(module, (size,), "vision")
        yield Tensor(module, (size,), "vision", bias=True)
    yield from linear("patch_dense", width, pixels, "vision", bias=True)
    yield from linear("embedding_projection", hidden, width, PROJECTOR)


def hunyuan(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    """Convolutions join four patches; a row of its own ends every line of them."""
    seen = vision.size("hidden_size")
    yield from matrix("proj_conv", (2 * seen, seen, 2, 2), PROJECTOR)
    yield from vector("proj_conv", 2 * seen, PROJECTOR, bias=True)
    yield from matrix("proj_out", (4 * seen, 2 * seen, 1, 1), PROJECTOR)
    yield from vector("proj_out", 4 * seen, PROJECTOR, bias=True)
    yield from linear("mlp", text.size("hidden_size"), 4 * seen, PROJECTOR, bias=True)
    yield from vector("image_newline", 4 * seen, PROJECTOR)
    yield Tensor("before_rms", (seen,), PROJECTOR)
    yield Tensor("after_rms", (text.size("hidden_size"),), PROJECTOR)


def gemma3n(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    yield from embedder(vision.size("vocab_size", 128), vision.size("hidden_size", 2048), text)


def minimax_m3(outer: Config, vision: Config, text: Config) -> Iterator[Tensor]:
    hidden = text.size("hidden_size")
    width = outer.size("projector_hidden_size", hidden)
    joined = hidden * vision.size("spatial_merge_size", 2) ** 2
    yield from linear("linear_1", width, vision.size("hidden_size"), PROJECTOR, bias=True)
    yield from linear("linear_2", hidden, width, PROJECTOR, bias=True)
    yield from linear("merge_linear_1", width, joined, PROJECTOR, bias=True)
    yield from linear("merge_linear_2", hidden, width, PROJECTOR, bias=True)


@dataclass(frozen=True)
class VisionLanguage:
    """A text model with eyes. Older configs keep the text part's keys at the top."""

    text: str
    """``model_type`` of the text part where it does not state one."""
    vision: str
    projector: Projector
    ears: str = "audio_config"
    """Config key of the audio part, or of another encoder beside that of images."""

    def __call__(self, c: Config) -> Body:
        from cfglint.catalog.families import family

        text = self.text_part(c)
        describe = family(text.model_type)
        if describe is None or isinstance(describe, VisionLanguage):
            raise UnknownArchitecture(f"text_config has model_type {text.model_type!r}, whose family is not known")
        body = describe(text)
        stated = c.raw.get("vision_config", UNSTATED)
        if stated is None:  # the text model alone
            return body
        if isinstance(c.raw.get(self.ears), Mapping):
            ears = EARS.get(c.model_type)
            if ears is None:
                body.missing = "the audio part"
            else:
                body.tensors += ears(c.part(self.ears, ""), text)
        if stated is UNSTATED:
            body.missing = "the vision part, which the config does not state"
            return body
        vision = c.part("vision_config", self.vision)
        name = TOWER_NAMES.get(vision.model_type, vision.model_type)
        vision = Config(vision.raw, name, nested=True)
        if name in NO_TOWER:
            body.tensors += self.projector(c, vision, text)
            return body
        tower = TOWERS.get(name)
        if tower is None:
            body.missing = f"the vision part (model_type {name})"
            return body
        body.tensors += tower(vision)
        body.tensors += self.projector(c, vision, text)
        return body

    def text_part(self, c: Config) -> Config:
        """The text config with the head's facts, which belong to the whole model."""
        inner = next((key for key in ("text_config", "llm_config") if isinstance(c.raw.get(key), Mapping)), None)
        if inner is None and c.raw.get("hidden_size") is not None:
            part = Config(c.raw, self.text)
        else:
            part = c.part(inner or "text_config", self.text)
        tied = c.raw.get("tie_word_embeddings")
        if tied is None:
            tied = part.raw.get("tie_word_embeddings")
        if tied is None:
            tied = class_defaults().get(c.model_type, {}).get("defaults", {}).get("tie_word_embeddings", False)
        raw = {**part.raw, "tie_word_embeddings": tied, "architectures": c.raw.get("architectures")}
        return Config(raw, part.model_type, nested=part.nested)


class InternS2(VisionLanguage):
    """With a forecaster of time series where the config states one."""

    def __call__(self, c: Config) -> Body:
        body = super().__call__(c)
        if isinstance(c.raw.get("ts_forecaster_config"), Mapping):
            body.tensors += forecaster(c.part("ts_forecaster_config", ""), self.text_part(c))
        return body


NO_TOWER = frozenset({"gemma4_unified_vision"})
"""Vision parts that are an embedding alone."""

TOWER_NAMES = {
    "qwen2_vl": "qwen2_vl_vision",
    "qwen2_5_vl": "qwen2_5_vl_vision",
    "qwen3_vl": "qwen3_vl_vision",
    "qwen3_vl_moe": "qwen3_vl_moe_vision",
    "qwen3_5": "qwen3_5_vision",
    "qwen3_5_moe": "qwen3_5_moe_vision",
    "glm4v": "glm4v_vision",
    "idefics3": "idefics3_vision",
    "smolvlm": "smolvlm_vision",
    "step3p5_vision": "step3p7_vision",
}
"""Published vision configs that carry the whole model's ``model_type``."""


FAMILIES: dict[str, Family] = {
    "llava": VisionLanguage("llama", "clip_vision_model", llava),
    "llava_next": VisionLanguage("llama", "clip_vision_model", llava_next),
    "llava_onevision": VisionLanguage("qwen2", "siglip_vision_model", llava_next),
    "gemma3": VisionLanguage("gemma3_text", "siglip_vision_model", gemma3),
    "gemma3n": VisionLanguage("gemma3n_text", "gemma3n_vision", gemma3n),
    "gemma4": VisionLanguage("gemma4_text", "gemma4_vision", gemma4),
    "paligemma": VisionLanguage("gemma", "siglip_vision_model", paligemma),
    "idefics3": VisionLanguage("llama", "idefics3_vision", idefics3),
    "smolvlm": VisionLanguage("llama", "smolvlm_vision", idefics3),
    "internvl": VisionLanguage("qwen2", "internvl_vision", internvl),
    "internvl_chat": VisionLanguage("internlm2", "internvl_vision", internvl),
    "kimi_vl": VisionLanguage("deepseek_v3", "moonvit", kimi_vl),
    "kimi_k25": VisionLanguage("deepseek_v3", "kimi_k25_vision", kimi_vl),
    "mimo_v2": VisionLanguage("mimo_v2_flash", "mimovl", mimo),
    "lfm2_vl": VisionLanguage("lfm2", "siglip2_vision_model", lfm2_vl),
    "mistral3": VisionLanguage("mistral", "pixtral", mistral3),
    "qwen2_vl": VisionLanguage("qwen2_vl_text", "qwen2_vl_vision", qwen2_vl),
    "qwen2_5_vl": VisionLanguage("qwen2_5_vl_text", "qwen2_5_vl_vision", qwen2_vl),
    "qwen3_vl": VisionLanguage("qwen3_vl_text", "qwen3_vl_vision", qwen3_vl),
    "qwen3_vl_moe": VisionLanguage("qwen3_vl_moe_text", "qwen3_vl_moe_vision", qwen3_vl),
    "qwen3_5": VisionLanguage("qwen3_5_text", "qwen3_5_vision", qwen3_5, ears="vision3d_config"),
    "qwen3_5_moe": VisionLanguage("qwen3_5_moe_text", "qwen3_5_moe_vision", qwen3_5),
    "interns2_mobius": VisionLanguage("interns2_mobius_text", "qwen3_5_moe_vision", qwen3_5),
    "intern_s2_preview": InternS2("qwen3_5_moe_text", "qwen3_5_moe_vision", qwen3_5, ears="ts_config"),
    "qwen4_exp": VisionLanguage("qwen4_exp_text", "qwen4_exp_vision", qwen3_5),
    "deepseek_v41": VisionLanguage("deepseek_v41_text", "deepseek_v41_vision", deepseek_v41),
    "glm4v": VisionLanguage("glm4v_text", "glm4v_vision", glm4v),
    "glm4v_moe": VisionLanguage("glm4v_moe_text", "glm4v_moe_vision", glm4v),
    "molmo2": VisionLanguage("molmo2_text", "molmo2_vision", molmo2),
    "exaone4_5": VisionLanguage("exaone4", "exaone4_5_vision", exaone),
    "ernie4_5_vl_moe": VisionLanguage("ernie4_5_vl_moe_text", "ernie4_5_vl_moe_vision", ernie),
    "ernie4_5_moe_vl": VisionLanguage("ernie4_5_vl_moe_text", "ernie4_5_vl_moe_vision", ernie),
    "kimi_k3": VisionLanguage("kimi_linear", "kimi_k3_vision", kimi_k3),
    "glm5_next": VisionLanguage("glm5_next_text", "glm5_next_vision", glm4v),
    "minicpmv4_6": VisionLanguage("qwen3_5_text", "minicpmv4_6_vision", minicpm),
    "youtu_vl": VisionLanguage("youtu", "youtu_vl_vision", youtu),
    "step3p7": VisionLanguage("step3p5", "step3p7_vision", step),
    "bailing_moe_v3_vl": VisionLanguage("bailing_hybrid", "bailing_moe_v3_vl_vision", ling),
    "llada2vl": VisionLanguage("llada2_moe", "qwen2_5_vl_vision", qwen2_vl),
    "cohere2_vision": VisionLanguage("cohere2", "siglip_vision_model", cohere2),
    "cohere_compass": VisionLanguage("cohere_compass_text", "cohere_compass_vision", qwen3_vl),
    "minimax_vl_01": VisionLanguage("minimax", "clip_vision_model", llava_next),
    "gemma4_unified": VisionLanguage("gemma4_text", "gemma4_unified_vision", gemma4_unified),
    "hy_v3_vl": VisionLanguage("hy_v3", "hunyuan_vl_vision", hunyuan),
    "mllama": VisionLanguage("mllama_text_model", "mllama_vision_model", mllama),
    "llama4": VisionLanguage("llama4_text", "llama4_vision_model", llama4),
    "minimax_m3_vl": VisionLanguage("minimax_m3_vl_text", "minimax_m3_vl_vision", minimax_m3),
}
