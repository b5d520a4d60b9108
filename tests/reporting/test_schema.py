"""The schema of compare's JSON: every document is valid, every key is in it, and a change of a key is noticed."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from offleash.render.json import SCHEMA
from offleash.reporting.schema import compare_schema
from tests.cli.command import offleash
from tests.reporting.documents import documents

# objects whose keys are those of users, or of budgets, and parts that docs/json.md describes as a whole
OPEN = {"reasons", "benchmarks", "problems_reasons", "entropy", "flips", "union", "verified", "listed", "runs"}


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return dict(documents(tmp_path_factory.mktemp("documents")))


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """The same schema that refuses keys it does not name, at the top and in the sections."""
    out = copy.deepcopy(schema)
    comparison = out["$defs"]["comparison"]
    for name, section in comparison["properties"].items():
        if name not in OPEN and "properties" in section:
            section["additionalProperties"] = False
    known = {**comparison["properties"], **out["properties"]}
    out["propertyNames"] = {"enum": sorted(known)}
    return out


def test_every_document_is_valid_and_holds_no_key_that_the_schema_does_not_name(every: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(compare_schema())
    validator = Draft202012Validator(strict(compare_schema()))
    for name, document in every.items():
        errors = [(list(error.absolute_path), error.message) for error in validator.iter_errors(document)]
        assert not errors, (name, errors[:5])


def test_every_section_that_the_schema_names_is_in_some_document(every: dict[str, Any]) -> None:
    schema = compare_schema()
    named = {*schema["properties"], *schema["$defs"]["comparison"]["properties"]}
    seen = {key for document in every.values() for key in document}
    assert named <= seen, named - seen


def test_a_key_that_is_renamed_or_changes_its_type_is_noticed(every: dict[str, Any]) -> None:
    validator = Draft202012Validator(strict(compare_schema()))
    document = every["counts"]
    support = {("kept" if key == "P" else key): value for key, value in document["support"].items()}
    assert not validator.is_valid({**document, "support": support})
    assert not validator.is_valid({**document, "headline": "shrank"})
    assert not validator.is_valid({**document, "schema": SCHEMA + 1})
    assert not validator.is_valid({key: value for key, value in document.items() if key != "chance"})
    assert not validator.is_valid({**document, "certain": []})


def test_the_command_prints_the_schema_that_is_shipped() -> None:
    for arguments in (("compare", "--schema"), ("compare", "--schema", "--json")):
        done = offleash(*arguments)
        assert done.code == 0
        assert json.loads(done.out) == compare_schema()
    assert compare_schema()["properties"]["schema"]["const"] == SCHEMA


def test_sections_and_keys_of_the_schema_are_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
    schema = compare_schema()
    sections = schema["$defs"]["comparison"]["properties"]
    assert [name for name in (*schema["properties"], *sections) if f"`{name}`" not in text] == []
    for name, section in sections.items():
        if name not in OPEN:
            assert [key for key in section.get("properties", {}) if f"`{key}`" not in text] == [], name
