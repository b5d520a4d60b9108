"""Words: the finding, the warnings and the texts of figures say what was counted, of one problem as of many."""

from dataclasses import replace
from math import log
from pathlib import Path

import polars as pl
import pytest

from offleash.comparing.compare import Comparison
from offleash.comparing.figures.figure_input import FigureInput
from offleash.comparing.json_sections import comparison_json
from offleash.comparing.sentences import finding, portfolio_sentence, warnings
from offleash.data.scores import SCORES
from offleash.data.tally import Per
from offleash.render.figure import PAGE, Figure
from offleash.reporting.figures import figure, subject
from offleash.stats.support_classes import Rule
from tests.reporting.worlds import answered, compared, counted, spread, write_counts


def told(folder: Path, before: list[int], after: list[int], n: int = 64, **asked: object) -> FigureInput:
    files = [write_counts(folder / f"{r}.csv", correct, n) for r, correct in enumerate((before, after))]
    return compared(*(f"{name}={file}" for name, file in zip(("base", "rl"), files, strict=True)), **asked)


def drawn(name: str, of: FigureInput) -> Figure:
    found = figure(name, of, PAGE)
    assert isinstance(found, Figure), found
    return found


def changed(one: Comparison, **cells: float) -> Comparison:
    return replace(one, change=replace(one.change, **cells))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ([5], [9], "rl reaches the one problem that base reaches, and there was nothing left to gain"),
        ([5, 0], [0, 0], "rl no longer reaches the one problem that base reaches"),
        ([5, 9], [0, 9], "rl no longer reaches 1 of the 2 problems that base reaches"),
        ([5, 9], [7, 9], "rl reaches all 2 problems that base reaches"),
        ([0, 0], [7, 0], "base reaches none of the 2 problems, and rl gained 1 of the 2 that base does not reach"),
    ],
)
def test_one_problem_is_spoken_of_as_one(before: list[int], after: list[int], said: str, tmp_path: Path) -> None:
    assert finding(told(tmp_path, before, after).comparison).startswith(f"Within 64 samples {said}")


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ({"P": 30.2, "S": 4.5, "E": 0.036, "O": 2.0}, "no longer reaches 4.5 of the 34.7 problems that base reaches"),
        ({"P": 30.2, "S": 4.5, "E": 0.036, "O": 2.0}, "and gained fewer than 0.1 of the 2.0 that base does not reach"),
        ({"P": 30.2, "S": 0.036, "E": 2.5}, "rl reaches all but fewer than 0.1 of the 30.2 problems that base reaches"),
        ({"P": 0.01, "S": 0.02, "E": 2.5}, "base reaches fewer than 0.1 of the 2.5 problems, and rl gained 2.5"),
    ],
)
def test_a_fraction_of_a_problem_is_never_said_to_be_zero(cells: dict[str, float], said: str, tmp_path: Path) -> None:
    text = finding(changed(told(tmp_path, [5, 9], [0, 9]).comparison, **cells))
    assert said in text
    assert " 0.0" not in text


def test_chance_is_told_only_where_something_was_reached(tmp_path: Path) -> None:
    assert finding(told(tmp_path, [0, 0], [0, 0], 8).comparison) == (
        "Within 8 samples base reaches none of the 2 problems, and rl gained none of the 2 that base does not reach; "
        "there are too few samples to say more. pass@1 0% -> 0%. Of the 2 problems that base does not reach, none has "
        "a success rate of 0.37 or more under rl (95% confidence); a single gain would be detected with 80% power at a "
        "rate of 0.7 or more."
    )
    few = finding(told(tmp_path, [60] * 3, [60] * 2 + [0]).comparison)
    assert "the rate fell on it, with 95% confidence; resampling an unchanged model would lose fewer than 0.1" in few
    one = told(tmp_path, *spread(80, 64)).comparison
    null = one.evidence.null
    assert null is not None
    assert f"resampling an unchanged model would lose about {null.expected_S:.1f}" in finding(one)


def test_guesses_are_counted_over_all_samples_in_words_and_figure_whatever_k_is(tmp_path: Path) -> None:
    asked = told(tmp_path, [6, 6, 60, 1], [6, 60, 60, 0], at=2, guess=0.1)
    said = [warning for warning in warnings(asked.comparison) if "guess" in warning]
    few = "with a correct sample from"
    assert said == [
        f"3 problems {few} base are solved no more often than by blind guessing.",
        f"1 problem {few} rl is solved no more often than by blind guessing.",
    ]
    assert asked.comparison.change.P + asked.comparison.change.S < 2
    found = drawn("guessing", asked)
    assert found.alt.startswith("Over all samples drawn: base has a correct sample on 4 problems, 3 of them")
    assert "among all n drawn" in found.caption
    text = str([facet.to_dict() for facet in found.facets])
    assert "all samples drawn" in text
    assert "reach" not in text + found.alt


def test_one_undetermined_problem_is_one(tmp_path: Path) -> None:
    one = told(tmp_path, [5, 9], [0, 9]).comparison
    assert "1 problem is undetermined under the rule 'seen'." in warnings(changed(one, undetermined=1.0))
    assert "2 problems are undetermined under the rule 'seen'." in warnings(changed(one, undetermined=2.0))


