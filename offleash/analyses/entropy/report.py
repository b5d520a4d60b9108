"""Entropy of runs as JSON and in words: what `offleash entropy --json` prints, and the section of a comparison.

The tables are in terminal.py.
"""

import numpy as np

from offleash.analyses.entropy.entropy import ACCURACY, ALL, ANSWER, EQUAL_N, LENGTH, TOKEN, UNREAD, Entropies, Measure
from offleash.analyses.entropy.positions import Bins, PositionEntropy
from offleash.analyses.entropy.tokens import SCORE, TokenEntropies
from offleash.comparing.sentences import NOTABLE_SHARE
from offleash.render.json import SCHEMA, Json, encode
from offleash.stats.entropy import Direction, Means, Square
from offleash.stats.intervals import MIN_EFFECTIVE_PROBLEMS, Interval

# What each number is, for readers of the JSON: `docs/json.md` refers to it.
MEANINGS = {
    ACCURACY: "share of correct samples, mean over problems",
    LENGTH: "tokens per sample, mean over samples, then problems",
    TOKEN: "entropy of the model's own distribution (nats), mean over the tokens of a sample, samples, and problems",
    ANSWER: "plug-in entropy of the answers of a problem (nats), unread samples one class, as in arXiv:2507.14843",
    EQUAL_N: "plug-in entropy of the readable answers (nats), each problem rarefied to the number all runs have for it",
    ALL: "entropy of all possible answers (nats), by the estimator of Chao, Wang and Jost (2013)",
    UNREAD: "share of samples in which no answer was found",
}


def entropy_document(entropies: Entropies) -> Json:
    """The whole result as JSON, as `offleash entropy --json` prints it; unknown numbers are null."""
    distinct = entropies.distinct
    answers: Json = {"reason": "no run has answers"}
    if distinct is not None:
        k_K = distinct.k_K.tolist()
        answers = {"problems": dict(zip(k_K, distinct.problems_K, strict=True))}
        answers |= {name: dict(zip(k_K, distinct.mean_KR[:, r], strict=True)) for r, name in enumerate(entropies.runs)}
    document: Json = encode(
        {
            "schema": SCHEMA,
            **entropy_section(entropies),
            "finding": finding(entropies),
            "cautions": cautions(entropies),
            "distinct_answers": answers,
            "notes": entropies.notes,
        }
    )
    return document


def entropy_section(entropies: Entropies) -> Json:
    """The measures, the 2x2 and the positions as JSON: the part that the JSON of a comparison has, too."""
    section: Json = encode(
        {
            "k": entropies.k,
            "problems": len(entropies.problem_P),
            "runs": entropies.runs,
            "measures": {
                name: _measure_section(entropies.runs, name, measure) for name, measure in entropies.measures.items()
            },
            "squares": {
                name: None if square is None else _directions_section(entropies, r, square)
                for r, (name, square) in enumerate(zip(entropies.runs[1:], entropies.squares, strict=True), 1)
            },
            "tokens": {
                name: {
                    "source": tokens.source or None,
                    "scored_by": tokens.scored_by or None,
                    "samples": tokens.samples,
                    "not_finite": tokens.not_finite,
                    "reason": tokens.reason or None,
                }
                for name, tokens in zip(entropies.runs, entropies.tokens, strict=True)
            },
            "positions": _positions_section(entropies),
        }
    )
    return section


def _measure_section(runs: tuple[str, ...], name: str, measure: Measure) -> Json:
    """One measure: its meaning in words, the average over benchmarks, each benchmark, and why runs lack it."""

    def section(means: Means) -> Json:
        return {"problems": means.problems, "runs": _by_run(runs, means)}

    return {
        "meaning": MEANINGS[name],
        "average": section(measure.average),
        "benchmarks": {part or "all": section(means) for part, means in measure.benchmarks.items()},
        "reasons": measure.reasons,
    }


