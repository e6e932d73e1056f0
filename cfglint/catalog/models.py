"""Published checkpoints: their configs, parameter counts, dtype facts, each with its source.

The data file holds one row a line, found by its key and parsed alone: looking one model up neither parses nor builds the rest.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from cfglint.catalog import data
from cfglint.catalog.architecture import Architecture, UnknownArchitecture, architecture_from_config

SHARE_UNEXPLAINED = 0.03
"""A computed count may differ by this share from the published one (multi-token-prediction heads, buffers in the file) for
the tensors still to be those of the model; beyond it the row's dimensions are not trusted to be complete."""


@dataclass(frozen=True)
class Model:
    """One checkpoint of the catalogue."""

    id: str
    aliases: tuple[str, ...]
    """Other ids of the same shape."""
    config: Mapping[str, Any]
    """Its ``config.json`` as far as known."""
    params_total: int
    params_active: int | None
    """Parameters that one token passes; None where all are or where it is not known."""
    counted: bool
    """True: the model was instantiated from its dimensions and its parameters counted. False: total of the published files."""
    matches_published: bool
    """The count equals the published files' total to the last parameter."""
    extra_in_checkpoint: int
    """Elements of the published files that are no parameters of the model: multi-token-prediction layers, buffers, scales;
    negative where several weights stand in one element."""
    native_dtype: str | None
    native_dtype_sourced: bool
    """False: recalled as the family's usual dtype, never a ground for an error."""
    native_dtype_source: str
    trained_in: str | None
    trained_in_evidence: str
    fp16_safe: Literal["yes", "no", "unknown"]
    fp16_evidence: str
    license: str | None
    gated: bool | None
    """None: not known."""
    config_of: str
    """Id of the model the config was taken from, where the row is known to equal it in sizes and total; else empty."""
    source: str
    checked: str
    """Day the row was taken from its source."""
    note: str = ""
    no_count: str = ""
    """What ``params_total`` is where it counts no parameters of the model (an estimate); the architecture then has the count."""

    @property
    def model_type(self) -> str:
        return str(self.config["model_type"])

    @property
    def quantization(self) -> Mapping[str, Any] | None:
        value = self.config.get("quantization_config")
        return value if isinstance(value, Mapping) else None


def find_model(name: str) -> Model | None:
    """The model of that Hub id or alias, whatever the case; None where the catalogue does not have it.

    Only a whole id counts: a path, a bare name or a similar id is no match.
    """
    key = name.strip().rstrip("/").lower()
    if not key or key.startswith("@"):
        return None
    row = _row(key)
    if isinstance(row, str):  # an alias names its row
        row = _row(row.lower())
    if not isinstance(row, dict):
        return None
    model, format_of_alias = _model(row), row.get("formats", {}).get(key)
    if format_of_alias is None:
        return model
    return replace(model, config={**model.config, "quantization_config": format_of_alias})


def models_named(name: str) -> tuple[str, ...]:
    """Ids in lower case, aliases among them, of every owner's model of that name: ``llama-2-7b-hf`` without an owner."""
    key = name.strip().lower()
    if not key or "/" in key or '"' in key:
        return ()
    text, tail = _text(), f'/{key}":'
    found: list[str] = []
    end = text.find(tail)
    while end >= 0:
        start = text.rfind("\n", 0, end) + 2
        owner = text[start:end]
        if text[start - 1] == '"' and '"' not in owner and "/" not in owner:
            found.append(f"{owner}/{key}")
        end = text.find(tail, end + 1)
    return tuple(found)


def similar_models(name: str, n: int = 3) -> tuple[str, ...]:
    """Ids of the nearest known models, for "did you mean"."""
    import difflib  # only where something was not found

    wanted = name.strip().rstrip("/").lower()
    if not wanted:
        return ()
    own, by_name = wanted.rsplit("/", 1)[-1], _names_without_owner()
    found: list[str] = list(by_name.get(own, []))
    for match in difflib.get_close_matches(own, by_name, n=n, cutoff=0.7):
        found += [key for key in by_name[match] if key not in found]
    owner = wanted.rsplit("/", 1)[0] if "/" in wanted else ""
    found.sort(key=lambda key: owner != "" and not key.startswith(owner + "/"))  # stable: the same owner's first
    return tuple(_spelled(key) for key in found[:n])


@functools.lru_cache(maxsize=1)
def _names_without_owner() -> dict[str, list[str]]:
    """Ids and aliases by what follows their owner."""
    table: dict[str, list[str]] = {}
    for key in _names():
        table.setdefault(key.rsplit("/", 1)[-1], []).append(key)
    return table


def model_ids() -> tuple[str, ...]:
    """Every id of the catalogue (without aliases), sorted as the file is."""
    return tuple(_spelled(key) for key in _names(aliases=False))


