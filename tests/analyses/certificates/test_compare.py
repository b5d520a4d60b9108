"""Compare certificates: classes and masses of a pair worked by hand, and what must not be compared is refused."""

from pathlib import Path

import pytest

from offleash.analyses.certificates.compare import (
    CertifiedComparison,
    CertifiedQuestion,
    compare_certificates,
)
from offleash.errors import OffleashError
from offleash.loading.arguments import inputs_are_certificates
from offleash.stats.support_classes import Certified
from tests.analyses.certificates.certified_world import Written, certificate
from tests.comparing.world import write_log

Y, Z = (1, 2), (3,)
BASE: dict[str, list[Written]] = {
    "kept": [(Y, "correct", 0.3), (Z, "wrong", 0.2)],
    "lost": [(Y, "correct", 0.02)],
    "many": [((1,), "correct", 0.005), ((2,), "correct", 0.005), ((3,), "correct", 0.005)],
    "none": [(Z, "wrong", 0.4)],
    "failed": [(Y, "correct", 0.3)],
}
RL: dict[str, list[Written]] = {
    "kept": [(Y, "correct", 0.5), ((1, 3), "correct", 0.1)],
    "lost": [(Y, "correct", 0.005), (Z, "wrong", 0.9)],
    "many": [((9,), "correct", 0.4)],
    "none": [(Z, "unread", 0.9)],
    "failed": [(Y, "failed", 0.2)],
}
LEFT = {"kept": 0.5, "lost": 0.9, "many": 0.9, "none": 0.6, "failed": 0.7}
LEFT_RL = {"kept": 0.4, "lost": 0.001, "many": 0.5, "none": 0.005, "failed": 0.6}


@pytest.fixture
def pair(tmp_path: Path) -> list[str]:
    base = certificate(tmp_path / "base", BASE, LEFT, benchmarks={"kept": "other"})
    rl = certificate(tmp_path / "rl", RL, LEFT_RL, benchmarks={"kept": "other"})
    return [str(base), str(rl)]


def compared(arguments: list[str], question: Certified = Certified.COMPLETION) -> CertifiedComparison:
    (one,) = compare_certificates(arguments, CertifiedQuestion(question, replicates=200))
    return one


def cells(one: CertifiedComparison, question: Certified) -> tuple[float, ...]:
    change = one.change[question]
    return change.P, change.E, change.S, change.O, change.undetermined


def test_problems_fall_into_the_classes_worked_out_by_hand(pair: list[str]) -> None:
    one = compared(pair)
    classes = {row["problem"]: (row["completion"], row["mass"]) for row in one.table.iter_rows(named=True)}
    assert classes == {
        "kept": ("P", "P"),
        "lost": ("S", "S"),  # after: 0.005 found and 0.001 unexplored are below 0.01 together
        "many": ("E", "P"),  # before: three of 0.005 are none above 0.01, and 0.015 together
        "none": ("O", "U"),  # before: 0.6 is unexplored
        "failed": ("U", "U"),  # after: the verifier failed on 0.2
    }
    assert cells(one, Certified.COMPLETION) == (1, 1, 1, 1, 1)
    assert cells(one, Certified.MASS) == (2, 0, 1, 0, 2)
    assert one.change[Certified.MASS].value["SRR"] == pytest.approx(2 / 3)
    assert one.change[Certified.COMPLETION].k == 300  # -ln(0.05) / 0.01
    assert one.bounds("before") == pytest.approx((0.635 / 5, (0.635 + 3.6) / 5))
    assert one.bounds("after") == pytest.approx((1.005 / 5, (1.005 + 1.506 + 0.2) / 5))
    assert [(part.name, part.problems) for part in one.benchmarks] == [("one", 4), ("other", 1)]


def test_completions_are_kept_lost_and_found_with_their_mass(pair: list[str]) -> None:
    found = compared(pair).completions
    assert found is not None
    # kept: Y of "kept" and Y of "failed", whose text was judged correct before; lost: Y of "lost"; found: two
    assert (found.change.P, found.change.S, found.change.E) == (2, 1, 2)
    assert found.mass["P"] == pytest.approx((0.6 / 5, 0.7 / 5))
    assert found.mass["S"] == pytest.approx((0.02 / 5, 0.005 / 5))
    assert found.mass["E"] == pytest.approx((0, 0.5 / 5))
    count, mass = found.known
    assert count == 1
    assert mass == pytest.approx(0.005 / 5)


