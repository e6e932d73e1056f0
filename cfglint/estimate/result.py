"""What an estimate is: bytes as an interval, with components, the formula and inputs of each, and what was assumed."""

from __future__ import annotations

from dataclasses import dataclass, field

from cfglint.formulas import GIB as GIB


@dataclass(frozen=True, slots=True)
class Interval:
    """``low``–``high`` is meant to hold the truth 95 times in 100. Bytes unless said otherwise."""

    low: float
    expected: float
    high: float

    @staticmethod
    def exactly(value: float) -> Interval:
        return Interval(value, value, value)

    def __add__(self, other: Interval | float) -> Interval:
        if isinstance(other, Interval):
            return Interval(self.low + other.low, self.expected + other.expected, self.high + other.high)
        return Interval(self.low + other, self.expected + other, self.high + other)

    def scaled(self, factor: float) -> Interval:
        return Interval(self.low * factor, self.expected * factor, self.high * factor)


@dataclass(frozen=True, slots=True)
class Input:
    """A fact used by a component, in words for people, with where it came from."""

    fact: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class Component:
    """One part of the peak: ``formula`` shows the working (``8.03 B × 2 bytes``)."""

    name: str
    bytes: float
    formula: str
    inputs: tuple[Input, ...] = ()
    fact_names: tuple[str, ...] = ()
    """Names of the job's facts that drive this part, for labelled places in findings."""


@dataclass
class MemoryEstimate:
    """Per-device memory on the fullest device. ``missing`` names facts without which no verdict can be given."""

    verdict: str = "unknown"
    allocated: Interval | None = None
    reserved: Interval | None = None
    used: Interval | None = None
    host: Interval | None = None
    phases: dict[str, float] = field(default_factory=dict)
    components: list[Component] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    capacity: int | None = None
    floor: float | None = None
    """Bytes used at least by what is known, where activations are not: weights, gradients, optimizer states, CUDA."""
    saving: float = 0.0
    """Bytes of ``host`` that are there while a full state dict is written, on the node of rank 0."""

    @property
    def at(self) -> str | None:
        """The phase of the peak."""
        return max(self.phases, key=lambda phase: self.phases[phase]) if self.phases else None

    def nest(self) -> None:
        """A device shows at least what the allocator reserved, and that is at least what is allocated: at every end."""
        self.reserved = _at_most(self.reserved, self.used)
        self.allocated = _at_most(self.allocated, self.reserved)


def _at_most(part: Interval | None, whole: Interval | None) -> Interval | None:
    if part is None or whole is None:
        return part
    return Interval(min(part.low, whole.low), min(part.expected, whole.expected), min(part.high, whole.high))


@dataclass
class BatchEstimate:
    micro_batch: int | None = None
    gradient_accumulation: int | None = None
    data_parallel: int | None = None
    sequences: int | None = None
    sequence_length: int | None = None
    tokens: int | None = None
    steps_per_epoch: int | None = None
    rows: int = 1
    """Sequences of one example: 2 where ``sequences`` counts pairs of answers."""

    @property
    def counted(self) -> str:
        """The effective batch in words."""
        what = "sequence" if self.rows == 1 else "pair"
        return f"{self.sequences or 0:,} {what}{'' if self.sequences == 1 else 's'}"


@dataclass
class ComputeEstimate:
    flops_per_step: float | None = None
    seconds_per_step: dict[str, float] = field(default_factory=dict)
    """``mfu_40`` and ``mfu_60``."""


@dataclass
class ServingEstimate:
    engine: str
    kv_bytes_per_token: float | None = None
    weights: float | None = None
    activation_peak: float | None = None
    non_torch: float | None = None
    graph: float | None = None
    kv_cache: Interval | None = None
    kv_tokens: Interval | None = None
    max_model_len: int | None = None
    max_concurrency: float | None = None


@dataclass
class Estimate:
    """Everything estimated of one job."""

    memory: MemoryEstimate
    batch: BatchEstimate = field(default_factory=BatchEstimate)
    compute: ComputeEstimate = field(default_factory=ComputeEstimate)
    serving: ServingEstimate | None = None
    assumptions: list[str] = field(default_factory=list)
    parameters: int | None = None
    trainable_parameters: int | None = None
    problems: list[str] = field(default_factory=list)
    """Stated values that cannot be; ``assumptions`` names them too."""
