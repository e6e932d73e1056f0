"""SRC009."""

from __future__ import annotations

from cfglint.lint.context import Context
from cfglint.lint.rule import example
from cfglint.source.node import Problem, SourceFile

from .problem import ProblemRule, read_leniently


class JsonLeniency(ProblemRule):
    """Single quotes or unquoted keys in a JSON file whose reader takes neither.

    ``json.load`` stops at them. DeepSpeed's own loader, hjson, takes them.

    How sure: the JSON grammar asks for double quotes around every key and string.
    """

    code = "SRC009"
    tip = "write strict JSON: double quotes around keys and text, commas between values"
    name = "json-leniency"
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
            """{train_micro_batch_size_per_gpu: 4, "zero_optimization": {"stage": 2}, "gradient_accumulation_steps": 8}""",
        ),
    )
    bad = (
        example(
            "config.json",
            """
            {
              model_type: "llama",
              "architectures": ["LlamaForCausalLM"],
              "hidden_size": 2048
            }
            """,
        ),
    )

    def tolerated(self, problem: Problem, file: SourceFile, context: Context) -> bool:
        """DeepSpeed reads its own files with hjson, GPT-NeoX with PyYAML; Accelerate and the HF Trainer read strictly. In a
        file that does not parse at all SRC001 has said so, and what follows the break is its echo."""
        if any(other.code == "SRC001" for other in file.problems):
            return True
        return read_leniently(problem, file, context)
