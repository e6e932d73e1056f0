"""Build the key tables in ``cfglint/dialects/data`` from the frameworks' own sources.

Run by hand when a framework releases: ``python benchmarks/build_schemas.py FOLDER [TABLE …]``. FOLDER holds the unpacked
releases, ``<package>-<version>/src/…`` (wheels or sdists, unpacked and never imported: everything is read with
:mod:`ast`). Each release found is one sample; a key's life is told from the samples it stands in. What the sources say
only in prose (successors of removed keys, warnings raised in ``__post_init__``, how a file is read) stands in
``schema_notes.py`` beside this file.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from schema_notes import EARLIER, NOTES, QUANTIZATION_METHODS, READERS, TITLES, TOLERATED

DATA = Path(__file__).parents[1] / "cfglint" / "dialects" / "data"
MISSING = object()
BUILTIN = {"int": "int", "float": "float", "bool": "bool", "str": "str", "dict": "dict", "list": "list", "Any": "any",
           "Dict": "dict", "List": "list", "Mapping": "dict", "DictDefault": "dict", "Path": "str", "PathLike": "str",
           "StrictBool": "bool", "NonNegativeInt": "int", "PositiveInt": "int", "Enum": "str", "object": "any",
           "tuple": "list", "Tuple": "list", "Sequence": "list", "set": "list", "Set": "list"}  # fmt: skip


@dataclass
class Row:
    """One key in one release."""

    type: str = "any"
    default: Any = MISSING
    required: bool = False
    choices: list[str] = field(default_factory=list)
    keys: dict[str, Row] | None = None
    items: dict[str, Row] | None = None
    open: bool = False
    deprecated: bool = False
    extra: dict[str, Any] = field(default_factory=dict)


Table = dict[str, Row]


def arithmetic(operator: ast.operator, left: float, right: float) -> Any:
    """The value of a binary operation on numbers, or MISSING for an operator that sizes are not written with."""
    if isinstance(operator, ast.Mult):
        return left * right
    if isinstance(operator, ast.Pow):
        return left**right
    if isinstance(operator, ast.Add):
        return left + right
    if isinstance(operator, ast.Sub):
        return left - right
    return left / right if isinstance(operator, ast.Div) else MISSING


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def short(version: str) -> str:
    """``4.57.6`` → ``4.57``: samples stand for their minor release."""
    return ".".join(version.split(".")[:2])


def releases(folder: Path, package: str, patches: bool = False) -> list[tuple[str, Path]]:
    """The samples of a package, oldest first: (version as it is recorded, source root).

    A release that is the only sample of its minor stands for the minor (``4.57``), others for themselves.
    """
    found = []
    for path in folder.glob(f"{package}-*"):
        version = path.name.removeprefix(f"{package}-")
        root = next((p for p in (path / "src" / "src", path / "src") if (p / package).is_dir()), None)
        if root is not None and version[0].isdigit():
            found.append((version, root / package))
    found.sort(key=lambda pair: numbers(pair[0]))
    minors = [short(version) for version, _ in found]
    return [
        (version if patches or minors.count(short(version)) > 1 else short(version), root) for version, root in found
    ]


class Sources:
    """The classes and constants of some modules of one release."""

    def __init__(self, root: Path, patterns: Iterable[str]) -> None:
        self.classes: dict[str, ast.ClassDef] = {}
        self.constants: dict[str, ast.expr] = {}
        self.trees: dict[str, ast.Module] = {}
        self.known_names: set[str] = set()
        """Names of the base format's keys, which may be successors of deprecated ones."""
        for pattern in patterns:
            for path in sorted(root.glob(pattern)):
                tree = ast.parse(path.read_text(encoding="utf-8"))
                self.trees[str(path.relative_to(root))] = tree
                for node in tree.body:
                    self._take(node)

    def _take(self, node: ast.stmt) -> None:
        if isinstance(node, ast.ClassDef):
            self.classes[node.name] = node
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            self.constants[node.targets[0].id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            self.constants[node.target.id] = node.value
        elif isinstance(node, (ast.If, ast.Try)):
            for inner in node.body:
                self._take(inner)

    # -- values -------------------------------------------------------------------------------------------------

    def enum_values(self, name: str) -> dict[str, Any] | None:
        """Members of an enumeration class, by name; None where ``name`` is not one."""
        node = self.classes.get(name)
        if node is None:
            return None
        bases = {ast.unparse(base).split(".")[-1] for base in node.bases}
        if not bases & {"Enum", "ExplicitEnum", "StrEnum", "BaseEnum", "IntEnum", "EnumMeta", "KwargsHandler"} - {
            "KwargsHandler"
        }:
            return None
        values: dict[str, Any] = {}
        for stmt in node.body:
            if isinstance(stmt, ast.Assign) and isinstance(stmt.targets[0], ast.Name):
                value = self.value(stmt.value)
                if isinstance(value, (str, int)):
                    values[stmt.targets[0].id] = value
        return values

    def value(self, node: ast.expr | None, local: dict[str, Any] | None = None) -> Any:
        """The plain value of an expression, or MISSING where it is not one."""
        if node is None:
            return MISSING
        if isinstance(node, ast.Constant):
            return node.value if node.value is not ... else MISSING
        if isinstance(node, ast.Name):
            if local and node.id in local:
                return local[node.id]
            if node.id in self.constants:
                return self.value(self.constants[node.id], local)
            return MISSING
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            inner = self.value(node.operand, local)
            return -inner if isinstance(inner, (int, float)) else MISSING
        if isinstance(node, ast.BinOp):
            left, right = self.value(node.left, local), self.value(node.right, local)
            if isinstance(left, (int, float)) and isinstance(right, (int, float)):
                return arithmetic(node.op, left, right)
            return MISSING
        if isinstance(node, (ast.List, ast.Tuple)):
            items = [self.value(item, local) for item in node.elts]
            return MISSING if any(item is MISSING for item in items) else items
        if isinstance(node, ast.Dict):
            keys = [self.value(key, local) for key in node.keys]
            values = [self.value(item, local) for item in node.values]
            if any(item is MISSING for item in [*keys, *values]):
                return MISSING
            return {str(key): item for key, item in zip(keys, values, strict=True)}
        if isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            if text in ("sys.maxsize",):
                return sys.maxsize
            parts = text.removesuffix(".value").split(".")
            members = self.enum_values(parts[0]) if len(parts) == 2 else None
            return MISSING if members is None else members.get(parts[1], MISSING)
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in ("pp_int", "int", "float", "str", "list", "dict") and len(node.args) >= 1:
                inner = self.value(node.args[0], local)
                return int(inner) if name == "pp_int" and isinstance(inner, (int, float)) else inner
            if name in ("list", "dict") and not node.args:
                return [] if name == "list" else {}
            return MISSING
        if isinstance(node, ast.Lambda):
            return self.value(node.body, local)
        return MISSING

    # -- types --------------------------------------------------------------------------------------------------

    def type_of(self, node: ast.expr | None) -> Row:
        """Type, choices and inner keys of an annotation."""
        if node is None:
            return Row()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return self.type_of(ast.parse(node.value, mode="eval").body)
        if isinstance(node, ast.Constant) and node.value is None:
            return Row("None")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self._union([node.left, node.right])
        if isinstance(node, ast.Subscript):
            head = ast.unparse(node.value).split(".")[-1]
            args = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if head == "Optional":
                return self._union([args[0], ast.Constant(None)])
            if head == "Union":
                return self._union(args)
            if head in ("Annotated", "SkipJsonSchema", "Required", "NotRequired", "Final", "ClassVar", "InitVar"):
                return self.type_of(args[0])
            if head == "Literal":
                return self._literal(args)
            if head in ("list", "List", "Sequence", "tuple", "Tuple", "set", "Set", "conlist"):
                inner = self._union(args) if head in ("tuple", "Tuple") else self.type_of(args[0])
                return Row(f"list[{inner.type}]" if inner.type != "any" else "list", items=inner.keys)
            if head in ("dict", "Dict", "Mapping"):
                return Row("dict")
            if head in ("type", "Type", "Callable"):
                return Row("any")
            return Row("any")
        name = ast.unparse(node).split(".")[-1]
        if name in BUILTIN:
            return Row(BUILTIN[name])
        if name in self.constants and name not in self.classes:
            alias = self.constants[name]
            if isinstance(alias, (ast.Subscript, ast.BinOp, ast.Name)):
                return self.type_of(alias)
        members = self.enum_values(name)
        if members is not None:
            kinds = {"int" if isinstance(v, int) else "str" for v in members.values()}
            return Row(" | ".join(sorted(kinds)) or "str", choices=[str(v) for v in members.values()])
        if name in self.classes and self.is_model(name):
            return Row("dict", keys=self.fields(name), open=self.extra_of(name) == "allow")
        return Row("any")

    def _literal(self, args: list[ast.expr]) -> Row:
        values = [self.value(arg) for arg in args]
        kinds = dict.fromkeys(
            {bool: "bool", int: "int", float: "float", str: "str", type(None): "None"}.get(type(v), "any")
            for v in values
        )
        return Row(" | ".join(kinds), choices=[v for v in values if isinstance(v, str)])

    def _union(self, nodes: list[ast.expr]) -> Row:
        merged = Row("")
        members: list[str] = []
        for node in nodes:
            inner = self.type_of(node)
            for member in split_type(inner.type):
                if member not in members:
                    members.append(member)
            merged.choices += [choice for choice in inner.choices if choice not in merged.choices]
            if inner.keys is not None:
                merged.keys = {**(merged.keys or {}), **inner.keys}
                merged.open |= inner.open
            if inner.items is not None:
                merged.items = {**(merged.items or {}), **inner.items}
        if (
            "dict" in members
            and merged.keys is not None
            and any(self.type_of(n).type == "dict" and self.type_of(n).keys is None for n in nodes)
        ):
            merged.open = True
        merged.type = "any" if "any" in members else " | ".join(members)
        return merged

    # -- classes ------------------------------------------------------------------------------------------------

    def ancestors(self, name: str) -> Iterator[ast.ClassDef]:
        """The class and its bases among the sources, bases first."""
        node = self.classes.get(name)
        if node is None:
            return
        for base in reversed(node.bases):
            parent = ast.unparse(base).split(".")[-1]
            if parent != name:  # a class may extend one of its own name from another package
                yield from self.ancestors(parent)
        yield node

    def is_model(self, name: str) -> bool:
        text = {ast.unparse(b).split(".")[-1] for node in self.ancestors(name) for b in node.bases}
        decorated = any("dataclass" in ast.unparse(d) for node in self.ancestors(name) for d in node.decorator_list)
        return decorated or bool(text & {"BaseModel", "DeepSpeedConfigModel", "TypedDict"})

    def extra_of(self, name: str) -> str | None:
        """pydantic's ``extra`` of a model class."""
        answer = None
        for node in self.ancestors(name):
            for stmt in ast.walk(node):
                if isinstance(stmt, ast.keyword) and stmt.arg == "extra" and isinstance(stmt.value, ast.Constant):
                    answer = str(stmt.value.value)
                if isinstance(stmt, ast.Dict):
                    for key, value in zip(stmt.keys, stmt.values, strict=True):
                        if isinstance(key, ast.Constant) and key.value == "extra" and isinstance(value, ast.Constant):
                            answer = str(value.value)
        return answer

    def fields(self, name: str, own: bool = False) -> Table:
        """The annotated fields of a dataclass or pydantic model, those of its bases included."""
        table: Table = {}
        nodes = [self.classes[name]] if own else list(self.ancestors(name))
        for node in nodes:
            local: dict[str, Any] = {}
            for stmt in self._statements(node.body):
                if isinstance(stmt, ast.Assign) and isinstance(stmt.targets[0], ast.Name):
                    local[stmt.targets[0].id] = self.value(stmt.value, local)
                if not isinstance(stmt, ast.AnnAssign) or not isinstance(stmt.target, ast.Name):
                    continue
                head = ast.unparse(stmt.annotation)
                if (
                    head.startswith(("ClassVar", "typing.ClassVar"))
                    or stmt.target.id.startswith("_")
                    or stmt.target.id == "model_config"
                ):
                    continue
                row = self._field(stmt, local)
                if row is not None:
                    table[stmt.target.id] = row
                    for alias in row.extra.pop("aliases", ()):
                        table[alias] = Row(**{**row.__dict__, "extra": {"alias_of": stmt.target.id}})
            self._warned(node, table)
        return table

    def _warned(self, node: ast.ClassDef, table: Table) -> None:
        """Mark the fields that the class itself calls deprecated, and their successors, in warnings and help texts."""
        for part in ast.walk(node):
            if isinstance(part, ast.JoinedStr):
                continue
            if not isinstance(part, ast.Constant) or not isinstance(part.value, str) or len(part.value) > 600:
                continue
            for found in re.finditer(
                r"(?<!for )`-{0,2}(\w+)`(?: argument| parameter)? (?:is|are) deprecated", part.value
            ):
                row = table.get(found.group(1))
                if row is None:
                    continue
                row.deprecated = True
                successor = re.search(
                    r"(?:\bUse|[,;] (?:please )?use|in favor of) `-{0,2}(\w+)`", part.value[found.end() :]
                )
                if (
                    successor is not None
                    and successor.group(1) in (table.keys() | self.known_names)
                    and successor.group(1) != found.group(1)
                ):
                    row.extra.setdefault("renamed_to", successor.group(1))
        for name, row in table.items():
            help_text = row.extra.get("help", "")
            if row.deprecated and "renamed_to" not in row.extra:
                successor = re.search(r"(?:\bUse|, use|use of|in favor of) `-{0,2}(\w+)`", help_text)
                if (
                    successor is not None
                    and successor.group(1) in (table.keys() | self.known_names)
                    and successor.group(1) != name
                ):
                    row.extra["renamed_to"] = successor.group(1)

    def _statements(self, body: list[ast.stmt]) -> Iterator[ast.stmt]:
        for stmt in body:
            if isinstance(stmt, ast.If):
                yield from self._statements(stmt.body)
            else:
                yield stmt

    def _field(self, stmt: ast.AnnAssign, local: dict[str, Any]) -> Row | None:
        row = self.type_of(stmt.annotation)
        annotation_extras = [
            call
            for call in ast.walk(stmt.annotation)
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "Field"
        ]
        value = stmt.value
        calls = list(annotation_extras)
        if isinstance(value, ast.Call) and ast.unparse(value.func).split(".")[-1] in ("field", "Field"):
            calls.append(value)
        elif value is not None:
            row.default = self.value(value, local)
        else:
            row.required = True
        for call in calls:
            given = {keyword.arg: keyword.value for keyword in call.keywords}
            if "init" in given and self.value(given["init"]) is False:
                return None
            if call.args and "default" not in given:
                given["default"] = call.args[0]
            if "default" in given:
                row.default = self.value(given["default"], local)
                row.required = isinstance(given["default"], ast.Constant) and given["default"].value is ...
            elif "default_factory" in given:
                factory = given["default_factory"]
                text = ast.unparse(factory)
                row.default = {"list": [], "dict": {}}.get(text, self.value(factory, local))
                row.required = False
            elif call is value:
                row.required = True
            metadata = given.get("metadata")
            if isinstance(metadata, ast.Dict):
                for key, inner in zip(metadata.keys, metadata.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value == "choices":
                        listed = self.value(inner)
                        if isinstance(listed, list):
                            row.choices = [str(choice) for choice in listed if isinstance(choice, str)]
            aliases = [self.value(given[k]) for k in ("alias", "validation_alias") if k in given]
            row.extra["aliases"] = [a for a in aliases if isinstance(a, str)]
            prose = self._help(given)
            row.extra["help"] = prose
            for extra in ast.walk(given.get("json_schema_extra", ast.Constant(None))):
                if isinstance(extra, ast.Dict):
                    given.update(
                        {
                            k.value: v
                            for k, v in zip(extra.keys, extra.values, strict=True)
                            if isinstance(k, ast.Constant) and k.value in ("deprecated", "new_param")
                        }
                    )
            mark = given.get("deprecated")
            successor = self.value(given.get("new_param"))
            if (
                isinstance(successor, str)
                and successor.isidentifier()
                and isinstance(stmt.target, ast.Name)
                and successor != stmt.target.id
            ):
                row.extra["renamed_to"] = successor
            row.deprecated |= mark is not None and not (isinstance(mark, ast.Constant) and not mark.value)
            row.deprecated |= (
                re.match(r"\W*(this (argument|parameter|option|field) is )?deprecated", prose, re.I) is not None
            )
        if row.default is None and "None" not in split_type(row.type) and row.type != "any":
            row.type += " | None"
        if (
            row.default is not None
            and row.default is not MISSING
            and row.choices
            and isinstance(row.default, str)
            and row.default not in row.choices
        ):
            row.choices = []
        if not json_able(row.default):
            row.default = MISSING
        return row

    @staticmethod
    def _help(given: dict[str | None, ast.expr]) -> str:
        """The prose of a field: its help text or description."""
        texts: list[str] = []
        for name in ("metadata", "description", "json_schema_extra"):
            node = given.get(name)
            values = node.values if isinstance(node, ast.Dict) else [node] if node is not None else []
            for value in values:
                texts += [n.value for n in ast.walk(value) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        return " ".join(texts)


def json_able(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return value is MISSING
    return True


def split_type(expression: str) -> list[str]:
    return [part.strip() for part in re.split(r"\|(?![^\[]*\])", expression) if part.strip()]


def join_types(expressions: Iterable[str]) -> str:
    members: list[str] = []
    for expression in expressions:
        members += [member for member in split_type(expression) if member not in members]
    if "any" in members:
        return "any"
    if "list" in members:
        members = [member for member in members if not member.startswith("list[")]
    members.sort(key=lambda member: member == "None")
    return " | ".join(members)


def merge(
    samples: list[tuple[str, Table]], note: dict[str, Any] | None = None, versions: list[str] | None = None
) -> dict[str, Any]:
    """One table with the life of every key, from the tables of the releases, oldest first.

    ``versions``: every release sampled, where some have no table (a class that came later).
    """
    versions = versions or [version for version, _ in samples]
    names: dict[str, None] = {}
    for _, table in reversed(samples):
        names.update(dict.fromkeys(table))
    merged: dict[str, Any] = {}
    for name in names:
        held = [(version, table[name]) for version, table in samples if name in table]
        merged[name] = merge_key(name, held, versions)
    for name, extra in (note or {}).items():
        target = merged
        *parents, last = name.split(".")
        for parent in parents:
            target = target[parent]["keys"]
        if last in target:
            if "default" in extra:
                target[last].pop("defaults", None)
            target[last].update(extra)
        elif extra.get("add"):
            target[last] = {key: value for key, value in extra.items() if key != "add"}
        else:
            print(f"note for unknown key {name}", file=sys.stderr)
    return merged


def merge_key(name: str, held: list[tuple[str, Row]], versions: list[str]) -> dict[str, Any]:
    first, last = held[0][0], held[-1][0]
    newest = held[-1][1]
    row: dict[str, Any] = {"type": join_types(r.type for _, r in reversed(held))}
    history: list[tuple[str, Any]] = []
    for version, sample in held:
        if sample.default is not MISSING and (not history or repr(history[-1][1]) != repr(sample.default)):
            history.append((version, sample.default))
    if len(history) == 1 and newest.default is not MISSING:
        row["default"] = history[0][1]
    elif history and newest.default is not MISSING:
        row["defaults"] = history
    if first != versions[0]:
        row["since"] = first
    if last != versions[-1]:
        row["removed_in"] = versions[versions.index(last) + 1]
    deprecated = [version for version, sample in held if sample.deprecated]
    if deprecated and newest.deprecated:
        row["deprecated_in"] = deprecated[0]
    if newest.required:
        row["required"] = True
    successors = [sample.extra["renamed_to"] for _, sample in held if "renamed_to" in sample.extra]
    if successors and (newest.deprecated or "removed_in" in row):
        row["renamed_to"] = successors[-1]
    choices: dict[str, list[str]] = {}
    if all(sample.choices for _, sample in held):
        for version, sample in held:
            for choice in sample.choices:
                choices.setdefault(choice, []).append(version)
    if choices and "str" in split_type(row["type"]):
        row["choices"] = list(choices)
        life = {}
        for choice, seen in choices.items():
            since = None if seen[0] == first else seen[0]
            until = None if seen[-1] == last else versions[versions.index(seen[-1]) + 1]
            if since or until:
                life[choice] = [since, until]
        if life:
            row["choice_life"] = life
    inner = [(version, sample.keys) for version, sample in held if sample.keys is not None]
    if inner and len(inner) == len(held[-len(inner) :]) and newest.keys is not None:
        row["keys"] = merge(inner, versions=versions[versions.index(inner[0][0]) :])
    inner = [(version, sample.items) for version, sample in held if sample.items is not None]
    if inner and newest.items is not None:
        row["items"] = merge(inner, versions=versions[versions.index(inner[0][0]) :])
    if any(sample.open for _, sample in held):
        row["open"] = True
    if newest.extra.get("alias_of"):
        row["alias_of"] = newest.extra["alias_of"]
    return row


def earliest(versions: list[str | None]) -> str | None:
    return None if None in versions else min((v for v in versions if v is not None), key=numbers)


def latest(versions: list[str | None]) -> str | None:
    return None if None in versions else max((v for v in versions if v is not None), key=numbers)


def union(tables: list[dict[str, Any]]) -> dict[str, Any]:
    """The keys that any of the tables has. A key lives as long as in any; a default is kept where the living agree."""
    names = dict.fromkeys(name for table in tables for name in table)
    merged: dict[str, Any] = {}
    for name in names:
        rows = [table[name] for table in tables if name in table]
        living = [row for row in rows if "removed_in" not in row] or rows[:1]
        row = dict(living[0])
        row["type"] = join_types(r.get("type", "any") for r in rows)
        if any(
            (r.get("default", MISSING), r.get("defaults")) != (row.get("default", MISSING), row.get("defaults"))
            for r in living
        ):
            row.pop("default", None)
            row.pop("defaults", None)
        row.pop("required", None)
        life = {
            "since": earliest([r.get("since") for r in rows]),
            "removed_in": latest([r.get("removed_in") for r in rows]),
            "deprecated_in": latest([r.get("deprecated_in") for r in living]),
            "renamed_to": next((r["renamed_to"] for r in rows if "renamed_to" in r), None),
        }
        if any("removed_in" not in r and "deprecated_in" not in r for r in rows):
            life["renamed_to"] = None
        for attribute, value in life.items():
            row.pop(attribute, None)
            if value is not None:
                row[attribute] = value
        if any("choices" not in r for r in rows):
            row.pop("choices", None)
            row.pop("choice_life", None)
        elif len(rows) > 1:
            row["choices"] = list(dict.fromkeys(choice for r in rows for choice in r["choices"]))
            row.pop("choice_life", None)
        merged[name] = row
    return merged


def write(name: str, framework: str, versions: list[str], source: str, body: dict[str, Any]) -> None:
    table = {
        "name": name,
        "title": TITLES.get(name, name),
        "framework": framework,
        "versions": versions,
        "source": source,
        "checked": datetime.date.today().isoformat(),
        "reader": READERS[name],
        **body,
    }
    if name in TOLERATED:
        table["tolerated"] = sorted({key for keys in TOLERATED[name].values() for key in keys})
    path = DATA / f"{name}.json"
    path.write_text(json.dumps(table, separators=(",", ":"), ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{name}: {len(body['keys'])} keys, {len(versions)} releases, {path.stat().st_size} bytes")


# -- the tables ---------------------------------------------------------------------------------------------------


def hf_training_args(folder: Path) -> None:
    modules = [
        "training_args.py",
        "training_args_seq2seq.py",
        "trainer_utils.py",
        "debug_utils.py",
        "trainer_pt_utils.py",
    ]
    samples: list[tuple[str, Table]] = []
    seq2seq: list[tuple[str, Table]] = []
    for version, root in releases(folder, "transformers"):
        sources = Sources(root, modules)
        base = sources.fields("TrainingArguments")
        base["accelerator_config"] = base.get("accelerator_config", Row("any"))
        if "accelerator_config" in sources.fields("TrainingArguments"):
            base["accelerator_config"].type = "dict | str | None"
            base["accelerator_config"].keys = sources.fields("AcceleratorConfig")
        else:
            del base["accelerator_config"]
        samples.append((version, base))
        seq2seq.append((version, {**base, **sources.fields("Seq2SeqTrainingArguments", own=True)}))
    notes = NOTES["hf-training-args"]
    classes = {
        "TrainingArguments": {"keys": merge(samples, notes)},
        "Seq2SeqTrainingArguments": {"keys": merge(seq2seq, notes)},
    }
    keys = classes["Seq2SeqTrainingArguments"]["keys"]
    own = [name for name in keys if name not in classes["TrainingArguments"]["keys"]]
    keys.update(EARLIER["hf-training-args"])
    body = {
        "keys": keys,
        "classes": {"TrainingArguments": {"without": own}, "Seq2SeqTrainingArguments": {"without": []}},
    }
    write(
        "hf-training-args",
        "transformers",
        [v for v, _ in samples],
        "transformers wheels: training_args.py, training_args_seq2seq.py, trainer_utils.py",
        body,
    )


INHERITED = {"$base": True}
"""In a default's history: from here on the default of the base format holds."""

TRL_COMMANDS = {
    "sft": "SFTConfig", "dpo": "DPOConfig", "reward": "RewardConfig", "kto": "KTOConfig", "grpo": "GRPOConfig",
    "rloo": "RLOOConfig", "orpo": "ORPOConfig", "cpo": "CPOConfig", "ppo": "PPOConfig", "online_dpo": "OnlineDPOConfig",
    "gkd": "GKDConfig", "bco": "BCOConfig", "nash_md": "NashMDConfig", "xpo": "XPOConfig", "prm": "PRMConfig",
    "distillation": "DistillationConfig", "async_grpo": "AsyncGRPOConfig", "gold": "GOLDConfig",
}  # fmt: skip


def launch_arguments(folder: Path) -> dict[str, Any]:
    """The options of ``accelerate launch``, by release."""
    samples: list[tuple[str, Table]] = []
    for version, root in releases(folder, "accelerate"):
        table: Table = {}
        for call in ast.walk(ast.parse((root / "commands" / "launch.py").read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call) or not ast.unparse(call.func).endswith("add_argument"):
                continue
            names = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
            given = {keyword.arg: keyword.value for keyword in call.keywords}
            kind = {"int": "int", "float": "float"}.get(ast.unparse(given["type"]) if "type" in given else "", "str")
            if "action" in given:
                kind = "bool"
            for name in names:
                if name.startswith("--"):
                    table[name[2:].replace("-", "_")] = Row(kind)
        samples.append((version, table))
    return merge(samples)


def trl(folder: Path) -> None:
    patterns = [
        "trainer/utils.py",
        "trainer/*config*.py",
        "experimental/*/*config*.py",
        "scripts/[!cv]*.py",
        "commands/cli_utils.py",
        "utils.py",
        "scripts/utils.py",
    ]
    base = dict.fromkeys(json.loads((DATA / "hf-training-args.json").read_text())["keys"])
    samples: dict[str, list[tuple[str, Table]]] = {}
    versions = []
    for version, root in releases(folder, "trl"):
        sources = Sources(root, patterns)
        sources.known_names = set(base)
        versions.append(version)
        for name in sources.classes:
            if not (name.endswith("Config") or "ScriptArguments" in name) or not sources.is_model(name):
                continue
            table = sources.fields(name)
            roots = {ast.unparse(b).split(".")[-1] for node in sources.ancestors(name) for b in node.bases}
            if "TrainingArguments" in roots:
                table.update({key: Row("", INHERITED) for key in base if key not in table})
            samples.setdefault(name, []).append((version, table))
    classes: dict[str, dict[str, Any]] = {}
    for name, held in samples.items():
        keys = merge(held, versions=versions)
        for key, row in list(keys.items()):
            if key not in base or row["type"]:
                continue
            del keys[key]  # never overridden: the base table has it
        for key, row in keys.items():
            if key in base:
                row.pop("since", None)
                row.pop("removed_in", None)
        classes[name] = keys
    launch = {
        key: {"type": row["type"], "since": "0.18", "owner": "accelerate launch"}
        for key, row in launch_arguments(folder).items()
        if key not in base
    }
    shared = union([classes[name] for name in ("ScriptArguments", "ModelConfig", "DatasetMixtureConfig")])
    shared.update(NOTES["trl"])
    shared["datasets"]["items"] = classes["DatasetConfig"]
    shared.update({key: row for key, row in launch.items() if key not in shared})
    variants = {}
    for name in TRL_COMMANDS.values():
        prefix = name.removesuffix("Config")
        scripts = [classes[n] for n in classes if n.lower() == f"{prefix}ScriptArguments".lower()]
        own = union([classes[name], *scripts])
        for key in classes[name]:  # the trainer's own statement of a default is the one that counts
            for attribute in ("default", "defaults"):
                if attribute in classes[name][key]:
                    own[key][attribute] = classes[name][key][attribute]
        for key in own.keys() & shared.keys():
            own[key] = {
                **union([{key: own[key]}, {key: shared[key]}])[key],
                **{a: own[key][a] for a in ("default", "defaults") if a in own[key]},
            }
        variants[name] = {"keys": own}
    others = [
        table
        for name, table in classes.items()
        if name not in variants
        and name not in ("DatasetConfig", "ScriptArguments", "ModelConfig", "DatasetMixtureConfig")
    ]
    everything = union([*(variant["keys"] for variant in variants.values()), *others])
    body = {
        "keys": {key: row for key, row in everything.items() if key not in shared},
        "shared": shared,
        "classes": variants,
        "commands": TRL_COMMANDS,
        "bases": ["hf-training-args:TrainingArguments"],
    }
    write(
        "trl",
        "trl",
        versions,
        "trl wheels: trainer/*_config.py, experimental/*/*_config.py, scripts/*.py, commands/cli_utils.py; accelerate wheels: commands/launch.py",
        body,
    )


def prefixed(launch: dict[str, Any], *prefixes: str, names: tuple[str, ...] = (), strip: str = "") -> dict[str, Any]:
    """The launch options of one group; with ``strip`` also without their prefix, as the file may write them."""
    chosen = {key: row for key, row in launch.items() if key.startswith(prefixes) or key in names}
    return {**{key.removeprefix(strip): row for key, row in chosen.items() if strip}, **chosen}


def accelerate(folder: Path) -> None:
    samples: list[tuple[str, Table]] = []
    for version, root in releases(folder, "accelerate"):
        sources = Sources(root, ["utils/dataclasses.py", "commands/config/config_args.py"])
        table = {**sources.fields("SageMakerConfig"), **sources.fields("ClusterConfig")}
        for row in table.values():
            row.required = False
        kinds = {
            name: list((sources.enum_values(name) or {}).values())
            for name in ("DistributedType", "SageMakerDistributedType")
        }
        table["distributed_type"] = Row(
            "str", choices=list(dict.fromkeys(kinds["DistributedType"] + kinds["SageMakerDistributedType"]))
        )
        precisions = sources.enum_values("PrecisionType") or {"NO": "no", "FP16": "fp16", "BF16": "bf16"}
        table["mixed_precision"] = Row("str", choices=list(precisions.values()))
        samples.append((version, table))
    keys = merge(samples)
    launch = launch_arguments(folder)
    groups = {
        "fsdp_config": prefixed(launch, "fsdp_", strip="fsdp_"),
        "deepspeed_config": prefixed(
            launch,
            "deepspeed_",
            "zero_",
            "zero3_",
            "offload_",
            names=("gradient_accumulation_steps", "gradient_clipping"),
        ),
        "megatron_lm_config": prefixed(launch, "megatron_lm_"),
        "fp8_config": prefixed(launch, "fp8_", strip="fp8_"),
        "parallelism_config": prefixed(launch, "parallelism_config_"),
        "mpirun_config": prefixed(launch, "mpirun_"),
        "dynamo_config": prefixed(launch, "dynamo_", strip="dynamo_"),
    }
    for name, inner in groups.items():
        keys[name]["keys"] = {key: dict(row) for key, row in inner.items()}
        keys[name]["unknown"] = "ignored"
    for key, extra in NOTES["accelerate"].items():
        target, *rest = key.split(".")
        if rest:
            keys[target]["keys"].setdefault(rest[0], {"type": "any"}).update(extra)
        else:
            row = keys.setdefault(target, {"type": "any"})
            row.update(extra)
            keys[target] = {name: value for name, value in row.items() if value is not None or name == "default"}
    write(
        "accelerate",
        "accelerate",
        [v for v, _ in samples],
        "accelerate wheels: commands/config/config_args.py, commands/launch.py, utils/dataclasses.py",
        {"keys": keys},
    )


def deepspeed(folder: Path) -> None:
    patterns = ["runtime/zero/*config*.py", "runtime/config.py", "runtime/precision_config.py", "runtime/zenflow/*config*.py",
                "runtime/tensor_parallel/config.py", "monitor/config.py", "utils/config.py", "compile/config.py",
                "comm/config.py", "runtime/config_utils.py", "nebula/config.py"]  # fmt: skip
    constants = ["runtime/constants.py", "profiling/constants.py", "autotuning/constants.py", "elasticity/constants.py",
                 "nebula/constants.py", "runtime/swap_tensor/constants.py", "runtime/activation_checkpointing/config.py",
                 "checkpoint/constants.py", "runtime/model_checkpointing/constants.py", "runtime/data_pipeline/constants.py",
                 "comm/constants.py", "runtime/config.py", "compile/constants.py", "utils/config.py", "monitor/constants.py",
                 "compression/constants.py"]  # fmt: skip
    models = {"zero_optimization": "DeepSpeedZeroConfig", "fp16": "DeepSpeedFP16Config", "bf16": "DeepSpeedBF16Config",
              "tensorboard": "TensorBoardConfig", "wandb": "WandbConfig", "csv_monitor": "CSVConfig", "comet": "CometConfig",
              "comms_logger": "CommsLoggerConfig", "hybrid_engine": "HybridEngineConfig", "compile": "CompileConfig",
              "tensor_parallel": "TPTrainingConfig"}  # fmt: skip
    notes = NOTES["deepspeed"]
    pydantic_since: dict[str, str] = {}
    samples: list[tuple[str, Table]] = []
    for version, root in releases(folder, "deepspeed"):
        sources = Sources(root, patterns)
        values = Sources(root, constants)
        text = "".join((root / path).read_text() for path in constants if (root / path).is_file())
        table: Table = {}
        for key, extra in notes.items():
            if f'"{key}"' not in text and f"'{key}'" not in text and "." not in key:
                continue
            row = Row(extra["type"])
            names = [n for n, v in values.constants.items() if isinstance(v, ast.Constant) and v.value == key]
            defaults = [
                values.value(values.constants[f"{n}_DEFAULT"]) for n in names if f"{n}_DEFAULT" in values.constants
            ]
            if defaults and json_able(defaults[0]) and defaults[0] is not MISSING:
                row.default = defaults[0]
            if "prefix" in extra:
                row.keys = {}
                for name, node in values.constants.items():
                    if not name.startswith(extra["prefix"]) or name.endswith(("_DEFAULT", "_FORMAT")):
                        continue
                    inner = values.value(node)
                    if not isinstance(inner, str) or inner == key or f"{name}_DEFAULT" not in values.constants:
                        continue
                    default = values.value(values.constants[f"{name}_DEFAULT"])
                    kind = {bool: "bool", int: "int", float: "float", str: "str"}.get(type(default), "any")
                    row.keys[inner] = Row(kind, default if json_able(default) else MISSING)
                for inner in extra.get("more", ()):
                    row.keys.setdefault(inner, Row())
            table[key] = row
        for key, name in models.items():
            if name in sources.classes and sources.is_model(name):
                table[key] = Row("dict", keys=sources.fields(name), extra={})
                pydantic_since.setdefault(key, version)
        if isinstance(table["zero_optimization"].keys, dict):
            table["zero_optimization"].type = "dict | bool"
        removed = values.constants.get("_REMOVED_TOP_LEVEL_CONFIG_KEYS")
        if isinstance(removed, ast.Dict):
            for refused in removed.keys:
                table.pop(str(values.value(refused)), None)
        samples.append((version, table))
    keys = merge(samples)
    for key, extra in notes.items():
        if key not in keys:
            print(f"deepspeed: no sampled release reads {key}", file=sys.stderr)
            continue
        keys[key].update({k: v for k, v in extra.items() if k not in ("type", "prefix", "more")})
        if keys[key].get("removed_in") and key not in ("bfloat16",):
            keys[key].setdefault("note", "DeepSpeed stops at this key.")
    for key in models:
        if key in keys:
            keys[key]["unknown"] = "error"
            keys[key]["conversion"] = "pydantic"
            if pydantic_since[key] != samples[0][0]:
                keys[key]["unknown_since"] = pydantic_since[key]
    for key, inner_extra in NOTES["deepspeed.zero_optimization"].items():
        keys["zero_optimization"]["keys"][key].update(inner_extra)
    write(
        "deepspeed",
        "deepspeed",
        [v for v, _ in samples],
        "deepspeed sdists: runtime/config.py, runtime/constants.py, runtime/zero/config.py and the constants modules",
        {"keys": keys},
    )


def peft_adapter(folder: Path) -> None:
    samples: list[tuple[str, Table]] = []
    per_class: dict[str, list[tuple[str, Table]]] = {}
    versions = []
    for version, root in releases(folder, "peft"):
        sources = Sources(root, ["utils/*.py", "config.py", "tuners/*.py", "tuners/*/config.py"])
        versions.append(version)
        everything: Table = {}
        for name in sources.classes:
            family = {node.name for node in sources.ancestors(name)}
            if name.endswith("Config") and sources.is_model(name) and "PeftConfig" in family:
                table = sources.fields(name)
                per_class.setdefault(name, []).append((version, table))
                if name != "LoraConfig":
                    for key, row in table.items():
                        if key in everything:
                            row = Row(join_types([everything[key].type, row.type]))
                        everything[key] = row
        for key, row in sources.fields("LoraConfig").items():
            if key in everything:
                row.type = join_types([row.type, everything[key].type])
                row.choices = []
            everything[key] = row
        for key in ("peft_type", "auto_mapping", "peft_version", "task_type"):
            everything[key] = Row("str | dict | None", None)
        samples.append((version, everything))
    keys = merge(samples, NOTES["peft-adapter"])
    lora = merge(per_class["LoraConfig"], versions=versions)
    for row in (*keys.values(), *lora.values()):
        row.pop("required", None)
    for key, extra in NOTES["peft-adapter"].items():
        lora.setdefault(key, {}).update({k: v for k, v in extra.items() if k != "add"})
    for key, row in keys.items():  # defaults as LoRA has them, or none: the other methods differ
        row.pop("default", None)
        row.pop("defaults", None)
        for attribute in ("default", "defaults"):
            if attribute in lora.get(key, {}):
                row[attribute] = lora[key][attribute]
    write(
        "peft-adapter",
        "peft",
        versions,
        "peft wheels: config.py, tuners/*/config.py",
        {"keys": keys, "classes": {"LoraConfig": {"keys": lora}}},
    )


def popped(node: ast.AST, sources: Sources) -> Table:
    """Keys taken as ``kwargs.pop("key", default)`` in a function."""
    table: Table = {}
    for call in ast.walk(node):
        if (
            isinstance(call, ast.Call)
            and ast.unparse(call.func) == "kwargs.pop"
            and isinstance(call.args[0], ast.Constant)
        ):
            default = sources.value(call.args[1]) if len(call.args) > 1 else MISSING
            table.setdefault(str(call.args[0].value), Row("any", default if json_able(default) else MISSING))
    return table


def hf_generation_config(folder: Path) -> None:
    samples: list[tuple[str, Table]] = []
    for version, root in releases(folder, "transformers"):
        sources = Sources(root, ["generation/configuration_utils.py"])
        node = sources.classes["GenerationConfig"]
        table: Table = {}
        for function in node.body:
            if isinstance(function, ast.FunctionDef) and function.name == "__init__":
                table.update(popped(function, sources))
        samples.append((version, table))
    keys = merge(samples, NOTES["hf-generation-config"])
    for key, row in keys.items():
        default = row.get("default", row.get("defaults", [[None, None]])[-1][1])
        if row["type"] == "any" and key not in NOTES["hf-generation-config"]:
            kind = {bool: "bool", int: "int | float", float: "float", str: "str"}.get(type(default))
            row["type"] = f"{kind} | None" if kind else "any"
    body = {"keys": keys, "open": True}
    write(
        "hf-generation-config",
        "transformers",
        [v for v, _ in samples],
        "transformers wheels: generation/configuration_utils.py",
        body,
    )


def hf_quant_config(folder: Path) -> None:
    samples: dict[str, list[tuple[str, Table]]] = {}
    versions = []
    for version, root in releases(folder, "transformers"):
        sources = Sources(root, ["utils/quantization_config.py"])
        versions.append(version)
        for name, node in sources.classes.items():
            if not name.endswith("Config") or name.endswith("Mixin"):
                continue
            table: Table = {"quant_method": Row("str")}
            for function in node.body:
                if not isinstance(function, ast.FunctionDef) or function.name != "__init__":
                    continue
                args = function.args.args[1:]
                defaults = [None] * (len(args) - len(function.args.defaults)) + list(function.args.defaults)
                for arg, default in zip(args, defaults, strict=True):
                    row = sources.type_of(arg.annotation)
                    value = sources.value(default) if default is not None else MISSING
                    row.default = value if json_able(value) else MISSING
                    row.keys = row.items = None
                    if "torch.dtype" in ast.unparse(arg.annotation or ast.Constant(None)):
                        row.type = "str | None"
                    if row.default is None and row.type != "any" and "None" not in split_type(row.type):
                        row.type += " | None"
                    table[arg.arg] = row
                table.update({key: row for key, row in popped(function, sources).items() if key not in table})
            samples.setdefault(name, []).append((version, table))
    classes = {name: {"keys": merge(held, versions=versions)} for name, held in samples.items()}
    for name, method in QUANTIZATION_METHODS.items():
        if name in classes:
            classes[name]["keys"]["quant_method"] = {"type": "str", "choices": method}
    keys = union([c["keys"] for c in classes.values()])
    keys["quant_method"] = {"type": "str"}
    for key, extra in NOTES["hf-quant-config"].items():
        keys.setdefault(key, {}).update(extra)
    for row in keys.values():
        row.pop("since", None)
    write(
        "hf-quant-config",
        "transformers",
        versions,
        "transformers wheels: utils/quantization_config.py",
        {"keys": keys, "classes": classes, "open": True},
    )


def mark_deprecated(sources: Sources, table: Table, refused: set[str]) -> None:
    """Axolotl keeps a class of deprecated fields whose validators warn or raise; one that raises is a removed key."""
    for name in ("DeprecatedParameters",):
        for function in sources.classes[name].body if name in sources.classes else ():
            if not isinstance(function, ast.FunctionDef) or not function.decorator_list:
                continue
            decorator = function.decorator_list[0]
            key = sources.value(decorator.args[0]) if isinstance(decorator, ast.Call) and decorator.args else MISSING
            if not isinstance(key, str) or key not in table:
                continue
            if any(isinstance(node, ast.Raise) for node in ast.walk(function)):
                refused.add(key)
                del table[key]
                continue
            table[key].deprecated = True
            prose = " ".join(
                n.value for n in ast.walk(function) if isinstance(n, ast.Constant) and isinstance(n.value, str)
            )
            successor = re.search(r"(?:use|superseded by) (\w+)", prose)
            if successor is not None and successor.group(1) in table:
                table[key].extra["renamed_to"] = successor.group(1)


def axolotl(folder: Path) -> None:
    samples: list[tuple[str, Table]] = []
    refused: set[str] = set()
    for version, root in releases(folder, "axolotl"):
        sources = Sources(root, ["utils/schemas/*.py", "utils/schemas/internal/*.py", "utils/config/models/input/v0_4_1/*.py",
                                 "utils/config/models/internals/*.py", "integrations/*/args.py", "integrations/*/*_args.py"])  # fmt: skip
        table: Table = {}
        for name in sources.classes:
            if (name.endswith("Args") or name == "SwanLabConfig") and sources.is_model(name):
                table.update(sources.fields(name))
        table.update(sources.fields("AxolotlInputConfig"))
        for row in table.values():
            row.required = False
        mark_deprecated(sources, table, refused)
        samples.append((version, table))
    keys = merge(samples)
    for key in sorted(refused):  # a key refused in every sample is known all the same, and removed
        keys.setdefault(key, {"type": "any", "removed_in": samples[0][0]})["note"] = "Axolotl stops at it."
    fsdp = keys["fsdp_config"]["keys"]
    for name, row in list(fsdp.items()):
        if not name.startswith("fsdp_"):
            fsdp[f"fsdp_{name}"] = {"type": row["type"], "deprecated_in": "0.12", "renamed_to": name}
    accelerate_names = [
        *prefixed(launch_arguments(folder), "fsdp_", strip="fsdp_"),
        "limit_all_gathers",
        "fsdp_limit_all_gathers",
    ]
    for name in accelerate_names:
        if name not in fsdp:  # passed to Accelerate while fsdp_config was a free mapping, dropped by FSDPConfig
            fsdp[name] = {"type": "any", "removed_in": "0.13", "note": "FSDPConfig drops it without a word."}
    for key, extra in NOTES["axolotl"].items():
        target = keys
        *parents, last = key.split(".")
        for parent in parents:
            target = target[parent]["keys"]
        target.setdefault(last, {"type": "any"}).update(extra)
    write(
        "axolotl",
        "axolotl",
        [v for v, _ in samples],
        "axolotl wheels and sdists: utils/schemas/*.py (utils/config/models before 0.8), integrations/*/args.py",
        {"keys": keys},
    )


def llamafactory(folder: Path) -> None:
    base = dict.fromkeys(json.loads((DATA / "hf-training-args.json").read_text())["keys"])
    samples: list[tuple[str, Table]] = []
    for version, root in releases(folder, "llamafactory", patches=True):
        sources = Sources(root, ["hparams/*.py", "extras/constants.py"])
        sources.known_names = set(base)
        table: Table = {}
        for name in (
            "ModelArguments",
            "DataArguments",
            "FinetuningArguments",
            "GeneratingArguments",
            "EvaluationArguments",
        ):
            table.update(sources.fields(name))
        if "RayArguments" in sources.classes:
            table.update(sources.fields("RayArguments"))
        if "TrainingArguments" in sources.classes:
            table.update(sources.fields("TrainingArguments"))
        table.update({key: Row("", INHERITED) for key in base if key not in table})
        for row in table.values():
            row.required = False
        samples.append((version, table))
    keys = {key: row for key, row in merge(samples).items() if row["type"] or key not in base}
    for key, row in keys.items():
        if key in base:
            row.pop("since", None)
            row.pop("removed_in", None)
    for key, extra in NOTES["llamafactory"].items():
        keys[key].update(extra)
    v1: list[tuple[str, Table]] = []
    for version, root in releases(folder, "llamafactory", patches=True):
        if (root / "v1" / "config").is_dir():
            sources = Sources(root, ["v1/config/*.py"])
            table = {}
            for name in ("ModelArguments", "DataArguments", "TrainingArguments", "SampleArguments"):
                table.update(sources.fields(name))
            for row in table.values():
                row.required = False
            v1.append((version, table))
    write(
        "llamafactory",
        "llamafactory",
        [v for v, _ in samples],
        "llamafactory wheels: hparams/*.py",
        {"keys": keys, "classes": {"v1": {"keys": merge(v1), "bases": []}}, "bases": ["hf-training-args"]},
    )


def hf_model_config(folder: Path) -> None:
    """Types of the keys that several model types share; the table is open, and says nothing of one model type's keys."""
    types: dict[str, list[str]] = {}
    wanted = ("4.40", "4.51", "4.57", "5.8", "5.24")
    for version, root in releases(folder, "transformers"):
        if version not in wanted:
            continue
        for path in sorted(root.glob("models/*/configuration_*.py")):
            sources = Sources(root, [str(path.relative_to(root))])
            for name in sources.classes:
                for key, kind in config_types(sources, name).items():
                    types.setdefault(key, []).append(kind)
    keys: dict[str, Any] = {}
    for key, kinds in sorted(types.items(), key=lambda pair: -len(pair[1])):
        if len(kinds) < 30 or set(kinds) <= {"None", "any"}:
            continue
        joined = split_type(join_types(kinds))
        if "float" in joined and "int" not in joined:
            joined.insert(0, "int")
        keys[key] = {"type": " | ".join(dict.fromkeys([*(m for m in joined if m != "None"), "None"]))}
    for key, extra in NOTES["hf-model-config"].items():
        keys.setdefault(key, {}).update(extra)
    write(
        "hf-model-config",
        "transformers",
        list(wanted),
        "transformers wheels: models/*/configuration_*.py",
        {"keys": keys, "open": True},
    )


def config_types(sources: Sources, name: str) -> dict[str, str]:
    """Types of a model configuration's keys: annotated fields, or the defaults of ``__init__``."""
    found: dict[str, str] = {}
    node = sources.classes[name]
    for stmt in node.body:
        if isinstance(stmt, ast.AnnAssign) and isinstance(stmt.target, ast.Name):
            found[stmt.target.id] = sources.type_of(stmt.annotation).type
        if isinstance(stmt, ast.FunctionDef) and stmt.name == "__init__":
            args = stmt.args.args[1:]
            defaults = [None] * (len(args) - len(stmt.args.defaults)) + list(stmt.args.defaults)
            for arg, default in zip(args, defaults, strict=True):
                value = sources.value(default) if default is not None else MISSING
                kind = {bool: "bool", int: "int", float: "float", str: "str", list: "list", dict: "dict"}.get(
                    type(value)
                )
                found[arg.arg] = kind or ("None" if value is None else "any")
    return found


def cfglint_job(folder: Path) -> None:
    body = {"keys": {**NOTES["cfglint-job"]}}
    body["keys"]["jobs"] = {
        "type": "list[dict]",
        "items": {k: v for k, v in NOTES["cfglint-job"].items() if k != "jobs"},
    }
    write("cfglint-job", "cfglint", ["1"], "cfglint itself", body)


TABLES = {
    "hf-training-args": hf_training_args,
    "trl": trl,
    "accelerate": accelerate,
    "deepspeed": deepspeed,
    "peft-adapter": peft_adapter,
    "hf-generation-config": hf_generation_config,
    "hf-quant-config": hf_quant_config,
    "axolotl": axolotl,
    "llamafactory": llamafactory,
    "hf-model-config": hf_model_config,
    "cfglint-job": cfglint_job,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="unpacked releases: <package>-<version>/src")
    parser.add_argument("tables", nargs="*", choices=[[], *TABLES], help="tables to build (default: all)")
    args = parser.parse_args()
    for name in args.tables or TABLES:
        TABLES[name](args.folder)


if __name__ == "__main__":
    main()
