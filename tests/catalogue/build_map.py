"""Write map.json: each id of the evidence catalogue to the rules that cover it, or to the reason it is left out.

The rules say themselves what they cover (``Rule.catalogue``); left_out.json holds the reasons. Run by hand:
``python tests/catalogue/build_map.py [--check]``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from cfglint.lint.registry import load_rules

HERE = Path(__file__).parent
EVIDENCE = HERE.parents[2] / "shared" / "rules"
UNDECIDED = "not decided yet"


def made(ids: list[str]) -> dict[str, dict[str, object]]:
    """The map for these ids."""
    reasons: dict[str, str] = json.loads((HERE / "left_out.json").read_text("utf-8"))
    codes: dict[str, list[str]] = {}
    for code, rule in load_rules().items():
        for covered in rule.catalogue:
            codes.setdefault(covered, []).append(code)
    return {
        name: {"codes": sorted(codes[name]), "reason": None}
        if name in codes
        else {"codes": [], "reason": reasons.get(name, UNDECIDED)}
        for name in sorted(ids)
    }


def catalogue_ids() -> list[str]:
    """Every candidate's id, or those of the map where the evidence catalogue is not at hand."""
    if not EVIDENCE.is_dir():
        return sorted(json.loads((HERE / "map.json").read_text("utf-8")))
    return [
        json.loads(line)["id"]
        for name in ("train.jsonl", "serve.jsonl")
        for line in (EVIDENCE / name).read_text("utf-8").splitlines()
        if line.strip()
    ]


def text() -> str:
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in made(catalogue_ids()).items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        if (HERE / "map.json").read_text("utf-8") != text():
            sys.exit("tests/catalogue/map.json is stale: python tests/catalogue/build_map.py")
    else:
        (HERE / "map.json").write_text(text(), "utf-8")
