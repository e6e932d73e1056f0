"""SRC008."""

from __future__ import annotations

from cfglint.lint.rule import example

from .problem import ProblemRule


class ArgumentsLost(ProblemRule):
    """Arguments of a continued shell command are lost.

    A comment line inside a command that goes on with backslashes ends the command there: the flags after it are run as a
    command of their own, so the training starts without them. A blank after the backslash does the same. A comment after
    the last argument does no harm and is not reported.

    How sure: the shell grammar; only a comment or blank that is followed by more flags, outside quotes, is reported.
    """

    code = "SRC008"
    tip = "end each line with a backslash and nothing behind it; put comments above the command"
    name = "arguments-lost"
    severity = "error"
    evidence = (
        "https://pubs.opengroup.org/onlinepubs/9699919799/utilities/V3_chap02.html#tag_18_02_01",
        "https://www.shellcheck.net/wiki/SC1143",
    )
    good = (
        example(
            "train.sh",
            """
            torchrun --nproc_per_node 8 train.py \\
              --model_name_or_path Qwen/Qwen2.5-0.5B \\
              --bf16 True
            # done
            """,
        ),
    )
    bad = (
        example(
            "train.sh",
            """
            torchrun --nproc_per_node 8 train.py \\
              --model_name_or_path Qwen/Qwen2.5-0.5B \\
              # half the batch of the first run
              --per_device_train_batch_size 4 \\
              --bf16 True
            """,
        ),
    )
