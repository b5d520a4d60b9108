"""The verifier `number`: numerals, tolerances, units, and SciBench's own answers."""

import json
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offleash.data.verdict import Verdict
from offleash.verifiers.number.decide import decide, readable
from offleash.verifiers.number.numerals import canonical, plain
from offleash.verifiers.number.units import readings
from offleash.verifiers.verifier import Case, Judgement
from tests.places import SHARED_DATA

BENCHMARKS = SHARED_DATA / "bench"
SPEED = {"unit": r"$\mathrm{~m} / \mathrm{s}$"}


def judged(answer: str, gold: str, **details: object) -> Judgement:
    return decide(Case(answer, gold, details=details))


def verdict(answer: str, gold: str, **details: object) -> Verdict:
    return judged(answer, gold, **details).verdict


@pytest.mark.parametrize(
    "answer",
    [
        "18", "18.0", "$18", "18 dollars", r"\$18", "**18**", "*18*", "18%", "x = 18", "x=18", "The answer is 18.",
        "about 18", "1.8e1", "1.8E+1", "36/2", "36 / 2", "-18/-1", r"\frac{36}{2}", r"\dfrac{36}{2}",
        r"\frac{-36}{-2}", r"1.8\times10^{1}", r"1.8 \cdot 10", r"x = 2 \times 9 = 18", r"\boxed{18}", "(18)", "+18",
        "１８", r"18 \text{ apples}", r"18\,\mathrm{m/s^2}", "18 m/s2", "18 m s-1", "18 kg m^{2} s^{-2}", r"18^\circ",
        "$x_{2} = 18$", "x_1 = 18", "18 (18)", r"\approx 18", "≈18", r"17\frac{2}{2}", "18 apples a day", "`18`",
        "18 = x", "18 or 18.0", "0.18e2", "180e-1", r"\left(18\right)", "€18", "18 H2O",
    ],
)  # fmt: skip
def test_a_number_is_read_however_it_is_written(answer: str) -> None:
    unread = {r"17\frac{2}{2}", r"1.8 \cdot 10"}  # sums and products are not evaluated where equality is exact
    assert verdict(answer, "18") == (Verdict.UNREAD if answer in unread else Verdict.CORRECT)


@pytest.mark.parametrize(
    "answer",
    [
        "17", "-18", "−18", "-$18", "minus 18", "negative 18", "-(18)", "- 18", r"-\frac{36}{2}", "18.0001", "1.8",
        "180", "18e1", r"18 \times 10^{1}", "18/2", "18 1/2", "18½", "18 thousand", "1,8", "0,18",
    ],
)  # fmt: skip
def test_another_number_is_wrong(answer: str) -> None:
    assert verdict(answer, "18") == Verdict.WRONG


@pytest.mark.parametrize(
    "answer",
    [
        "17 or 18", "18 or 17", "18 and 17", "between 18 and 19", "18-19", "18–19", "18 to 19", "18, 19", "(18, 19)",
        "3:18", "x = 17, y = 18", "x=17; y=18", "17, x = 18", "x = 17 y = 18", "18 ± 1", r"\pm 18", "$18 - $20",
        "18-18", "1 8", "17 (since 17+1=18)", "17 because x = 18", "18 +/- 1",
    ],
)  # fmt: skip
def test_several_numbers_are_wrong_and_the_reason_says_so(answer: str) -> None:
    result = judged(answer, "18")
    assert result.verdict == Verdict.WRONG
    assert "several" in result.reason


@pytest.mark.parametrize("answer", ["> 18", r"x \leq 18", "at least 18", "x ≠ 18", "less than 18", "not 18"])
def test_a_bound_is_not_a_number(answer: str) -> None:
    assert verdict(answer, "18") == Verdict.WRONG


@pytest.mark.parametrize(
    "answer",
    [
        "", "  ", "eighteen", "none", "x", "18x", "18 x", r"18\pi", "18π", r"\sqrt{18}", "√18", "sqrt(18)", "ln 18",
        "18!", "18i", "2*9", "9 + 9", "18 + 18", "18*18", "18(18)", "18/x", "18^x", "18.0.0", "H18", "x18",
        r"\frac{18}{x}", "1e999999999", "9" * 1500, "9" * 10_000, "9^{9^{9^{9}}}", "9^99999", "18/0", "18 - x", "18_2",
        "18 squared", "18m30s",
        "18-x", "18 - (x)", "18 + x", "is - 18", "--18",
    ],
)  # fmt: skip
def test_more_or_less_than_a_number_is_unread_where_equality_is_exact(answer: str) -> None:
    result = judged(answer, "18")
    assert result.verdict == Verdict.UNREAD
    assert result.reason