def test_swapping_the_certificates_swaps_lost_and_found(pair: list[str]) -> None:
    one, other = compared(pair), compared(pair[::-1])
    for question in Certified:
        (P, E, S, O, U), swapped = cells(one, question), cells(other, question)  # noqa: E741
        assert swapped == (P, S, E, O, U)
    assert one.completions is not None
    assert other.completions is not None
    assert (other.completions.change.S, other.completions.change.E) == (
        one.completions.change.E,
        one.completions.change.S,
    )


def test_different_thresholds_are_compared_at_the_larger(tmp_path: Path, pair: list[str]) -> None:
    coarse = certificate(tmp_path / "coarse", RL, LEFT_RL, epsilon=0.15)
    one = compared([pair[0], str(coarse)])
    assert one.epsilon == 0.15
    assert one.table.filter(one.table["problem"] == "lost")["completion"].to_list() == ["O"]
    assert one.completions is not None
    assert (one.completions.change.P, one.completions.change.E) == (2, 1)  # 0.1 is no longer above
    assert any("epsilons differ (base 0.01, coarse 0.15)" in note.text for note in one.notes)


def test_other_decodings_verifiers_and_vocabularies_are_told(tmp_path: Path, pair: list[str]) -> None:
    other = certificate(tmp_path / "other", RL, LEFT_RL, vocabulary="w", verifier="math@1", temperature=0.6)
    one = compared([pair[0], str(other)])
    text = " ".join(note.text for note in one.notes)
    assert "temperature: 1.0 and 0.6" in text
    assert "base by string@1, other by math@1" in text
    assert one.completions is None
    assert one.unmatched == "their vocabularies differ"


def test_problems_that_are_not_certified_in_both_are_left_out_and_noted(tmp_path: Path, pair: list[str]) -> None:
    part = certificate(tmp_path / "part", RL, {name: left for name, left in LEFT_RL.items() if name != "kept"})
    one = compared([pair[0], str(part)])
    assert one.table.height == 4
    assert [(note.rows, note.left_out) for note in one.notes] == [(1, True)]


def test_two_certificates_without_correct_completions_compare(tmp_path: Path) -> None:
    empty: dict[str, list[Written]] = {"a": [(Z, "wrong", 0.5)], "b": []}
    folders = [str(certificate(tmp_path / name, empty, {"a": 0.5, "b": 1.0})) for name in ("x", "y")]
    one = compared(folders)
    assert cells(one, Certified.COMPLETION) == (0, 0, 0, 2, 0)
    assert one.unmatched == "neither has a correct completion above epsilon"


def test_certificates_of_several_problem_sets_are_one_under_a_glob(tmp_path: Path) -> None:
    for model, written, left in (("base", BASE, LEFT), ("rl", RL, LEFT_RL)):
        for place, names in enumerate((("kept", "lost"), ("many", "none", "failed"))):
            some = {name: written[name] for name in names}
            certificate(tmp_path / f"{model}-{place}" / model, some, {name: left[name] for name in names})
    one = compared([f"base={tmp_path}/base-*/base", f"rl={tmp_path}/rl-*/rl"])
    assert cells(one, Certified.COMPLETION) == (1, 1, 1, 1, 1)


def test_several_certificates_are_each_compared_with_the_first(tmp_path: Path, pair: list[str]) -> None:
    later = str(certificate(tmp_path / "later", BASE, LEFT))
    both = compare_certificates([*pair, later], CertifiedQuestion(replicates=200))
    assert [one.after.name for one in both] == ["rl", "later"]
    assert cells(both[1], Certified.COMPLETION)[1:3] == (0, 0)
    (one,) = compare_certificates([*pair, later], CertifiedQuestion(replicates=200), before="later", after="base")
    assert (one.before.name, one.after.name) == ("later", "base")
    with pytest.raises(OffleashError, match="Name two certificates"):
        compare_certificates(pair[:1])


def test_certificates_are_not_mixed_with_runs_nor_counted_by_other_rules(tmp_path: Path, pair: list[str]) -> None:
    log = str(write_log(tmp_path / "log.jsonl", [[True, False]]))
    assert inputs_are_certificates(pair, "certified")
    assert not inputs_are_certificates([log, log], "seen")
    with pytest.raises(OffleashError, match=r"is a certificate and .* is not"):
        inputs_are_certificates([pair[0], log])
    with pytest.raises(OffleashError, match="--rule seen counts samples"):
        inputs_are_certificates(pair, "seen")
    with pytest.raises(OffleashError, match="--question mass needs certificates"):
        inputs_are_certificates([log, log], None, "mass")


def test_a_shard_that_is_gone_is_noticed(pair: list[str]) -> None:
    (Path(pair[1]) / "completions" / "000001.parquet").unlink()
    with pytest.raises(OffleashError, match="'lost' has 0 completions, but 2 were written"):
        compared(pair)
