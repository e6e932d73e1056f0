"""Frameworks' own names of models lead to models of the catalogue."""

import json

from cfglint.catalog import data
from cfglint.catalog.architecture import architecture_from_config
from cfglint.catalog.models import find_model
from cfglint.catalog.presets import preset, preset_names, shape


def test_names_of_frameworks() -> None:
    assert preset("torchtune", "llama3_1_8b") == "meta-llama/Llama-3.1-8B"
    assert preset("torchtitan", "llama3/70B") == "meta-llama/Llama-3.1-70B"
    assert preset("maxtext", "gemma2-9b") == "google/gemma-2-9b"
    assert preset("torchtune", "no-such-model") is None
    assert preset("no-such-framework", "llama3_1_8b") is None


def test_every_row_has_a_source_and_leads_to_the_catalogue() -> None:
    rows = json.loads(data.read("presets.json"))
    for framework, row in rows.items():
        assert row["source"], framework
        assert row["checked"], framework
        found = [shape(framework, name) for name in preset_names(framework)]
        assert found, framework
        assert [name for name in found if isinstance(name, str) and find_model(name) is None] == [], framework
        for config in found:
            if not isinstance(config, str):
                assert config is not None and architecture_from_config(config).exact, framework


def test_sizes_that_were_not_published_are_configs() -> None:
    assert isinstance(shape("llm-foundry", "mpt-3b"), dict)
    assert preset("llm-foundry", "mpt-3b") is None


def test_recipes_bring_what_their_name_stands_for() -> None:
    from cfglint.catalog.recipes import recipe

    found = recipe("nemo", "llama31_70b")
    assert found is not None
    assert (found["tensor_parallel_size"], found["pipeline_parallel_size"], found["context_parallel_size"]) == (4, 4, 2)
    assert (found["sequence_length"], found["global_batch_size"], found["sequence_parallel"]) == (8192, 512, True)
    assert recipe("nemo", "llama3_8b_of_ours") is None
    assert preset("nemo", "llama31_70b") == "meta-llama/Llama-3.1-70B"
