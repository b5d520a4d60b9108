"""The answer repairs: what they write plainly, what they leave alone, and that no text costs much."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offleash.verifiers.repairs import MAX_CHARACTERS, repair_answer

# fmt: off
PIECES = [
    r"\frac", r"\dfrac", r"\tfrac{", r"\times", r"\cdot", r"\text{", r"\mathrm{", r"\left(", r"\right)", r"\,", r"\!",
    "{,}", r"^\circ", r"^{\circ}", "°", "$", "$$", r"\(", r"\)", r"\[", r"\]", "{", "}", "}{", "1", "2", "x", "10^{3}",
    "10^", " ", ".", ",", "-", "\\", "```", "```json\n", "\n", "^", "a/b", r"\foo", r"\$", "000",
]
# fmt: on


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        (r"\frac{1}{2}", "1/2"),
        (r"\dfrac{3}{4}", "3/4"),
        (r"\tfrac{x+1}{y-2}", "(x+1)/(y-2)"),
        (r"\frac{\frac{1}{2}}{3}", "(1/2)/3"),
        (r"\frac12", "1/2"),
        (r"\frac{1}2", "1/2"),
        (r"3\frac{1}{2}", "3 1/2"),
        (r"2 \times 3 \cdot 5", "2 * 3 * 5"),
        (r"45^\circ", "45"),
        (r"45^{\circ}", "45"),
        ("45°", "45"),
        (r"1.2 \times 10^{3}", "1.2e3"),
        (r"-4\cdot10^{-5}", "-4e-5"),
        ("6.02 × 10^23", "6.02e23"),
        ('```json\n{"a": 1}\n```', '{"a": 1}'),
        ("```\n[1, 2]\n```", "[1, 2]"),
        (r"\text{Monday}", "Monday"),
        (r"\mathrm{A} \to \mathrm{B}", r"A \to B"),
        (r"\left( 1,\, 2 \right)", "( 1,  2 )"),
        (r"10{,}000", "10000"),
        (r"1{,}2", "1,2"),
        (r"$5$", "5"),
        (r"$$5$$", "5"),
        (r"\(5\)", "5"),
        (r"\[ \frac{1}{2} \].", "1/2"),
        ("42.", "42"),
        (r"$\$5$", "$5"),
    ],
)
def test_latex_is_written_plainly(written: str, plain: str) -> None:
    assert repair_answer(written) == plain


@pytest.mark.parametrize(
    "odd", [r"\frac{1}{2", r"\frac{1}", r"\frac", r"\text{a", "}", "$a$ and $b$", "a...", "...", "```x", "x ^ y", "\\"]
)
def test_what_is_not_whole_is_left_as_it_is(odd: str) -> None:
    assert repair_answer(odd) == odd


@given(st.text(alphabet=st.characters(exclude_characters="\\$`°{}.^")))
def test_a_plain_answer_is_only_stripped(answer: str) -> None:
    assert repair_answer(answer) == answer.strip()


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_repairing_twice_changes_nothing_more(answer: str) -> None:
    assert repair_answer(repair_answer(answer)) == repair_answer(answer)


@given(st.text(max_size=60))
def test_any_text_is_repaired_without_an_error(answer: str) -> None:
    repair_answer(answer)


@pytest.mark.parametrize(
    "piece", [r"\frac{", r"\frac{1}{", "}", "$", r"\text{", "\\", "^°", "1", "```", r"\te\text{x}t{", "1 * ", "{,}"]
)
def test_hostile_text_takes_no_longer_than_its_length(piece: str) -> None:
    start = time.process_time()
    repair_answer(piece * (MAX_CHARACTERS // len(piece)))
    repair_answer(piece * (10_000_000 // len(piece)))
    assert time.process_time() - start < 5
