"""A fingerprint of the user's own that cannot be loaded or fails, told in one line and in words."""

import sys
from pathlib import Path

import pytest

from offleash.analyses.strategies.fingerprints.fingerprint import SolvedProblem
from offleash.analyses.strategies.fingerprints.registry import fingerprint
from offleash.analyses.strategies.fingerprints.worker import decide, probe, request, results_of
from offleash.data.verdict import Verdict

SOURCE = """
from json import loads
COUNT = 3
def kind(problem, text):
    raise ValueError("one\\n  two")
def number(problem, text):
    return 3
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))  # loading adds to it
    path = tmp_path / "methods.py"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("kin", "has no function kin; the closest name is kind"),
        ("load", "has no function load"),  # what it imports is not meant
        ("COUNT", "has type int, not a function"),
    ],
)
def test_a_function_that_is_not_there_is_told_with_the_nearest(file: Path, name: str, told: str) -> None:
    found = decide(probe(fingerprint(f"{file}:{name}")))
    assert found.verdict is Verdict.FAILED
    assert told in found.reason
    assert "Error" not in found.reason


def test_a_file_that_is_not_there_or_not_python_is_told(file: Path) -> None:
    assert decide(probe(fingerprint(f"{file.parent}/no.py:kind"))).reason == f"there is no file {file.parent}/no.py"
    file.write_text("def kind(")
    assert decide(probe(fingerprint(f"{file}:kind"))).reason.startswith("SyntaxError: ")


def test_what_a_function_raises_is_told_on_one_line(file: Path) -> None:
    rows = [(SolvedProblem("p"), "text")]
    assert results_of(decide(request(fingerprint(f"{file}:kind"), rows))) == [(None, "ValueError: one two")]
    ((way, trouble),) = results_of(decide(request(fingerprint(f"{file}:number"), rows))) or []
    assert way is None
    assert trouble == f"{file}:number returned int 3; it must return a str or None"
