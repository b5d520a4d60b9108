"""The field's words: no private vocabulary in identifiers, and texts for people in plain English."""

import re
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.words import files, identifiers, shares, strings

METAPHORS = {
    *("crew", "bench", "pace", "standing", "stands", "shelf", "room", "ladder", "pupil", "lesson", "prospect"),
    *("told", "asked", "anew", "surely", "ways", "barren", "plainly", "papered", "found", "one", "panel"),
}
KEPT = {
    "LeaveOneOut",  # the estimator's name in the literature
    "asked",  # a key of stored checkpoints (training/trainer.py: TrainerState)
}


def parts(name: str) -> set[str]:
    """The words of a name: correct_PR is correct and pr, LeaveOneOut is leave, one and out."""
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", name)}


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_identifiers_are_words_that_an_engineer_would_guess(path: Path) -> None:
    private = [word for word in identifiers(path) if parts(word.text) & METAPHORS and word.text not in KEPT]
    assert private == []


def test_exchange_is_the_null_alone() -> None:
    named = {word.text for path in files() for word in identifiers(path) if "exchange" in parts(word.text)}
    assert named <= {"exchange", "exchange_null", "ExchangeNull", "exchange_at_k", "ExchangeAtK", "lost_by_exchange"}


NOT_ENGLISH = re.compile(
    r"\b(anew|surely|likewise|at the most|goes on with|gone on with|stands there|astray|mended?)\b"
    r"|\b(samples?|problems?|tokens|seconds|rows?|lines?|files?) an? "
    r"(problem|sample|row|run|second|line|token|case|model)\b",
)


def test_texts_for_people_are_plain_english() -> None:
    assert [word for path in files() for word in strings(path) if NOT_ENGLISH.search(word.text)] == []


def test_docstrings_and_comments_are_a_sixth_of_the_lines() -> None:
    lines, explained = shares()["all"]
    assert explained / lines >= 0.15