@pytest.mark.parametrize(
    ("before", "after", "n", "said"),
    [
        ([5], [9], 64, "no mix reaches more."),
        ([0, 0], [0, 0], 8, "every split reaches the same share."),
        ([8, 8], [8, 8], 8, "every split reaches the same share."),
        ([0, 9], [0, 0], 64, "no mix reaches more."),
        ([0, 9] * 5, [0, 0] * 5, 64, "no mix reaches more, gain 0.000 [0.000, "),
    ],
)
def test_no_split_is_named_where_none_is_better(
    before: list[int], after: list[int], n: int, said: str, tmp_path: Path
) -> None:
    found = drawn("portfolio", counted(tmp_path, before, after, n))
    assert said in found.alt
    assert "nan" not in found.alt + found.caption
    assert "best with" not in found.alt
    assert "best: " not in str(found.facets[0].to_dict())


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ([40, 2, 1] + [0] * 17, [0] * 20, "No split of 64 samples between the two runs is significantly better"),
        ([30, 0] * 10, [0, 30] * 10, "Best split of 64 samples: 32 from "),
        ([30, 0] * 3, [0, 30] * 3, "Too few problems to say whether splitting 64 samples"),
    ],
    ids=["RL solves nothing", "each solves half", "six problems"],
)
def test_a_split_is_recommended_only_where_its_gain_is_significant(
    before: list[int], after: list[int], said: str, tmp_path: Path
) -> None:
    comparison = counted(tmp_path, before, after, 64).comparison
    sentence = portfolio_sentence(comparison)
    assert sentence is not None
    assert sentence.startswith(said)
    assert "nan" not in sentence
    section = comparison_json(comparison, {})["portfolio"]
    assert isinstance(section, dict)
    assert (section["gain_interval"] is None) == (len(before) < 8) == (section["reason"] is not None)


def test_a_forecast_without_a_range_says_why(tmp_path: Path) -> None:
    few, enough = (
        comparison_json(counted(tmp_path, [0, 1, 9, 64] * size, [0, 0, 9, 64] * size, 64).comparison, {})
        for size in (1, 3)
    )
    for document, shown in ((few, False), (enough, True)):
        section = document["forecast"]
        assert isinstance(section, dict)
        for ahead in (section["before"], section["after"]):
            assert (ahead["reason"] is None) == shown
            assert (ahead["range"]["512"] != [None, None]) == shown
            assert not any("beta" in note for note in ahead["notes"])


@pytest.mark.parametrize(("right", "said"), [(True, "correct samples"), (False, "all samples")])
def test_the_perplexity_in_words_is_of_the_samples_it_was_taken_from(right: bool, said: str, tmp_path: Path) -> None:
    one = answered(tmp_path, problems=4, samples=8).comparison
    assert one.after.verdicts is not None
    wanted = one.after.verdicts.collect().filter((pl.col("verdict") == "correct") == right)
    rows = [
        {"problem": problem, "index": index, "tokens": 10, "logprob_raw": -10 * log(3)}
        for problem, index in wanted.select("problem", "index").iter_rows()
    ]
    scores = {"model": pl.DataFrame(rows, schema=SCORES).lazy()}
    found = drawn("perplexity", subject([replace(one, after=replace(one.after, scores=scores))]))
    assert found.alt.startswith(f"Median perplexity of {said}. ")
    assert len(found.facets) == 1  # chosen samples are never shown as all of them
    assert ("High perplexity of correct samples" in found.caption) == right


def training(folder: Path, **asked: object) -> FigureInput:
    """A base and two checkpoints of 30 problems and 64 samples."""
    before, after = spread(30, 64)
    files = [write_counts(folder / f"{step}.csv", correct, 64) for step, correct in enumerate((before, after, before))]
    return compared(*(f"step{step}={file}" for step, file in enumerate(files)), **asked)


def values(of: Figure, kind: str) -> list[float]:
    """What the first facet shows of every run, in their order."""
    every = [row for part in of.facets[0].to_dict()["layer"] for row in part.get("data", {}).get("values", [])]
    found = {row["place"]: row["value"] for row in every if row["kind"] == kind}
    return [found[place] for place in sorted(found)]


def test_pass_at_k_of_checkpoints_is_that_of_the_curves_whatever_the_rule_is(tmp_path: Path) -> None:
    asked = training(tmp_path, rule=Rule.ABOVE, tau=0.3)
    steps = asked.comparisons
    curves = [steps[0].curves["before"], *(one.curves["after"] for one in steps)]
    found = drawn("checkpoints", asked)
    assert values(found, "pass@64") == pytest.approx([curve.value_K[-1] for curve in curves], rel=1e-3)
    assert "rule seen: P" in found.caption, "the union is counted by another rule"


def test_what_another_rule_reaches_is_not_called_pass_at_k(tmp_path: Path) -> None:
    plain, asked = training(tmp_path, at=48), training(tmp_path, at=48, rule=Rule.ABOVE, tau=0.3)
    assert 48 not in asked.comparison.curves["after"].k_K
    found, steps = drawn("checkpoints", asked), asked.comparisons
    assert not values(found, "pass@48")
    reached = [steps[0].change.P + steps[0].change.S, *(one.change.P + one.change.E for one in steps)]
    assert values(found, "share reached") == pytest.approx([many / 30 for many in reached], rel=1e-3)
    assert "pass@48" not in found.caption
    seen = plain.comparisons[0].change
    assert values(drawn("checkpoints", plain), "pass@48")[1] == pytest.approx((seen.P + seen.E) / 30, rel=1e-3)


def test_checkpoints_per_solution_have_no_pass_at_k_and_no_union(tmp_path: Path) -> None:
    plain = training(tmp_path)
    steps = [
        replace(one, tally=replace(one.tally, per=Per.SOLUTION), change=replace(one.change, per=Per.SOLUTION))
        for one in plain.comparisons
    ]
    whole, found = drawn("checkpoints", plain), drawn("checkpoints", subject(steps, plain.union))
    assert (len(whole.facets), len(found.facets)) == (2, 1)
    assert "Union of all" in whole.caption
    assert found.caption.startswith("Each checkpoint compared with step0: support retention rate (SRR)")
    assert "pass@" not in found.caption
    assert "Union of all" not in found.caption
