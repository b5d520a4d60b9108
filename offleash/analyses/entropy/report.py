"""Entropy of runs as JSON and in words: what `offleash entropy --json` prints, and the section of a comparison.

The tables are in terminal.py.
"""

from collections.abc import Mapping

import numpy as np

from offleash.analyses.entropy.entropy import ACCURACY, ALL, ANSWER, EQUAL, LENGTH, TOKEN, UNREAD, Entropies, Measure
from offleash.analyses.entropy.positions import Bins, PositionEntropy
from offleash.analyses.entropy.tokens import SCORE, TokenEntropies
from offleash.comparing.sentences import NOTABLE
from offleash.render.json import Json, number
from offleash.stats.entropy import Direction, Means, Square
from offleash.stats.intervals import FEW, Interval

SCHEMA = 1
MEANINGS = {
    ACCURACY: "share of correct samples, mean over problems",
    LENGTH: "tokens of a sample, mean over samples, then problems",
    TOKEN: "entropy of the model's own distribution (nats), mean over the tokens of a sample, samples, and problems",
    ANSWER: "plug-in entropy of the answers of a problem (nats), unread samples one class, as in arXiv:2507.14843",
    EQUAL: "plug-in entropy of the readable answers (nats), each problem rarefied to the number all runs have of it",
    ALL: "entropy of all possible answers (nats), estimated after Chao, Wang and Jost (2013)",
    UNREAD: "share of samples in which no answer was found",
}


def entropy_document(one: Entropies) -> Json:
    """All of it as JSON."""
    return {"schema": SCHEMA} | entropy_section(one) | {"finding": finding(one), "cautions": cautions(one)} | _rest(one)


def entropy_section(one: Entropies) -> Json:
    """The measures, the 2x2 and the positions: what a comparison holds of it, too."""
    return {
        "k": one.k,
        "problems": len(one.problem_P),
        "runs": list(one.runs),
        "measures": {name: _measure(one, name, measure) for name, measure in one.measures.items()},
        "squares": {
            name: None if found is None else _square_json(one, r, found)
            for r, (name, found) in enumerate(zip(one.runs[1:], one.squares, strict=True), 1)
        },
        "tokens": {
            name: {
                "source": told.source or None,
                "scored_by": told.scored_by or None,
                "samples": told.samples,
                "not_finite": told.not_finite,
                "reason": told.reason or None,
            }
            for name, told in zip(one.runs, one.tokens, strict=True)
        },
        "positions": _positions(one),
    }


def _rest(one: Entropies) -> Json:
    spent = one.distinct
    answers: Json = {"reason": "no run keeps answers"}
    if spent is not None:
        k_K = [str(k) for k in spent.k_K.tolist()]
        answers = {"problems": dict(zip(k_K, spent.problems_K.tolist(), strict=True))}
        for r, name in enumerate(one.runs):
            answers[name] = {k: number(value) for k, value in zip(k_K, spent.mean_KR[:, r], strict=True)}
    notes = [{"text": note.text, "rows": note.rows, "left_out": note.left_out} for note in one.notes]
    return {"distinct_answers": answers, "notes": notes}


def _measure(one: Entropies, name: str, found: Measure) -> Json:
    return {
        "meaning": MEANINGS[name],
        "average": _means(one.runs, found.average),
        "benchmarks": {part or "all": _means(one.runs, means) for part, means in found.benchmarks.items()},
        "reasons": dict(found.reasons),
    }


def _means(runs: tuple[str, ...], means: Means) -> Json:
    return {
        "problems": means.problems,
        "runs": _each(runs, means),
    }


def _square_json(one: Entropies, r: int, found: Square) -> Json:
    return {
        "problems": found.problems,
        "tokens_up_answers_up": found.up_up,
        "tokens_up_answers_down": found.up_down,
        "tokens_down_answers_up": found.down_up,
        "tokens_down_answers_down": found.down_down,
        "same": found.level,
        "tokens": found.token.value,
        "answers": found.answer.value,
        "reading": reading(found),
        "words": square_words(one, r),
    }


def _positions(one: Entropies) -> Json:
    found = one.positions
    if not found.bins:
        return {"reasons": dict(found.reasons)}
    every = (*found.places, *([] if found.forks is None else [found.forks]))
    return {
        "problems": found.problems,
        "places": {place.name: _each(one.runs, place) for place in every},
        "samples": {name: int(found.samples_R[r]) for r, name in enumerate(one.runs)},
        "fork_height": {name: number(found.fork_height_R[r]) for r, name in enumerate(one.runs)},
        "bins": {kind: _bins(one.runs, bins) for kind, bins in found.bins.items()},
        "reasons": dict(found.reasons),
    }


