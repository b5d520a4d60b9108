"""Exact decisions: where they decide, they say what algebra says."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offleash.data.verdict import Verdict
from offleash.verifiers.extraction.extract import extract
from offleash.verifiers.math.decide import decide_by_algebra
from offleash.verifiers.math.exact import decide_exactly, plain_number
from offleash.verifiers.registry import VERIFIERS
from offleash.verifiers.verifier import Case
from tests.effort import examples
from tests.verifiers.vectors import equality_vectors, rows

INTEGERS = st.integers(-(10**9), 10**9)
WRITTEN = st.one_of(
    INTEGERS.map(str),
    INTEGERS.map(lambda n: f"{n:,}"),
    st.decimals(-(10**6), 10**6, places=3, allow_nan=False).map(str),
    st.tuples(INTEGERS, st.integers(1, 10**4)).map(lambda pair: f"{pair[0]}/{pair[1]}"),
    st.tuples(INTEGERS, st.integers(1, 10**4)).map(lambda pair: f"\\frac{{{pair[0]}}}{{{pair[1]}}}"),
)


@pytest.mark.parametrize(
    ("text", "value"),
    [("12", 12), ("-7", -7), ("1,234,567", 1234567),
     ("10{,}000", 10000), ("2.50", Fraction(5, 2)), ("3/4", Fraction(3, 4)),
     ("-\\frac{6}{8}", Fraction(-3, 4)), ("\\dfrac{1}{3}", Fraction(1, 3))],
)  # fmt: skip
def test_plain_numbers_are_read_exactly(text: str, value: Fraction) -> None:
    assert plain_number(text) == value


@pytest.mark.parametrize(
    "text", ["", "x", "1e5", "0,111", "1,22", "1/0", "5%", "2^3", "1 000", "٣", "9" * 40, "1,2345"]
)
def test_every_other_form_is_left_to_algebra(text: str) -> None:
    assert plain_number(text) is None


@settings(max_examples=examples(300), deadline=None)
@given(WRITTEN, WRITTEN)
def test_numbers_are_judged_as_algebra_judges_them(gold: str, answer: str) -> None:
    quick = decide_exactly(Case(answer, gold))
    if quick is not None:
        assert quick.verdict is decide_by_algebra(Case(answer, gold)).verdict


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(-999, 999), st.integers(-2, 2))
def test_neighbours_are_judged_as_algebra_judges_them(number: int, step: int) -> None:
    for gold, answer in ((f"{number}", f"{number + step}.0"), (f"{number}/7", f"{number * 3 + step}/21")):
        quick = decide_exactly(Case(answer, gold))
        if quick is not None:
            assert quick.verdict is decide_by_algebra(Case(answer, gold)).verdict


def test_they_never_differ_from_algebra_on_the_vectors_and_on_real_outputs() -> None:
    steps = VERIFIERS["math"].steps
    pairs = {(str(row["gold"]), extract(str(row["pred"]), steps).answer) for row in equality_vectors()}
    for row in rows("outputs/qwen25math.math100x8.jsonl") + rows("outputs/openai_gsm8k.4models.jsonl")[:400]:
        pairs.add((str(row["gold"]), extract(str(row["completion"]), steps).answer))
    decided = 0
    for gold, answer in pairs:
        quick = decide_exactly(Case(answer, gold)) if answer is not None else None
        if answer is not None and quick is not None:
            decided += 1
            slow = decide_by_algebra(Case(answer, gold))
            assert slow.verdict is quick.verdict, (gold, answer)
            assert slow.verdict is not Verdict.FAILED
    assert decided > 200


@settings(max_examples=examples(150), deadline=None)
@given(st.sampled_from("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"), st.sampled_from("abeiABEIxXyzd"))
def test_single_letters_are_judged_as_algebra_judges_them(gold: str, answer: str) -> None:
    quick = decide_exactly(Case(answer, gold))
    assert (quick is None) == (answer != gold and answer.lower() == gold.lower())
    assert quick is None or quick.verdict is decide_by_algebra(Case(answer, gold)).verdict


MIXED = st.tuples(st.integers(0, 30), st.integers(0, 9), st.integers(1, 9)).map(
    lambda parts: f"{parts[0]}\\frac{{{parts[1]}}}{{{parts[2]}}}"
)


@settings(max_examples=examples(150), deadline=None)
@given(MIXED, MIXED)
def test_mixed_numbers_are_judged_as_algebra_judges_them(gold: str, answer: str) -> None:
    quick = decide_exactly(Case(answer, gold))
    if quick is not None:
        assert quick.verdict is decide_by_algebra(Case(answer, gold)).verdict
