"""cfglint: a linter for the configuration of LLM training and serving."""

__version__ = "0.1.0"
