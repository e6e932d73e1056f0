"""cfglint's settings: found upward from each file, checked, and offered as one frozen :class:`Settings`.

``cfglint.toml`` or ``[tool.cfglint]`` in ``pyproject.toml``; the nearest one counts whole, settings are not merged over
folders. The search ends at the root of the git repository. Globs mean what they mean in ``.gitignore``, from the folder
of the settings file.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cfglint.catalog.accelerators import Accelerator
from cfglint.jobs.facts import SettingOrigin

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

SETTINGS_FILE: Final = "cfglint.toml"
PROJECT_FILE: Final = "pyproject.toml"

SIZE_LIMIT: Final = 4 * 2**20
"""Bytes. No settings file is larger; a device without an end is."""
MOST_SHOWN: Final = 60
"""Characters of a wrong value that a message repeats."""

DEFAULT_EXCLUDE: Final[tuple[str, ...]] = (
    ".git/",
    ".hg/",
    ".svn/",
    ".venv/",
    "venv/",
    "node_modules/",
    "__pycache__/",
    "site-packages/",
    ".mypy_cache/",
    ".ruff_cache/",
    ".pytest_cache/",
    ".tox/",
    ".nox/",
    ".cfglint_cache/",
    ".terraform/",
    "wandb/",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "pnpm-lock.yaml",
    "composer.lock",
    "poetry.lock",
    "uv.lock",
    "Cargo.lock",
    "tokenizer.json",
    "vocab.json",
    "*.safetensors.index.json",
    "pytorch_model.bin.index.json",
    "trainer_state.json",
)
"""What holds no run settings: tools' folders, lock files, and the large files beside a model's weights."""

USABLE_SHARE_OF_LABEL: Final = 0.94
"""GiB that a driver reports per GiB of the label (80 GB label = 80 GiB on NVIDIA boards: 79.15 reported, less on boards
with ECC carved out): a careful low value for accelerators the user adds without ``usable-gib``."""


class SettingsError(Exception):
    """Settings that cannot be used. The message holds file, line, key and, where one is near, the known key."""


@dataclass(frozen=True, slots=True)
class HardwareSetting:
    """Hardware stated in settings; ``gpus`` per node. ``origin`` says where."""

    gpu: str | None
    gpus: int | None
    nodes: int | None
    origin: SettingOrigin


@dataclass(frozen=True, slots=True)
class Target:
    """Hardware for the files that any of ``globs`` matches."""

    globs: tuple[str, ...]
    hardware: HardwareSetting


@dataclass(frozen=True, slots=True)
class JobGroup:
    """Files that make up one job, the run's own settings first. Paths are relative to the settings file's folder."""

    name: str
    files: tuple[str, ...]
    framework: str | None
    hardware: HardwareSetting


@dataclass(frozen=True, slots=True)
class ModelSetting:
    """A model the project describes: by the path of a config.json (or its folder), or by its content."""

    id: str
    path: Path | None
    config: Mapping[str, Any] | None
    origin: SettingOrigin


@dataclass(frozen=True, slots=True)
class IgnoredPlace:
    """One ``[[tool.cfglint.ignore]]`` table: findings of ``rules`` at ``key`` of ``file`` do not matter, for ``reason``."""

    file: str
    key: str | None
    rules: tuple[str, ...]
    reason: str
    origin: SettingOrigin
    route: tuple[str | int, ...] = ()
    """Where the table stands in the settings file."""


@dataclass(frozen=True)
class Settings:
    """Settings in force for a file. ``path`` is None where no settings file was found (all defaults)."""

    path: str | None = None
    root: Path = field(default_factory=Path.cwd)
    """Folder that globs and relative paths start from."""
    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    strict: bool = False
    preview: bool = False
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    severity: Mapping[str, str] = field(default_factory=dict)
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    targets: tuple[Target, ...] = ()
    jobs: tuple[JobGroup, ...] = ()
    models: Mapping[str, ModelSetting] = field(default_factory=dict)
    frameworks: Mapping[str, str] = field(default_factory=dict)
    rules: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    plugins: tuple[str, ...] = ()
    """Modules with rules, besides the installed plugin packages."""
    ignored_places: tuple[IgnoredPlace, ...] = ()
    dialects: Mapping[str, str] = field(default_factory=dict)
    accelerators: tuple[Accelerator, ...] = ()

    def relative(self, path: str | Path) -> str:
        """``path`` from the settings' folder, with forward slashes; unchanged where it lies outside."""
        full = os.path.abspath(path)
        root = str(self.root)
        if full == root or full.startswith(root.rstrip(os.sep) + os.sep):
            return os.path.relpath(full, root).replace(os.sep, "/")
        return full.replace(os.sep, "/")

    def matches(self, path: str | Path, glob: str) -> bool:
        """True where ``glob``, read as in ``.gitignore``, matches the file (or a folder that holds it)."""
        return _glob(glob)(self.relative(path).lstrip("/"))

    def target(self, path: str | Path) -> Target | None:
        """The first target whose globs match."""
        return next((t for t in self.targets if any(self.matches(path, glob) for glob in t.globs)), None)

    def dialect(self, path: str | Path) -> str | None:
        """The config format a file is to be read as, where settings say so."""
        return next((name for glob, name in self.dialects.items() if self.matches(path, glob)), None)

    def origin(self, key: str) -> SettingOrigin:
        """A settings key as the origin of a fact."""
        return SettingOrigin(self.path or "settings", key)


