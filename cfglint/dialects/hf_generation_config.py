"""A model's ``generation_config.json``: sampling defaults and special tokens."""

from __future__ import annotations

from collections.abc import Iterator

from cfglint.dialects.base import Dialect, Recognition
from cfglint.dialects.values import because, evidence
from cfglint.jobs.facts import Reading
from cfglint.source.node import Document, Mapping, Scalar, Sequence

_KEYS = (
    "eos_token_id", "bos_token_id", "pad_token_id", "decoder_start_token_id", "do_sample", "temperature", "top_p",
    "top_k", "repetition_penalty", "max_new_tokens", "num_beams", "max_length", "min_length", "transformers_version",
    "_from_model_config", "no_repeat_ngram_size", "length_penalty", "forced_eos_token_id", "early_stopping", "use_cache",
    "min_new_tokens", "typical_p", "cache_implementation", "suppress_tokens", "begin_suppress_tokens",
    "forced_decoder_ids", "is_multilingual", "lang_to_id", "task_to_id", "alignment_heads", "no_timestamps_token_id",
    "prev_sot_token_id", "return_timestamps", "max_initial_timestamp_index", "trust_remote_code", "chat_format",
    "max_window_size", "user_token_id", "assistant_token_id", "output_attentions", "return_dict_in_generate",
    "num_return_sequences", "num_beam_groups", "min_p", "penalty_alpha", "diversity_penalty",
)  # fmt: skip


class HfGenerationConfig(Dialect):
    name = "hf-generation-config"
    title = "Hugging Face generation_config.json"
    kind = "both"
    summary = "A model's generation_config.json: sampling defaults, special tokens"
    schema = "hf-generation-config"

    def recognise(self, document: Document, root: Mapping) -> Recognition | None:
        if document.file.format != "json":
            return None
        known = [key for key in root.index if key in _KEYS]
        tokens = evidence(root, ("eos_token_id", "bos_token_id", "pad_token_id", "decoder_start_token_id"))
        values = [root.get(key) for key in tokens]
        numbers = all(
            isinstance(v, Sequence) or (isinstance(v, Scalar) and (v.value is None or isinstance(v.value, int)))
            for v in values
        )
        saved = evidence(root, ("transformers_version", "_from_model_config"))
        sampling = evidence(root, ("do_sample", "temperature", "top_p", "top_k", "max_new_tokens", "num_beams"))
        if len(tokens) >= 2 and numbers and len(tokens) == len(root.index):
            return Recognition(60, because(tokens))
        named = document.path.rsplit("/", 1)[-1] == "generation_config.json"
        if named and sampling and len(known) == len(root.index):
            return Recognition(60, because(sampling[:3]))
        if tokens and numbers and (saved or sampling) and len(known) * 4 >= len(root.index) * 3:
            return Recognition(70, because([*tokens[:1], *sampling[:2], *saved[:1]]))
        return None

    def read(self, document: Document, root: Mapping) -> Iterator[Reading]:
        yield Reading(self.name, document, root, role="model", kind="both")


DIALECT = HfGenerationConfig()
