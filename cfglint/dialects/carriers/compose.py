"""Compose files as carriers: each service's entrypoint and command, its image, environment and devices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cfglint.dialects.base import Launch
from cfglint.dialects.carriers.command import expanded
from cfglint.dialects.carriers.kubernetes import environment, script_commands, words_of
from cfglint.dialects.carriers.shell import visible_devices
from cfglint.jobs.facts import FileOrigin
from cfglint.source.node import Document, Mapping, Node, Route, Scalar, Sequence, Span, at
from cfglint.source.shell import Word, parse_shell
from cfglint.source.whole_number import whole_number


def matches(root: Node | None) -> bool:
    """``services`` whose members have an image, a build or a command."""
    services = at(root, "services")
    return isinstance(services, Mapping) and any(
        isinstance(e.value, Mapping) and any(k in e.value for k in ("image", "build", "command", "entrypoint"))
        for e in services.index.values()
    )


def launches(document: Document) -> Iterator[Launch]:
    """A launch for each service."""
    services = document.at("services")
    if not isinstance(services, Mapping):
        return
    for name, entry in services.index.items():
        service = entry.value
        if not isinstance(service, Mapping):
            continue
        route: Route = ("services", name)
        image_word = _image(service.get("image"))
        context: dict[str, Any] = {"service": service, "container_route": route, "manifest": document.root}
        variables = {key: _interpolated(word) for key, word in environment(service).items()}
        words_given = [*_words(service.get("entrypoint")), *_words(service.get("command"))]
        for words, command in script_commands([_unescaped(_interpolated(word)) for word in words_given]):
            yield from expanded(
                Launch(
                    words=words,
                    document=document,
                    carrier="compose",
                    environment={**variables, **(command.environment if command else {})},
                    image=image_word,
                    command=command,
                    name=name,
                    container=service,
                    context=dict(context),
                    gpus=_visible(document, route, variables) or _gpu_count(document, route, service),
                    host_memory=_memory_limit(document, route, service),
                )
            )


def _words(node: Node | None) -> list[Word]:
    """Compose splits a string as a shell does; a list is taken as it is."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return words_of(node)
    # no shell runs it: line ends are blanks, and a string that starts with an option has no program
    parsed = parse_shell("", "command " + node.value.replace("\\\n", " ").replace("\n", " "))
    words: list[Word] = []
    searched = 0
    for index, command in enumerate(parsed.script.commands if parsed.script else []):
        for word in command.words[1:] if index == 0 else command.words:
            offset = node.raw.find(word.raw, searched) if word.raw else -1
            if offset >= 0:
                searched = offset + len(word.raw)
                start = node.span.start + offset
                span = Span(start, start + len(word.raw))
            else:
                span = node.span
            words.append(Word(word.text, word.raw, span, word.known and "$" not in word.text, word.quoted))
    return words


def _image(node: Node | None) -> Word | None:
    """The image; a variable that holds all of it may mean another program, one in its tag another release."""
    if not isinstance(node, Scalar) or not node.value:
        return None
    word = Word(str(node.value), node.raw, node.span, "$" not in str(node.value))
    return word if word.text.startswith("$") else _interpolated(word)


_DEFAULT = re.compile(r"(?<!\$)\$\{[A-Za-z_]\w*:?-([^${}]*)\}")


def _interpolated(word: Word) -> Word:
    """``${NAME:-default}`` as its default, as in a script that does not set the variable; every other variable stays."""
    if "${" not in word.text:
        return word
    text = _DEFAULT.sub(lambda match: match.group(1), word.text)
    if text == word.text:
        return word
    return Word(text, word.raw, word.span, "$" not in text.replace("$$", ""), word.quoted)


def _unescaped(word: Word) -> Word:
    """``$$`` is a dollar sign for the container's own shell."""
    if "$$" not in word.text:
        return word
    return Word(word.text.replace("$$", "$"), word.raw, word.span, word.known, word.quoted)


def _visible(document: Document, route: Route, variables: dict[str, Word]) -> tuple[int, FileOrigin] | None:
    """What the service's environment leaves it of the devices it is given."""
    found = visible_devices(variables, "NVIDIA_VISIBLE_DEVICES")
    if found is None:
        return None
    count, variable, word = found
    return count, FileOrigin(document, (*route, "environment", variable), word.span, word.span)


def _gpu_count(document: Document, route: Route, service: Mapping) -> tuple[int, FileOrigin] | None:
    """Devices that a service reserves, by number or by id, or asks for with ``gpus``; ``all`` leaves the number open."""
    inner: Route = ("deploy", "resources", "reservations", "devices")
    devices = at(service, *inner)
    if devices is None:
        inner, devices = ("gpus",), service.get("gpus")
    for i, device in enumerate(devices.items if isinstance(devices, Sequence) else []):
        if not isinstance(device, Mapping):
            continue
        where = (*route, *inner, i)
        ids = device.entry("device_ids")
        if ids is not None and isinstance(ids.value, Sequence):
            if any("$" in getattr(item, "raw", "") for item in ids.value.items):
                return None  # a variable may hold several
            return len(ids.value.items), FileOrigin(document, (*where, "device_ids"), ids.key.span, ids.value.span)
        count = device.entry("count")
        many = whole_number(count.value.value) if count is not None and isinstance(count.value, Scalar) else None
        if count is not None and many is not None:
            return many, FileOrigin(document, (*where, "count"), count.key.span, count.value.span)
    return None


def _memory_limit(document: Document, route: Route, service: Mapping) -> tuple[int, FileOrigin] | None:
    """``mem_limit`` or ``deploy.resources.limits.memory``; compose counts in powers of 1024."""
    from cfglint.dialects.carriers.shell import memory_bytes

    for inner in ((), ("deploy", "resources", "limits")):
        table = at(service, *inner)
        name = "memory" if inner else "mem_limit"
        entry = table.entry(name) if isinstance(table, Mapping) else None
        if entry is not None and isinstance(entry.value, Scalar):
            size = memory_bytes(str(entry.value.value), binary=True)
            if size is not None:
                return size, FileOrigin(document, (*route, *inner, name), entry.key.span, entry.value.span)
    return None
