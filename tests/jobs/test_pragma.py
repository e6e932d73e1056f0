"""Facts in comments."""

from cfglint.jobs.pragma import read_pragmas
from cfglint.source.node import Comment, Document, SourceFile, Span


def commented(text: str) -> SourceFile:
    """A file whose comments are the lines that hold a ``#``."""
    file = SourceFile("a.yaml", text, "yaml")
    file.documents.append(Document(file, span=Span(0, len(text))))
    offset = 0
    for line in text.splitlines(keepends=True):
        at = line.find("#")
        if at >= 0:
            body = line[at:].rstrip("\n")
            file.comments.append(Comment(Span(offset + at, offset + at + len(body)), body.lstrip("#").strip()))
        offset += len(line)
    return file


def test_hardware_with_places() -> None:
    file = commented("# cfglint: gpu=A100-80GB gpus=8 nodes=2\na: 1\n")
    found = read_pragmas(file)
    assert found.gpu is not None and found.gpu.value == "A100-80GB"
    assert found.gpus is not None and found.gpus.value == 8
    assert found.nodes is not None and found.nodes.value == 2
    assert not found.problems
    span = found.gpus.value_span
    assert file.text[span.start : span.end] == "8"
    assert found.gpu.origin(file.documents[0]).describe() == "a.yaml:1"


def test_quoted_value_commas_and_a_comment_before() -> None:
    found = read_pragmas(commented('a: 1  # the big box # cfglint: gpu="RTX 4090", gpus=2\n'))
    assert found.gpu is not None and found.gpu.value == "RTX 4090"
    assert found.gpus is not None and found.gpus.value == 2


def test_dialect() -> None:
    found = read_pragmas(commented("#cfglint:dialect=axolotl\n"))
    assert found.dialect is not None and found.dialect.value == "axolotl"


def test_silencing_comments_are_not_facts() -> None:
    found = read_pragmas(commented("# cfglint: ignore[MEM001] known\n# cfglint: ignore-file[PRC001]\n"))
    assert found.gpu is None and not found.problems


def test_problems_name_value_and_place() -> None:
    file = commented(
        "# cfglint: gpus=0 gpu= node=2\n# cfglint: hello world\n# cfglint gpu=T4\n# cfglint: gpus=2 gpus=3\n"
    )
    found = read_pragmas(file)
    messages = [(file.position(p.span.start).line, p.message) for p in found.problems]
    assert [line for line, _ in messages] == [1, 1, 1, 2, 3, 4]
    assert "`gpus=0`" in messages[0][1]
    assert "no value" in messages[1][1]
    assert "did you mean `nodes`?" in messages[2][1]
    assert "`hello`" in messages[3][1]
    assert "colon" in messages[4][1]
    assert "already stated" in messages[5][1]
    assert found.gpus is not None and found.gpus.value == 2


def test_prose_that_mentions_cfglint_is_left_alone() -> None:
    found = read_pragmas(commented("# checked with cfglint, see the docs\n# cfglint is run in CI\n"))
    assert not found.problems


def test_counts_that_count_nothing() -> None:
    for text in ("0", "\u00b2", "9" * 5000):
        found = read_pragmas(commented(f"# cfglint: gpus={text}\n"))
        assert found.gpus is None and "a whole number from 1 is needed" in found.problems[0].message
