"""What DeepSpeed's learning-rate schedulers are in the trainer's words."""

from __future__ import annotations

from ..trainer import Settings

EQUIVALENT = {
    "warmuplr": frozenset({"constant_with_warmup", "constant"}),
    "warmupdecaylr": frozenset({"linear"}),
    "warmupcosinelr": frozenset({"cosine", "cosine_with_min_lr", "cosine_warmup_with_min_lr"}),
}
"""``scheduler.type`` (deepspeed/runtime/lr_schedules.py) to the Hugging Face names of the same curve."""

CURVES = {
    "warmuplr": "stays constant after warmup",
    "warmupdecaylr": "decays linearly after warmup",
    "warmupcosinelr": "follows a cosine after warmup",
}
"""What the learning rate does with each."""


def scheduler_type(settings: Settings | None) -> str | None:
    """The scheduler DeepSpeed makes, as the file writes it."""
    value = settings.value("scheduler", "type") if settings is not None else None
    return value if isinstance(value, str) and value.strip() else None
