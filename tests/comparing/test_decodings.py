"""Runs drawn with different decoding: refused with the reason, unless that is allowed."""

import json

import polars as pl
import pytest

from offleash.comparing.align import allowed
from offleash.comparing.compare import compare
from offleash.comparing.question import Question
from offleash.data.run import Run
from offleash.data.tables import as_problems
from offleash.errors import OffleashError

PLAIN = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "max_tokens": 18}


def run(name: str, decoding: object) -> Run:
    problems = as_problems(pl.DataFrame({"problem": ["a", "b"]}))
    counts = pl.DataFrame({"problem": ["a", "b"], "n": [8, 8], "c": [1, 0]})
    told = decoding if isinstance(decoding, str) else json.dumps(decoding)
    return Run(name, problems, None, counts=counts, facts={"decoding": told})


def test_runs_of_different_temperature_are_refused_with_both_values_and_the_way_out() -> None:
    with pytest.raises(OffleashError, match=r"temperature 1 vs 0\.6.*--allow decoding"):
        compare(run("base", PLAIN), run("rl", PLAIN | {"temperature": 0.6}))


def test_runs_of_different_decoding_are_compared_when_that_is_allowed_and_it_is_noted() -> None:
    other = PLAIN | {"top_p": 0.95, "max_tokens": 32}
    one = compare(run("base", PLAIN), run("rl", other), Question(allow=allowed(["decoding"])))
    assert "top_p 1 vs 0.95, max_tokens 18 vs 32" in one.notes[0].text


def test_runs_that_stop_at_other_texts_are_refused() -> None:
    with pytest.raises(OffleashError, match=r"stop \[\] vs \[\"x\"\]"):
        compare(run("base", PLAIN | {"stop": []}), run("rl", PLAIN | {"stop": ["x"]}))


@pytest.mark.parametrize("told", ["greedy, I think", {"temperature": None}, {"do_sample": True}, {"temperature": 1}])
def test_what_a_log_does_not_tell_is_no_difference(told: object) -> None:
    assert not compare(run("base", PLAIN), run("rl", told)).notes


def test_only_known_words_are_allowed() -> None:
    with pytest.raises(OffleashError, match="decoding"):
        allowed(["decodings"])
