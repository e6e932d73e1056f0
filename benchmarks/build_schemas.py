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

from schema_notes import NOTES, READERS, TITLES

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


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def short(version: str) -> str:
    """``4.57.6`` → ``4.57``: samples stand for their minor release."""
    return ".".join(version.split(".")[:2])


def releases(folder: Path, package: str, patches: bool = False) -> list[tuple[str, Path]]:
    """The samples of a package, oldest first: (version as it is recorded, source root)."""
    found = []
    for path in folder.glob(f"{package}-*"):
        version = path.name.removeprefix(f"{package}-")
        root = next((p for p in (path / "src" / "src", path / "src") if (p / package).is_dir()), None)
        if root is not None and version[0].isdigit():
            found.append((version, root / package))
    found.sort(key=lambda pair: numbers(pair[0]))
    return [(version if patches else short(version), root) for version, root in found]


class Sources:
    """The classes and constants of some modules of one release."""

    def __init__(self, root: Path, patterns: Iterable[str]) -> None:
        self.classes: dict[str, ast.ClassDef] = {}
        self.constants: dict[str, ast.expr] = {}
        self.trees: dict[str, ast.Module] = {}
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
                operators = {ast.Mult: lambda: left * right, ast.Pow: lambda: left**right, ast.Add: lambda: left + right,
                             ast.Sub: lambda: left - right, ast.Div: lambda: left / right}  # fmt: skip
                return operators.get(type(node.op), lambda: MISSING)()
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
            yield from self.ancestors(ast.unparse(base).split(".")[-1])
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
        return table

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
            row.deprecated |= self._says_deprecated(given)
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
    def _says_deprecated(given: dict[str | None, ast.expr]) -> bool:
        """True where a field's own help text or ``deprecated=`` calls the whole field deprecated."""
        mark = given.get("deprecated")
        if mark is not None and not (isinstance(mark, ast.Constant) and not mark.value):
            return True
        texts: list[str] = []
        for name in ("metadata", "description", "json_schema_extra"):
            node = given.get(name)
            values = node.values if isinstance(node, ast.Dict) else [node] if node is not None else []
            for value in values:
                texts += [n.value for n in ast.walk(value) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        prose = " ".join(texts)
        return re.match(r"\W*(this (argument|parameter|option|field) is )?deprecated", prose, re.I) is not None


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
    members.sort(key=lambda member: member == "None")
    return " | ".join(members)


def merge(samples: list[tuple[str, Table]], note: dict[str, Any] | None = None) -> dict[str, Any]:
    """One table with the life of every key, from the tables of the releases, oldest first."""
    versions = [version for version, _ in samples]
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
        row["keys"] = merge(inner)
    inner = [(version, sample.items) for version, sample in held if sample.items is not None]
    if inner and newest.items is not None:
        row["items"] = merge(inner)
    if any(sample.open for _, sample in held):
        row["open"] = True
    if newest.extra.get("alias_of"):
        row["alias_of"] = newest.extra["alias_of"]
    return row


def union_of_classes(classes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The keys that any of the classes has; what they do not agree on is left open."""
    merged: dict[str, Any] = {}
    for keys in (table["keys"] for table in classes.values()):
        for name, row in keys.items():
            if name not in merged:
                merged[name] = dict(row)
                continue
            known = merged[name]
            known["type"] = join_types([known.get("type", "any"), row.get("type", "any")])
            for attribute in ("default", "defaults"):
                if known.get(attribute, MISSING) != row.get(attribute, MISSING):
                    known.pop("default", None)
                    known.pop("defaults", None)
            for attribute in ("since", "removed_in", "deprecated_in", "renamed_to", "required"):
                if known.get(attribute) != row.get(attribute):
                    known.pop(attribute, None)
            if "choices" in known or "choices" in row:
                if "choices" in known and "choices" in row:
                    known["choices"] = list(dict.fromkeys([*known["choices"], *row["choices"]]))
                    known["choice_life"] = {}
                else:
                    known.pop("choices", None)
                    known.pop("choice_life", None)
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


TABLES = {"hf-training-args": hf_training_args}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="unpacked releases: <package>-<version>/src")
    parser.add_argument("tables", nargs="*", choices=[[], *TABLES], help="tables to build (default: all)")
    args = parser.parse_args()
    for name in args.tables or TABLES:
        TABLES[name](args.folder)


if __name__ == "__main__":
    main()
