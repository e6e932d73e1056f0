"""Libraries that a framework's releases pin: what they imply where the framework's version is all that is known. Data.

Axolotl: ``requirements.txt`` of the tags, since 0.17 ``pyproject.toml``. Minor releases pin the same or newer ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_RELEASE: Final = re.compile(r"[=v ]*(\d+)\.(\d+)")
_LIBRARIES: Final = ("transformers", "accelerate", "bitsandbytes", "peft")

PINS: Final[Mapping[str, Mapping[tuple[int, int], tuple[str, str, str, str]]]] = {
    "axolotl": {
        (0, 4): ("4.37.0", "0.26.1", ">=0.41.1", "0.7.0"),
        (0, 5): ("4.46.1", "1.1.0", "0.44.1", "0.13.2"),
        (0, 6): (">=4.46.3", "1.2.0", "0.45.0", "0.14.0"),
        (0, 7): ("4.48.3", "1.3.0", "0.45.2", "0.14.0"),
        (0, 8): ("4.50.3", "1.5.2", "0.45.4", "0.15.0"),
        (0, 9): ("4.51.3", "1.6.0", "0.45.4", "0.15.2"),
        (0, 10): ("4.52.3", "1.7.0", "0.45.4", "0.15.2"),
        (0, 11): ("4.53.1", "1.8.1", "0.46.0", "0.15.2"),
        (0, 12): ("4.55.0", "1.10.0", "0.46.1", "0.17.0"),
        (0, 13): ("4.57.1", "1.11.0", "0.48.2", ">=0.17.1"),
        (0, 14): ("5.0.0", "1.12.0", "0.49.1", ">=0.18.1"),
        (0, 15): ("5.3.0", "1.13.0", "0.49.1", ">=0.18.1"),
        (0, 16): ("5.4.0", "1.13.0", "0.49.1", ">=0.18.1"),
        (0, 17): ("5.9.0", "1.13.0", "0.49.1", ">=0.19.1,<0.20"),
        (0, 18): ("5.14.1", "1.13.0", "0.49.1", "0.19.1"),
    },
}


def pinned(framework: str, release: str | None) -> dict[str, str]:
    """Versions of libraries that this release of a framework asks for; empty where that is not known."""
    found = _RELEASE.match(release or "")
    pins = PINS.get(framework)
    if found is None or pins is None:
        return {}
    wanted = int(found[1]), int(found[2])
    earlier = [each for each in pins if each <= wanted]
    return dict(zip(_LIBRARIES, pins[max(earlier)], strict=True)) if earlier else {}