def _each(runs: tuple[str, ...], found: Means | PositionEntropy) -> Json:
    """The value of every run, and its difference from the first."""
    out: Json = {}
    for r, name in enumerate(runs):
        one: Json = {"value": number(found.value_R[r]), "interval": found.interval_R[r].to_json()}
        if r:
            one["difference"] = number(found.difference_R[r])
            one["difference_interval"] = found.difference_interval_R[r].to_json()
        out[name] = one
    return out


def _bins(runs: tuple[str, ...], bins: Bins) -> Json:
    edges = [int(edge) for edge in bins.bin_Q]
    each: Mapping[str, Json] = {
        name: {
            "tokens": [int(count) for count in bins.tokens_QR[:, r]],
            "entropy": [number(value) for value in bins.mean_QR[:, r]],
            "low": [number(value) for value in bins.low_QR[:, r]],
            "high": [number(value) for value in bins.high_QR[:, r]],
        }
        for r, name in enumerate(runs)
    }
    return {"bin": edges, "runs": dict(each)}


# In words: which way token and answer entropy went, how certain that is, and what it means.


READINGS: dict[tuple[Direction, Direction], str] = {
    (
        Direction.UP,
        Direction.DOWN,
    ): "local uncertainty rose while global diversity fell, as arXiv:2507.14843 (section 5) has it: "
    "more tokens are open, and they lead to fewer different answers",
    (
        Direction.DOWN,
        Direction.DOWN,
    ): "both fell, a collapse: the run is surer of each token and its answers are more alike",
    (
        Direction.UP,
        Direction.UP,
    ): "both rose, exploration: the run is less sure of its tokens and its answers are more varied",
    (
        Direction.DOWN,
        Direction.UP,
    ): "tokens became surer while answers became more varied: fewer tokens are open, and they lead "
    "to different answers",
}
PARTS = ("first tenth", "tenths 2 to 9", "last tenth")
MOVED = {Direction.UP: "rose", Direction.DOWN: "fell"}


def reading(found: Square) -> str:
    """What the means' cell of the 2x2 means, or that it is not resolved."""
    if (found.token, found.answer) in READINGS:
        return READINGS[found.token, found.answer]
    open_ = [
        f"{name} entropy {'has no interval' if way is Direction.UNKNOWN else 'may have gone either way'}"
        for name, way in (("token", found.token), ("answer", found.answer))
        if way not in MOVED
    ]
    return f"not resolved: {' and '.join(open_)}; more problems or samples would tell"


def square_words(one: Entropies, r: int) -> str:
    """The entropies of run r against the first in one or two sentences, with intervals and the reading."""
    found = one.squares[r - 1]
    if found is None:
        return ""
    token, answer = one.measures[TOKEN].average, one.measures[EQUAL].average
    few = [on_problems(one, means.problems) for means in (token, answer)]
    moved = f"token entropy {_moved(token, r)} nats{few[0]}, answer entropy {_moved(answer, r)} nats{few[1]}"
    said = reading(found)
    return f"{one.runs[r]} against {one.runs[0]}: {moved}. {said[0].upper()}{said[1:]}."


def finding(one: Entropies) -> str:
    """The answer in words: every run against the first, or of a single run its entropies."""
    if len(one.runs) == 1:
        return _single(one)
    out = []
    for r, name in enumerate(one.runs[1:], 1):
        out.append(square_words(one, r) or f"{name} against {one.runs[0]}: {_partly(one, r)}.")
    return " ".join([*out, places_words(one)]).strip()


