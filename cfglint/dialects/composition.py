"""A file that builds on others: its tree merged over theirs, every value keeping the file it stands in.

The linker finds the parents (references of role ``defaults``) and calls what the child's reading carries as ``compose``.
Merging follows OmegaConf: mappings key by key, everything else replaced; ``_override_: true`` in a mapping replaces it whole.
"""

from __future__ import annotations

from cfglint.jobs.facts import FileOrigin, Reading
from cfglint.source.node import Document, Entry, Mapping, Node, Scalar, walk

Owners = dict[int, Document]
"""The document of an entry's key, by the key's ``id``; what is not in it stands in the child."""


class ComposedReading(Reading):
    """A reading of a merged tree: origins lead to the file where a key stands."""

    __slots__ = ()

    def origin(self, *route: str | int) -> FileOrigin:
        found = Reading.origin(self, *route)
        entry = self.entry(*route)
        owner = self.context["owners"].get(id(entry.key)) if entry is not None else None
        if owner is None:
            return found
        return FileOrigin(owner, found.route, found.key_span, found.value_span)


def merged(root: Mapping, parents: list[Reading]) -> tuple[Mapping, Owners]:
    """``root`` over its parents, the last of them the strongest."""
    owners: Owners = {}
    base = Mapping(root.span)
    for parent in parents:
        if not isinstance(parent.root, Mapping):
            continue
        owners.update(owned(parent.root, parent.document, parent.context.get("owners")))
        base = over(base, parent.root)
    return over(base, root), owners


def owned(root: Mapping, document: Document, already: Owners | None = None) -> Owners:
    """The document of each key of ``root``; ``already`` says it of those that come from elsewhere."""
    known = already or {}
    found: Owners = {}
    for _, node in walk(root):
        if isinstance(node, Mapping):
            found.update({id(e.key): known.get(id(e.key), document) for e in node.index.values()})
    return found


def over(base: Mapping, top: Mapping) -> Mapping:
    """``top`` merged over ``base``."""
    entries = [entry for name, entry in base.index.items() if name not in top]
    for name, entry in top.index.items():
        below = base.get(name)
        if isinstance(below, Mapping) and isinstance(entry.value, Mapping) and not _replaces(entry.value):
            entries.append(Entry(entry.key, over(below, entry.value)))
        else:
            entries.append(entry)
    return Mapping(top.span, entries)


def _replaces(node: Node) -> bool:
    mark = node.get("_override_") if isinstance(node, Mapping) else None
    return isinstance(mark, Scalar) and mark.value is True