@pytest.mark.parametrize(
    "answer",
    [
        "10,000", "10{,}000", r"10\,000", r"10,\!000", "10 000", "10\u202f000", "10000", "1e4", "10^4", "10^{4}",
        "10⁴", "10**4", "1 × 10⁴", "1·10^4", "1x10^4", r"1 \times 10 ^ { 4 }", "10 thousand", "0.01 million",
        "$10,000.00",
    ],
)  # fmt: skip
def test_large_numbers_are_read_with_their_groups_and_powers(answer: str) -> None:
    assert verdict(answer, "10,000") == Verdict.CORRECT


def test_fractions_are_exact() -> None:
    assert verdict("2/6", "1/3") == Verdict.CORRECT
    assert verdict(r"\frac13", r"$\frac{1}{3}$") == Verdict.CORRECT
    assert verdict("0.3333333333333333", "1/3") == Verdict.WRONG
    assert verdict("1/3", "0.333") == Verdict.WRONG
    assert verdict("0.1e1", "1") == Verdict.CORRECT
    assert verdict("0.30000000000000004", "0.3") == Verdict.WRONG
    assert verdict(r"3\frac{1}{3}", "10/3") == Verdict.CORRECT
    assert verdict("1/3 ≈ 0.333", "1/3") == Verdict.CORRECT
    assert verdict("1/3 ≈ 0.4", "1/3") == Verdict.WRONG
    assert verdict(r"\sqrt{12} \approx 3.46", "3.46") == Verdict.CORRECT


def test_a_tolerance_is_of_the_larger_number_and_includes_its_end() -> None:
    assert verdict("95", "100", relative=0.05) == Verdict.CORRECT
    assert verdict("94.99", "100", relative=0.05) == Verdict.WRONG
    assert verdict("105.2", "100", relative=0.05) == Verdict.CORRECT
    assert verdict("105.3", "100", relative=0.05) == Verdict.WRONG
    assert verdict("100.5", "100", absolute=0.5) == Verdict.CORRECT
    assert verdict("100.51", "100", absolute=0.5) == Verdict.WRONG


def test_a_gold_zero_accepts_only_zero_without_an_absolute_tolerance() -> None:
    assert verdict("0.0", "0", relative=0.05) == Verdict.CORRECT
    assert verdict("0.0001", "0", relative=0.05) == Verdict.WRONG
    assert verdict("0.0001", "0", absolute=0.001) == Verdict.CORRECT


def test_the_solution_is_the_number_itself_whatever_its_writing_and_rounding() -> None:
    assert judged("18.00", "18").solution == judged("36/2", "18").solution == "18"
    assert judged("0.50", "1/2").solution == "0.5"
    assert judged("72 km/h", "20.0", **SPEED).solution == judged("20", "20.0", **SPEED).solution == "20"
    assert judged("5.31", "5.3", relative=0.05).solution == judged("5.29", "5.3", relative=0.05).solution == "5.3"


@pytest.mark.parametrize("gold", [None, "", "x", "3 or 4", "1e99999", r"\frac{1}{x}"])
def test_a_gold_that_is_no_number_is_reported_with_its_value(gold: str | None) -> None:
    reason = readable(Case("1", gold))
    assert reason
    assert gold is None or gold in reason
    assert decide(Case("1", gold)).verdict == Verdict.FAILED


@pytest.mark.parametrize(
    "details", [{"relative": "5%"}, {"relative": -1}, {"absolute": float("nan")}, {"unit": 3}, {"absolute": True}]
)
def test_details_that_cannot_be_used_are_reported(details: dict[str, object]) -> None:
    (name,) = details
    assert f"details.{name}" in readable(Case("1", "1", details=details))


def test_canonical_texts_read_back_as_the_same_number() -> None:
    for value in (
        Fraction(0),
        Fraction(-7, 2),
        Fraction(1, 3),
        Fraction(1, 1024),
        Fraction(10) ** 30,
        Fraction(3, 10**12),
    ):
        assert Fraction(canonical(value)) == value


def scibench() -> list[dict[str, str]]:
    file = BENCHMARKS / "scibench.jsonl"
    if not file.exists():
        pytest.skip("the shared benchmark data are not here")
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def test_every_scibench_gold_is_accepted_with_and_without_its_unit_and_no_corruption_is() -> None:
    rows = scibench()
    assert len(rows) == 692
    for row in rows:
        gold, unit = row["answer"], row["unit"]
        details: dict[str, object] = {"unit": unit, "relative": 0.05}
        assert readable(Case("", gold, details=details)) == "", row["id"]
        for right in (gold, f"{gold} {unit}", f"${gold}$", f"x = {gold} {unit}"):
            assert verdict(right, gold, **details) == Verdict.CORRECT, (row["id"], right)
        number = float(gold.replace(",", "").replace("−", "-"))
        if number == 0:
            continue
        for wrong in (number * 1.2, -number, number * 13, number / 7):
            for text in (repr(wrong), f"{wrong!r} {unit}"):
                assert verdict(text, gold, **details) == Verdict.WRONG, (row["id"], text)