class SettingsResolver:
    """The settings for any path, each settings file read once per run.

    ``config``: use this file for all. ``isolated``: use none. Raises :class:`SettingsError` for settings that cannot be
    used, when the first file they are for is asked about.
    """

    def __init__(self, config: Path | None = None, isolated: bool = False) -> None:
        self._fixed: Settings | None = None
        if isolated:
            self._fixed = Settings()
        elif config is not None:
            self._fixed = read_settings(config)
        self._by_folder: dict[str, Settings] = {}
        self._default = Settings()

    def __call__(self, path: str) -> Settings:
        if self._fixed is not None:
            return self._fixed
        return self._for_folder(os.path.dirname(os.path.abspath(path)))

    def for_folder(self, path: str) -> Settings:
        """The settings for what lies in a folder."""
        return self._fixed if self._fixed is not None else self._for_folder(os.path.abspath(path))

    def _for_folder(self, folder: str) -> Settings:
        known = self._by_folder.get(folder)
        if known is not None:
            return known
        found = _settings_in(folder)
        if found is None:
            above = os.path.dirname(folder)
            if above == folder or os.path.exists(os.path.join(folder, ".git")):
                found = self._default
            else:
                found = self._for_folder(above)
        self._by_folder[folder] = found
        return found


def read_settings(path: Path) -> Settings:
    """The settings of one file. A file not called ``pyproject.toml`` has its keys at the top level (``[tool.cfglint]``
    is taken where the file has it)."""
    try:
        text = _text(path)
    except (OSError, ValueError) as error:
        raise SettingsError(f"{_shown(path)}: cannot be read: {_reason(error)}") from error
    content = _parse(path, text)
    tool = content.get("tool")
    inner = tool.get("cfglint") if isinstance(tool, dict) else None
    if path.name == PROJECT_FILE or isinstance(inner, dict):
        return _checked(path, text, inner if inner is not None else {}, ("tool", "cfglint"))
    return _checked(path, text, content, ())


def settings_json_schema() -> dict[str, Any]:
    """JSON Schema of the settings table, for editors (``cfglint schema settings``)."""
    from cfglint.settings_table import SettingsTable

    schema = SettingsTable.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "cfglint settings"}


def _settings_in(folder: str) -> Settings | None:
    own = os.path.join(folder, SETTINGS_FILE)
    if os.path.isfile(own):
        return read_settings(Path(own))
    project = os.path.join(folder, PROJECT_FILE)
    try:
        if not os.path.isfile(project):
            return None  # opening a pipe would wait for its writer
        text = _text(Path(project))
    except (OSError, ValueError):
        return None
    if "cfglint" not in text:
        return None
    tool = _parse(Path(project), text).get("tool")
    if not isinstance(tool, dict) or "cfglint" not in tool:
        return None
    return _checked(Path(project), text, tool["cfglint"], ("tool", "cfglint"))


