"""House rules for training runs: one rule per module; cfglint finds them through the entry point in pyproject.toml."""
