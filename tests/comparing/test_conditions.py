"""Conditions of --fail-if: what is a condition, and that one fails only where its whole interval meets it."""

import math
from pathlib import Path

import pytest

import offleash as ol
from offleash.comparing.conditions import ConditionOutcome, check_conditions, parse_conditions
from offleash.errors import OffleashError
from tests.reporting.worlds import counted, spread, write_counts


@pytest.mark.parametrize(
    ("typed", "parsed"),
    [
        ("SRR<0.95", ["SRR<0.95"]),
        (" srr <= .95 ", ["SRR<=0.95"]),
        ("NSCR<-0.1,SDS>0.5", ["NSCR<-0.1", "SDS>0.5"]),
        ("pass@8>=0.5", ["pass@8>=0.5"]),
        ("Pass@K<1e-1", ["pass@k<0.1"]),
        ("difference@64<0", ["difference@64<0"]),
        ("losses>0,gains>=3", ["losses>0", "gains>=3"]),
        ("SRR<0.95,SRR<0.95", ["SRR<0.95"]),
    ],
)
def test_conditions_are_a_metric_a_sign_and_a_number(typed: str, parsed: list[str]) -> None:
    assert [str(condition) for condition in parse_conditions([typed])] == parsed


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("SSR<0.95", "There is no metric 'SSR'. Did you mean 'SRR'?"),
        ("pas@1<0.5", "There is no metric 'pas@1'. Did you mean 'pass@1'?"),
        ("pass@0<0.5", "There is no metric 'pass@0'"),
        ("loss>0", "Did you mean 'losses'?"),
        ("SRR", "'SRR' is not a condition"),
        ("SRR=0.9", "'SRR=0.9' is not a condition"),
        ("SRR==0.9", "is not a condition"),
        ("", "'' is not a condition"),
        ("SRR<0.9,", "'' is not a condition"),
        ("SRR<95", "not a number between 0 and 1"),
        ("SRR<95%", "not a number between 0 and 1"),
        ("SRR<nan", "not a number between 0 and 1"),
        ("NSCR<-2", "not a number between -1 and 1"),
        ("losses>-1", "not a number at least 0"),
        ("losses>inf", "not a number at least 0"),
        ("losses<3", "only a lower bound is known for losses"),
    ],
)
def test_what_is_no_condition_is_refused_with_the_next_step(typed: str, message: str) -> None:
    with pytest.raises(OffleashError) as refusal:
        parse_conditions([typed])
    assert message in str(refusal.value)


def test_a_condition_fails_where_the_whole_interval_meets_it_and_passes_where_none_of_it_does(tmp_path: Path) -> None:
    """The limits are taken from the interval itself: at an end, `<` and `<=` differ."""
    comparison = counted(tmp_path, *spread(80, 64)).comparison
    low, high = comparison.change.interval["SRR"].low, comparison.change.interval["SRR"].high
    assert low < high < 1
    inside = (low + high) / 2
    expected = {
        ("<", inside): ConditionOutcome.NOT_DECIDED,
        (">", inside): ConditionOutcome.NOT_DECIDED,
        ("<", high): ConditionOutcome.NOT_DECIDED,
        ("<=", high): ConditionOutcome.FAILS,
        ("<", high + 1e-6): ConditionOutcome.FAILS,
        ("<", low): ConditionOutcome.PASSES,
        ("<=", low): ConditionOutcome.NOT_DECIDED,
        (">", low): ConditionOutcome.NOT_DECIDED,
        (">=", low): ConditionOutcome.FAILS,
        (">", high): ConditionOutcome.PASSES,
        (">=", high): ConditionOutcome.NOT_DECIDED,
    }
    for (operator, limit), outcome in expected.items():
        (condition,) = parse_conditions([f"SRR{operator}{limit!r}"])
        (checked,) = check_conditions([condition], [comparison])
        assert checked.outcome is outcome, (operator, limit)
        assert (checked.value, checked.interval) == (comparison.change.value["SRR"], comparison.change.interval["SRR"])


def test_pass_at_any_k_is_that_of_the_run_after_and_differences_are_after_minus_before(tmp_path: Path) -> None:
    """pass@1 is the mean rate; at a k between powers of two the value is that of brute force over subsets."""
    before, after = [4, 0, 2, 8], [8, 8, 0, 1]
    result = ol.compare(
        *(write_counts(tmp_path / f"{name}.csv", counts, 8) for name, counts in (("base", before), ("rl", after))),
        fail_if="pass@1>0.99,pass@3>0.99,difference@1<-0.9,difference@3<-0.9",
        replicates=200,
    )

    def exact(counts: list[int], k: int) -> float:
        return sum(1 - math.comb(8 - c, k) / math.comb(8, k) for c in counts) / len(counts)

    values = [checked.value for checked in result.conditions]
    differences = [exact(after, k) - exact(before, k) for k in (1, 3)]
    assert values == pytest.approx([exact(after, 1), exact(after, 3), *differences])
    assert all(checked.interval.low <= checked.value <= checked.interval.high for checked in result.conditions)


def test_losses_fail_by_their_bound_and_are_never_shown_to_be_few(tmp_path: Path) -> None:
    comparison = counted(tmp_path, [32] * 20, [0] * 10 + [32] * 10).comparison
    bound = comparison.evidence.losses_at_least
    assert bound is not None
    assert bound > 0
    conditions = parse_conditions([f"losses>={bound},losses>{bound}"])
    met, above = check_conditions(conditions, [comparison])
    assert (met.outcome, above.outcome) == (ConditionOutcome.FAILS, ConditionOutcome.NOT_DECIDED)
    assert str(met) == f"rl: losses>={bound} fails (at least {bound})"


def test_an_undefined_value_decides_nothing_and_says_why(tmp_path: Path) -> None:
    comparison = counted(tmp_path, [0] * 6, [0] * 6).comparison
    (checked,) = check_conditions(parse_conditions(["SRR<0.95"]), [comparison])
    assert checked.outcome is ConditionOutcome.NOT_DECIDED
    assert checked.reason is not None
    assert checked.reason in str(checked)


def test_every_run_after_the_first_is_checked(tmp_path: Path) -> None:
    files = [write_counts(tmp_path / f"{name}.csv", [c] * 30, 32) for name, c in (("base", 9), ("a", 9), ("b", 0))]
    result = ol.compare(*files, fail_if=["SRR<0.5"], replicates=200)
    assert [(checked.run, checked.outcome.value) for checked in result.conditions] == [("a", "passes"), ("b", "fails")]
    assert (result.ok, result.exit_code) == (False, 3)
    assert ol.compare(*files[:2], fail_if=["SRR<0.5"], replicates=200).exit_code == 0


def test_a_rate_is_shown_with_that_of_an_unchanged_model(tmp_path: Path) -> None:
    """Two draws of one model may be below a limit: the value of an unchanged model is in the same line."""
    comparison = counted(tmp_path, *spread(80, 64)).comparison
    (checked,) = check_conditions(parse_conditions(["SRR<0.95"]), [comparison])
    assert comparison.change.redraw is not None
    assert checked.redraw == comparison.change.redraw.value["SRR"]
    assert f"unchanged model {checked.redraw:.3f}" in str(checked)