def test_nearly_all_units_of_scibench_are_known() -> None:
    units = {plain(row["unit"]) for row in scibench()} - {""}
    unknown = {unit for unit in units if not readings(unit)}
    assert len(unknown) <= 10, unknown


def test_every_gsm8k_gold_is_accepted_and_its_neighbour_is_not() -> None:
    file = BENCHMARKS / "gsm8k.jsonl"
    if not file.exists():
        pytest.skip("the shared benchmark data are not here")
    for row in map(json.loads, file.read_text("utf-8").splitlines()):
        gold = row["answer"]
        assert readable(Case("", gold)) == ""
        assert verdict(f"${int(gold):,}.00", gold) == Verdict.CORRECT
        assert verdict(str(int(gold) + 1), gold) == Verdict.WRONG


NUMBERS = st.decimals(-(10**9), 10**9, allow_nan=False, allow_infinity=False, places=4).map(str)


@settings(deadline=None)  # a busy machine changes nothing
@given(
    NUMBERS,
    NUMBERS,
    st.sampled_from(["m", "km/h", "kJ/mol", "s^{-1}", r"\mathrm{~N} / \mathrm{C}", "%", "°C", "10^{-3} kg"]),
)
def test_the_expected_unit_white_space_and_dollars_never_change_a_verdict(answer: str, gold: str, unit: str) -> None:
    expected = verdict(answer, gold, unit=unit)
    assert expected == (Verdict.CORRECT if Fraction(answer) == Fraction(gold) else Verdict.WRONG)
    for text in (f"  {answer}\n", f"${answer}$", f"\\boxed{{{answer}}}", f"x = {answer}", f"{answer}."):
        assert verdict(text, gold, unit=unit) == expected, text
    joint = r"\times" if unit.startswith("10") else ""
    assert verdict(f"{answer} {joint} {unit}", gold, unit=unit) == expected


PIECES = st.sampled_from(
    [
        *"1,.-+=≈±/*^{}()ex m%$°½µ<!\\\n",
        "2.5", "1e9", "1,000", "10^", "10^{3}", r"\times", "km/h", "kg", "^{-1}", "or", "and", "million", "⁻³", "_2",
        r"\frac", r"\sqrt", r"\pi", r"\frac{1}{2}", r"\text{", "\u0301", "\ud800", "٣",
    ]
)  # fmt: skip
TEXTS = st.text(max_size=60) | st.lists(PIECES, max_size=25).map("".join) | st.lists(PIECES, max_size=25).map(" ".join)


@given(TEXTS, TEXTS, TEXTS, st.sampled_from([0.0, 0.05, 1e-300, 1e300]))
def test_any_text_gets_a_judgement_and_any_gold_a_reason_or_none(
    answer: str, gold: str, unit: str, tolerance: float
) -> None:
    case = Case(answer, gold, details={"unit": unit, "relative": tolerance, "absolute": tolerance})
    assert isinstance(readable(case), str)
    assert isinstance(decide(case), Judgement)
    assert isinstance(decide(Case(answer, "18", details={"unit": "m/s", "relative": 0.05})), Judgement)


@given(TEXTS)
def test_a_readable_gold_accepts_itself(gold: str) -> None:
    if readable(Case("", gold)) == "":
        assert verdict(gold, gold) == Verdict.CORRECT


@pytest.mark.parametrize(
    "bomb",
    [
        "9" * 10_000_000, " " * 10_000_000 + "x", "1" + " 1" * 5_000_000, "(" * 10_000_000, "\\frac{" * 1_000_000,
        "1," * 5_000_000, "^" * 1999, "10^" * 600, "-" * 1999, "{" * 1999, "1 " * 999, "\\frac{1" * 280, "_{" * 990,
        "*1" * 990, "1 1/" * 490, "µ" * 1999, "\u0301\u0316" * 1_000_000, "e" * 1999, "1e" * 900, "a^1" * 600,
        "m/" * 900, "\\sqrt{" * 60, "2^" * 190 + "2", "-" * 190 + "2",
    ],
)  # fmt: skip
def test_hostile_text_is_judged_at_once(bomb: str) -> None:
    started = time.process_time()
    assert judged(bomb, "18", unit="m", relative=0.05).verdict in (Verdict.WRONG, Verdict.UNREAD)
    assert judged(f"5 {bomb[:1900]}", "18", unit="m", relative=0.05).verdict in (Verdict.WRONG, Verdict.UNREAD)
    assert time.process_time() - started < 5
