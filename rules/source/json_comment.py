"""SRC003."""

from __future__ import annotations

from cfglint.lint.context import Context
from cfglint.lint.rule import example
from cfglint.source.node import Problem, SourceFile

from .problem import ProblemRule, read_leniently


class JsonComment(ProblemRule):
    """A comment in a JSON file whose reader takes none.

    ``json.load``, which transformers, PEFT and Accelerate use, stops at a comment with "Expecting property name" or
    "Expecting value". DeepSpeed itself reads its config with hjson, which takes comments, so a DeepSpeed file is left
    alone.

    How sure: JSON has no comments; which reader objects is named in the finding.
    """

    code = "SRC003"
    tip = "remove the comment"
    name = "json-comment"
    evidence = (
        "https://www.rfc-editor.org/rfc/rfc8259",
        "https://github.com/deepspeedai/DeepSpeed/blob/v0.16.0/deepspeed/runtime/config.py",
        "https://github.com/huggingface/accelerate/blob/v1.0.0/src/accelerate/utils/deepspeed.py",
    )
    good = (
        example(
            "config.json", """{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048}"""
        ),
        example(
            "ds.json",
            """
            {
              // DeepSpeed's own loader takes this
              "train_micro_batch_size_per_gpu": 4,
              "zero_optimization": {"stage": 2},
              "gradient_accumulation_steps": 8
            }
            """,
        ),
    )
    bad = (
        example(
            "config.json",
            """
            {
              // trained in bf16
              "model_type": "llama",
              "architectures": ["LlamaForCausalLM"],
              "hidden_size": 2048
            }
            """,
        ),
    )

    def tolerated(self, problem: Problem, file: SourceFile, context: Context) -> bool:
        """DeepSpeed reads its own files with hjson, GPT-NeoX with PyYAML; Accelerate and the HF Trainer read strictly."""
        return read_leniently(problem, file, context)
