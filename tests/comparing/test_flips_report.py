"""Flips in words: what the terminal says of them."""

import io

from rich.console import Console

from offleash.comparing.flip_samples import DecidingSample, VerifierOpinion
from offleash.comparing.flips import Alternative, AlternativeKind, Flip, Flips, UntriedAlternative
from offleash.comparing.flips_report import flips_json, show_flips

NAN = float("nan")


def table(
    name: str, kind: AlternativeKind | None, flips: int = 0, unchecked: int = 0, review: bool = True
) -> Alternative:
    cells = {"P": 3, "E": 1, "S": 0, "O": 2, "U": 0}
    value = {"SRR": 1.0, "NDR": 0.25, "SDS": 0.4, "NSCR": NAN}
    return Alternative(name, kind, cells, value, flips, review, unchecked)


def sample(index: int = 4, verdict: str | None = "correct", alike: int = 1) -> DecidingSample:
    said = {"string@1": VerifierOpinion(None, None, None), "math@0": VerifierOpinion("failed", "7", "timed out")}
    return DecidingSample("rl", index, verdict, "7", None, "boxed", "stop", alike, said, "… so it is 7")


def flip(problem: str, deciding: int = 1, review: bool = True) -> Flip:
    under = {"verifier string@1": "O", "failed as correct": "U", "without step boxed": "S"}
    return Flip(problem, None, "E", under, review, (0, 1), deciding, (sample(),))


def flips(*problems: Flip, ways: tuple[Alternative, ...] | None = None) -> Flips:
    tried = (
        table("verifier string@1", AlternativeKind.VERIFIER, 2, 3),
        table("failed as correct", AlternativeKind.FAILED),
        table("without step boxed", AlternativeKind.STEP, 5, review=False),
    )
    missing = (UntriedAlternative("truncated samples", "rl does not say how its samples ended"),)
    return Flips("base", "rl", 8, table("as judged now", None), tried if ways is None else ways, missing, problems)


def shown(found: Flips, width: int = 200) -> str:
    out = io.StringIO()
    show_flips(Console(file=out, width=width, markup=False, emoji=False, highlight=False), [found])
    return out.getvalue()


def test_a_problem_is_told_with_its_classes_and_samples() -> None:
    text = shown(flips(flip("p1", deciding=9)))
    assert "1. p1   E → O (verifier string@1); undetermined (failed as correct)" in text
    assert "rl 4: correct, answer 7 (step boxed), string@1: not judged, math@0: failed (7), timed out" in text
    assert "… so it is 7" in text
    assert "9 samples decide it" in text
    assert "(without step boxed" not in text, "a format left out is no reason for a review"


def test_what_was_not_checked_or_not_tried_is_told() -> None:
    text = shown(flips(flip("p1"), flip("p2", review=False)))
    assert "verifier string@1 has not judged all samples of 3 problems, which keep their class." in text
    assert "No class changes under: failed as correct." in text
    assert "1 problem changes class only if a whole answer format is ignored" in text
    assert "not tried: truncated samples: rl does not say how its samples ended" in text


def test_an_undefined_metric_is_a_dash_and_null() -> None:
    found = flips(flip("p1"))
    assert " - " in shown(found).split("as judged now")[1].splitlines()[0]
    document = flips_json(found)
    assert isinstance(document["now"], dict)
    assert document["now"]["NSCR"] is None


def test_the_table_fits_eighty_columns() -> None:
    lines = shown(flips(flip("p1")), width=80).splitlines()
    assert max(map(len, lines)) <= 80
    row = next(line for line in lines if "as judged now" in line)
    assert row.split()[3:] == ["3", "1", "0", "2", "1.000", "0.250", "0.400", "-"]


def test_no_alternative_is_said_plainly() -> None:
    text = shown(flips(ways=()))
    assert "No alternative could be tried." in text
    assert "as judged now" not in text
