"""Entropies of runs as JSON: what `offleash entropy --json` prints, and the section of a comparison."""

from collections.abc import Mapping

from offleash.analyses.entropy.entropy import ACCURACY, ALL, ANSWER, EQUAL, LENGTH, TOKEN, UNREAD, Entropies, Measure
from offleash.analyses.entropy.positions import Bins, Place
from offleash.analyses.entropy.words import cautions, finding, reading, square_words
from offleash.render.numbers import Json, number
from offleash.stats.entropy import Means, Square

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


def _each(runs: tuple[str, ...], found: Means | Place) -> Json:
    """The value of every run, and its difference from the first."""
    out: Json = {}
    for r, name in enumerate(runs):
        one: Json = {"value": number(found.value_R[r]), "interval": found.interval_R[r].pair()}
        if r:
            one["difference"] = number(found.difference_R[r])
            one["difference_interval"] = found.difference_interval_R[r].pair()
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
