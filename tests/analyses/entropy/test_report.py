"""Entropies for people and programs: words, tables, JSON, the figure of positions and the section of the page."""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from offleash.analyses.entropy.entropy import TOKEN, UNREAD, Entropies, entropies, entropies_of
from offleash.analyses.entropy.report import (
    INTERPRETATIONS,
    cautions,
    entropy_document,
    finding,
    has_collapsed,
    reading,
)
from offleash.analyses.entropy.terminal import show_entropies
from offleash.comparing.compare import compare
from offleash.comparing.figures.figure_input import FigureInput
from offleash.comparing.question import Question
from offleash.data.run import Run
from offleash.data.scores import END, HEIGHT, POSITIONS, START, TENTH
from offleash.render.figure import PAGE, PAPER, Figure, MissingFigure
from offleash.reporting.comparison import document, show
from offleash.reporting.figures import figure, subject
from offleash.reporting.page.build import entropy
from offleash.stats.entropy import Direction, Means, Square
from offleash.stats.intervals import Interval
from tests.analyses.entropy.test_entropy import run, scores
from tests.reporting.test_figures import expressions, rows, vega

FEW = Question(replicates=200)
NAMES = [f"p{p}" for p in range(12)]
HOSTILE = 'evil\x1b[2J"];alert(1)\u202e'


def places(level: float) -> pl.LazyFrame:
    """Positions of two samples of 20 tokens a problem, unsure at the start and sure later."""
    out = []
    for problem in NAMES:
        for at in (*range(16), 16):
            tokens = 2 if at < 16 else 8
            out.append((problem, START, at, tokens, tokens * level / (1 + at)))
            out.append((problem, END, at, tokens, tokens * level / (20 - at if at < 16 else 4)))
        out += [(problem, TENTH, tenth, 4, 4 * level / (1 + tenth)) for tenth in range(10)]
        out += [(problem, HEIGHT, 0, 30, 0.5), (problem, HEIGHT, 3, 10, 3.5 * level), (problem, "samples", 0, 2, 0.0)]
    return pl.DataFrame(out, schema=POSITIONS, orient="row").lazy()


def world(name: str, answers: Sequence[str | None], level: float) -> Run:
    """A run of twelve problems with positions, every problem with these answers and about this token entropy."""
    rng = np.random.default_rng(len(name))
    told = {p: (level + rng.normal(0, 0.02, len(answers))).tolist() for p in NAMES}
    made = run(name, dict.fromkeys(NAMES, answers), told)
    own = scores({p: dict.fromkeys(range(len(answers)), level) for p in NAMES})
    return replace(made, scores={"m": own}, own="m", positions={"m": places(level)})


def pair(*, names: tuple[str, str] = ("base", "rl")) -> list[Run]:
    """Tokens less sure, answers more alike."""
    return [world(names[0], ["7", "1", "2", "3"], 0.4), world(names[1], ["7", "7", "7", "1"], 0.6)]


def bare_run(name: str, *answers: str | None) -> Run:
    """A run of twelve problems with these answers each, and no token entropies."""
    return run(name, dict.fromkeys(NAMES, answers))


def printed(found: Entropies) -> str:
    out = io.StringIO()
    show_entropies(Console(file=out, width=100, markup=False, emoji=False, highlight=False), found)
    return out.getvalue()


def compared(runs: Sequence[Run]) -> FigureInput:
    return subject([compare(runs[0], runs[1], FEW)])


def test_local_uncertainty_that_rises_while_diversity_falls_is_told_with_the_paper() -> None:
    found = entropies(pair(), FEW)
    words = finding(found)
    assert "rl against base: token entropy 0.397 → 0.601" in words
    assert "Local uncertainty rose while global diversity fell, as arXiv:2507.14843 (section 5)" in words
    assert "20% of tokens (forks) hold" in words
    assert words in " ".join(printed(found).split())


@pytest.mark.parametrize(("ways", "words"), INTERPRETATIONS.items())
def test_each_cell_has_a_reading_of_its_own(ways: tuple[Direction, Direction], words: str) -> None:
    assert reading(Square(0, 0, 0, 0, 0, *ways)) == words
    assert list(INTERPRETATIONS.values()).count(words) == 1


