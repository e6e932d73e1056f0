"""SRC010."""

from __future__ import annotations

from cfglint.lint.rule import example

from .problem import ProblemRule


class OpenQuote(ProblemRule):
    """Shell text ends inside quotes.

    Everything after the quote is one word, so flags after it are not read. Fragments that other scripts complete look the
    same, so this is information for a strict reader.

    How sure: the quote is not closed before the end of the file.
    """

    code = "SRC010"
    tip = "close the quotation marks"
    name = "open-quote"
    severity = "info"
    persona = "strict"
    evidence = ("https://www.shellcheck.net/wiki/SC1073",)
    good = (example("train.sh", """torchrun --nproc_per_node 8 train.py --run_name 'first run'"""),)
    bad = (example("train.sh", """torchrun --nproc_per_node 8 train.py --bf16 True\necho 'first run"""),)