def _directions_section(entropies: Entropies, r: int, square: Square) -> Json:
    """The 2x2 of one run against the first, with the directions of the means and what they say."""
    return {
        "problems": square.problems,
        "tokens_up_answers_up": square.up_up,
        "tokens_up_answers_down": square.up_down,
        "tokens_down_answers_up": square.down_up,
        "tokens_down_answers_down": square.down_down,
        "same": square.level,
        "tokens": square.token,
        "answers": square.answer,
        "reading": reading(square, has_collapsed(entropies, r)),
        "words": directions_text(entropies, r),
    }


def _positions_section(entropies: Entropies) -> Json:
    """Places, forks and bins; only the reasons where no run has positions."""
    positions, runs = entropies.positions, entropies.runs
    if not positions.bins:
        return {"reasons": positions.reasons}
    parts = (*positions.parts, *([] if positions.forks is None else [positions.forks]))
    return {
        "problems": positions.problems,
        "places": {part.name: _by_run(runs, part) for part in parts},
        "samples": dict(zip(runs, positions.samples_R, strict=True)),
        "fork_height": dict(zip(runs, positions.fork_height_R, strict=True)),
        "bins": {kind: _bins_section(runs, bins) for kind, bins in positions.bins.items()},
        "reasons": positions.reasons,
    }


def _by_run(runs: tuple[str, ...], statistic: Means | PositionEntropy) -> Json:
    """The value of every run, and from the second run on its difference from the first."""
    section: Json = {}
    for r, name in enumerate(runs):
        value = {"value": statistic.value_R[r], "interval": statistic.interval_R[r]}
        difference = {
            "difference": statistic.difference_R[r],
            "difference_interval": statistic.difference_interval_R[r],
        }
        section[name] = value | difference if r else value
    return section


def _bins_section(runs: tuple[str, ...], bins: Bins) -> Json:
    """The curve of one kind of position, as lists along the bins."""
    sections = {
        name: {
            # Tokens are whole in the JSON of schema 1, though equal weights of problems (positions.py) leave fractions.
            "tokens": bins.tokens_QR[:, r].astype(np.int64),
            "entropy": bins.mean_QR[:, r],
            "low": bins.low_QR[:, r],
            "high": bins.high_QR[:, r],
        }
        for r, name in enumerate(runs)
    }
    return {"bin": bins.bin_Q, "runs": sections}


# In words: in which direction token and answer entropy moved, with what interval, and what it means.


# The four cells of the 2x2 that section 5 of the paper argues from: token entropy first, answer entropy second.
INTERPRETATIONS: dict[tuple[Direction, Direction], str] = {
    (
        Direction.UP,
        Direction.DOWN,
    ): "local uncertainty rose while global diversity fell, as arXiv:2507.14843 (section 5) reports: "
    "tokens are less certain, yet they lead to fewer distinct answers",
    (
        Direction.DOWN,
        Direction.DOWN,
    ): "both fell: tokens are more certain and answers less diverse",
    (
        Direction.UP,
        Direction.UP,
    ): "both rose: tokens are less certain and answers more diverse",
    (
        Direction.DOWN,
        Direction.UP,
    ): "token entropy fell while answer entropy rose: tokens are more certain, yet they lead to more distinct answers",
}
COLLAPSE_SHARE = 0.25  # of the entropy before: a smaller fall is a fall, however significant, and no collapse
COLLAPSED = f"both fell by more than {COLLAPSE_SHARE:.0%}, a collapse: tokens are more certain and answers less diverse"
PARTS = ("first tenth", "tenths 2 to 9", "last tenth")  # places that together are all tokens: one has the maximum
DIRECTION_VERBS = {Direction.UP: "rose", Direction.DOWN: "fell"}


def reading(square: Square, collapsed: bool = False) -> str:
    """What the cell of the 2x2 that the means are in says, or why none can be named.

    Args:
        square: the 2x2 of one run against the first.
        collapsed: both entropies fell by more than a quarter (`has_collapsed`).
    """
    if collapsed:
        return COLLAPSED
    if (square.token, square.answer) in INTERPRETATIONS:
        return INTERPRETATIONS[square.token, square.answer]
    unresolved = [
        f"{name} entropy {'has no interval' if direction is Direction.UNKNOWN else 'may have risen or fallen'}"
        for name, direction in (("token", square.token), ("answer", square.answer))
        if direction not in DIRECTION_VERBS
    ]
    return f"not resolved: {' and '.join(unresolved)}; draw more problems or samples"


