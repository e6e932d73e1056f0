"""Commands of which a part stands in a variable that is not known: ``vllm serve MODEL $ARGS``."""

from __future__ import annotations

import re
from typing import Final

from cfglint.jobs.job import Job

ARGUMENTS: Final = "arguments"
"""The missing fact, where arguments hide."""
HIDDEN: Final = "arguments may hide in a variable that is not known: no verdict"
_CALLED_WITH: Final = ("$@", "${@}", "$*", "${*}", "${@:1}", "${@:2}")
"""What a script itself was called with: nothing, as far as anyone knows."""
_LIST: Final = re.compile(r"\[@\]|ARG|OPTION|OPTS|FLAGS|EXTRA|PARAMS|OVERRIDES", re.IGNORECASE)
"""In a variable that holds arguments, also behind a switch (``--enforce-eager $EXTRA_ARGS``)."""


def hides_arguments(job: Job) -> bool:
    """True where a word of the job's command is a variable that is not known, and not the value of a flag."""
    for reading in job.readings:
        before = ""
        for word in getattr(reading.context.get("launch"), "words", ()):
            value = before.startswith("--") and "=" not in before and _LIST.search(word.text) is None
            if not word.known and word.text.startswith("$") and word.text not in _CALLED_WITH and not value:
                return True
            before = word.text
    return False
