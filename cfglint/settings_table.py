"""The settings table as pydantic models: what ``[tool.cfglint]`` may hold, with types and a line of help each.

Imported only where a settings table exists: pydantic costs more than the rest of a small run. Keys are written with
hyphens. The JSON Schema that editors use comes from :class:`SettingsTable`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError


def _hyphened(name: str) -> str:
    return name.replace("_", "-")


class Table(BaseModel):
    """A table with known keys only."""

    model_config = ConfigDict(
        extra="forbid", strict=True, allow_inf_nan=False, alias_generator=_hyphened, populate_by_name=False
    )


Count = Annotated[int, Field(ge=1)]


def _glob(text: str) -> str:
    import pathspec

    try:
        pathspec.GitIgnoreSpec.from_lines([text])
    except (ValueError, re.error) as error:
        raise PydanticCustomError("glob", "not a pattern as in .gitignore") from error
    return text


def _range(text: str) -> str:
    from cfglint.jobs.versions import is_range

    if not is_range(text):
        raise PydanticCustomError("range", "a version or a range is needed")
    return text


def _format(name: str) -> str:
    from difflib import get_close_matches

    from cfglint.dialects.recognise import dialects

    known = [dialect.name for dialect in dialects()]
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f"did you mean `{close[0]}`?" if close else f"known: {', '.join(known)}"
        raise PydanticCustomError("format", "no such config format; {hint}", {"hint": hint})
    return name


Glob = Annotated[str, AfterValidator(_glob)]
Globs = Annotated[list[Glob], Field(min_length=1)]
Level = Literal["error", "warning", "info"]


class HardwareTable(Table):
    """Hardware that files do not state."""

    gpu: str | None = Field(None, description="accelerator, as `cfglint gpus` names it")
    gpus: Count | None = Field(None, description="accelerators per node")
    nodes: Count | None = Field(None, description="number of nodes")


class TargetTable(HardwareTable):
    """Hardware for the files that a glob matches."""

    path: Glob | Globs = Field(description="glob or globs, as in .gitignore, from the settings file's folder")


class JobTable(HardwareTable):
    """Files that make up one job, where they do not name each other."""

    name: str | None = Field(None, description="what reports call the job; the first file if absent")
    files: Globs = Field(description="paths from the settings file's folder, the run's own settings first")
    framework: str | None = Field(None, description="framework that runs the job")


class IgnoreTable(Table):
    """Findings to silence where a file cannot hold a comment (JSON)."""

    file: Glob = Field(description="path or glob, as in .gitignore")
    key: str | None = Field(None, description="key path: `a.b[0]` or `/a/b/0`; `*` is one step, `**` any number")
    rule: str | list[str] = Field(description="rule code, code prefix or name")
    reason: str = Field(description="why the finding does not matter here")


RuleOrPlace = Annotated[
    Annotated[str, Tag("rule")] | Annotated[IgnoreTable, Tag("place")],
    Discriminator(lambda value: "rule" if isinstance(value, str) else "place"),
]
"""TOML knows one key ``ignore``: ``ignore = ["MEM"]`` and ``[[tool.cfglint.ignore]]`` both fill it."""


class AcceleratorTable(Table):
    """An accelerator that the catalogue lacks."""

    id: str
    vendor: str = "unknown"
    arch: str = ""
    compute_capability: str | None = Field(None, description="CUDA compute capability: `9.0`", pattern=r"^\d+\.\d+$")
    memory_gb: float = Field(description="GB, as sold", gt=0)
    usable_gib: float | None = Field(None, description="GiB that the driver reports; 94 % of the label if absent", gt=0)
    bandwidth_gb_s: float | None = None
    tflops_dense: dict[str, float] = Field(
        default_factory=dict, description="dense TFLOPS: fp32, tf32, bf16, fp16, fp8"
    )
    supports: dict[str, bool] = Field(default_factory=dict, description="bf16, tf32, fp8, flash_attn2 …")
    aliases: list[str] = Field(default_factory=list)
    source: str = Field("", description="where the figures come from")


class SettingsTable(Table):
    """cfglint's settings: `[tool.cfglint]` in pyproject.toml, or the top level of cfglint.toml."""

    select: list[str] | None = Field(None, description="rules to run: codes, code prefixes or names")
    extend_select: list[str] = Field(default_factory=list, description="rules to run besides the selected ones")
    ignore: list[RuleOrPlace] = Field(
        default_factory=list, description="rules not to run; or tables of file, key, rule and reason"
    )
    strict: bool = Field(False, description="also report what only a careful reader wants to hear of")
    preview: bool = Field(False, description="also run rules that are not stable yet")
    per_file_ignores: dict[Glob, list[str]] = Field(
        default_factory=dict, description="glob to rules not reported there"
    )
    severity: dict[str, Level] = Field(default_factory=dict, description="rule to level")
    exclude: list[Glob] | None = Field(None, description="globs of files not to look at, instead of the default ones")
    extend_exclude: list[Glob] = Field(default_factory=list, description="globs of files not to look at, besides")
    targets: list[TargetTable] = Field(default_factory=list)
    jobs: list[JobTable] = Field(default_factory=list)
    models: dict[str, str | dict[str, Any]] = Field(
        default_factory=dict,
        description="model id to the path of its config.json or folder, to `{config = path}`, or to the config.json itself",
    )
    frameworks: dict[str, Annotated[str, AfterValidator(_range)]] = Field(
        default_factory=dict, description="framework to version or range"
    )
    rules: dict[str, dict[str, Any]] = Field(default_factory=dict, description="rule code to its parameters")
    plugins: list[str] = Field(default_factory=list, description="modules with rules, besides the installed plugins")
    dialects: dict[Glob, Annotated[str, AfterValidator(_format)]] = Field(
        default_factory=dict, description="glob to the config format to read it as"
    )
    accelerators: list[AcceleratorTable] = Field(default_factory=list)
