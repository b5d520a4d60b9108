"""Strategies of runs: read once, stored, resumed, compared; errors of a user's function reported."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from offleash.analyses.strategies.fingerprints.fingerprint import SolvedProblem
from offleash.analyses.strategies.fingerprints.registry import FINGERPRINTS, fingerprint
from offleash.analyses.strategies.read import (
    STRATEGIES,
    Coverage,
    Reader,
    coverage_caution,
    read_run,
    scan_strategies,
    strategies_folder,
    with_revision,
)
from offleash.analyses.strategies.report import finding
from offleash.analyses.strategies.strategies import compare_strategies
from offleash.errors import OffleashError
from offleash.stats.strategies import Basis
from offleash.verifiers.sandbox.pool import Pool
from tests.analyses.strategies import error_rates
from tests.analyses.strategies.error_rates import check_fingerprints
from tests.analyses.strategies.strategies_world import PRODUCT, SUM, WORDS, judge, solved_run

STEPS = FINGERPRINTS["steps"]


def read_again(folder: Path, pool: Pool) -> tuple[int, int, int]:
    found = read_run(folder, Reader(STEPS, pool))
    return found.correct, found.read, found.new


def test_strategies_of_correct_samples_are_stored_and_read_once(tmp_path: Path) -> None:
    folder = solved_run(tmp_path / "run", {"p": [SUM, PRODUCT, WORDS], "q": [SUM]}, {"p": ["1 + 1 = 2"]})
    with Pool(1) as pool:
        assert read_again(folder, pool) == (4, 3, 4)
        assert read_again(folder, pool) == (4, 3, 0)
    table = scan_strategies(folder, STEPS.identity).sort("problem", "index").collect()
    assert table.schema == pl.Schema(STRATEGIES)
    assert table["way"].to_list() == ["5+5+5", "3*5", None, "5+5+5"]
    assert not list(folder.rglob("*.writing"))


def test_missing_strategies_are_read_and_stored_ones_kept(tmp_path: Path) -> None:
    texts = {"p": [SUM, PRODUCT], "q": [SUM, "7 + 8 = 15"]}
    folder = solved_run(tmp_path / "run", {"p": [SUM], "q": [SUM]}, {"p": [PRODUCT], "q": ["7 + 8 = 15"]})
    with Pool(1) as pool:
        assert read_again(folder, pool) == (2, 2, 2)
        judge(folder, texts, texts)  # a better verifier finds more of them correct
        assert read_again(folder, pool) == (4, 4, 2)
        shard = next(strategies_folder(folder, STEPS.identity).glob("*.parquet"))
        shard.write_bytes(b"not a table")
        with pytest.raises(OffleashError, match="damaged"):
            read_again(folder, pool)
        shard.unlink()
        assert read_again(folder, pool) == (4, 4, 4)


def test_a_function_that_fails_on_a_text_is_named_and_tried_again(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import os, time\n"
        "def way(problem, text):\n"
        "    if 'crash' in text: raise ValueError('no such method')\n"
        "    if 'hang' in text: time.sleep(60)\n"
        "    if 'die' in text: os._exit(3)\n"
        "    if 'number' in text: return 7\n"
        "    return problem['gold'] + problem['id'] + text[0] if text else None\n"
    )
    rows = [(SolvedProblem("p", gold="g"), text) for text in ("abc", "", "crash", "hang", "die", "number", "xyz")]
    with Pool(2) as pool:
        by = with_revision(fingerprint(f"{file}:way"), pool)
        assert by.identity.startswith("own-way@")
        quick = type(by)(by.name, by.revision, by.module, by.about, by.isolation, 0.5, by.function)
        found = Reader(quick, pool).strategies(rows)
    assert [way for way, _ in found] == ["gpa", None, None, None, None, None, "gpx"]
    for trouble, word in zip(
        [trouble for _, trouble in found],
        ["", "", "no such method", "wall-clock limit", "died", "int 7", ""],
        strict=True,
    ):
        assert word in trouble
        assert bool(word) == bool(trouble)
    folder = solved_run(tmp_path / "run", {"p": ["abc", "crash"]})
    with Pool(1) as pool:
        reader = Reader(by, pool)
        assert [(one.read, one.failed, one.new) for one in (read_run(folder, reader), read_run(folder, reader))] == [
            (1, 1, 2),
            (1, 1, 1),
        ]


@pytest.mark.parametrize(
    ("source", "name", "words"),
    [
        ("def way(problem, text): return None", "other", "no function other"),
        ("import no_such_module_here", "way", "no_such_module_here"),
        ("def way(", "way", "SyntaxError"),
    ],
)
def test_a_function_that_cannot_be_loaded_is_refused(tmp_path: Path, source: str, name: str, words: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(source)
    with Pool(1) as pool, pytest.raises(OffleashError, match=words):
        with_revision(fingerprint(f"{file}:{name}"), pool)
    with Pool(1) as pool, pytest.raises(OffleashError, match="no file"):
        with_revision(fingerprint(f"{tmp_path / 'gone.py'}:{name}"), pool)


@pytest.mark.parametrize("name", ["program", "steps"])
def test_texts_that_break_parsers_break_nothing_else(name: str) -> None:
    bombs = [
        "(" * 90_000,
        "x = " + "-" * 40_000 + "1",
        "[" * 3_000 + "]" * 3_000,
        "a." * 20_000 + "b",
        "\0" * 9,
        "\ud800",
    ]
    bombs += ["```\n" + "if 1:\n" * 50 + "```", "-(" * 2_000 + "1" + ")" * 2_000 + " = 1"]
    honest = "3 * 5 = 15" if name == "steps" else "def f(a):\n    return a"
    with Pool(1) as pool:
        found = Reader(FINGERPRINTS[name], pool).strategies([(SolvedProblem("p"), text) for text in [*bombs, honest]])
    assert found[-1][0] is not None
    assert len(found) == len(bombs) + 1


def test_a_function_of_a_module_is_found_from_the_folder_one_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "ways.py").write_text("def kind(problem, text):\n    return text[:1]\n")
    monkeypatch.chdir(tmp_path)
    with Pool(1) as pool:
        by = with_revision(fingerprint("mine.ways:kind"), pool)
        assert Reader(by, pool).strategies([(SolvedProblem("p"), "abc")]) == [("a", "")]


def test_lost_and_new_strategies_are_seen_in_a_known_world(tmp_path: Path) -> None:
    """The base uses two strategies in every problem; the RL model takes the first and, in one problem, a third."""
    problems = [f"p{number}" for number in range(12)]
    third = "20 - 5 = 15"
    base = solved_run(tmp_path / "base", {p: [SUM] * 10 + [PRODUCT] * 10 for p in problems})
    rl = solved_run(tmp_path / "rl", {p: [SUM] * 15 + ([third] * 5 if p == "p0" else [SUM] * 5) for p in problems})
    found = compare_strategies([str(base), str(rl)], "steps", jobs=1, shown=2)
    change = found.comparison.change
    assert (change.P, change.E, change.S) == (12, 1, 12)
    rich, new = found.richness[Basis.CORRECT], found.novelty[Basis.DRAWN]
    assert rich is not None
    assert new is not None
    assert (rich.before.value, rich.after.value) == pytest.approx((2, 13 / 12))
    assert found.lost_at_least == 12
    assert found.new_at_least == 0  # 5 of 20 against 0 of 20 is not significant among 25 strategies
    assert [(one.strategy, one.seen, one.text) for one in found.lost] == [("3*5", (10, 0), PRODUCT)] * 2
    assert [(one.strategy, one.problem, one.seen, one.index) for one in found.new] == [("20-5", "p0", (0, 5), 15)]
    assert len({one.problem for one in found.lost}) == 2
    assert new.strategies.value == pytest.approx(expected_new(), abs=1e-9)


def expected_new() -> float:
    """In ten samples of each: the third way is seen in p0 unless all ten miss its five of twenty."""
    third = 1 - np.prod([(15 - i) / (20 - i) for i in range(10)])
    unseen = np.prod([(10 - i) / (20 - i) for i in range(10)])  # of the first way among ten samples of the base
    return float((third + 12 * unseen) / (third + 12))


def test_swapping_the_runs_swaps_lost_and_new(tmp_path: Path) -> None:
    base = solved_run(tmp_path / "base", {"p": [SUM, PRODUCT, SUM, WORDS], "q": [SUM] * 4})
    rl = solved_run(tmp_path / "rl", {"p": [SUM] * 4, "q": [SUM, "7 + 8 = 15", SUM, SUM]})
    one, other = (compare_strategies([str(a), str(b)], "steps", jobs=1) for a, b in ((base, rl), (rl, base)))
    assert [example.strategy for example in one.lost] == [example.strategy for example in other.new] == ["3*5"]
    assert [example.strategy for example in one.new] == [example.strategy for example in other.lost] == ["7+8"]
    assert one.coverage == other.coverage[::-1] or one.coverage[0].unread == other.coverage[1].unread == 1


@pytest.mark.parametrize(
    ("name", "most_split", "most_merged"), [("countdown", 1, 3), ("steps", 1, 0), ("program", 11, 0)]
)
def test_error_rates_on_planted_pairs_are_no_higher_than_documented(
    name: str, most_split: int, most_merged: int
) -> None:
    (found,) = check_fingerprints([name])
    assert found.split.errors <= most_split
    assert found.merged.errors <= most_merged
    assert len(found.failures) == found.split.errors + found.merged.errors
    assert found.split.interval.low <= found.split.value <= found.split.interval.high


@pytest.mark.parametrize(("read", "said"), [(20, False), (19, False), (18, True), (12, True)])
def test_strategies_are_not_significantly_lost_where_one_run_is_read_worse(
    tmp_path: Path, read: int, said: bool
) -> None:
    """The run after has both strategies as often as the one before, and of one it says nothing that can be read."""
    problems = [f"p{number}" for number in range(12)]
    both = [SUM] * 12 + [PRODUCT] * 8
    base = solved_run(tmp_path / "base", dict.fromkeys(problems, both))
    rl = solved_run(tmp_path / "rl", dict.fromkeys(problems, both[:read] + [WORDS] * (20 - read)))
    found = compare_strategies([str(base), str(rl)], "steps", jobs=1)
    assert bool(found.coverage_caution) == said
    assert (found.lost_at_least is None, found.new_at_least is None) == (said, said)
    words = finding(found)
    assert words.startswith("Caution: the fingerprint could read the strategy of 100.0% of base and") == said
    assert ("unread samples might reverse this" in words) == said
    assert ("significantly lost" in words) != said
    assert ("Significant losses and gains are therefore not reported" in words) == said


def test_runs_read_alike_but_badly_say_so_too() -> None:
    good, poor = Coverage(100, 81), Coverage(100, 79)
    assert coverage_caution("ab", (good, good)) == coverage_caution("ab", (Coverage(0, 0), Coverage(100, 99))) == ""
    assert "79.0% of a and 79.0% of b" in coverage_caution("ab", (poor, poor))


def test_nothing_is_made_of_few_problems(tmp_path: Path) -> None:
    for count, few in ((9, True), (10, False)):
        problems = [f"p{number}" for number in range(count)]
        base = solved_run(tmp_path / f"base{count}", dict.fromkeys(problems, [SUM] * 20 + [PRODUCT] * 20))
        rl = solved_run(tmp_path / f"rl{count}", dict.fromkeys(problems, [SUM] * 40))
        words = finding(compare_strategies([str(base), str(rl)], "steps", jobs=1))
        assert ("too few problems for a conclusion" in words) == few
        assert ("fewer, and accuracy does not explain it" in words) != few


@pytest.mark.parametrize("body", ["raise ValueError('no luck')", "import os; os._exit(3)", "return 7"])
def test_a_function_that_fails_on_every_text_is_given_up(tmp_path: Path, body: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"def way(problem, text):\n    {body}\n")
    rows = [(SolvedProblem("p"), f"text {number}") for number in range(3000)]
    lines = list[str]()
    with Pool(1) as pool:
        reader = Reader(fingerprint(f"{file}:way"), pool, lines.append)
        with pytest.raises(OffleashError, match=r"failed on every text so far\. The last error: \S"):
            reader.strategies(rows)
    assert len(lines) < 20


def test_what_failed_before_is_tried_again_without_being_given_up(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def way(problem, text):\n    return {'good': 'g'}[text]\n")
    folder = solved_run(tmp_path / "run", {"p": ["good", *(f"bad {number}" for number in range(30))]})
    with Pool(1) as pool:
        by = with_revision(fingerprint(f"{file}:way"), pool)
        for new in (31, 30):
            found = read_run(folder, Reader(by, pool))
            assert (found.read, found.failed, found.new) == (1, 30, new)


def test_strategies_are_read_again_on_request_and_where_a_helper_of_the_function_changed(tmp_path: Path) -> None:
    file, helper = tmp_path / "mine.py", tmp_path / "its_helper.py"
    file.write_text("import its_helper\ndef way(problem, text):\n    return its_helper.kind(text)\n")
    helper.write_text("def kind(text): return 'a'\n")
    folder = solved_run(tmp_path / "run", {"p": [SUM, PRODUCT]})
    found = []
    for change in ("", "", "def other(text): return 'more'\n"):
        helper.write_text(helper.read_text() + change)
        with Pool(1) as pool:
            by = with_revision(fingerprint(f"{file}:way"), pool)
            found.append((by.identity, read_run(folder, Reader(by, pool)).new))
    assert [new for _, new in found] == [2, 0, 2]
    assert found[0][0] == found[1][0] != found[2][0]
    with Pool(1) as pool:
        assert read_run(folder, Reader(by, pool), again=True).new == 2
        assert read_run(folder, Reader(by, pool)).new == 0


def test_strategies_that_were_stored_under_the_old_folder_name_are_read_and_added_to(tmp_path: Path) -> None:
    folder = solved_run(tmp_path / "run", {"p": [SUM] * 3 + [PRODUCT]})
    with Pool(1) as pool:
        assert read_run(folder, Reader(fingerprint("steps"), pool)).new == 4
        (folder / "strategies").rename(folder / "ways")
        assert read_run(folder, Reader(fingerprint("steps"), pool)).new == 0
        assert read_run(folder, Reader(fingerprint("steps"), pool), again=True).new == 4
    assert not (folder / "strategies").exists()


def test_a_check_of_a_function_of_ones_own_is_refused() -> None:
    with pytest.raises(OffleashError, match="No pairs are planted"):
        check_fingerprints(["mine.py:way"])


def test_the_check_prints_the_error_rates_of_every_fingerprint(capsys: pytest.CaptureFixture[str]) -> None:
    error_rates.main([])
    shown = " ".join(capsys.readouterr().out.split())
    for word in ("countdown", "steps", "program", "of 85", "different methods"):
        assert word in shown
    error_rates.main(["steps", "--json", "--seed", "1"])
    one = json.loads(capsys.readouterr().out)
    assert set(one["fingerprints"]) == {"steps"}
    assert one["fingerprints"]["steps"]["paraphrases_split"]["pairs"] == 85
