"""Version-bound defaults."""

from cfglint.jobs.defaults import in_force, settle_defaults
from cfglint.jobs.facts import UNKNOWN, DefaultOrigin, FactSet, FlagOrigin


def _weight_dtype() -> FactSet:
    facts = FactSet()
    facts.state("weight_dtype", UNKNOWN, DefaultOrigin("transformers", ">=5"))
    facts.state("weight_dtype", "fp32", DefaultOrigin("transformers", "<5"))
    return facts


def test_the_default_of_the_version_in_use_stays() -> None:
    assert settle_defaults(_weight_dtype(), {"transformers": "4.57.6"}).value("weight_dtype") == "fp32"
    assert settle_defaults(_weight_dtype(), {"transformers": "5.1.0"}).undecided("weight_dtype")


def test_a_range_of_versions_keeps_what_it_meets() -> None:
    assert settle_defaults(_weight_dtype(), {"transformers": ">=4.40,<5"}).value("weight_dtype") == "fp32"
    assert settle_defaults(_weight_dtype(), {"transformers": ">=5.2"}).undecided("weight_dtype")


def test_a_framework_without_a_version_is_taken_to_be_new() -> None:
    settled = settle_defaults(_weight_dtype(), {"trl": "0.9"})
    assert settled.undecided("weight_dtype")
    assert len(settled.statements("weight_dtype")) == 1


def test_statements_of_files_and_flags_all_stay() -> None:
    facts = _weight_dtype()
    facts.state_first("weight_dtype", "bf16", FlagOrigin("--set"))
    assert [f.value for f in settle_defaults(facts, {}).statements("weight_dtype")] == ["bf16", UNKNOWN]


def test_what_cannot_be_read_matches() -> None:
    assert in_force("5.x in words", "5.0")
    assert in_force(">=5", "nightly")
    assert in_force("", "1.0")
    assert not in_force("<0.9.1", "0.9.1")
    assert not in_force("<0.9.1", "==0.9.3")
    assert in_force("<0.9.1", "<=0.9.3")
