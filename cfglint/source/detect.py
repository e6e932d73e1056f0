"""Which format a file has: by its name, else by its first characters."""

from __future__ import annotations

import re
from typing import Final

from cfglint.source.node import Format

_BY_EXTENSION: Final[dict[str, Format]] = {
    "yaml": "yaml", "yml": "yaml",
    "json": "json", "jsonc": "json", "json5": "json",
    "toml": "toml",
    "sh": "shell", "bash": "shell", "zsh": "shell", "ksh": "shell",
    "slurm": "shell", "sbatch": "shell",
    "dockerfile": "dockerfile", "containerfile": "dockerfile",
}  # fmt: skip

_SHEBANG: Final = re.compile(r"#![^\r\n]*\b(?:ba|z|k|da|a)?sh\b")
_SBATCH: Final = re.compile(r"^#SBATCH\s", re.MULTILINE)
_FROM: Final = re.compile(r"(?:\s*#[^\n]*\n|\s*\n)*(?:ARG\s+\S+\s*\n+)*FROM\s+\S+", re.IGNORECASE)
_TOML: Final = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\r?\n)*\[{1,2}[A-Za-z0-9_.\"' -]+\]{1,2}[ \t]*(?:#[^\n]*)?\r?\n")
_HEAD: Final = 4096
"""Characters looked at where the name does not say."""
_TEMPLATES: Final = (".j2", ".jinja", ".jinja2", ".tpl", ".tmpl", ".gotmpl", ".mustache", ".erb", ".in")


def is_template_name(path: str) -> bool:
    """Whether a file of no known format is named as one that something else fills in: ``config.yaml.j2``."""
    return path.lower().endswith(_TEMPLATES)


def detect_format(path: str, text: str = "") -> Format | None:
    """The format of a file, None where it is none that is read.

    ``path`` decides where its extension is known; shell scripts under other names are known by their shebang or
    ``#SBATCH`` lines, other formats only in files without an extension.
    """
    name = re.split(r"[\\/]", path)[-1].lower()
    stem, dot, extension = name.rpartition(".")
    if name.startswith(("dockerfile", "containerfile")) and extension not in ("yaml", "yml", "json", "py", "md", "sh"):
        return "dockerfile"
    if dot and extension in _BY_EXTENSION:
        return _BY_EXTENSION[extension]
    head = text[:_HEAD].removeprefix("\ufeff")
    if _SHEBANG.match(head) or _SBATCH.search(head):
        return "shell"
    if dot and stem:
        return None
    start = head.lstrip()
    if start.startswith("{"):
        return "json"
    if start.startswith(("---\n", "---\r\n", "%YAML")):
        return "yaml"
    if _TOML.match(head):
        return "toml"
    if _FROM.match(head):
        return "dockerfile"
    return None
