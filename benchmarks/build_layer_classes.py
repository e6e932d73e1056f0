"""Write rules/parallel/layer_classes.json: the layer classes of each model type, read from transformers' source.

    python benchmarks/build_layer_classes.py FOLDER…

Each FOLDER is an unpacked transformers release (the folder that holds ``models``). Only model types of the catalogue are
kept. Classes are those whose names end in Layer or Block, and those that ``_no_split_modules`` names.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from datetime import date
from pathlib import Path

from cfglint.catalog.models import models

TARGET = Path(__file__).parent.parent / "rules" / "parallel" / "layer_classes.json"

_TYPE = re.compile(r'^    model_type(?::\s*\w+)? = "([\w-]+)"', re.MULTILINE)
_CLASS = re.compile(r"^class (\w+(?:Layer|Block))\(", re.MULTILINE)
_NO_SPLIT = re.compile(r"_no_split_modules = \[([^\]]*)\]")


def layer_classes(folders: list[Path]) -> dict[str, list[str]]:
    """Model type to the names of its layer classes, over all releases given."""
    found: dict[str, set[str]] = defaultdict(set)
    for folder in folders:
        for family in sorted((folder / "models").iterdir()):
            types = {
                name for path in family.glob("configuration_*.py") for name in _TYPE.findall(path.read_text("utf-8"))
            }
            names: set[str] = set()
            for path in family.glob("modeling_*.py"):
                if path.name.startswith(("modeling_tf_", "modeling_flax_")):
                    continue
                text = path.read_text("utf-8")
                names.update(_CLASS.findall(text))
                for inside in _NO_SPLIT.findall(text):
                    names.update(re.findall(r'"(\w+)"', inside))
            for name in types:
                found[name] |= names
    known = {model.model_type for model in models()}
    return {name: sorted(classes) for name, classes in sorted(found.items()) if classes and name in known}


def main() -> None:
    folders = [Path(argument) for argument in sys.argv[1:]]
    if not folders:
        sys.exit(__doc__)
    data = {
        "source": "class names ending in Layer or Block, and _no_split_modules, of the transformers releases named here "
        "(src/transformers/models/*/modeling_*.py), for the model types of the catalogue",
        "releases": [_release(folder) for folder in folders],
        "checked": date.today().isoformat(),
        "layers": layer_classes(folders),
    }
    TARGET.write_text(json.dumps(data, separators=(",", ":")) + "\n", "utf-8")


def _release(folder: Path) -> str:
    match = re.search(r'__version__ = "([^"]+)"', (folder / "__init__.py").read_text("utf-8"))
    return match.group(1) if match else folder.name


if __name__ == "__main__":
    main()