def _text(path: Path) -> str:
    """A settings file's text. Raises OSError, or ValueError for what is not UTF-8 or longer than settings are."""
    with path.open("rb") as stream:
        data = stream.read(SIZE_LIMIT + 1)
    if len(data) > SIZE_LIMIT:
        raise ValueError("too large for a settings file")
    return io.StringIO(data.decode("utf-8-sig"), newline=None).read()


def _parse(path: Path, text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib as toml
    else:
        import tomli as toml  # type: ignore[import-not-found, unused-ignore]
    try:
        content: dict[str, Any] = toml.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: a number of more digits than Python converts
        raise SettingsError(f"{_shown(path)}: not TOML: {error}") from error
    return content


def _checked(path: Path, text: str, table: Any, base: tuple[str, ...]) -> Settings:
    if not isinstance(table, dict):
        raise SettingsError(f"{_shown(path)}: [{'.'.join(base)}] is not a table")
    if not table:
        return Settings(path=_shown(path), root=_folder(path))
    from pydantic import ValidationError

    from cfglint.settings_table import SettingsTable

    try:
        checked = SettingsTable.model_validate(table)
    except ValidationError as error:
        lines = [_describe(path, text, table, base, detail) for detail in error.errors()]
        raise SettingsError("\n".join(dict.fromkeys(lines))) from None
    return _settings(path, base, checked)


def _settings(path: Path, base: tuple[str, ...], table: Any) -> Settings:
    from cfglint.settings_table import IgnoreTable, SettingsTable

    assert isinstance(table, SettingsTable)
    root, shown = _folder(path), _shown(path)

    def origin(key: str) -> SettingOrigin:
        return SettingOrigin(shown, ".".join((*base, key)))

    def many(value: str | list[str]) -> tuple[str, ...]:
        return (value,) if isinstance(value, str) else tuple(value)

    places = [(i, entry) for i, entry in enumerate(table.ignore) if isinstance(entry, IgnoreTable)]
    exclude = DEFAULT_EXCLUDE if table.exclude is None else tuple(table.exclude)
    return Settings(
        path=shown,
        root=root,
        select=None if table.select is None else tuple(table.select),
        extend_select=tuple(table.extend_select),
        ignore=tuple(entry for entry in table.ignore if isinstance(entry, str)),
        strict=table.strict,
        preview=table.preview,
        per_file_ignores={glob: tuple(rules) for glob, rules in table.per_file_ignores.items()},
        severity=dict(table.severity),
        exclude=(*exclude, *table.extend_exclude),
        targets=tuple(
            Target(many(t.path), HardwareSetting(t.gpu, t.gpus, t.nodes, origin(f"targets[{i}]")))
            for i, t in enumerate(table.targets)
        ),
        jobs=tuple(
            JobGroup(
                j.name or j.files[0],
                tuple(j.files),
                j.framework,
                HardwareSetting(j.gpu, j.gpus, j.nodes, origin(f"jobs[{i}]")),
            )
            for i, j in enumerate(table.jobs)
        ),
        models={id: _model(id, value, root, origin(f"models.{id}")) for id, value in table.models.items()},
        frameworks=dict(table.frameworks),
        rules={code: dict(options) for code, options in table.rules.items()},
        plugins=tuple(table.plugins),
        ignored_places=tuple(
            IgnoredPlace(p.file, p.key, many(p.rule), p.reason, origin(f"ignore[{i}]"), (*base, "ignore", i))
            for i, p in places
        ),
        dialects=dict(table.dialects),
        accelerators=tuple(
            Accelerator(
                id=a.id,
                vendor=a.vendor,
                arch=a.arch,
                compute_capability=_capability(a.compute_capability),
                memory_gb=a.memory_gb,
                usable_gib=a.usable_gib if a.usable_gib is not None else a.memory_gb * USABLE_SHARE_OF_LABEL,
                usable_measured=a.usable_gib is not None,
                bandwidth_gb_s=a.bandwidth_gb_s,
                tflops_dense=dict(a.tflops_dense),
                supports=dict(a.supports),
                aliases=tuple(a.aliases),
                sources=(a.source or f"{shown} (accelerators[{i}])",),
            )
            for i, a in enumerate(table.accelerators)
        ),
    )


def _model(id: str, value: str | dict[str, Any], root: Path, origin: SettingOrigin) -> ModelSetting:
    inner = value if isinstance(value, str) else value.get("config", value)
    if isinstance(inner, str):
        return ModelSetting(id, root / inner, None, origin)
    if not isinstance(inner, dict):
        raise SettingsError(f"{origin.describe()}: `config` must be a path or a table")
    return ModelSetting(id, None, inner, origin)


def _capability(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    major, minor = text.split(".")
    return int(major), int(minor)


def _describe(path: Path, text: str, table: dict[str, Any], base: tuple[str, ...], detail: ErrorDetails) -> str:
    """One error of pydantic in our words, with file and line."""
    route = _known_steps(table, detail["loc"])
    line = _line(path, text, (*base, *route))
    place = f"{_shown(path)}:{line}" if line else _shown(path)
    key = _dotted(route)
    if detail["type"] == "extra_forbidden":
        from difflib import get_close_matches

        known = _known_keys(route[:-1])
        wrong = str(route[-1])
        close = get_close_matches(wrong.replace("_", "-").lower(), known, n=1, cutoff=0.5)
        hint = f"did you mean `{close[0]}`?" if close else f"known: {', '.join(known)}"
        return f"{place}: unknown key `{key}`; {hint}"
    if detail["type"] == "missing":
        return f"{place}: `{key}` needs the key `{detail['loc'][-1]}`"
    value = detail.get("input")
    shown = f" (is {_excerpt(value)})" if isinstance(value, (str, int, float, bool)) else ""
    message = detail["msg"]
    return f"{place}: `{key}`: {message[:1].lower()}{message[1:]}{shown}"


def _known_steps(table: Any, loc: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """``loc`` without the names of union members that pydantic puts in."""
    steps: list[int | str] = []
    here = table
    for step in loc:
        if isinstance(here, dict):
            known = step in here
        else:
            known = isinstance(here, list) and isinstance(step, int) and step < len(here)
        if known:
            here = here[step]
            steps.append(step)
    return tuple(steps)


def _known_keys(route: tuple[int | str, ...]) -> list[str]:
    from cfglint import settings_table as tables

    inner: dict[str, type[tables.Table]] = {
        "targets": tables.TargetTable,
        "jobs": tables.JobTable,
        "ignore": tables.IgnoreTable,
        "accelerators": tables.AcceleratorTable,
    }
    table = inner.get(str(route[0]) if route else "", tables.SettingsTable)
    return [f.alias or name for name, f in table.model_fields.items()]


def _dotted(route: tuple[int | str, ...]) -> str:
    text = ""
    for step in route:
        text += f"[{step}]" if isinstance(step, int) else (f".{step}" if text else str(step))
    return text


def _line(path: Path, text: str, route: tuple[int | str, ...]) -> int | None:
    """The line a settings key stands on."""
    from cfglint.source.node import Mapping as TreeMapping
    from cfglint.source.node import at
    from cfglint.source.text import parse_text

    file = parse_text(str(path), text, "toml")
    if not file.documents:
        return None
    parent = at(file.documents[0].root, *route[:-1])
    last = route[-1] if route else ""
    if isinstance(parent, TreeMapping) and isinstance(last, str):
        entry = parent.entry(last)
        return None if entry is None else file.position(entry.key.span.start).line
    node = at(file.documents[0].root, *route)
    return None if node is None else file.position(node.span.start).line


@lru_cache(maxsize=1024)
def _glob(glob: str) -> Callable[[str], bool]:
    return matcher((glob,))


def matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether patterns as in ``.gitignore`` match a path, which begins at their folder; folders end in a slash."""
    import pathspec

    spec = pathspec.GitIgnoreSpec.from_lines(patterns)
    return lambda path: bool(spec.match_file(path))


def _excerpt(value: str | float) -> str:
    """A value as a message shows it: what nobody would read to its end is cut."""
    return repr(f"{value[:MOST_SHOWN]}…" if isinstance(value, str) and len(value) > MOST_SHOWN else value)


def _folder(path: Path) -> Path:
    return Path(os.path.dirname(os.path.abspath(path)))


def _shown(path: Path) -> str:
    """A settings file's path as messages show it: from the working directory where it lies in it."""
    full = os.path.abspath(path)
    relative = os.path.relpath(full)
    return (full if relative.startswith("..") else relative).replace(os.sep, "/")


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
