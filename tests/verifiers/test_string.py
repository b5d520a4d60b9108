"""The verifier `string`: what is forgiven, and what is not."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offleash.data.verdict import Verdict
from offleash.verifiers.string import decide, normalised_text, readable
from offleash.verifiers.verifier import Case, Judgement


def verdict(answer: str, gold: str | None = "Paris", **details: object) -> Verdict:
    return decide(Case(answer, gold, details=details)).verdict


@pytest.mark.parametrize(
    "answer",
    [
        "Paris", "paris", "PARIS", "  Paris\n", "Paris.", '"Paris"', "“Paris.”", "'Paris'.", "`Paris`", "**Paris**",
        "*Paris*", r"\text{Paris}", "$Paris$", r"$\text{Paris}$", r"\(\mathrm{Paris}\)", r"\boxed{\text{Paris}}",
        "**Paris.**", "Ｐａｒｉｓ",
    ],
)  # fmt: skip
def test_what_only_surrounds_an_answer_is_forgiven(answer: str) -> None:
    assert verdict(answer) == Verdict.CORRECT


@pytest.mark.parametrize(
    "answer",
    [
        "The Paris", "Paris, France", "It is Paris", "Paris or Rome", "Rome", "Pari", "Pariss", "not Paris", "P aris",
        "?", '"Paris" or "Rome"', r"\text{Par}\text{is}", "Paris!", "Paris..", "**Paris** **Paris**", "Pâris",
    ],
)  # fmt: skip
def test_other_words_and_more_words_are_wrong(answer: str) -> None:
    assert verdict(answer) == Verdict.WRONG


def test_an_empty_answer_is_unread() -> None:
    assert verdict("") == verdict(" \n\t") == Verdict.UNREAD


def test_white_space_inside_counts_once_and_order_counts() -> None:
    assert verdict("New\n  York", "new york") == Verdict.CORRECT
    assert verdict("York New", "new york") == Verdict.WRONG
    assert verdict("A dog", "dog") == Verdict.WRONG


def test_any_accepted_answer_will_do_and_is_its_own_solution() -> None:
    case = Case("**UK**", "United Kingdom", details={"accepted": ["UK", "Great Britain"]})
    assert decide(case) == Judgement(Verdict.CORRECT, solution="uk")
    assert verdict("USA", "United Kingdom", accepted=["UK"]) == Verdict.WRONG
    assert verdict("UK", None, accepted=["UK"]) == Verdict.CORRECT


def test_the_solution_is_the_normal_form() -> None:
    assert decide(Case('"Paris."', "PARIS")).solution == "paris"


@pytest.mark.parametrize(
    ("case", "word"),
    [
        (Case("x", None), "no gold"),
        (Case("x", "  "), "empty"),
        (Case("x", "y", details={"accepted": "z"}), "'z'"),
        (Case("x", "y", details={"accepted": ["z", 3]}), "3"),
        (Case("x", "y", details={"accepted": [""]}), "empty"),
    ],
)
def test_a_gold_that_cannot_be_used_is_reported(case: Case, word: str) -> None:
    assert word in readable(case)
    assert decide(case).verdict == Verdict.FAILED


def test_a_usable_gold_is_readable() -> None:
    assert readable(Case("", "Paris")) == readable(Case("", None, details={"accepted": ["Paris"]})) == ""


TEXTS = st.text(max_size=40) | st.lists(
    st.sampled_from([*"ab. *$\"'`{}_", "**", r"\text{", r"\boxed{", "\u0301", "\ud800", "ﬁ", "…", "“", "”"]),
    max_size=14,
).map("".join)


@given(TEXTS, TEXTS)
def test_any_text_gets_a_judgement(answer: str, gold: str) -> None:
    assert isinstance(decide(Case(answer, gold, details={"accepted": [answer]})), Judgement)
    assert isinstance(decide(Case(answer, gold)), Judgement)


@given(TEXTS, TEXTS)
def test_an_answer_is_right_exactly_when_the_gold_would_be_in_its_place(answer: str, gold: str) -> None:
    if answer.strip() and gold.strip():
        assert verdict(answer, gold) == verdict(gold, answer)
        assert verdict(gold, gold) == Verdict.CORRECT


@given(st.text("abc xyz", min_size=1, max_size=20), st.text("abc xyz", min_size=1, max_size=20))
def test_wrapping_never_changes_a_verdict(answer: str, gold: str) -> None:
    expected = verdict(answer, gold)
    for left, right in (("  ", "\n"), ("**", "**"), ('"', '"'), ("$", "$"), (r"\text{", "}"), ("", "."), ("`", "`")):
        if answer.strip() and gold.strip():
            assert verdict(left + answer + right, gold) == expected


@pytest.mark.parametrize(
    "bomb",
    [
        "x" * 10_000_000, "\u0301\u0316" * 2_000_000, "\ufdfa" * 3_000_000, "**" * 2_000_000, r"\text{" * 1_000_000,
        " ." * 5_000_000, "a" + "\u0301\u0316" * 4_000, "{" * 10_000_000 + "}" * 1000,
    ],
)  # fmt: skip
def test_hostile_text_is_judged_at_once(bomb: str) -> None:
    started = time.process_time()
    assert verdict(bomb) == Verdict.WRONG
    assert verdict(bomb[:9000], "long " * 250) == Verdict.WRONG
    assert isinstance(normalised_text(bomb[:100_000]), str)
    assert time.process_time() - started < 5
