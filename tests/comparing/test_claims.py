"""Every sentence that claims something about a comparison, with a known world in which it is printed and true.

A claim is a text of comparing/sentences.py or comparing/headline.py: claims.json lists each of their templates, fields
as {}, with a world of WORLDS. The rates of a world are written down, so what is said of it is checked against them
(TRUE). Other modules describe: labels, how to read a figure, why a number is missing; claims.json lists those of their
texts that use the words of a claim. A text that is added, or changed, without its entry fails here.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from offleash.comparing import headline as headline_module
from offleash.comparing import sentences
from offleash.comparing.checkpoints import several_runs_of
from offleash.comparing.compare import Comparison, compare_all
from offleash.comparing.headline import headline
from offleash.comparing.question import Question, RunsAre
from offleash.data.tally import Per
from offleash.loading.load import load
from offleash.stats.significance import undecided_bounds
from offleash.stats.support_classes import Rule
from tests.comparing.world import write_log
from tests.places import PACKAGE, ROOT
from tests.reporting.worlds import write_counts
from tests.words import strings


@dataclass(frozen=True)
class World:
    """Success rates of the problems before and after; every count is its expectation, so nothing is left to luck."""

    before: Sequence[float]
    after: Sequence[float]
    n: tuple[int, int] = (64, 64)
    options: tuple[tuple[str, object], ...] = ()  # of the Question
    log: tuple[tuple[str, object], ...] | None = None  # columns of a log with samples; None: bare counts
    greedy: bool = False
    undecided: float = 0.0  # share of the samples that are unread, and as many on which the verifier failed
    further: tuple[str, ...] = ()  # names of more runs after the first, drawn from the last one's rates

    def comparisons(self, folder: Path) -> list[Comparison]:
        names, runs = ("base", *(self.further or ("rl",))), []
        for r, name in enumerate(names):
            rate_P, n = (self.before if r == 0 else self.after), self.n[min(r, 1)]
            correct = [round(n * rate) for rate in rate_P]
            if self.log is None:
                path = write_counts(folder / f"{name}.csv", correct, n)
            else:
                path = write_log(
                    folder / f"{name}.jsonl", [[i < c for i in range(n)] for c in correct], **dict(self.log)
                )
            runs += load(f"{name}={path}")
        if self.greedy:
            decoding = {"decoding": json.dumps({"temperature": 0})}
            runs = [replace(run, facts=run.facts | decoding) for run in runs]
        comparisons = compare_all(runs, Question(replicates=300, **dict(self.options)))  # type: ignore[arg-type]
        return [self._with_undecided(comparison) for comparison in comparisons] if self.undecided else comparisons

    def _with_undecided(self, comparison: Comparison) -> Comparison:
        some_PR = np.round(self.undecided * comparison.tally.drawn_PR).astype(np.int64)
        tally = replace(comparison.tally, unread_PR=some_PR, failed_PR=some_PR)
        return replace(comparison, tally=tally, undecided=undecided_bounds(tally, comparison.change.k))


HALF, SOME, MOST = 0.5, 0.25, 0.75
WORLDS = {
    "lost": World([SOME] * 30 + [HALF] * 12 + [0] * 3, [MOST] * 30 + [0] * 12 + [0] * 3),
    "one of two lost": World([HALF, SOME], [0, SOME]),
    "only problem lost": World([HALF], [0]),
    "only problem kept": World([SOME], [MOST]),
    "gained": World([HALF] * 20 + [0] * 5, [HALF] * 20 + [0.6] * 5),
    "moved": World([HALF] * 20 + [0.3] * 6 + [0] * 5, [HALF] * 20 + [0] * 6 + [0.6] * 5),
    "sharpened by 4": World([0.0015] * 60 + [0.1] * 40, [0.006] * 60 + [0.344] * 40, (256, 256)),
    "same": World([0.1, 0.3, HALF, 0, 1 / 64] * 8, [0.1, 0.3, HALF, 0, 1 / 64] * 8),
    "a success each": World([1 / 64, 0, HALF] * 10, [0, 1 / 64, HALF] * 10),
    "two samples": World([HALF, 0, 1] * 5, [HALF, 0, 1] * 5, (2, 2)),
    "nothing reached": World([0] * 10, [0] * 10),
    "one not reached": World([HALF] * 8 + [0], [HALF] * 8 + [0]),
    "all reached": World([HALF] * 40, [0.6] * 40),
    "more samples after": World([HALF] * 20 + [0.2] * 10, [HALF] * 20 + [0] * 10, (64, 256)),
    "rarely missed": World([1 / 1024] * 2 + [HALF] * 10, [HALF] * 12, (1024, 1024), (("at", 8),)),
    "rarely gained": World([0] * 3, [1 / 1024] * 3, (1024, 1024), (("at", 8),)),
    "rule above": World([0.1, HALF] * 10, [0.05, 0.6] * 10, options=(("rule", Rule.ABOVE), ("tau", 0.08))),
    "rule confident": World([1 / 32, HALF, 0] * 6, [1 / 32, 0.6, 0] * 6, options=(("rule", Rule.CONFIDENT),)),
    "none by the rule": World([1 / 64] * 6, [1 / 64] * 6, options=(("rule", Rule.CONFIDENT),)),
    "guessed": World([SOME, 0.9] * 5, [SOME, 0.95] * 5, options=(("guess", SOME),)),
    "per answer": World([SOME, 0.9] * 5, [0, 0.95] * 5, log=(), options=(("per", Per.ANSWER),)),
    "truncated": World([SOME, 0.9] * 5, [0.3, 0.95] * 5, log=(("finish_reason", "length"),)),
    "undecided": World([SOME, 0] * 5, [0.3, 0] * 5, undecided=0.1),
    "greedy": World([1, 0, 1] * 4, [1, 0, 0] * 4, (1, 1), log=(), greedy=True),
    "far better": World([1 / 64] * 5 + [0] * 20, [0.9] * 5 + [HALF] * 20),
    "different halves": World([0.3, 0] * 12, [0, 0.3] * 12),
    "three each": World([0.3, 0] * 3, [0, 0.3] * 3),
    "checkpoints": World([HALF] * 20 + [0.3] * 6, [HALF] * 20 + [0] * 6, further=("step100", "step200")),
    "seeds": World([HALF] * 20 + [0.3] * 6, [HALF] * 20 + [0] * 6, further=("seed1", "seed2")),
    "methods": World([HALF] * 20 + [0.3] * 6, [HALF] * 20 + [0] * 6, further=("grpo", "dapo")),
    "seeds by option": World([HALF] * 9, [0.3] * 9, further=("a", "b"), options=(("runs_are", RunsAre.SEEDS),)),
}


def said(comparisons: Sequence[Comparison]) -> str:
    """All that is claimed about a comparison, wherever it is printed; a line per text."""
    comparison = comparisons[0]
    evidence, split = comparison.evidence, comparison.portfolio
    several = several_runs_of(comparisons)
    texts = [
        headline(comparison).text,
        sentences.details(comparison),
        *sentences.evidence_lines(comparison),
        *sentences.warnings(comparison),
        sentences.bounds_text(evidence),
        sentences.crossing_text(comparison),
        sentences.redraw_text(comparison),
        sentences.single_training_caveat(several) or "",
        "" if several is None else sentences.runs_are_text(several),
        "" if evidence.lost or evidence.gained or evidence.losses_at_least is None else sentences.NOTHING_LISTED,
    ]
    for cell, least in (("S", evidence.losses_at_least), ("E", evidence.gains_at_least)):
        texts += [] if least is None else [sentences.bound_text(cell, least)]
    for name, number_of, listed in (("lost", evidence.S, evidence.lost), ("gained", evidence.E, evidence.gained)):
        if number_of:
            significant = None if evidence.losses_at_least is None else len(listed)
            texts.append(sentences.class_list_text(comparison, name, number_of, significant, "base", "rl"))
    for name, listed in (("fell", evidence.fallen), ("rose", evidence.risen)):
        texts += [sentences.changed_rates_text(name, len(listed), "base", "rl")] if listed else []
    if split is not None and split.problems and split.k > 1:
        flat = bool(np.ptp(split.coverage_S) < 1e-12)
        more = split.best not in (None, 0, split.k)
        texts += [sentences.split_gain_text(split), sentences.best_split_text(split, "base", flat, more)]
    return "\n".join(text for text in texts if text)


CLAIM_WORDS = (
    r"significan|\bfell\b|\brose\b|\blost\b|\bgained\b|no longer|\bahead\b|unchanged model|resampl|collapse|expan|"
    r"shrank|grew|sharpen|\bbetter\b|by chance|reaches"
)


# CLAIMS: every template with a world in which it is printed; fragments, such as "not significant", are claims too.
# DESCRIPTIONS: texts of other modules with the words of a claim: labels, questions, how to read a figure, why a number
# is missing.
_LISTED = json.loads(Path(__file__).with_name("claims.json").read_text(encoding="utf-8"))
CLAIMS: dict[str, str] = _LISTED["claims"]
DESCRIPTIONS: dict[str, list[str]] = _LISTED["descriptions"]
FILTERS = {"scores are above 1"}  # texts of these modules that are compared with, never printed


@cache
def printed(world: str) -> str:
    with TemporaryDirectory() as folder:
        return said(WORLDS[world].comparisons(Path(folder)))


def pattern(template: str) -> re.Pattern[str]:
    """A template as printed; its last field, or full stop, ends the line or is followed by a space."""
    end = "$" if template.endswith("{}") else r"(?=\s|$)" if template.endswith(".") else ""
    return re.compile(re.escape(template.strip()).replace(r"\{\}", "(.*?)") + end, re.M)


def test_every_sentence_is_listed_with_a_world() -> None:
    written = {text.text for module in (headline_module, sentences) for text in strings(Path(str(module.__file__)))}
    assert written - FILTERS == set(CLAIMS), "a sentence was added, changed or removed: list it with its world"
    assert set(CLAIMS.values()) <= set(WORLDS)
    assert set(WORLDS) <= set(CLAIMS.values()), "a world that no sentence needs"


@pytest.mark.parametrize("template", CLAIMS)
def test_every_sentence_is_printed_in_its_world_and_true_there(template: str) -> None:
    matches = list(pattern(template).finditer(printed(CLAIMS[template])))
    assert matches, printed(CLAIMS[template])
    for match in matches if template in TRUE else ():
        assert TRUE[template](WORLDS[CLAIMS[template]], match), match.group()


def test_no_other_module_claims_anything() -> None:
    for folder in ("comparing", "reporting"):
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            if path.name not in ("sentences.py", "headline.py", "glossary.py"):
                name = path.relative_to(PACKAGE).as_posix()
                texts = {text.text for text in strings(path) if re.search(CLAIM_WORDS, text.text)}
                assert texts == set(DESCRIPTIONS.get(name, ())), f"{name}: a claim belongs to comparing/sentences.py"


WITHDRAWN = re.compile(
    r"surely (lost|gained)|loss(es)? (is|are) real|real loss|certain(ly)? (lost|gained|loss|gain)|net expansion|"
    r"loss(es)? (is |are |was |were )?certain|(no problem came|brought no problem) into reach|"
    r"kappa (falling|falls)[^.]{0,40}(means|shows)[^.]{0,30}support|keeps \d+(\.\d+)?%|"
    r"support (shrinks|grows) significantly|when support shrinks",
    re.I,
)


def test_claims_that_numbers_do_not_bear_are_nowhere() -> None:
    """In no text of the package, its documents, templates, examples and studies."""
    texts = [path for folder in ("docs", "examples", "research") for path in (ROOT / folder).rglob("*.md")]
    for path in (*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.html"), ROOT / "README.md", *texts):
        text = " ".join(path.read_text(encoding="utf-8").split())
        assert not (match := WITHDRAWN.search(text)), f"{path.name}: {match and match.group()}"


# What must be so in a world for the sentence to be true; rates are those written down, never estimates.


def changed(world: World, word: str) -> int:
    """On how many problems the rate fell, or rose."""
    return sum(after < before if word == "fell" else after > before for before, after in pairs(world))


def pairs(world: World) -> list[tuple[float, float]]:
    return list(zip(world.before, world.after, strict=True))


def reach(rates: Sequence[float], k: float) -> float:
    return float(np.mean([1 - (1 - rate) ** k for rate in rates]))


def number(text: str) -> float:
    """The first number of a text; "it" is one."""
    found = re.search(r"[\d,]+(\.\d+)?", text)
    return float(found.group().replace(",", "")) if found else 1.0


def stays_ahead(world: World, match: re.Match[str]) -> bool:
    first, last = int(number(match[1])) + 1, min(world.n)
    return all(reach(world.before, k) > reach(world.after, k) for k in range(first, last + 1))


def gain_of_splits(world: World) -> float:
    """What the best split of k samples truly gains over the better run alone."""
    k = min(world.n)
    value = [
        np.mean([1 - (1 - before) ** s * (1 - after) ** (k - s) for before, after in pairs(world)])
        for s in range(k + 1)
    ]
    return float(max(value) - max(value[0], value[-1]))


def within(ends: str, value: float) -> bool:
    low, high = (float(end) for end in re.findall(r"[\d.]+", ends.split("[")[1])[:2])
    return low - 1e-9 <= value <= high + 1e-9


def worth(world: World, match: re.Match[str]) -> bool:
    """The interval of the equivalent budget holds it."""
    low, high = (float(end) for end in re.findall(r"[\d.]+", match[0].split("[")[1])[:2])
    return reach(world.before, low) <= reach(world.after, 1) + 1e-9 <= reach(world.before, high) + 2e-9


def few_above(world: World, match: re.Match[str]) -> bool:
    """Of the problems that were not reached, at most so many have a rate of so much."""
    most = 0 if "none" in match[2] else number(match[2])
    return sum(after >= float(match[3]) for before, after in pairs(world) if before == 0) <= most


def nothing_changed(world: World, match: re.Match[str]) -> bool:
    return list(world.before) == list(world.after)


TRUE: dict[str, Callable[[World, re.Match[str]], bool]] = {
    "the rate fell on {}, with 95% confidence": lambda world, match: number(match[1]) <= changed(world, "fell"),
    "The rate fell on at least {} of the lost and rose on at least {} of the gained problems (joint 95% confidence).": (
        lambda world, match: number(match[1]) <= changed(world, "fell") and number(match[2]) <= changed(world, "rose")
    ),
    "the rate {} on at least {}": lambda world, match: number(match[2]) <= changed(world, match[1]),
    "The rate {} significantly on {} (FDR 5%{})": (lambda world, match: number(match[2]) <= changed(world, match[1])),
    "The rate {} significantly from {} to {} on {} (FDR 5%).": (
        lambda world, match: number(match[4]) <= changed(world, match[1])
    ),
    "Among problems that both runs reach, the rate fell significantly on {} and rose on {}.": (
        lambda world, match: number(match[1]) <= changed(world, "fell") and number(match[2]) <= changed(world, "rose")
    ),
    "(at least {} by more than sharpening explains)": (
        lambda world, match: number(match[1]) <= sum(before == 0 < after for before, after in pairs(world))
    ),
    "Beyond {} {} has the higher pass@k.": stays_ahead,
    "Beyond k = {} (95% interval [{}], shaded) {} is ahead.": stays_ahead,
    "pass@{} rose from {} to {}{}.": (
        lambda world, match: reach(world.after, number(match[1])) > reach(world.before, number(match[1]))
    ),
    "{}, {} a success rate of {} or more under {} (95% confidence)": few_above,
    "One {} sample does as well as {} {} samples.": worth,
    "No split of {} samples between the two runs is significantly better than the better run alone: gain {} {}.": (
        lambda world, match: within(match[3], gain_of_splits(world))
    ),
    "+{} {} over the better run alone": lambda world, match: within(match[2], gain_of_splits(world)),
    "{} have the same successes on every problem: are they the same samples?": nothing_changed,
    "No loss is significant, nor any gain beyond sharpening.": nothing_changed,
    "On none of them is the change of the rate significant (joint 95% confidence).": nothing_changed,
    "No single loss or gain is significant (FDR 5%).": nothing_changed,
}
