"""Flips: classes under every way to judge equal a plain recount, and the samples that decide are the right ones."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest

from offleash.comparing.flip_samples import VerifierOpinion
from offleash.comparing.flips import Flip
from offleash.data.run import Budget, write_facts
from offleash.data.tables import as_problems
from offleash.errors import OffleashError
from tests.comparing.flip_world import Drawn, flips_between, flips_of, random_world, right, write_run, wrong
from tests.comparing.world import drawn, write_log
from tests.places import EXAMPLES

World = Mapping[str, Sequence[Drawn]]
COUNTS = EXAMPLES / "counts"
STRICT = {"tag", "boxed", "hashes", "code"}


def recount(before: World, after: World, hit: Callable[[Drawn], bool], k: int, least: int = 1) -> dict[str, str]:
    """The class of every problem by plain counting."""
    letter = {(True, True): "P", (False, True): "E", (True, False): "S", (False, False): "O"}
    reached = [{p: sum(map(hit, world[p][:k])) >= least for p in world} for world in (before, after)]
    return {p: letter[reached[0][p], reached[1][p]] for p in before}


def correct(one: Drawn, verifier: str = "math@1") -> bool:
    return one.verdicts[verifier] == "correct"


WAYS: dict[str, Callable[[Drawn], bool]] = {
    "verifier string@1": lambda one: correct(one, "string@1"),
    "only strict steps": lambda one: correct(one) and one.step in STRICT,
    "without step tag": lambda one: correct(one) and one.step != "tag",
    "without step boxed": lambda one: correct(one) and one.step != "boxed",
    "without step stated": lambda one: correct(one) and one.step != "stated",
    "without step last_number": lambda one: correct(one) and one.step != "last_number",
    "truncated left out": lambda one: correct(one) and one.finish != "length",
    "failed as correct": lambda one: correct(one) or one.verdicts["math@1"] == "failed",
}


@pytest.mark.parametrize("at", [None, 5])
@pytest.mark.parametrize("rule", ["seen", "above"])
def test_classes_under_every_way_equal_a_plain_recount(tmp_path: Path, at: int | None, rule: str) -> None:
    before, after = random_world(80, 12, 1), random_world(80, 12, 2)
    found = flips_between(tmp_path, before, after, at=at, rule=rule, tau=0.1 if rule == "above" else 0.0)
    k = at or 12
    least = 1 if rule == "seen" else int(0.1 * k) + 1
    now = recount(before, after, correct, k, least)
    assert found.k == k
    assert {way.name for way in found.alternatives} == set(WAYS)
    seen = {flip.problem: flip for flip in found.problems}
    assert len(seen) == len(found.problems)
    for way in found.alternatives:
        expected = recount(before, after, WAYS[way.name], k, least)
        turned = {p: letter for p, letter in expected.items() if letter != now[p]}
        assert {p: flip.under[way.name] for p, flip in seen.items() if way.name in flip.under} == turned
        assert {c: way.cells[c] for c in "PESO"} == {c: list(expected.values()).count(c) for c in "PESO"}
        assert way.flips == len(turned)
        kept, found_ = way.cells["P"], way.cells["E"]
        assert way.value["NDR"] == pytest.approx(found_ / (kept + found_))
    assert {p: flip.now for p, flip in seen.items()} == {p: now[p] for p in seen}
    assert sum(way.flips for way in found.alternatives) > 40, "the world must turn, or nothing was tested"


def test_deciding_samples_are_those_that_the_two_ways_count_differently(tmp_path: Path) -> None:
    worlds = {"base": random_world(60, 12, 3), "rl": random_world(60, 12, 4)}
    found = flips_between(tmp_path, worlds["base"], worlds["rl"])
    checked = 0
    for flip in found.problems:
        assert flip.samples, flip
        for sample in flip.samples:
            one = worlds[sample.run][flip.problem][sample.index]
            assert any(WAYS[name](one) != correct(one) for name in flip.under)
            assert (sample.verdict, sample.step, sample.finish) == (one.verdicts["math@1"], one.step, one.finish)
            assert sample.others == {"string@1": VerifierOpinion(one.verdicts["string@1"], one.answer, None)}
            checked += 1
        for run in worlds:
            assert sum(sample.run == run for sample in flip.samples) <= 3
    assert checked > 40


def test_swapping_the_runs_swaps_found_and_lost_under_every_way(tmp_path: Path) -> None:
    before, after = random_world(60, 8, 5), random_world(60, 8, 6)
    base, rl = write_run(tmp_path / "base", before), write_run(tmp_path / "rl", after)
    one, other = flips_of(base, rl), flips_of(rl, base)
    swap = str.maketrans("ES", "SE")
    for way, mirrored in zip(one.alternatives, other.alternatives, strict=True):
        assert [way.cells[c] for c in "PESO"] == [mirrored.cells[c.translate(swap)] for c in "PESO"]
        assert way.value["NSCR"] == pytest.approx(-mirrored.value["NSCR"])
    turned = {flip.problem: (flip.now, flip.under, flip.deciding, _places(flip)) for flip in one.problems}
    assert turned == {
        flip.problem: (
            flip.now.translate(swap),
            {name: letter.translate(swap) for name, letter in flip.under.items()},
            flip.deciding,
            _places(flip),
        )
        for flip in other.problems
    }


def _places(flip: Flip) -> set[tuple[str, int]]:
    return {(sample.run, sample.index) for sample in flip.samples}


def test_one_false_correct_makes_a_loss_and_is_first_on_the_list(tmp_path: Path) -> None:
    lucky = Drawn(
        {"math@1": "correct", "string@1": "wrong"}, "last_number", "length", "7", "guess 7", {"string@1": "x7"}
    )
    before = {
        "lucky": [wrong()] * 5 + [lucky] + [wrong()] * 2,  # in the support by one doubtful sample
        "solid": [right()] * 4 + [wrong()] * 4,
        "loose": [right("stated")] * 3 + [wrong()] * 5,
        "hidden": [wrong(**{"string@1": "correct"}), *[wrong()] * 7],
    }
    after = {
        "lucky": [wrong()] * 8,
        "solid": [right()] * 8,
        "loose": [right()] * 8,
        "hidden": [right()] * 8,
    }
    found = flips_between(tmp_path, before, after)
    assert {c: found.now.cells[c] for c in "PESO"} == {"P": 2, "E": 1, "S": 1, "O": 0}
    assert [flip.problem for flip in found.to_review] == ["hidden", "lucky", "loose"]
    first = next(flip for flip in found.problems if flip.problem == "lucky")
    assert (first.now, first.deciding, first.correct, first.gold) == ("S", 1, (1, 0), "7")
    ways = ["verifier string@1", "only strict steps", "without step last_number", "truncated left out"]
    assert first.under == dict.fromkeys(ways, "O")
    (sample,) = first.samples
    assert (sample.run, sample.index, sample.finish, sample.text) == ("base", 5, "length", "guess 7")
    assert sample.others == {"string@1": VerifierOpinion("wrong", "x7", None)}
    hidden = next(flip for flip in found.problems if flip.problem == "hidden")
    assert hidden.under == {"verifier string@1": "P", "without step boxed": "O"}
    assert [(sample.run, sample.index) for sample in hidden.samples if sample.run == "base"] == [("base", 0)]


def test_a_whole_format_left_out_is_counted_but_not_put_on_the_review_list(tmp_path: Path) -> None:
    before = {f"p{p}": [right("boxed"), wrong()] for p in range(6)}
    after = {f"p{p}": [right("tag"), wrong()] for p in range(6)}
    found = flips_between(tmp_path, before, after)
    assert {way.name: way.flips for way in found.alternatives if way.flips} == {
        "without step boxed": 6,
        "without step tag": 6,
    }
    assert len(found.problems) == 6
    assert not found.to_review


def test_a_verifier_that_has_not_judged_every_sample_decides_only_what_it_can(tmp_path: Path) -> None:
    unseen = Drawn({"math@1": "wrong"})
    before = {
        "partly": [Drawn({"math@1": "correct", "string@1": "wrong"}), unseen, unseen],
        "reached": [Drawn({"math@1": "wrong", "string@1": "correct"}), unseen, unseen],
        "whole": [Drawn({"math@1": "correct", "string@1": "wrong"}), wrong(), wrong()],
    }
    after = {name: [wrong()] * 3 for name in before}
    found = flips_between(tmp_path, before, after)
    (way,) = [way for way in found.alternatives if way.kind == "verifier"]
    assert way.unchecked == 1
    turned = {flip.problem: flip.under.get(way.name) for flip in found.problems}
    assert turned == {"partly": None, "reached": "S", "whole": "O"}


def test_a_record_that_stopped_early_is_undetermined_once_its_successes_fall(tmp_path: Path) -> None:
    doubtful = Drawn({"math@1": "correct", "string@1": "wrong"})
    before = {"short": [wrong(), doubtful], "long": [wrong()] * 8, "sure": [right()]}
    after = {"short": [right()], "long": [wrong()] * 7 + [doubtful], "sure": [right()]}
    base = write_run(tmp_path / "base", before, until=1, k=8)
    rl = write_run(tmp_path / "rl", after, until=1, k=8)
    found = flips_of(base, rl)
    turned = {flip.problem: (flip.now, flip.under["verifier string@1"]) for flip in found.to_review}
    assert turned == {"short": ("P", "U"), "long": ("E", "O")}


def test_gaps_between_judged_samples_do_not_change_which_samples_count(tmp_path: Path) -> None:
    none = Drawn({"math@1": None, "string@1": None})
    before = {"p": [none, none, wrong(), right("stated")], "q": [wrong(), wrong(), right(), right()]}
    after = {"p": [wrong()] * 4, "q": [wrong()] * 4}
    found = flips_between(tmp_path, before, after)
    assert found.k == 2
    turned = {flip.problem: flip.under for flip in found.problems}
    assert turned == {"p": dict.fromkeys(["only strict steps", "without step stated"], "O")}


def test_problems_that_the_runs_name_differently_are_matched_by_text(tmp_path: Path) -> None:
    for name, label in (("base", "a"), ("rl", "b")):
        rows = [Drawn({"math@1": "correct", "string@1": "wrong"}), wrong()] if name == "base" else [wrong(), wrong()]
        write_run(tmp_path / name, {f"{label}{p}": rows for p in range(2)})
        problems = pl.DataFrame({"problem": [f"{label}0", f"{label}1"], "hash": ["h0", "h1"], "gold": ["7", "7"]})
        _reasked(tmp_path / name, problems)
    found = flips_of(tmp_path / "base", tmp_path / "rl")
    assert [(flip.problem, flip.now) for flip in found.to_review] == [("a0", "S"), ("a1", "S")]
    assert all(flip.samples[0].run == "base" for flip in found.to_review)


def _reasked(path: Path, problems: pl.DataFrame) -> None:
    """The same run with other columns of its problems."""
    whole = as_problems(problems)
    whole.write_parquet(path / "problems.parquet")
    write_facts(path, path.name, whole, {}, Budget())


def test_what_cannot_be_tried_is_named_with_the_next_step(tmp_path: Path) -> None:
    plain = {"p": [Drawn({"tool": "correct"}, None), Drawn({"tool": "wrong"}, None)]}
    base, rl = write_run(tmp_path / "base", plain), write_run(tmp_path / "rl", plain)
    found = flips_of(base, rl, verifier=None)
    assert not found.alternatives
    assert not found.problems
    told = {missing.what: missing for missing in found.untried}
    assert told["another verifier"].next_step == f"offleash verify {base} {rl} --also string"
    assert told["extraction steps"].next_step == f"offleash verify {rl}"
    assert "cut at the token limit" in told["truncated samples"].reason
    assert told["failed verdicts"].reason == "no verdict failed"


def test_a_verifier_of_one_run_only_is_named(tmp_path: Path) -> None:
    base = write_run(tmp_path / "base", {"p": [right(), wrong()]})
    rl = write_run(tmp_path / "rl", {"p": [Drawn({"math@1": "correct"}), Drawn({"math@1": "wrong"})]})
    (missing,) = [one for one in flips_of(base, rl).untried if "string@1" in one.what]
    assert missing.next_step == f"offleash verify {rl} --also string"


def test_logs_without_folders_say_what_they_lack(tmp_path: Path) -> None:
    base, rl = (write_log(tmp_path / f"{name}.jsonl", drawn(4, 4, seed)) for seed, name in enumerate(("base", "rl")))
    found = flips_of(base, rl, verifier=None)
    reasons = " ".join(f"{missing.reason} {missing.next_step}" for missing in found.untried)
    for words in (
        "base is not a run folder",
        f"offleash import {base} -o RUN",
        "rl do not record them",
        "does not record how its samples ended",
    ):
        assert words in reasons
    counts = flips_of(COUNTS / "base.csv", COUNTS / "rl.csv", verifier=None)
    assert not counts.alternatives
    assert counts.now.cells["P"] > 0


def test_a_run_folder_against_a_log_is_judged_where_it_can_be(tmp_path: Path) -> None:
    base = write_run(tmp_path / "base", {f"p{p}": [right("stated"), *[wrong()] * 3] for p in range(4)})
    found = flips_of(base, write_log(tmp_path / "rl.jsonl", [[False] * 4] * 4), verifier="math")
    assert {flip.problem: flip.under for flip in found.to_review} == {
        f"p{p}": dict.fromkeys(["only strict steps", "without step stated"], "O") for p in range(4)
    }
    assert {missing.what for missing in found.untried} >= {"another verifier", "extraction steps", "truncated samples"}


def test_a_run_without_any_success_still_names_its_steps(tmp_path: Path) -> None:
    found = flips_between(tmp_path, {"p": [right("stated")]}, {"p": [wrong()]})
    assert not [missing for missing in found.untried if missing.what == "extraction steps"]


def test_several_folders_of_one_run_are_judged_together(tmp_path: Path) -> None:
    doubtful = Drawn({"math@1": "correct", "string@1": "wrong"}, text="the second folder")
    write_run(tmp_path / "base-1", {"p": [wrong(), wrong()], "q": [right(), wrong()]})
    write_run(tmp_path / "base-2", {"p": [wrong(), doubtful], "q": [right(), wrong()]})
    rl = write_run(tmp_path / "rl", {"p": [wrong()] * 4, "q": [right()] * 4})
    (flip,) = flips_of(f"{tmp_path}/base-*", rl).to_review
    assert (flip.problem, flip.now, flip.under["verifier string@1"]) == ("p", "S", "O")
    assert [(sample.index, sample.text) for sample in flip.samples] == [(3, "the second folder")]


@pytest.mark.parametrize("rule", ["confident", "posterior"])
def test_rules_that_cannot_place_every_problem_have_a_class_for_it(tmp_path: Path, rule: str) -> None:
    doubtful = Drawn({"math@1": "correct", "string@1": "wrong"})
    before = {"weak": [right()] * 2 + [wrong()] * 62, "lost": [doubtful] * 30 + [wrong()] * 34, "none": [wrong()] * 64}
    after = {name: [right()] * 40 + [wrong()] * 24 for name in before}
    found = flips_between(tmp_path, before, after, rule=rule)
    assert found.now.cells["U"] >= 1
    (way,) = [way for way in found.alternatives if way.kind == "verifier"]
    assert "lost" in [flip.problem for flip in found.problems if way.name in flip.under]
    assert sum(way.cells.values()) == 3


def test_answers_per_target_and_dropped_samples_are_refused(tmp_path: Path) -> None:
    world = {"p": [right(), wrong()]}
    base, rl = write_run(tmp_path / "base", world), write_run(tmp_path / "rl", world)
    with pytest.raises(OffleashError, match="--per problem"):
        flips_of(base, rl, per="answer")
    with pytest.raises(OffleashError, match="--unread drop"):
        flips_of(base, rl, unread="drop")
