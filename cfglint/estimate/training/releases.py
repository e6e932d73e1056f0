"""Which release of a framework and of its libraries a job runs: stated, from requirements and images, or pinned."""

from __future__ import annotations

from cfglint.estimate.training.objectives import held_in
from cfglint.estimate.training.pins import pinned
from cfglint.estimate.training.profiles import Profile, shares_releases
from cfglint.estimate.training.reader import Reader
from cfglint.estimate.training.supervised import TRANSFORMERS
from cfglint.jobs.defaults import in_force


def trl_release_of(read: Reader, profile: Profile) -> str | None:
    """The release of TRL, where the job runs TRL's trainers and says which."""
    if profile.name != "trl":
        return None
    return stated_release_of(read) or read.job.versions.get("trl")


def transformers_release_of(read: Reader, profile: Profile) -> str | None:
    """The version of transformers: the framework's own where it is that, else as requirements or images say."""
    stated = stated_release_of(read)
    if profile.name == "peft" and stated == peft_release_of(read, profile):
        stated = None
    if profile.name in ("transformers", "peft"):
        return stated or read.job.versions.get("transformers")
    found = library_release(read, profile, "transformers")
    release = trl_release_of(read, profile)
    return found or (held_in(TRANSFORMERS, release) or None if release is not None else None)


def library_release(read: Reader, profile: Profile, name: str) -> str | None:
    """The release of a library: as requirements or images say, else what the framework's own release pins."""
    return read.job.versions.get(name) or pinned(profile.name, release_of(read, profile)).get(name)


def peft_release_of(read: Reader, profile: Profile) -> str | None:
    """PEFT's release; a plain loop's version is that of transformers unless it is below 1."""
    stated = stated_release_of(read) if profile.name == "peft" else None
    return stated if stated is not None and stated.startswith("0.") else library_release(read, profile, "peft")


def stated_release_of(read: Reader) -> str | None:
    """The framework's version where it is that of the framework whose profile stands for it."""
    return read.text("framework_version") if shares_releases(read.text("framework")) else None


def release_of(read: Reader, profile: Profile) -> str | None:
    return stated_release_of(read) or read.job.versions.get(profile.name)


def in_release(read: Reader, profile: Profile, releases: str) -> bool:
    """Whether what holds ``always`` or in some releases of the framework does here; the newest where none is known."""
    if releases in ("", "always"):
        return bool(releases)
    release = release_of(read, profile)
    return in_force(releases, release) if release is not None else not releases.startswith("<")
