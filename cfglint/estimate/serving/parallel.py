"""How a server's ranks share a model: tensor, pipeline, data and expert parallelism."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sharding:
    """``stages`` gives the decoder layers of each pipeline stage; ``expert_ranks`` how many ranks share the experts."""

    tensor: int = 1
    data: int = 1
    expert_ranks: int = 1
    """Ranks over which whole experts are spread; 1 where experts are split by tensor parallelism instead."""
    decode_context: int = 1
    encoder: int = 0
    """Ranks that split the vision encoder, where not those of tensor parallelism: 1 where each holds it whole and takes
    images of its own (vLLM ``mm_encoder_tp_mode`` data)."""
    stages: tuple[range, ...] = (range(0),)

    @property
    def pipeline(self) -> int:
        return len(self.stages)


def pipeline_stages(layers: int, size: int, partition: tuple[int, ...] = ()) -> tuple[range, ...]:
    """Layers of each stage, as vLLM's ``get_pp_indices`` deals them.

    Layers left over go to the stages from the second last backwards: the last stage already has the head.
    """
    size = max(1, min(size, max(1, layers)))
    counts = list(partition) if len(partition) == size and sum(partition) == layers else []
    if not counts:
        counts = [layers // size] * size
        for extra in range(layers % size):
            counts[(-2 - extra) % size] += 1
    stages, start = [], 0
    for count in counts:
        stages.append(range(start, start + count))
        start += count
    return tuple(stages)
