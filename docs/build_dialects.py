"""Writes ``docs/dialects.md`` from the dialects: for each config format what is read, linked and checked.

``python docs/build_dialects.py`` writes, ``--check`` only says whether the page is stale and returns 1.

Facts and links are those that a dialect's code can state: the code it reaches inside ``cfglint.dialects`` is searched for
them, so that no list is kept by hand. Rules are those with an example in the format.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "dialects.md"
sys.path.insert(0, str(ROOT))

from cfglint.dialects.base import Dialect  # noqa: E402
from cfglint.dialects.recognise import dialects, recognise_files  # noqa: E402
from cfglint.dialects.schema import load_schema  # noqa: E402
from cfglint.jobs.facts import FactField  # noqa: E402
from cfglint.jobs.job import ServingJob, TrainingJob  # noqa: E402
from cfglint.lint.engine_rules import ENGINE_RULES  # noqa: E402
from cfglint.lint.registry import load_rules  # noqa: E402
from cfglint.source import parse_text  # noqa: E402

KINDS = (("train", "Training"), ("serve", "Serving"), ("both", "Models, adapters and what does both"))
PACKAGE = "cfglint.dialects"
NOT_OF_ONE_DIALECT = frozenset({f"{PACKAGE}.{name}" for name in ("base", "values", "schema", "recognise")})
"""Modules that serve every dialect: what they name, no dialect states by that."""
STATES = frozenset(
    {
        "state",
        "state_first",
        "default",
        "integer",
        "number",
        "boolean",
        "text",
        "dtype",
        "attention",
        "optimizer",
        "names",
    }
)
"""Methods whose first argument is a fact's name."""
FACTS = tuple(
    dict.fromkeys(
        name
        for job in (TrainingJob, ServingJob)
        for owner in reversed(job.__mro__)
        for name, value in vars(owner).items()
        if isinstance(value, FactField) and name not in ("framework", "framework_version", "engine_args")
    )
)
"""Facts of a job in the order they are declared; framework and version are every dialect's."""
Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


