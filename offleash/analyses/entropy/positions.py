"""Token entropy by position, each run under its own model: uncertain at the first tokens, at forks, or at the end?

`offleash score` stores sums of tokens and of their entropies by problem, kind of position and bin (data/scores.py): a
run of a million samples is a table of a few thousand rows. Everything here is ratios of such sums, in the data and in
replicates that resample problems.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from offleash.analyses.entropy.tokens import SELECTED_SCORES_ONLY, STOPPED, how_to_score, scored_first
from offleash.comparing.tally import AlignedTally
from offleash.data.run import Run
from offleash.data.scores import END, ENTROPY_STEP, HEIGHT, SAMPLES, START, TENTH
from offleash.data.tally import Float, Integer
from offleash.stats.entropy import fork_height, replicate_tokens, top_entropy_share
from offleash.stats.intervals import MIN_EFFECTIVE_PROBLEMS, Interval, clipped, percentile_intervals, student

# What is read of the stored positions; SAMPLES counts samples and is no position.
KINDS = (START, TENTH, END, HEIGHT, SAMPLES)
PARTS = (  # name, kind, first and last bin (zero-based); names are keys of the JSON
    ("first token", START, 0, 0),
    ("tokens 2 to 16", START, 1, 15),
    ("first tenth", TENTH, 0, 0),
    ("tenths 2 to 9", TENTH, 1, 8),
    ("last tenth", TENTH, 9, 9),
    ("last token", END, 0, 0),
    ("all tokens", TENTH, 0, 9),
)


@dataclass(frozen=True)
class Bins:
    """Mean entropy of the tokens in each bin, of each run; NaN where a run has none there."""

    bin_Q: Integer  # lower edges: single tokens up to 16, then powers of two
    tokens_QR: Float  # tokens in the bin; not whole, as problems are weighted equally
    mean_QR: Float  # nats per token
    low_QR: Float  # ends of the 95% interval
    high_QR: Float


@dataclass(frozen=True)
class PositionEntropy:
    """One statistic of the tokens in one part of the samples: of each run, and its difference from the first run."""

    name: str
    value_R: Float
    interval_R: tuple[Interval, ...]
    difference_R: Float
    difference_interval_R: tuple[Interval, ...]


@dataclass(frozen=True)
class Positions:
    """Entropy of tokens by position, over the problems that all runs with positions have scored; nats per token."""

    problems: int  # scored in every run that has positions
    bins: Mapping[str, Bins]  # start, tenth, end; empty where no run has positions
    parts: tuple[PositionEntropy, ...]
    forks: PositionEntropy | None  # the share of all entropy that the most uncertain fifth of the tokens holds
    samples_R: Integer  # scored
    fork_height_R: Float  # the entropy from which on a token is among that fifth
    reasons: Mapping[str, str]  # by run: why there are none, and how to get them


def positions(
    runs: Sequence[Run], aligned: AlignedTally, paths: Mapping[str, str], replicates: int, seed: int
) -> Positions:
    """Where the tokens of each run are uncertain; `reasons` say how to get the positions of a run that has none.

    Only problems that every such run has scored count: otherwise runs would differ by which problems they have.
    """
    reasons = {run.name: why for run in runs if (why := _missing(run, paths.get(run.name, "")))}
    scored = [r for r, run in enumerate(runs) if run.name not in reasons]
    summed = {r: _sums(runs[r], aligned, r) for r in scored}
    known_P = np.ones(len(aligned.tally), dtype=bool)  # scored in every run that has positions
    # A problem that a run has not scored would be a difference of problems, not of runs.
    for frame in summed.values():
        has_positions_P = np.zeros_like(known_P)
        has_positions_P[frame["row"].unique().to_numpy()] = True
        known_P &= has_positions_P
    if not scored or not known_P.any():
        zero_R = np.zeros(len(runs), dtype=np.int64)
        return Positions(0, {}, (), None, zero_R, np.full(len(runs), np.nan), reasons)
    table = _Table(summed, len(runs), known_P, aligned.tally.benchmark_P[known_P], replicates, seed)
    return Positions(
        problems=int(known_P.sum()),
        bins={kind: table.bins(kind) for kind in (START, TENTH, END)},
        parts=tuple(table.part(*spec) for spec in PARTS),
        forks=table.forks(),
        samples_R=table.samples(),
        fork_height_R=table.heights(),
        reasons=reasons,
    )


def _missing(run: Run, path: str) -> str:
    """Why a run has no positions, and the command that gives it some; empty where it has."""
    if run.budget.until:
        return STOPPED
    if run.own is None or run.own not in run.positions:
        return f"no entropies by position: {how_to_score(run, path)}"
    if run.own in run.scores and scored_first(run) is None:
        return f"{SELECTED_SCORES_ONLY}; {how_to_score(run, path)}"
    return ""


def _sums(run: Run, aligned: AlignedTally, r: int) -> pl.DataFrame:
    """Tokens and entropy by row of the tally, kind and bin; `own` is the id of a problem in this run."""
    assert run.own is not None, "checked by the caller"
    rows = aligned.problems.select("problem").with_row_index("row").join(aligned.own[r], on="problem")
    frame = run.positions[run.own].filter(pl.col("kind").is_in(KINDS)).group_by("problem", "kind", "bin")
    sums = frame.agg(pl.col("tokens").sum().cast(pl.Float64), pl.col("entropy").sum()).collect(engine="streaming")
    return sums.rename({"problem": "own"}).join(rows.select("row", "own"), on="own")


class _Table:
    """Sums of tokens and entropies of all runs, kinds and bins: observed, and in every replicate.

    Axes: R runs, P problems, Q columns (kind and bin), 2 = tokens and entropy, B replicates. The replicates are shared
    by all runs, so that a difference of two runs has the interval of paired problems.
    """

    def __init__(
        self,
        summed: Mapping[int, pl.DataFrame],
        runs: int,
        known_P: np.ndarray,
        benchmark_P: np.ndarray,
        replicates: int,
        seed: int,
    ) -> None:
        self._runs, self._problems = runs, int(known_P.sum())
        # Bins that any run has; a run without tokens in one of them has 0 tokens there.
        keys = pl.concat([frame.select("kind", "bin") for frame in summed.values()]).unique().sort("kind", "bin")
        top = keys.filter(pl.col("kind") == HEIGHT)["bin"].max()
        heights = np.arange(
            int(top) + 1 if isinstance(top, int) else 0
        )  # every step of entropy, also empty ones, so that the i-th column is the height i * STEP
        every = pl.DataFrame({"kind": [HEIGHT] * heights.size, "bin": heights}, schema=keys.schema)
        keys = pl.concat([keys.filter(pl.col("kind") != HEIGHT), every]).sort("kind", "bin").with_row_index("column")
        self._kind, self._bin = keys["kind"].to_numpy(), keys["bin"].to_numpy().astype(np.int64)
        # A problem without tokens in a bin has 0 of both: it adds nothing to either sum.
        value_RPQ2 = np.zeros((runs, len(known_P), keys.height, 2))
        for r, frame in summed.items():
            cell_rows = frame.join(keys, on=["kind", "bin"])
            cells = (cell_rows["row"].to_numpy(), cell_rows["column"].to_numpy())
            value_RPQ2[r, cells[0], cells[1]] = cell_rows.select("tokens", "entropy").to_numpy()
        kept = self._equally_weighted(value_RPQ2[:, known_P])
        self._sum_RQ2 = kept.sum(axis=1)
        # All runs and columns of a problem side by side: one resampling of problems moves them together.
        flat_PX = np.moveaxis(kept, 1, 0).reshape(kept.shape[1], -1)
        # Weights of problems are drawn within benchmarks, as for every other interval.
        drawn_BX = replicate_tokens(flat_PX, benchmark_P, replicates, seed)
        self._sum_BRQ2 = drawn_BX.reshape(replicates, runs, keys.height, 2)

    def _equally_weighted(self, value_RPQ2: Float) -> Float:
        """The sums as if every problem of a run had the same number of scored samples.

        Some problems may have more scored samples than others (the run is ragged, or scoring was interrupted). Without
        this a problem would weigh by how many samples were scored; with it, by the mean length of its samples.
        """
        samples_RP = value_RPQ2[:, :, self._kind == SAMPLES, 0].sum(axis=2)
        mean_R1 = samples_RP.mean(axis=1, keepdims=True)
        scale_RP = np.divide(mean_R1, samples_RP, out=np.ones_like(samples_RP), where=samples_RP > 0)
        return np.asarray(value_RPQ2 * scale_RP[:, :, None, None])

    def bins(self, kind: str) -> Bins:
        """Entropy per token in every bin of one kind, with intervals: the curve of a figure."""
        chosen = np.flatnonzero(self._kind == kind)
        mean_RQ, mean_BRQ = _ratio(self._sum_RQ2[:, chosen]), _ratio(self._sum_BRQ2[:, :, chosen])
        ends = self._intervals(mean_BRQ.reshape(len(mean_BRQ), -1), mean_RQ.ravel(), 0.0, np.inf)
        low_RQ, high_RQ = (np.array([getattr(end, side) for end in ends]).reshape(mean_RQ.shape) for side in _BOUNDS)
        return Bins(self._bin[chosen], self._sum_RQ2[:, chosen, 0].T, mean_RQ.T, low_RQ.T, high_RQ.T)

    def part(self, name: str, kind: str, first: int, last: int) -> PositionEntropy:
        """Entropy per token over several bins together: a ratio of sums, so long samples weigh more."""
        # Bins are closed at both ends.
        chosen = np.flatnonzero((self._kind == kind) & (self._bin >= first) & (self._bin <= last))
        value_R = _ratio(self._sum_RQ2[:, chosen].sum(axis=1))
        return self._with_intervals(name, value_R, _ratio(self._sum_BRQ2[:, :, chosen].sum(axis=2)))

    def forks(self) -> PositionEntropy:
        """The share of all entropy that the most uncertain 20% of the tokens hold (their forks, arXiv:2506.01939)."""
        height_columns = np.flatnonzero(self._kind == HEIGHT)
        # From the histogram of entropies: tokens are sorted by height, and the top 20% cut a bin where needed.
        top_share_R, top_share_BR = (
            top_entropy_share(sums[..., height_columns, 0], sums[..., height_columns, 1])
            for sums in self._sums_and_replicates
        )
        return self._with_intervals("held by the top 20% of tokens", top_share_R, top_share_BR, max_value=1.0)

    def heights(self) -> Float:
        """The entropy at which the most uncertain 20% of a run's tokens begin, to the width of a step."""
        height_columns = np.flatnonzero(self._kind == HEIGHT)
        return np.array([fork_height(self._sum_RQ2[r, height_columns, 0], ENTROPY_STEP) for r in range(self._runs)])

    def samples(self) -> Integer:
        """Scored samples of each run; equal weights keep their sum, up to rounding."""
        return np.asarray(np.rint(self._sum_RQ2[:, self._kind == SAMPLES, 0].sum(axis=1)), dtype=np.int64)

    @property
    def _sums_and_replicates(self) -> tuple[Float, Float]:
        return self._sum_RQ2, self._sum_BRQ2

    def _with_intervals(self, name: str, value_R: Float, value_BR: Float, max_value: float = np.inf) -> PositionEntropy:
        """A statistic of all runs with intervals; the difference is taken within each replicate, so it is paired."""
        change_R, change_BR = value_R - value_R[0], value_BR - value_BR[:, :1]
        ends, change_interval = (
            self._intervals(value_BR, value_R, 0.0, max_value),
            self._intervals(change_BR, change_R, -max_value, max_value),
        )
        return PositionEntropy(name, value_R, tuple(ends), change_R, tuple(change_interval))

    def _intervals(self, value_BQ: Float, value_Q: Float, min_value: float, max_value: float) -> list[Interval]:
        """Percentile intervals widened by Student's t, within the bounds that the statistic has."""
        if self._problems < MIN_EFFECTIVE_PROBLEMS:  # so few problems do not show how much problems differ
            return [Interval(np.nan, np.nan)] * len(value_Q)
        wide = student(percentile_intervals(value_BQ, value_Q), value_Q, value_BQ, self._problems)
        return [clipped(interval, min_value, max_value) for interval in wide]


_BOUNDS = ("low", "high")


def _ratio(sums_2: Float) -> Float:
    """Entropy per token, of tokens and entropies along the last axis; NaN where there is no token."""
    tokens, entropy = sums_2[..., 0], sums_2[..., 1]
    mean = np.full(tokens.shape, np.nan)
    np.divide(entropy, tokens, out=mean, where=tokens > 0)
    return mean
