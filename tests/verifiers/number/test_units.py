"""Units in answers: powers of ten, conversions, temperatures, and what is forgiven."""

import pytest

from offleash.data.verdict import Verdict
from offleash.verifiers.number.decide import decide
from offleash.verifiers.verifier import Case

SCALED = {"unit": r"$10^{-3} \mathrm{~s}$", "relative": 0.05}
SPEED = {"unit": r"$\mathrm{~m} / \mathrm{s}$"}


def verdict(answer: str, gold: str, **details: object) -> Verdict:
    return decide(Case(answer, gold, details=details)).verdict


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("5.3", Verdict.CORRECT),
        (r"5.3 \times 10^{-3} s", Verdict.CORRECT),
        (r"5.3 \times 10^{-3}", Verdict.CORRECT),
        ("0.0053", Verdict.CORRECT),
        ("5.3 ms", Verdict.CORRECT),
        ("5300 µs", Verdict.CORRECT),
        (r"5300\ \mu\mathrm{s}", Verdict.CORRECT),
        ("5.4 milliseconds", Verdict.CORRECT),
        ("5.3 s", Verdict.WRONG),
        ("5.3 kg", Verdict.WRONG),
        ("-5.3 ms", Verdict.WRONG),
        (r"5.3 \times 10^{-4} s", Verdict.WRONG),
        ("5.9 ms", Verdict.WRONG),
    ],
)
def test_a_unit_with_a_power_of_ten_takes_the_number_in_it_or_the_power_written_out(
    answer: str, expected: Verdict
) -> None:
    assert verdict(answer, "5.3", **SCALED) == expected


@pytest.mark.parametrize(
    "answer",
    [
        "20", "20 m/s", "72 km/h", "72 km/h (20 m/s)", "v = 72 km/h", r"20 \mathrm{m} \cdot \mathrm{s}^{-1}",
        "20 m s⁻¹", "0.02 km/s", "20 meters per second", "2000 cm/s", "20 m/s to the left", "20 furlongs",
        "1.2 km/min",
    ],
)  # fmt: skip
def test_other_units_are_converted_exactly_and_unknown_ones_leave_it_to_the_number(answer: str) -> None:
    assert verdict(answer, "20", **SPEED) == Verdict.CORRECT


@pytest.mark.parametrize(
    "answer", ["20 km/h", "20 m/s^2", "20 kg", "20 km/s", "72 m/s", "20 km/h (20 m/s)", "20 km/h faster"]
)
def test_the_right_number_in_the_wrong_unit_is_wrong(answer: str) -> None:
    assert verdict(answer, "20", **SPEED) == Verdict.WRONG


def test_temperatures_are_converted_with_their_zero() -> None:
    assert verdict("26.85 °C", "300", unit="K") == Verdict.CORRECT
    assert verdict("300 °C", "300", unit="K", relative=0.05) == Verdict.WRONG
    assert verdict("80.6 °F", "27", unit=r"$^{\circ} \mathrm{C}$") == Verdict.CORRECT
    assert verdict("27 C", "27", unit=r"$^{\circ} \mathrm{C}$") == Verdict.CORRECT
    assert verdict(r"5 \mathrm{J} / {}^{\circ}\mathrm{C}", "5", unit=r"$\mathrm{J} \mathrm{K}^{-1}$") == Verdict.CORRECT


def test_moles_and_angles_may_be_left_out() -> None:
    assert verdict("-383 kJ", "-383", unit=r"$\mathrm{kJ} \mathrm{~mol}^{-1}$") == Verdict.CORRECT
    assert verdict("-383000 J/mol", "-383", unit=r"$\mathrm{kJ} \mathrm{~mol}^{-1}$") == Verdict.CORRECT
    assert verdict("-383 J/mol", "-383", unit=r"$\mathrm{kJ} \mathrm{~mol}^{-1}$") == Verdict.WRONG
    assert verdict("0.5236 rad", "30", unit="$^\\circ$", relative=0.05) == Verdict.CORRECT
    assert verdict("8.314 J/mol K", "8.314", unit=r"$\mathrm{J} \mathrm{K}^{-1} \mathrm{~mol}^{-1}$") == Verdict.CORRECT
    assert verdict("8.314 J/(mol·K)", "8.314", unit=r"$\mathrm{JK}^{-1} \mathrm{~mol}^{-1}$") == Verdict.CORRECT


def test_percentages() -> None:
    assert verdict("25%", "0.25") == verdict("25 percent", "1/4") == verdict("25%", "25") == Verdict.CORRECT
    assert verdict("0.25%", "0.25") == verdict("25", "0.25") == Verdict.WRONG
    assert verdict("25%", "25", unit="%") == verdict("25", "25", unit="$\\%$") == Verdict.CORRECT
    assert verdict("0.25", "25", unit="%") == Verdict.WRONG
    assert verdict("500 cents", "5", unit="$") == Verdict.CORRECT
