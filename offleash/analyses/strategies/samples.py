"""Examples of lost and new ways: the most frequent ones, each with the first sample that was solved so."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from offleash.comparing.compare import Comparison
from offleash.render.escape import clean
from offleash.stats.classes import AFTER, BEFORE
from offleash.stats.significance import loss_p
from offleash.stats.strategies import WayCounts

WIDTH = 240  # characters of a text that are shown, from its end: there the way comes out
KEY = ["problem", "index"]


@dataclass(frozen=True)
class Example:
    """A way that one run shows and the other never does, with a sample; texts are cleaned."""

    problem: str
    way: str
    seen: tuple[int, int]  # in the run before and in the run after
    drawn: tuple[int, int]
    p: float  # one-sided: chance that all its samples fall to this run, had no rate changed
    index: int  # of the sample
    text: str


def examples(one: Comparison, counts: WayCounts, shown: int, lost: bool) -> tuple[Example, ...]:
    """The most frequent ways that are lost, or new, at most one a problem before any problem has two."""
    side, other = (BEFORE, AFTER) if lost else (AFTER, BEFORE)
    count_W2, drawn_W2 = counts.count_W2[:, [side, other]], counts.drawn_P2[counts.problem_W][:, [side, other]]
    alone = np.flatnonzero((count_W2[:, 0] > 0) & (count_W2[:, 1] == 0))
    alone = alone[np.argsort(-count_W2[alone, 0], kind="stable")]
    rank = _rank(counts.problem_W[alone])
    places = alone[np.lexsort((np.arange(len(alone)), rank))][:shown]
    p_W = loss_p(drawn_W2[places], count_W2[places])
    texts = _texts(one, places, side)
    out = []
    for place, p in zip(places, p_W, strict=True):
        problem, way = str(one.tally.problem_P[place]), _way(one, place)
        index, text = texts.get((problem, way), (-1, ""))
        seen, drawn = (tuple(int(n) for n in pair) for pair in (counts.count_W2[place], one.tally.drawn_PR[place]))
        out.append(Example(clean(problem), clean(way), (seen[0], seen[1]), (drawn[0], drawn[1]), float(p), index, text))
    return tuple(out)


def _rank(problem_W: np.ndarray) -> np.ndarray:
    """How many ways of the same problem come before each."""
    seen: dict[int, int] = {}
    out = []
    for problem in problem_W.tolist():
        out.append(seen.get(problem, 0))
        seen[problem] = out[-1] + 1
    return np.array(out, dtype=np.int64)


def _way(one: Comparison, place: int) -> str:
    assert one.tally.target_P is not None, "targets are ways"
    return str(one.tally.target_P[place])


def _texts(one: Comparison, places: np.ndarray, side: int) -> dict[tuple[str, str], tuple[int, str]]:
    """The first sample of each of some ways, by problem and way: its index and the end of its text."""
    run, names = (one.before, one.after)[side], one.counted.own[side]
    if not len(places) or run.verdicts is None or run.samples is None:
        return {}
    wanted = pl.DataFrame(
        {
            "shared": [str(one.tally.problem_P[place]) for place in places],
            "solution": [_way(one, place) for place in places],
        }
    ).join(names.rename({"problem": "shared", "own": "problem"}), on="shared")
    hits = run.verdicts.join(wanted.lazy(), on=["problem", "solution"], how="inner")
    first = hits.group_by("problem", "solution", "shared").agg(pl.col("index").min()).collect()
    near = run.samples.filter(pl.col("problem").is_in(first["problem"].unique().to_list()))
    found = near.select(*KEY, "text").join(first.lazy(), on=KEY).collect()
    return {
        (row["shared"], row["solution"]): (int(row["index"]), _end(row["text"] or ""))
        for row in found.iter_rows(named=True)
    }


def _end(text: str) -> str:
    return ("…" if len(text) > WIDTH else "") + clean(text[-WIDTH:])
