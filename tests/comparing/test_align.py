"""Matching: the same problem in two runs, by the hash of its text, else by its id."""

import polars as pl
import pytest

from offleash.comparing.align import match
from offleash.data.run import Run
from offleash.data.tables import PROBLEMS, question_hash
from offleash.errors import OffleashError


def run(name: str, problems: dict[str, str | None]) -> Run:
    frame = pl.DataFrame(
        {
            "problem": list(problems),
            "question": list(problems.values()),
            "hash": [None if text is None else question_hash(text) for text in problems.values()],
        },
        schema_overrides={"question": pl.String, "hash": pl.String},
    )
    empty = [pl.lit(None, kind).alias(column) for column, kind in PROBLEMS.items() if column not in frame.columns]
    return Run(name, frame.with_columns(empty).select(*PROBLEMS), None)


def pairs(first: Run, second: Run) -> dict[str, str]:
    return dict(match([first, second]).own[1].select("problem", "own").rows())


def test_problems_match_by_text_whatever_their_ids() -> None:
    found = pairs(run("base", {"0": "One?", "1": "Two?"}), run("rl", {"1": "One?", "0": "Two?\r\n"}))
    assert found == {"0": "1", "1": "0"}


def test_problems_without_text_match_by_id() -> None:
    assert pairs(run("base", {"a": None, "b": "Two?"}), run("rl", {"b": None, "a": "One?"})) == {"a": "a", "b": "b"}


def test_the_same_id_with_different_text_is_another_problem() -> None:
    with pytest.raises(OffleashError, match="with the id of one in rl but a different text is not matched"):
        match([run("base", {"a": "One?"}), run("rl", {"a": "Another?"})])


def test_a_text_that_stands_twice_is_told_apart_by_its_id() -> None:
    twice: dict[str, str | None] = {"a": "Same?", "b": "Same?", "c": "Else?"}
    assert pairs(run("base", twice), run("rl", twice)) == {"a": "a", "b": "b", "c": "c"}


def test_problems_that_only_one_run_has_are_counted() -> None:
    found = match([run("base", {"a": "1", "b": "2", "c": "3"}), run("rl", {"a": "1", "d": "4"})])
    assert found.left_out == (2, 1)


def test_nothing_in_common_is_an_error() -> None:
    with pytest.raises(OffleashError, match="no problem in common"):
        match([run("base", {"a": "1"}), run("rl", {"b": "2"})])
    with pytest.raises(OffleashError, match="'base' and 'other' have no problem in common"):
        match([run("base", {"a": "1"}), run("rl", {"a": "1"}), run("other", {"b": "2"})])
