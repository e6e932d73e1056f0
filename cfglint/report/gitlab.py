"""``--format gitlab``: a Code Quality report (an array of issues in Code Climate's form)."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from cfglint.report import Options

if TYPE_CHECKING:
    from cfglint.lint.engine import RunResult

SEVERITY: Final = {"error": "critical", "warning": "major", "info": "info"}


def render(result: RunResult, options: Options) -> str:
    """The findings. GitLab wants each fingerprint once: the same finding again gets a number behind it."""
    seen: Counter[str] = Counter()
    issues: list[dict[str, Any]] = []
    for finding in result.shown:
        seen[finding.fingerprint] += 1
        again = seen[finding.fingerprint]
        primary = finding.primary
        issues.append(
            {
                "description": f"{finding.code}: {finding.message}",
                "check_name": finding.name,
                "fingerprint": finding.fingerprint + (f"-{again}" if again > 1 else ""),
                "severity": SEVERITY[finding.severity],
                "location": {
                    "path": finding.reported_path,
                    "lines": {
                        "begin": primary.start.line if primary else 1,
                        "end": primary.end.line if primary else 1,
                    },
                },
            }
        )
    return json.dumps(issues, indent=2, ensure_ascii=False) + "\n"
