"""Model families by ``model_type``: each is a short description of its tensors as functions of the config."""

from __future__ import annotations

from importlib import import_module

from cfglint.catalog.families.parts import Family

GROUPS: dict[str, str] = {
    "dense": (
        "llama qwen2 qwen3 mistral ministral ministral3 gemma gemma2 gemma3_text phi phi3 gpt2 gpt_neo gpt_neox "
        "gptj codegen gpt_bigcode opt bloom falcon mpt starcoder2 cohere cohere2 olmo olmo2 olmo3 granite glm glm4 "
        "stablelm apertus arcee exaone4 helium smollm3 seed_oss nemotron ernie4_5 hunyuan_v1_dense internlm2 "
        "internlm3 baichuan qwen mimo solar olmo_hils minicpm apriel olmo2_noqknorm_prenorm chatglm phi3small "
        "nemotron-nas mllama_text_model Dream wedlm olmo2-retrofit qwen2_vl_text qwen2_5_vl_text qwen3_vl_text "
        "glm4v_text molmo2_text cohere_compass_text"
    ),
    "moe": (
        "mixtral qwen2_moe qwen3_moe olmoe minimax_m2 phimoe gpt_oss granitemoe deepseek_v2 deepseek_v3 kimi_k2 "
        "deepseek_v32 glm_moe_dsa deepseek_v4 glm4_moe dots1 hunyuan_v1_moe ernie4_5_moe dbrx llama4_text "
        "mimo_v2_flash minimax_m3_vl_text qwen3_vl_moe_text bailing_moe llada2_moe deepseek afmoe hy_v3 solar_open "
        "flex_olmo youtu grinmoe"
    ),
    "mixtures": (
        "hy_v4 llada ernie4_5_vl_moe_text glm4v_moe_text mistral4 exaone_moe cohere2_moe emo glm4_moe_lite step3p5 "
        "arctic gpt_oss_puzzle interns2_mobius_text"
    ),
    "hybrid": (
        "mamba falcon_mamba mamba2 jamba falcon_h1 nemotron_h granitemoehybrid lfm2 lfm2_moe qwen3_next "
        "qwen3_5_text qwen3_5_moe_text minimax minimax_m1 minicpm_sala"
    ),
    "hybrid_remote": "phi4flash hymba nemotron_flash",
    "delta": "solar_open2 glm5_next_text bailing_hybrid kimi_linear olmo_hybrid",
    "ngrams": "qwen4_exp_text deepseek_v41_text",
    "encoder": "bert roberta xlm-roberta camembert distilbert nomic_bert electra albert deberta-v2 modernbert",
    "seq2seq": "t5 mt5 umt5 bart whisper",
    "gemma": "gemma3n_text gemma4_text gemma4_unified_text",
    "vision": (
        "llava llava_next llava_onevision gemma3 gemma3n gemma4 paligemma idefics3 smolvlm internvl internvl_chat "
        "kimi_vl kimi_k25 lfm2_vl mimo_v2 glm4v_moe molmo2 exaone4_5 ernie4_5_vl_moe ernie4_5_moe_vl kimi_k3 "
        "glm5_next minicpmv4_6 youtu_vl step3p7 bailing_moe_v3_vl llada2vl cohere2_vision cohere_compass "
        "minimax_vl_01 gemma4_unified hy_v3_vl intern_s2_preview mistral3 qwen2_vl qwen2_5_vl qwen3_vl qwen3_vl_moe "
        "qwen3_5 qwen3_5_moe glm4v mllama llama4 minimax_m3_vl qwen4_exp deepseek_v41 "
        "interns2_mobius"
    ),
    "vision_remote": (
        "molmo_point hunyuan_vl_mot hunyuan_vl_mot_text mage_vl glm_edge_v llava_qwen2 phi4mm phi3_v phi4-siglip "
        "llava_mistral minicpmv locateanything penguinvl_qwen3 interns1 molmo cogvlm2"
    ),
}
"""The ``model_type`` values each module describes. Modules are imported one at a time, when first asked for."""

MODULES: dict[str, str] = {name: module for module, names in GROUPS.items() for name in names.split()}


def family(model_type: str) -> Family | None:
    """The description of a ``model_type``, None where the family is not known."""
    module = MODULES.get(model_type)
    if module is None:
        return None
    families: dict[str, Family] = import_module(f"cfglint.catalog.families.{module}").FAMILIES
    return families.get(model_type)