def test_what_is_not_resolved_is_never_read_as_a_change() -> None:
    for token in Direction:
        for answer in Direction:
            said = reading(Square(5, 0, 0, 0, 0, token, answer))
            assert ("not resolved" in said) == ((token, answer) not in INTERPRETATIONS)


def test_the_tables_show_every_measure_the_square_positions_and_distinct_answers() -> None:
    text = printed(entropies(pair(), FEW))
    for words in (
        *("accuracy, avg@4", "length, tokens", "token entropy, nats", "answer entropy (unread = NA)", "equal n"),
        *("token entropy up", "answers down", "first token", "last token", "held by the top 20% of tokens"),
        *("distinct answers in k samples", "recorded when drawn"),
    ):
        assert words in text
    three = printed(entropies([*pair(), world("step", ["7"] * 4, 0.1)], FEW))
    assert "minus base" in three
    assert "Both fell by more than 25%, a collapse" in " ".join(three.split())
    single = printed(entropies(pair()[:1], FEW))
    assert "Name a second run" in " ".join(single.split())


def test_measures_of_fewer_problems_than_the_title_says_tell_how_many_everywhere() -> None:
    known: dict[str, list[float | None]] = {p: [0.4, 0.5] for p in NAMES}
    part = known | {"p0": [None, None], "p1": [None, None]}
    answers: dict[str, list[str | None]] = {p: ["7", "8"] for p in NAMES}
    runs = [run("base", answers, known), run("rl", answers | {"p2": ["7", None]}, part)]
    found = entropies(runs, FEW)
    text = " ".join(printed(found).split())
    assert "token entropy, nats (on 10 of 12 problems)" in text
    assert "equal n (on 11 of 12 problems)" in text
    assert "rl, 9 of 12 problems" in text
    assert "nats (on 10 of 12 problems), answer entropy" in finding(found)
    told = json.loads(json.dumps(entropy_document(found)))
    assert told["squares"]["rl"]["problems"] == 9
    assert told["distinct_answers"]["problems"] == {"1": 12, "2": 11}
    section = entropy(compared(runs))
    assert section is not None
    assert "(9 of 12, where both are known)" in section[0][1]
    assert any("on 10 of 12 problems" in row[0] for row in section[1].rows)
    assert " of 12" not in printed(entropies(pair(), FEW))


def test_few_problems_are_said_to_have_no_interval() -> None:
    few = [run(name, {p: ["7", "8"] for p in NAMES[:4]}, {p: [0.4, 0.5] for p in NAMES[:4]}) for name in "ab"]
    found = entropies(few, FEW)
    assert any("fewer than 8 problems" in line for line in cautions(found))
    assert "not resolved" in finding(found).lower()
    assert not any("fewer than" in line for line in cautions(entropies(pair(), FEW)))


def test_benchmarks_are_shown_each_and_names_of_logs_are_never_raw() -> None:
    where = {p: HOSTILE if number % 2 else "easy" for number, p in enumerate(NAMES)}
    runs = [
        run(f"{name}{HOSTILE}", {p: ["7", "8"] for p in NAMES}, {p: [0.5, 0.6] for p in NAMES}, benchmark=where)
        for name in "ab"
    ]
    text = printed(entropies(runs, FEW))
    assert "easy" in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_document_holds_what_is_known_and_null_for_what_is_not() -> None:
    bare = [bare_run(name, "7", None) for name in ("base", "rl")]
    for runs in (pair(), bare, bare[:1]):
        found = entropies(runs, FEW)
        text = json.dumps(entropy_document(found), allow_nan=False)
        told = json.loads(text)
        assert told["schema"] == 2
        for name, measure in told["measures"].items():
            for r, one in enumerate(measure["average"]["runs"].values()):
                value = found.measures[name].average.value_R[r]
                assert one["value"] == (None if np.isnan(value) else pytest.approx(value))
                assert ("difference" in one) == (r > 0)
    known = json.loads(json.dumps(entropy_document(entropies(pair(), FEW))))
    assert known["squares"]["rl"]["tokens_up_answers_down"] == 12
    assert known["squares"]["rl"]["tokens"] == "up"
    assert known["positions"]["places"]["first token"]["rl"]["value"] == pytest.approx(0.6)
    assert known["tokens"]["base"]["source"] == "draw"
    assert known["distinct_answers"]["base"]["4"] == 4
    assert "offleash score" in told["measures"][TOKEN]["reasons"]["base"]


