"""A fix of a big-endian UTF-16 file wrote it back little-endian."""

from __future__ import annotations

import codecs

import pytest

from cfglint.source.text import file_bytes, parse_bytes

TEXT = "fp16: true\r\nlearning_rate: 1e-5 # ä\r\n"


@pytest.mark.parametrize(
    ("mark", "codec"),
    [
        (b"", "utf-8"),
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
    ],
)
def test_bytes_come_back_as_they_were(mark: bytes, codec: str) -> None:
    data = mark + TEXT.encode(codec)
    file = parse_bytes("a.yaml", data)
    assert file.text == TEXT
    assert file_bytes(file, file.text) == data