@cache
def definitions(module: str) -> dict[str, Definition]:
    """Functions, classes and constants at the top of a module."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    found: dict[str, Definition] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update({target.id: node for target in targets if isinstance(target, ast.Name)})
    return found


@cache
def imports(module: str) -> dict[str, tuple[str, str]]:
    """Names that a module imports from this package, with their own module and name; name empty for a module."""
    found: dict[str, tuple[str, str]] = {}
    for node in ast.walk(ast.parse(inspect.getsource(importlib.import_module(module)))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                found[alias.asname or alias.name] = (
                    (whole, "") if whole in sys.modules else (str(node.module), alias.name)
                )
    return found


def home(module: str, name: str) -> tuple[str, str] | None:
    """Module and name of what ``name`` means in ``module``, where that is code of a dialect."""
    if name in definitions(module):
        return module, name
    where = imports(module).get(name)
    if where is None or where[0] in NOT_OF_ONE_DIALECT:
        return None
    return where if not where[1] or where[1] in definitions(where[0]) else home(*where)


def reached(dialect: Dialect) -> Iterator[Definition]:
    """All code and constants inside the package that a dialect's class leads to."""
    waiting = [(type(dialect).__module__, type(dialect).__name__)]
    seen: set[tuple[str, str]] = set()
    while waiting:
        module, name = waiting.pop()
        if (module, name) in seen:
            continue
        seen.add((module, name))
        definition = definitions(module)[name]
        yield definition
        for node in ast.walk(definition):
            where = None
            if isinstance(node, ast.Name):
                where = home(module, node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                holder = home(module, node.value.id)
                if holder and not holder[1] and node.attr in definitions(holder[0]):
                    where = holder[0], node.attr
            if where and where[1]:
                waiting.append(where)


def words(node: ast.AST) -> Iterator[str]:
    """The strings a table row or a fact's name is made of."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from words(node.body)
        yield from words(node.orelse)


def stated(dialect: Dialect) -> tuple[list[str], list[str]]:
    """Facts that a dialect can state, and roles of the files it can name."""
    facts: set[str] = set()
    links: set[str] = set()
    for definition in reached(dialect):
        for node in ast.walk(definition):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                if node.func.attr in STATES:
                    facts.update(next((found for found in map(list, map(words, node.args[:2])) if found), []))
                elif node.func.attr == "attach":  # Hydra's defaults list
                    links.add("defaults")
                elif node.func.attr == "reference":
                    links.update(next((role for role in map(list, map(words, node.args)) if role), []))
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                if node.func.id == "Reference":
                    links.update(words(node.args[0]))
                elif node.func.id in ("state_count", "_count") and len(node.args) > 1:
                    facts.update(words(node.args[1]))
            elif isinstance(node, ast.For) and isinstance(node.target, ast.Name) and node.target.id == "fact":
                facts.update(word for value in ast.iter_child_nodes(node.iter) for word in words(value))
            elif isinstance(node, ast.Dict):
                for value in node.values:
                    facts.update(words(value))
            elif isinstance(node, ast.Tuple | ast.List):
                for row in node.elts:
                    if isinstance(row, ast.Tuple | ast.List) and row.elts:
                        facts.update(words(row.elts[0]))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "model":
                facts.add("model_id")
                links.add("model")
    if dialect.name == "cfglint-job":  # its keys are the facts themselves
        facts.update(load_schema("cfglint-job").keys)
    return [name for name in FACTS if name in facts], sorted(links)


def sources(dialect: Dialect) -> str:
    """Where a dialect's settings are looked for, by the methods it has."""
    methods = ("read", "launches", "read_launch", "read_program", "own_command")
    own = {name for name in methods if name in overridden(dialect)}
    found = []
    if own & {"read"}:
        found.append("files")
    if own & {"launches"}:
        found.append("files that start other formats' commands")
    if own & {"read_launch", "read_program", "own_command"}:
        found.append("command lines")
    return ", ".join(found)


def overridden(dialect: Dialect) -> set[str]:
    return {name for owner in type(dialect).__mro__ if owner not in (Dialect, object) for name in vars(owner)}


def checked() -> dict[str, list[str]]:
    """Dialect to the codes of the built-in rules with a bad example in it."""
    ours = {code: rule for code, rule in load_rules().items() if rule.__module__.split(".")[0] == "cfglint_rules"}
    found: dict[str, list[str]] = {}
    for code, rule in sorted({**ENGINE_RULES, **ours}.items()):
        names: set[str] = set()
        for example in rule.bad:
            readings, _ = recognise_files([parse_text(path, text) for path, text in example.files.items()])
            names.update(reading.dialect for reading in readings)
        for name in names:
            found.setdefault(name, []).append(code)
    return found


def section(dialect: Dialect, codes: list[str]) -> list[str]:
    facts, links = stated(dialect)
    lines = [f"### {dialect.title}", "", f"`{dialect.name}`: {dialect.summary}.", ""]
    rows = [("read from", sources(dialect))]
    if dialect.schema:
        schema = load_schema(dialect.schema)
        rows.append(
            (
                "key table",
                f"{len(schema.keys)} keys, {schema.framework} {schema.versions[0]} to {schema.versions[-1]}"
                f" (`cfglint schema {dialect.schema}`)",
            )
        )
    if dialect.markers:
        rows.append(("telling keys", ", ".join(f"`{key}`" for key in sorted(dialect.markers))))
    if facts:
        rows.append(("facts", ", ".join(f"`{name}`" for name in facts)))
    if links:
        rows.append(("links", ", ".join(links)))
    if codes:
        rows.append(("rules with an example", ", ".join(f"[{code}](rules/{code}.md)" for code in codes)))
    lines += [f"- **{name}**: {text}" for name, text in rows]
    return [*lines, ""]


def page() -> str:
    """The whole page as Markdown."""
    found, codes = dialects(), checked()
    lines = [
        "# Config formats",
        "",
        "<!-- Generated by docs/build_dialects.py from cfglint/dialects. Do not edit. -->",
        "",
        f"cfglint reads {len(found)} formats. A file is taken for one by its keys, not by its name; `cfglint check"
        " --show-files` says for each file which format it was taken for and by which keys. What no format claims is left"
        " alone. Settings (`dialects`) or a comment (`# cfglint: dialect=NAME`) decide where keys do not.",
        "",
        "- **read from**: command lines are found in shell scripts, SLURM jobs, Dockerfiles, Compose files and Kubernetes"
        " manifests, and in the formats that wrap those.",
        "- **key table**: keys, types and defaults by release; the rules on unknown, removed and mistyped keys rest on it."
        " A format without one is read for its facts only.",
        "- **telling keys**: two of them make a file that does not parse one to report.",
        "- **facts**: what it can say of a job, in the words of cfglint's job file. Every rule on jobs, and the estimate, see"
        " facts and not the format, so most rules look at every format of their kind.",
        "- **links**: other files that it names and that are read with it.",
        "- **rules with an example**: rules whose page shows it in this format; others apply as well.",
        "",
    ]
    for kind, title in KINDS:
        members = sorted((d for d in found if d.kind == kind), key=lambda d: d.title.lower())
        names = " · ".join(f"[{d.title}](#{anchor(d.title)})" for d in members)
        lines += [f"## {title}", "", names, ""]
        for dialect in members:
            lines += section(dialect, codes.get(dialect.name, []))
    return "\n".join(lines).rstrip("\n") + "\n"


def anchor(title: str) -> str:
    """The fragment that Markdown renderers give a heading."""
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; return 1 where the page is stale")
    check = parser.parse_args().check
    text = page()
    if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text:
        return 0
    print(f"{'stale' if check else 'written'}: {TARGET.relative_to(ROOT)}")
    if check:
        return 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
