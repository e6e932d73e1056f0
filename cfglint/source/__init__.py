"""Text to documents with places: YAML, JSON, TOML, shell scripts, Dockerfiles."""

from cfglint.source.text import parse_bytes, parse_file, parse_text, read_file

__all__ = ["parse_bytes", "parse_file", "parse_text", "read_file"]
