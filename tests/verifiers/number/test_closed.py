"""Closed forms in answers: compared within a tolerance, never evaluated as code."""

import pytest

from offleash.data.verdict import Verdict
from offleash.verifiers.number.decide import decide
from offleash.verifiers.verifier import Case


def verdict(answer: str, gold: str, **details: object) -> Verdict:
    return decide(Case(answer, gold, details=details)).verdict


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        (r"1800\pi", "5654.87"), (r"1800\pi \text{ ft}^3", "5654.87"), (r"\frac{2\pi}{15}", "0.41887902"),
        ("π/14", "0.2244"), (r"10\sqrt{93}", "96.4365"), (r"\frac{1}{\sqrt{4\pi}}", "0.28209"), ("e^{-1}", ".3679"),
        (r"1 - \frac{1}{e}", "0.632"), ("1-(11/12)^{12}", "0.648"), (r"(\ln 50)/0.03", "130.4"),
        (r"2400\cos(40^\circ)", "1838.5"), ("2^{0.5}", "1.41421"), ("-2^2", "-4"), (r"2 \times 3 + 4", "10"),
        ("3e^{2}", "22.167"), (r"\sin(\pi/6)", "0.5"),
    ],
)  # fmt: skip
def test_a_closed_form_is_compared_within_a_tolerance(answer: str, gold: str) -> None:
    assert verdict(answer, gold, relative=0.001) == Verdict.CORRECT
    assert verdict(answer, gold + "e1", relative=0.001) == Verdict.WRONG
    if answer != "-2^2":
        assert verdict(answer, gold) == Verdict.UNREAD


@pytest.mark.parametrize(
    "answer",
    [
        r"1/2\pi", r"\sin 2 x", r"\ln 2 \pi", "2x", r"\sqrt[3]{8}", r"((\pi)", r"\pi)(", "9^9^9^9^9", "exp(9999)",
    ],
)  # fmt: skip
def test_what_can_be_read_in_two_ways_or_not_at_all_is_no_closed_form(answer: str) -> None:
    assert verdict(answer, "1.5708", relative=0.05) == Verdict.UNREAD