def models() -> Iterator[Model]:
    """Every model; for listings."""
    for row in json.loads(_text()).values():
        if isinstance(row, dict):
            yield _model(row)


def row_to_config(model: Model) -> dict[str, Any]:
    """The model's ``config.json`` as far as known, as a mapping of its own."""
    copied: dict[str, Any] = json.loads(json.dumps(dict(model.config)))
    return copied


def architecture_of(model: Model) -> Architecture:
    """The model's architecture. ``exact`` where the tensors add up to the row's total, or where that is no count of them.

    Of a row that is known by its total alone the tensors are left out (or those of the text part kept), the total stays.
    Draft layers that a checkpoint of another's shape holds besides are not counted.
    """
    try:
        made = architecture_from_config(model.config)
    except UnknownArchitecture as error:
        return _total_alone(model, str(error))
    stored_besides = 0 if model.counted else model.extra_in_checkpoint
    if made.exact and (model.no_count or made.total_parameters == model.params_total - stored_besides):
        return made
    near = made.total_parameters is not None and (
        abs(made.total_parameters - model.params_total) <= SHARE_UNEXPLAINED * model.params_total
    )
    keep = near or (bool(made.missing) and bool(made.tensors))
    return replace(
        made,
        tensors=made.tensors if keep else (),
        total_parameters=model.params_total,
        active_parameters=model.params_active or (None if made.moe else model.params_total),
        exact=False,
        missing=made.missing or ("" if near else "all tensors: they do not add up to the published total"),
    )


def _total_alone(model: Model, why: str) -> Architecture:
    """An architecture of which the catalogue knows little but the total; unknown sizes are zero."""

    def size(key: str) -> int:
        value = model.config.get(key)
        return value if isinstance(value, int) and value > 0 else 0

    return Architecture(
        model_type=model.model_type,
        architecture=None,
        hidden_size=size("hidden_size"),
        vocab_size=size("vocab_size"),
        num_attention_heads=size("num_attention_heads"),
        num_key_value_heads=size("num_key_value_heads"),
        head_dim=size("head_dim"),
        intermediate_size=size("intermediate_size"),
        layers=(),
        native_dtype=model.native_dtype,
        quantization=model.quantization,
        total_parameters=model.params_total,
        active_parameters=model.params_active,
        missing=f"all tensors: {why}",
        config=model.config,
    )


@functools.lru_cache(maxsize=1)
def _text() -> str:
    return data.read("models.json")


def _row(key: str) -> Any:
    """The row of a key, without parsing the others: each stands on a line of its own."""
    text = _text()
    start = text.find(f"\n{json.dumps(key, ensure_ascii=False)}:")
    if start < 0:
        return None
    start = text.index(":", start + len(key)) + 1
    end = text.find("\n", start)
    return json.loads(text[start:end].rstrip(","))


@functools.lru_cache(maxsize=1)
def _header() -> tuple[list[str], str]:
    """The long texts that rows share, and the day they were taken."""
    return _row("@texts"), _row("@checked")


def _names(*, aliases: bool = True) -> list[str]:
    pattern = r'\n"([^"@]+)":' if aliases else r'\n"([^"@]+)":\{'
    return re.findall(pattern, _text())


def _spelled(key: str) -> str:
    """The id as its owner writes it; an alias keeps the key's spelling where its row does not give one."""
    row = _row(key)
    if isinstance(row, str):
        target = _row(row.lower())
        for alias in target.get("aliases", ()) if isinstance(target, dict) else ():
            if alias.lower() == key:
                return str(alias)
    return str(row["id"]) if isinstance(row, dict) else key


def _model(row: Mapping[str, Any]) -> Model:
    texts, checked = _header()

    def text(key: str) -> str:
        number = row.get(key)
        return texts[number] if isinstance(number, int) else ""

    return Model(
        id=row["id"],
        aliases=tuple(row.get("aliases", ())),
        config=row["config"],
        params_total=row["params"],
        params_active=row.get("active"),
        counted=row.get("counted", False),
        matches_published=row.get("exact_check", False),
        extra_in_checkpoint=row.get("extra", 0),
        no_count=row.get("no_count", ""),
        native_dtype=row["config"].get("dtype"),
        native_dtype_sourced=row.get("dtype_sourced", False),
        native_dtype_source=text("dtype_source"),
        trained_in=row.get("trained_in"),
        trained_in_evidence=text("trained_in_evidence"),
        fp16_safe=row.get("fp16_safe", "unknown"),
        fp16_evidence=text("fp16_evidence"),
        license=row.get("license"),
        gated=row.get("gated"),
        config_of=row.get("like", ""),
        source=text("source"),
        checked=checked,
        note=text("note"),
    )
