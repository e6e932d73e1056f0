"""Defaults that depend on a framework's version: keep the one in force.

A dialect states every default a fact has had, each with the releases it holds for, the newest first. Which of them is
in force depends on the version the job runs with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from cfglint.jobs.facts import DefaultOrigin, Fact, FactSet

_VERSION = re.compile(r"\d+(?:\.\d+)*")

TRL_SFT_LOSS: Final = ((">=1.15", "fused_linear"), (">=1.7", "checkpointed"), ("<1.7", "torch"))
"""``loss_kernel`` of TRL's ``SFTTrainer``: a head fused with the loss since 1.15 (``add_fused_lm_head``, ``trl/trainer/utils.py``);
``loss_type: chunked_nll`` since 1.7 (``sft_config.py``); before, the cross entropy of the model itself."""


def settle_defaults(facts: FactSet, versions: Mapping[str, str]) -> FactSet:
    """A copy of ``facts`` in which each fact keeps, of each framework's defaults, the one that is in force.

    ``versions`` gives frameworks' versions, or ranges as requirements write them. A framework that is not in it is
    taken to be new: the default stated first stays. Statements that are no defaults all stay.
    """
    settled = FactSet()
    for name in facts.names():
        taken: set[str] = set()
        for fact in facts.statements(name):
            origin = fact.origin
            if isinstance(origin, DefaultOrigin):
                if origin.framework in taken or not in_force(origin.version, versions.get(origin.framework)):
                    continue
                taken.add(origin.framework)
            _take(settled, name, fact)
    return settled


def _take(facts: FactSet, name: str, fact: Fact[object]) -> None:
    facts.state(name, fact.value, fact.origin, certain=fact.certain)


def in_force(releases: str, version: str | None) -> bool:
    """Whether a default that holds for ``releases`` (``>=0.27``, ``<5``, empty: all) can be that of ``version``.

    ``version`` is a release, or a range: then it is enough that the two ranges meet. What cannot be read is taken
    to match.
    """
    if not releases or not version:
        return True
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        held = SpecifierSet(releases, prereleases=True)
    except InvalidSpecifier:
        return True
    try:
        return Version(version) in held
    except InvalidVersion:
        pass
    try:
        wanted = SpecifierSet(version, prereleases=True)
    except InvalidSpecifier:
        return True
    # two ranges meet if they do so at one of their bounds, just below it or just above it
    probes = [0, *(_VERSION.findall(releases)), *(_VERSION.findall(version))]
    return any(
        candidate in held and candidate in wanted
        for number in probes
        for candidate in (Version(f"{number}"), Version(f"{number}.dev0"), Version(f"{number}.post1"))
    )
