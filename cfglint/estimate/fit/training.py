"""What would fit of a training job: largest sizes, changes of settings, accelerators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Final

from cfglint.estimate.fit.hardware import smallest_training_hardware
from cfglint.estimate.fit.options import LARGEST_MICRO_BATCH, SHORTEST_SEQUENCE, Knob, Option, knobs_of, rank_sequences
from cfglint.estimate.fit.result import FITTING, Change, Fit, KeptBatch, Largest
from cfglint.estimate.fit.search import largest
from cfglint.estimate.fit.settings import settings_for
from cfglint.estimate.fit.what_if import WhatIf, capacity_of, need
from cfglint.estimate.result import GIB, Estimate
from cfglint.estimate.training.plan import Plan
from cfglint.estimate.training.resolve import resolve
from cfglint.jobs.job import TrainingJob

MOST_SEQUENCES: Final = 4096
"""Upper bound of the search for a micro-batch."""
MOST_TOKENS: Final = 2**21
"""Upper bound of the search for a sequence length."""
TOKEN_STEP: Final = 64
"""Lengths are tried in steps of this many tokens, as kernels are tiled."""
WORTH_SHOWING: Final = 0.05 * GIB
"""A change that saves less is not shown."""
MOST_STACKED: Final = 3
"""Changes stacked at most: more is another job."""
MOST_STACKS: Final = 3
"""Stacks shown at most."""
MOST_TRIED: Final = 60
"""Stacks estimated at most (about 1 ms each)."""


def fit_training(job: TrainingJob) -> Fit:
    """Everything that would fit. Where a fact is missing only what does not need it is answered."""
    search = TrainingFit(job)
    fit = Fit(search.base, missing=tuple(search.base.memory.missing))
    plan = search.plan
    if plan.architecture is not None:
        fit.model_limit = plan.architecture.max_position_embeddings
    if search.base.memory.used is None or search.base.memory.missing:
        return fit
    fit.accelerators, fit.too_small = smallest_training_hardware(job, plan, search.what_if)
    if search.capacity is None:
        fit.missing = ("gpu",)
        return fit
    fit.beside = search.beside
    fit.micro_batch = search.largest_micro_batch()
    fit.sequence_length = search.largest_sequence()
    fit.kept_batch = search.kept_batch(fit.micro_batch)
    if fit.fits:
        fit.spare = list(search.spare(fit.kept_batch))
    if search.base.memory.verdict != "fits":
        fit.changes = search.changes()
        fit.stacked = search.combined(fit.changes)
    return fit


def fitting_changes(job: TrainingJob) -> list[Change]:
    """Changes with which the job fits, the best first: single ones, else stacks of up to three.

    Where each single one changes the training result, the stacks that leave it alone come before them.
    """
    search = TrainingFit(job)
    if search.base.memory.missing or search.capacity is None:
        return []
    fitting = [change for change in search.changes() if change.verdict in FITTING]
    surely = [change for change in fitting if change.verdict == "fits"]
    return [*search.combined(fitting), *surely] or fitting


class TrainingFit:
    """The searches over one training job, sharing its estimates."""

    def __init__(self, job: TrainingJob) -> None:
        self.job = job
        self.plan: Plan = resolve(job)
        self.what_if = WhatIf(job)
        self.base: Estimate = self.what_if.estimate()
        self.capacity = capacity_of(job.hardware)
        memory = self.base.memory
        evaluation = memory.at == "evaluation" and memory.verdict not in FITTING
        self.beside: Mapping[str, Any] = {"eval_micro_batch_size": 1} if evaluation else {}
        """What the sizes asked for are sought with: where evaluation alone is too large, with the smallest batch of it."""
        self._knobs: list[Knob] | None = None

    def _largest(self, fact: str, start: int, most: int, step: int = 1) -> Largest:
        capacity = self.capacity or 0

        def needed(which: int) -> Any:
            return lambda n: need(self.what_if.estimate({fact: n * step, **self.beside}).memory)[which]

        fits = largest(needed(0), capacity, max(start // step, 1), most // step)
        expected = largest(needed(1), capacity, max(fits, 1), most // step)
        return Largest(fits * step, max(expected, fits) * step, bounded=fits * step >= most)

    def largest_micro_batch(self) -> Largest:
        """With accumulation as it is, so that only one setting differs."""
        return self._largest("micro_batch_size", self.plan.micro_batch or 1, MOST_SEQUENCES)

    def largest_sequence(self) -> Largest:
        return self._largest("sequence_length", self.plan.sequence or 1, MOST_TOKENS, TOKEN_STEP)

    def kept_batch(self, found: Largest) -> KeptBatch | None:
        """The largest micro-batch that fits and divides the sequences of one rank and step."""
        micro = self.plan.micro_batch
        if micro is None or not found.expected:
            return None
        total = rank_sequences(self.job, self.plan)
        bound = found.fits or found.expected
        wanted = "fits" if found.fits else "tight"
        # with one step instead of several the gradients need not wait: one size more may fit, none fewer
        for size in range(min(total, bound + 1, LARGEST_MICRO_BATCH), 0, -1):
            if total % size:
                continue
            facts = {"micro_batch_size": size, "gradient_accumulation_steps": total // size}
            if self.what_if.estimate({**facts, **self.beside}).memory.verdict not in ("fits", wanted):
                continue
            largest_size = min(bound, total)
            remainder = None if total % largest_size == 0 else -(-total // largest_size) * largest_size
            same = size == micro
            settings = () if same else settings_for(self.job, facts) or ()
            return KeptBatch(size, total // size, total, remainder, settings)
        return None

    def changes(self) -> list[Change]:
        """Single changes: of each knob the mildest option that fits, else the strongest. Those that fit come first."""
        found = []
        before = need(self.base.memory)[1]
        for knob in self._available():
            change = self._mildest(self._with_found_length(knob))
            if change is not None and (
                change.verdict == "fits" or before - need(change.estimate.memory)[1] >= WORTH_SHOWING
            ):
                found.append(change)
        order = {"fits": 0, "tight": 1}
        found.sort(key=lambda c: (order.get(c.verdict, 2), c.changes_training_result, c.rank))
        return found

    def _available(self) -> list[Knob]:
        """Knobs whose options the job's framework can say."""
        if self._knobs is None:
            self._knobs = []
            for knob in knobs_of(self.job, self.plan):
                options = tuple(option for option in knob.options if self._settings(option) is not None)
                if options:
                    self._knobs.append(Knob(knob.group, options))
        return self._knobs

    def _settings(self, option: Option) -> Any:
        return settings_for(self.job, option.said)

    def _with_found_length(self, knob: Knob) -> Knob:
        """For the sequence length the very largest that fits, instead of halves."""
        if knob.group != "sequence":
            return knob
        found = self.largest_sequence()
        first = knob.options[0]
        length = found.fits if found.fits >= SHORTEST_SEQUENCE else found.expected
        if not SHORTEST_SEQUENCE <= length < (self.plan.sequence or 0):
            return knob
        longest = replace(first, words=f"sequence length {length:,}", facts={"sequence_length": length})
        return Knob(knob.group, (longest,))

    def _mildest(self, knob: Knob) -> Change | None:
        best: Change | None = None
        for option in knob.options:
            made = self.what_if.estimate(option.facts)
            change = self._change(option, made)
            if best is None or need(made.memory)[1] <= need(best.estimate.memory)[1]:
                best = change
            if made.memory.verdict == "fits":
                return change
        return best

    def _change(self, option: Option, made: Estimate) -> Change:
        return Change(
            option.words, option.facts, self._settings(option) or (), made, option.alters, option.cost, option.rank
        )

    def combined(self, single: Sequence[Change]) -> list[Change]:
        """Stacks, where no single change surely fits; where all that do change the training result, stacks that do not."""
        surely = [change for change in single if change.verdict == "fits"]
        if not surely:
            return self.stacked()
        return self.stacked(altering=False) if all(change.changes_training_result for change in surely) else []

    def stacked(self, altering: bool = True) -> list[Change]:
        """Stacks of two, then three changes that fit together, the cheapest first, as mild as they may be.

        ``altering``: also of changes that change the training result.
        """
        knobs = [knob for knob in self._available() if altering or not _alters(knob)]
        kept = [knob for knob in knobs if not _alters(knob)]
        hopeful: dict[frozenset[int], bool] = {}
        found: list[Change] = []
        tried = 0
        for stack in self._by_cost(knobs):
            costly = [knob for knob in stack if _alters(knob)]
            key = frozenset(map(id, costly))
            if key not in hopeful:
                # nothing that leaves the result alone can help these if all of it cannot
                hopeful[key] = self._all_together([*costly, *kept])
            if not hopeful[key] or any(set(change.facts) <= _facts_of(stack) for change in found):
                continue
            if altering and not costly and len(found) >= MOST_STACKS - 1:
                # one place is for what changes the result: it may be far quicker
                continue
            tried += 1
            if tried > MOST_TRIED or len(found) >= MOST_STACKS:
                break
            made = self._stack(stack)
            if made is not None:
                found.append(made)
        return found

    def _all_together(self, knobs: list[Knob]) -> bool:
        """Whether any stack can fit: all that go together, at their strongest."""
        chosen: list[Option] = []
        for knob in knobs:
            if merged([*chosen, knob.options[-1]]) is not None:
                chosen.append(knob.options[-1])
        made = self._together(chosen)
        return made is not None and made.memory.verdict in FITTING

    @staticmethod
    def _by_cost(knobs: list[Knob]) -> Iterator[tuple[Knob, ...]]:
        stacks = [
            stack
            for size in range(2, MOST_STACKED + 1)
            for stack in combinations(knobs, size)
            if len({knob.group for knob in stack}) == size
        ]
        stacks.sort(
            key=lambda stack: (
                sum(knob.options[-1].alters for knob in stack),
                sum(knob.options[-1].rank for knob in stack),
                len(stack),
            )
        )
        yield from stacks

    def _stack(self, stack: tuple[Knob, ...]) -> Change | None:
        """The strongest options together; where they fit, each as mild as the others allow."""
        chosen = [knob.options[-1] for knob in stack]
        if not _fits(made := self._together(chosen)):
            return None
        # the costliest is relaxed first
        for i, knob in sorted(enumerate(stack), key=lambda pair: -pair[1].options[-1].rank):
            for option in knob.options[:-1]:
                milder = [*chosen[:i], option, *chosen[i + 1 :]]
                if _fits(other := self._together(milder)):
                    chosen, made = milder, other
                    break
        settings = settings_for(self.job, merged(chosen, said=True) or {})
        if made is None or settings is None:
            return None
        parts = tuple(self._change(option, self.what_if.estimate(option.facts)) for option in chosen)
        return Change(
            " + ".join(part.words for part in parts),
            merged(chosen) or {},
            settings,
            made,
            any(part.changes_training_result for part in parts),
            "; ".join(dict.fromkeys(part.cost for part in parts if part.cost)),
            sum(part.rank for part in parts),
            parts,
        )

    def _together(self, options: list[Option]) -> Estimate | None:
        facts = merged(options)
        return None if facts is None else self.what_if.estimate(facts)

    def spare(self, kept: KeptBatch | None) -> Iterator[Change]:
        """Settings that use the room a fitting job leaves; none changes the training result."""
        plan = self.plan
        if kept is not None and plan.micro_batch is not None and kept.micro_batch_size > plan.micro_batch:
            facts = {
                "micro_batch_size": kept.micro_batch_size,
                "gradient_accumulation_steps": kept.gradient_accumulation_steps,
            }
            words = f"micro-batch {kept.micro_batch_size} with {kept.gradient_accumulation_steps} accumulation steps"
            yield Change(words, facts, kept.settings, self.what_if.estimate(facts), cost="fewer, fuller passes")
        for words, less, cost in self._undone():
            made = self.what_if.estimate(less)
            settings = settings_for(self.job, less)
            if made.memory.verdict == "fits" and settings is not None:
                yield Change(words, less, settings, made, cost=cost)

    def _undone(self) -> Iterator[tuple[str, dict[str, Any], str]]:
        """Savings that cost time and may not be needed."""
        plan = self.plan
        if plan.offload_parameters == "cpu" and plan.sharding == "zero3":
            yield "parameters on the GPU", {"offload_parameters": "none"}, "no traffic over PCIe"
        elif plan.offload_optimizer == "cpu" and plan.sharding.startswith("zero"):
            yield "the optimizer on the GPU", {"offload_optimizer": "none"}, "steps on the GPU"
        if plan.checkpointing == "full":
            yield "no gradient checkpointing", {"gradient_checkpointing": "none"}, "a fifth to a quarter less compute"
        if plan.sharding == "zero3" and plan.offload_parameters == "none":
            yield "ZeRO stage 2", {"zero_stage": 2}, "a third less communication"


def _facts_of(stack: tuple[Knob, ...]) -> set[str]:
    return {name for knob in stack for name in knob.options[-1].facts}


def _alters(knob: Knob) -> bool:
    return any(option.alters for option in knob.options)


def _fits(made: Estimate | None) -> bool:
    return made is not None and made.memory.verdict == "fits"


def merged(options: Sequence[Option], *, said: bool = False) -> dict[str, Any] | None:
    """The facts of several options together (``said``: what the files must say); None where they exclude each other."""
    facts: dict[str, Any] = {}
    for option in options:
        for name, value in (option.said if said else option.facts).items():
            facts[name] = max(facts[name], value) if name == "zero_stage" and name in facts else value
    zero3 = facts.get("zero_stage") == 3
    flat = "fsdp" in facts or "fsdp_offload" in facts
    if ("zero_stage" in facts or "offload_optimizer" in facts) and "fsdp" in facts:
        return None
    if "quantization" in facts and (zero3 or flat or "offload_parameters" in facts):
        return None
    if "8bit" in str(facts.get("optimizer", "")) and (flat or "offload_optimizer" in facts):
        return None
    return facts