def test_cautions_name_unread_samples_and_a_format_that_changed() -> None:
    rng = np.random.default_rng(0)

    def answers(unread: float, spread: int) -> Mapping[str, list[str | None]]:
        return {
            p: [None if i < 32 * unread else str(answer) for i, answer in enumerate(rng.integers(0, spread, 32))]
            for p in NAMES
        }

    found = entropies([run("base", answers(0.9, 8)), run("rl", answers(0.0, 3))], FEW)
    assert found.measures[UNREAD].average.direction(1) is Direction.DOWN
    said = " ".join(cautions(found))
    assert "91% of the samples are unread" in said
    assert "the share of unread samples matters here" in said


def test_a_comparison_tells_both_entropies_in_one_sentence_only_where_they_are_known() -> None:
    def text(runs: Sequence[Run]) -> str:
        out = io.StringIO()
        show(Console(file=out, width=400), [compare(runs[0], runs[1], FEW)])
        return out.getvalue()

    assert "Local uncertainty rose while global diversity fell" in text(pair())
    bare = [bare_run(name, "7", "8") for name in ("base", "rl")]
    assert "token entropy" not in text(bare)
    told = document([compare(bare[0], bare[1], FEW)])["entropy"]
    assert isinstance(told, dict)
    assert told["squares"] == {"rl": None}
    known = document([compared(pair()).comparison])["entropy"]
    assert isinstance(known, dict)
    assert known["squares"]["rl"]["answers"] == "down"


@pytest.mark.parametrize("look", [PAGE, PAPER])
def test_the_figure_of_positions_shows_the_means_of_both_runs(look: object) -> None:
    told = compared(pair(names=("base", HOSTILE)))
    found = figure("positions", told, PAPER if look is PAPER else PAGE)
    assert isinstance(found, Figure)
    start = [row for row in rows(found.facets[0]) if row.get("run") == "base"]
    assert {row["at"]: row["entropy"] for row in start} == pytest.approx(
        {at + 1: 0.4 / (1 + at) for at in (*range(16), 16)}, rel=1e-3
    )
    assert "24 samples of base" in found.caption
    for facet in found.facets:
        assert not any("alert" in text for text in expressions(vega(facet)))
        assert "\u202e" not in json.dumps(facet.to_dict(), ensure_ascii=False)


def test_a_figure_of_positions_that_is_missing_says_the_command() -> None:
    found = figure("positions", compared([bare_run(name, "7", "8") for name in ("base", "rl")]))
    assert isinstance(found, MissingFigure)
    assert "offleash score RUN --model hf:MODEL --first 32" in found.reason


def test_the_section_of_the_page_has_the_words_and_every_measure_and_is_left_out_where_nothing_is_known() -> None:
    told = compared(pair())
    section = entropy(told)
    assert section is not None
    words, table = section
    assert "fell, as arXiv:2507.14843" in words[0]
    assert "only token entropy rose on 12" in words[1]
    assert len(table.rows) == len(entropies_of(told.comparison).measures)
    assert all(len(row) == len(table.head) for row in table.rows)
    assert entropy(compared([bare_run(name, "7", "8") for name in ("base", "rl")])) is None


@pytest.mark.parametrize(("fall", "collapsed"), [(0.01, False), (0.2, False), (0.5, True)])
def test_a_fall_is_a_collapse_by_its_size_not_by_its_sign(fall: float, collapsed: bool) -> None:
    """Both entropies fall significantly, by the same share, with an interval of a hundredth around it."""
    value = 2.0
    interval = Interval(-value * (fall + 0.005), -value * (fall - 0.005))
    unknown = Interval(np.nan, np.nan)
    means = Means(
        value_R=np.array([value, value * (1 - fall)]),
        interval_R=(unknown, unknown),
        difference_R=np.array([0.0, -value * fall]),
        difference_interval_R=(unknown, interval),
        problems=40,
    )
    asked = entropies(pair(), FEW)
    measures = {name: replace(measure, average=means) for name, measure in asked.measures.items()}
    assert has_collapsed(replace(asked, measures=measures), 1) is collapsed