def has_collapsed(entropies: Entropies, r: int) -> bool:
    """Whether the whole interval of both differences of run r shows a fall by more than a quarter."""
    for name in (TOKEN, EQUAL_N):
        means = entropies.measures[name].average
        if not means.difference_interval_R[r].high < -COLLAPSE_SHARE * means.value_R[0]:  # False for NaN too
            return False
    return True


def directions_text(entropies: Entropies, r: int) -> str:
    """The entropies of run r against the first in one or two sentences; empty where one of the two is not known."""
    square = entropies.squares[r - 1]
    if square is None:
        return ""
    token, answer = entropies.measures[TOKEN].average, entropies.measures[EQUAL_N].average
    notes = [problems_note(entropies, means.problems) for means in (token, answer)]
    changes = (
        f"token entropy {_change_text(token, r)} nats{notes[0]}, "
        f"answer entropy {_change_text(answer, r)} nats{notes[1]}"
    )
    meaning = reading(square, has_collapsed(entropies, r))
    return f"{entropies.runs[r]} against {entropies.runs[0]}: {changes}. {meaning[0].upper()}{meaning[1:]}."


def finding(entropies: Entropies) -> str:
    """The result in words: every run against the first, or the entropies of a single run."""
    if len(entropies.runs) == 1:
        return _single_run(entropies)
    sentences = [
        directions_text(entropies, r) or f"{name} against {entropies.runs[0]}: {_known_entropies_text(entropies, r)}."
        for r, name in enumerate(entropies.runs[1:], 1)
    ]
    return " ".join([*sentences, positions_text(entropies)]).strip()


def cautions(entropies: Entropies) -> list[str]:
    """What a reader should know before relying on the numbers."""
    warnings = []
    means = [entropies.measures[name].average for name in (TOKEN, EQUAL_N)]
    if any(mean.problems > 0 and np.isnan(mean.interval_R[r].low) for mean in means for r in _runs_with_value(mean)):
        warnings.append(
            f"Entropies over fewer than {MIN_EFFECTIVE_PROBLEMS} problems have no interval: that is too few to show "
            "how much problems differ. For such a mean, no direction of change is reported."
        )
    for r, name in enumerate(entropies.runs[1:], 1):
        paper, equal = entropies.measures[ANSWER].average.direction(r), entropies.measures[EQUAL_N].average.direction(r)
        if {paper, equal} == {Direction.UP, Direction.DOWN}:
            warnings.append(
                f"{name}: with unread samples as one class, as in the paper, answer entropy {DIRECTION_VERBS[paper]}, "
                f"while that of readable answers {DIRECTION_VERBS[equal]}: the share of unread samples matters here."
            )
    # Unread samples drop out of the entropies at equal n: a change of format looks like a change of diversity.
    unread = entropies.measures[UNREAD].average.value_R
    for name, share in zip(entropies.runs, unread.tolist(), strict=True):
        if share >= NOTABLE_SHARE:
            warnings.append(f"{name}: {share:.0%} of the samples are unread and not in the entropies at equal n.")
    # Plug-in entropy of n answers is at most ln n, so mostly different answers say little more than n.
    distinct = entropies.distinct
    if distinct is not None and distinct.k_K[-1] > 1:
        share_R = (distinct.mean_KR[-1] / distinct.k_K[-1]).tolist()
        saturated_runs = [name for name, share in zip(entropies.runs, share_R, strict=True) if share > 0.5]
        if saturated_runs:
            warnings.append(
                f"{' and '.join(saturated_runs)}: more than half of {distinct.k_K[-1]:,} answers are distinct, so "
                "answer entropy is near its maximum for that many samples (ln n) and would rise with more."
            )
    return warnings


