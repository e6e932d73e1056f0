"""``python -m cfglint``."""

from cfglint.cli.main import entry

if __name__ == "__main__":
    entry()
