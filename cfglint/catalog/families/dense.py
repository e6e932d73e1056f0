"""Dense decoders."""

from __future__ import annotations

from dataclasses import replace

from cfglint.catalog.families.config import Config
from cfglint.catalog.families.parts import Attention, Decoder, Family, Mlp, Slot


def windowed(c: Config) -> tuple[Slot, ...]:
    """``sliding_window`` in every layer where one is stated (Mistral, Phi-3, StarCoder2)."""
    window = c.get("sliding_window")
    slot = Slot("full_attention") if not window else Slot("sliding_attention", window=int(window))
    return (slot,) * c.size("num_hidden_layers")


def windowed_above(c: Config) -> tuple[Slot, ...]:
    """Qwen2 and Qwen3: a window only where ``use_sliding_window`` says so, in the layers from ``max_window_layers`` on."""
    count = c.size("num_hidden_layers")
    window = c.get("sliding_window") if c.flag("use_sliding_window") else None
    if not window:
        return (Slot("full_attention"),) * count
    named = c.sequence("layer_types")
    first = c.count("max_window_layers", count)
    return tuple(
        Slot("sliding_attention", window=int(window))
        if (named[index] == "sliding_attention" if named and len(named) == count else index >= first)
        else Slot("full_attention")
        for index in range(count)
    )


LLAMA = Decoder(
    mixers={"full_attention": Attention(bias="attention_bias", output_bias="attention_bias")},
    feed_forwards={"dense": Mlp(bias="mlp_bias")},
    tie_default=False,
)
MISTRAL = Decoder(plan=windowed, tie_default=False)
QWEN2 = Decoder(mixers={"full_attention": Attention(bias=True)}, plan=windowed_above, tie_default=False)
QWEN3 = replace(
    QWEN2,
    mixers={"full_attention": Attention(bias="attention_bias", output_bias="attention_bias", qk_norm="head")},
)

FAMILIES: dict[str, Family] = {
    "llama": LLAMA,
    "mistral": MISTRAL,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
}
