"""MDL006."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.values import scalar
from cfglint.jobs.facts import Reading
from cfglint.lint.context import Context
from cfglint.lint.finding import Finding
from cfglint.lint.rule import Rule, example
from cfglint.source.node import Mapping, Sequence

from .config_parts import Part, parts


class TokenIds(Rule):
    """A special token's id lies outside the vocabulary.

    The embedding has `vocab_size` rows; looking up a row behind them is an index error, on a GPU a device-side assertion that
    names nothing. An end token out of range is never produced, so generation does not end. It comes of adding tokens to a
    tokenizer without resizing the model, or of ids copied from another model.

    How sure: both numbers are in the file, and transformers 5 warns of it. A negative id (-1) is an old way to say none and
    is left out.
    """

    code = "MDL006"
    name = "token-ids"
    family = "model"
    severity = "warning"
    kinds = ("train", "serve")
    catalogue = ("mc-token-ids-range",)
    evidence = ("https://github.com/huggingface/transformers/blob/v5.24.0/src/transformers/configuration_utils.py",)
    good = (
        example(
            "config.json",
            """
            {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 16,
             "num_attention_heads": 32, "vocab_size": 32000, "bos_token_id": 1, "eos_token_id": [2, 31999], "pad_token_id": -1}
            """,
        ),
    )
    bad = (
        example(
            "config.json",
            """
            {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 2048, "num_hidden_layers": 16,
             "num_attention_heads": 32, "vocab_size": 32000, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 32000}
            """,
            at="pad_token_id",
            count=1,
        ),
    )

    def check_reading(self, reading: Reading, context: Context) -> Iterator[Finding]:
        for part in parts(reading):
            yield from self._part(part)

    def _part(self, part: Part) -> Iterator[Finding]:
        vocabulary = part.integer("vocab_size")
        root = part.reading.at(*part.route) if part.route else part.reading.root
        if vocabulary is None or vocabulary < 1 or not isinstance(root, Mapping):
            return
        for key in root.index:
            if not (isinstance(key, str) and key.endswith("_token_id")):
                continue
            node = part.node(key)
            ids = [scalar(item) for item in node.items] if isinstance(node, Sequence) else [scalar(node)]
            beyond = [i for i in ids if isinstance(i, int) and not isinstance(i, bool) and i >= vocabulary]
            if beyond:
                yield self.finding(
                    f"{key} {beyond[0]} is outside the vocabulary of {vocabulary} tokens (0 to {vocabulary - 1})",
                    part.origin(key),
                    (part.origin("vocab_size"), f"{vocabulary} tokens"),
                    help="take the id from the tokenizer, or resize the model's embedding",
                )