def positions_text(entropies: Entropies) -> str:
    """Where tokens are uncertain, in one sentence; empty where that is not known of every run."""
    positions = entropies.positions
    if not positions.bins or positions.reasons or positions.forks is None:
        return ""
    parts = [part for part in positions.parts if part.name in PARTS and not np.isnan(part.value_R).any()]
    if not parts:
        return ""
    # Of the first run: its text says where a reader should look in the others.
    highest_part = max(parts, key=lambda part: float(part.value_R[0]))
    values = " → ".join(f"{value:.3f}" for value in highest_part.value_R.tolist())
    shares = " → ".join(f"{share:.0%}" for share in positions.forks.value_R.tolist())
    return (
        f"{entropies.runs[0]} is least certain in the {highest_part.name} ({values} nats per token); the most "
        f"uncertain 20% of tokens (forks) hold {shares} of all entropy."
    )


def token_source(tokens: TokenEntropies) -> str:
    """Where a run's token entropies come from, or why there are none."""
    if tokens.entropy_P is None:
        return tokens.reason
    source = f"scores of its own model ({tokens.scored_by})" if tokens.source == SCORE else "recorded when drawn"
    not_finite_text = f"; {tokens.not_finite:,} more are not finite and were left out" if tokens.not_finite else ""
    return (
        f"token entropies of {tokens.samples:,} samples, {source}, under the model's own distribution{not_finite_text}"
    )


def ends(interval: Interval, digits: int = 3, sign: bool = True) -> str:
    """An interval for people; empty where there is none."""
    if np.isnan(interval.low):
        return ""
    mark = "+" if sign else ""
    return f"[{interval.low:{mark},.{digits}f}, {interval.high:{mark},.{digits}f}]"


def problems_note(entropies: Entropies, known: int) -> str:
    """How many problems a mean is over, where that is not all of them."""
    every = len(entropies.problem_P)
    return f" (on {known:,} of {every:,} problems)" if 0 < known < every else ""


def _runs_with_value(means: Means) -> list[int]:
    return np.flatnonzero(~np.isnan(means.value_R)).tolist()


def _change_text(means: Means, r: int) -> str:
    """A mean before and after, with the change and its interval: `0.397 → 0.601 (+0.203 [+0.194, +0.212])`."""
    before, after = means.value_R[0], means.value_R[r]
    interval = ends(means.difference_interval_R[r])
    change = f"{means.difference_R[r]:+.3f}{f' {interval}' if interval else ''}"
    return f"{before:.3f} → {after:.3f} ({change})"


def _known_entropies_text(entropies: Entropies, r: int) -> str:
    """What can be said where one of the two entropies, or both, are not known in both runs."""
    averages = {"token": entropies.measures[TOKEN].average, "answer": entropies.measures[EQUAL_N].average}
    # A measure that is known in both runs is reported although the other is missing.
    known = [
        f"{name} entropy {_change_text(means, r)} nats{problems_note(entropies, means.problems)}"
        for name, means in averages.items()
        if not np.isnan(means.difference_R[r])
    ]
    missing = [f"{name} entropies" for name, means in averages.items() if np.isnan(means.difference_R[r])]
    return ", ".join([*known, f"{' and '.join(missing)} are not known for both runs"])


def _single_run(entropies: Entropies) -> str:
    """The entropies of one run alone, with intervals where they have some."""
    known = []
    for name, key in (("token entropy", TOKEN), ("answer entropy", EQUAL_N)):
        means = entropies.measures[key].average
        if not np.isnan(means.value_R[0]):
            interval = ends(means.interval_R[0], sign=False)
            problem_note = problems_note(entropies, means.problems)
            known.append(f"{name} {means.value_R[0]:.3f}{f' {interval}' if interval else ''} nats{problem_note}")
    values = ", ".join(known) if known else "neither token nor answer entropies are known"
    return f"{entropies.runs[0]}: {values}. Name a second run to compare it with."