def cautions(one: Entropies) -> list[str]:
    """What a reader should know before believing it."""
    out = []
    means = [one.measures[name].average for name in (TOKEN, EQUAL)]
    if any(mean.problems > 0 and np.isnan(mean.interval_R[r].low) for mean in means for r in _known(mean)):
        out.append(
            f"Entropies that rest on fewer than {FEW} problems have no interval: so few do not show how much problems "
            "differ, and which way such a mean went is not told."
        )
    for r, name in enumerate(one.runs[1:], 1):
        paper, equal = one.measures[ANSWER].average.direction(r), one.measures[EQUAL].average.direction(r)
        if {paper, equal} == {Direction.UP, Direction.DOWN}:
            out.append(
                f"{name}: with unread samples as one class, as in the paper, answer entropy {MOVED[paper]}, and that "
                f"of the readable answers {MOVED[equal]}: the format changed, too."
            )
    unread = one.measures[UNREAD].average.value_R
    for name, share in zip(one.runs, unread.tolist(), strict=True):
        if share >= NOTABLE:
            out.append(
                f"{name}: {share:.0%} of the samples are unread, and their answers are in no entropy at equal n."
            )
    spent = one.distinct
    if spent is not None and spent.k_K[-1] > 1:
        share_R = (spent.mean_KR[-1] / spent.k_K[-1]).tolist()
        wide = [name for name, share in zip(one.runs, share_R, strict=True) if share > 0.5]
        if wide:
            out.append(
                f"{' and '.join(wide)}: more than half of {spent.k_K[-1]:,} answers are different, so answer entropy "
                "is near the most that so many samples can show (ln n); with more samples it would be higher."
            )
    return out


def places_words(one: Entropies) -> str:
    """Where tokens are uncertain, in one sentence; empty where that is not known of every run."""
    found = one.positions
    if not found.bins or found.reasons or found.forks is None:
        return ""
    places = [place for place in found.places if place.name in PARTS and not np.isnan(place.value_R).any()]
    if not places:
        return ""
    most = max(places, key=lambda place: float(place.value_R[0]))
    values = " → ".join(f"{value:.3f}" for value in most.value_R.tolist())
    shares = " → ".join(f"{share:.0%}" for share in found.forks.value_R.tolist())
    first = f"{one.runs[0]} is least sure in the {most.name} ({values} nats a token)"
    return f"{first}; the most uncertain fifth of the tokens, the forks, hold {shares} of all entropy."


def token_source(one: TokenEntropies) -> str:
    """Where a run's token entropies come from."""
    if one.entropy_P is None:
        return one.reason
    how = f"scores of its own model ({one.scored_by})" if one.source == SCORE else "kept when it was drawn"
    bad = f"; {one.not_finite:,} more are no finite numbers and left out" if one.not_finite else ""
    return f"token entropies of {one.samples:,} samples, {how}, by the model's own distribution{bad}"


def ends(interval: Interval, digits: int = 3, sign: bool = True) -> str:
    """An interval for people; empty where there is none."""
    if np.isnan(interval.low):
        return ""
    mark = "+" if sign else ""
    return f"[{interval.low:{mark},.{digits}f}, {interval.high:{mark},.{digits}f}]"


def on_problems(one: Entropies, known: int) -> str:
    """How many problems something is known of, where that is not all of them."""
    every = len(one.problem_P)
    return f" (on {known:,} of {every:,} problems)" if 0 < known < every else ""


def _known(means: Means) -> list[int]:
    """The runs that know a measure."""
    return np.flatnonzero(~np.isnan(means.value_R)).tolist()


def _moved(means: Means, r: int) -> str:
    before, after, apart = means.value_R[0], means.value_R[r], means.difference_interval_R[r]
    interval = ends(apart)
    change = f"{means.difference_R[r]:+.3f}{f' {interval}' if interval else ''}"
    return f"{before:.3f} → {after:.3f} ({change})"


def _partly(one: Entropies, r: int) -> str:
    """What can be said where one of the two entropies is not known."""
    known = {"token": one.measures[TOKEN].average, "answer": one.measures[EQUAL].average}
    said = [
        f"{name} entropy {_moved(means, r)} nats{on_problems(one, means.problems)}"
        for name, means in known.items()
        if not np.isnan(means.difference_R[r])
    ]
    lacking = [f"{name} entropies" for name, means in known.items() if np.isnan(means.difference_R[r])]
    return ", ".join([*said, f"{' and '.join(lacking)} are not known of both"])


def _single(one: Entropies) -> str:
    parts = []
    for name, key in (("token entropy", TOKEN), ("answer entropy", EQUAL)):
        means = one.measures[key].average
        if not np.isnan(means.value_R[0]):
            interval = ends(means.interval_R[0], sign=False)
            few = on_problems(one, means.problems)
            parts.append(f"{name} {means.value_R[0]:.3f}{f' {interval}' if interval else ''} nats{few}")
    told = ", ".join(parts) if parts else "neither token nor answer entropies are known"
    return f"{one.runs[0]}: {told}. Name a second run to set beside it."
