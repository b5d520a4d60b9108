"""Entropy-matched comparison: what RL lost at equal decoding, and what is left of it at equal token entropy.

RL makes a model more certain, so at the same temperature it explores less. Yue et al. (arXiv:2504.13837) therefore
raise the temperature of the model after RL until its token entropy equals that of the base, and compare both again.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl

from offleash.analyses.sweep.points import token_entropy
from offleash.analyses.sweep.runs import SweepModel, SweepRuns, decoding_label, labels, open_runs, run_path
from offleash.comparing.align import DECODING
from offleash.comparing.compare import Comparison, compare
from offleash.comparing.question import Question
from offleash.comparing.tally import AlignedTally, tally
from offleash.data.run import Run
from offleash.data.shards import write_atomically
from offleash.drawing.resume import with_prompts
from offleash.errors import OffleashError
from offleash.progress import Progress, silent
from offleash.samplers.registry import Model
from offleash.samplers.sampler import Request, Sampler, SamplingParams
from offleash.samplers.seeds import seed_of
from offleash.stats.binomials import Float, Integer, log_miss
from offleash.stats.intervals import (
    NO_INTERVAL,
    REPLICATES,
    Estimate,
    Interval,
    mean_of,
    percentile_intervals,
    problem_sums,
    pseudo_weights,
    strata,
)
from offleash.stats.support_classes import reach_PRK
from offleash.verifying.verify import VerifyOptions

# Pilots: a few samples of every problem per temperature, with the same random numbers at all of them; cached.


PILOT_SAMPLES = 32  # samples per problem: the k at which the paper measures token entropies
PILOT_SCHEMA = {"problem": pl.String(), "temperature": pl.Float64(), "entropy": pl.Float64()}


@dataclass
class Pilots:
    """Token entropies of one model on the given problems, by temperature.

    Pilots are cached in a file: a search that is resumed after a kill, or repeated with another tolerance, draws only
    the temperatures that are new.
    """

    sampler: Sampler
    model: str
    problems: pl.DataFrame
    decoding: SamplingParams
    seed: int
    folder: Path  # of the model within the sweep
    progress: Progress
    label: str  # in front of progress messages
    size: int = PILOT_SAMPLES
    _stored_pilots: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=PILOT_SCHEMA))

    def __post_init__(self) -> None:
        self.problems = with_prompts(self.problems)
        self._kept = _read(self.file)

    @property
    def file(self) -> Path:
        """Where these pilots are kept: all that they depend on but the temperature is in the name."""
        decoding = {name: value for name, value in self.decoding.document().items() if name != "temperature"}
        about = self.sampler.about
        prompts = self.problems.sort("problem").select("problem", "prompt").rows()
        added = [about.system, about.chat_kwargs] if about.system is not None or about.chat_kwargs else []
        model = (self.model, about.fingerprint, about.raw, dict(about.settings), *added)
        parts = (*model, decoding, self.seed, self.size, prompts)
        return self.folder / "pilots" / f"{seed_of(json.dumps(parts, sort_keys=True, default=str)):016x}.parquet"

    def entropy(self, temperature: float) -> Float:
        """Entropy per token of the distribution drawn from, for every problem in order."""
        known = self._kept.filter(pl.col("temperature") == temperature)
        if known.height != self.problems.height:
            self.progress(f"{self.label}: pilot at temperature {temperature:g}")
            known = self._draw(temperature)
            self._kept = pl.concat([self._kept.filter(pl.col("temperature") != temperature), known])
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.file, self._kept)
        rows = self.problems.select("problem").join(known, on="problem", how="left", maintain_order="left")
        return rows["entropy"].to_numpy().astype(np.float64)

    def forget(self) -> None:
        for problem in self.problems["problem"]:
            self.sampler.forget(problem)

    def _draw(self, temperature: float) -> pl.DataFrame:
        decoding, rows = replace(self.decoding, temperature=temperature), []
        for batch in self._batches():
            for result in self.sampler.sample(batch, decoding):
                if result.error:
                    raise OffleashError(
                        f"A pilot of problem {result.request.problem!r} could not be drawn: {result.error}."
                    )
                samples = [sample for sample in result.samples if sample.tokens]
                if any(sample.entropy_sampled is None for sample in samples):
                    raise no_entropy(self.model)
                entropies = [(sample.entropy_sampled or 0.0) / (sample.tokens or 1) for sample in samples]
                rows.append((result.request.problem, temperature, float(np.mean(entropies)) if entropies else 0.0))
        return pl.DataFrame(rows, schema=PILOT_SCHEMA, orient="row")

    def _batches(self) -> Iterator[list[Request]]:
        """Requests in batches of the sampler's preferred size.

        Seeds do not depend on the temperature: with common random numbers the entropies at two temperatures differ by
        the temperature and hardly by noise, so that bisection sees one smooth curve.
        """
        batch_size = max(1, self.sampler.batch_size // self.size)
        rows = self.problems.select("problem", "prompt", "images").rows()
        for start in range(0, len(rows), batch_size):
            yield [
                Request(problem, prompt, 0, self.size, seed_of(self.seed, "pilot", problem), tuple(images or ()), True)
                for problem, prompt, images in rows[start : start + batch_size]
            ]


def no_entropy(model: str) -> OffleashError:
    """The error for a model whose samples come without token entropies."""
    return OffleashError(
        f"{model} provides no token entropies to match; only hf: models do. Name the model as hf:PATH, or leave out "
        "--match."
    )


def _read(file: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(file).select(*PILOT_SCHEMA)
    except (OSError, pl.exceptions.PolarsError):  # not there, or damaged: pilots are drawn again
        return pl.DataFrame(schema=PILOT_SCHEMA)


# Search: the temperature at which a model's token entropy equals a target, by bisection on pilot draws.


TEMPERATURE_RANGE = (0.05, 5.0)  # temperatures that are tried
STEP = 1.5  # factor by which the first temperatures go up or down until the target lies between two of them
TOLERANCE = 0.002  # nats
SAME_TEMPERATURE_RATIO = 1.0005  # two temperatures of this ratio are the same
MAX_PILOTS = 30
SLOPE_RATIO = (
    1.05  # ratio of temperatures from which the slope between two pilots is that of the curve, not of its noise
)
NOISE = 2.0  # standard errors by which entropy may fall between two temperatures and still be taken as rising


class NoMatchError(OffleashError):
    """No temperature gives the target entropy."""


@dataclass(frozen=True)
class Pilot:
    """Token entropy at a temperature: of every problem, in nats."""

    temperature: float
    entropy_P: Float

    @property
    def mean(self) -> float:
        return float(self.entropy_P.mean())


@dataclass(frozen=True)
class TemperatureSearch:
    """The temperature of equal entropy, and its uncertainty."""

    temperature: float
    interval: Interval  # 95%: other problems and other samples
    target: float
    entropy: float  # of the pilot at that temperature
    error: float  # standard error of their difference, over problems, paired
    tolerance: float  # nats within which the search stops
    pilots: tuple[Pilot, ...]  # in the order of their temperatures
    rising: bool  # whether entropy rose with every temperature that was tried, within its noise


def match_temperature(
    entropy_of: Callable[[float], Float],
    target_P: Float,
    start: float,
    stratum_P: Integer,
    within: tuple[float, float] = TEMPERATURE_RANGE,
    tolerance: float = TOLERANCE,
) -> TemperatureSearch:
    """Bracket the target from `start` by steps, then halve the bracket in the logarithm of the temperature.

    Args:
        entropy_of: entropy of every problem at a temperature. With common random numbers it is one curve: what is left
            of noise moves all of it together.
        target_P: entropy of every problem that the mean over problems is to equal.
        start: temperature at which the bracket begins.
        stratum_P: benchmark of each problem, for the interval.
        within: lowest and highest temperature that is tried.
        tolerance: nats within which the search stops.

    Returns:
        The tried temperature whose entropy is nearest. NoMatchError where the target is outside of the range.
    """
    tried: dict[float, Pilot] = {}
    target = float(target_P.mean())

    def gap(candidate: float) -> float:
        if candidate not in tried:
            tried[candidate] = Pilot(candidate, entropy_of(candidate))
        return tried[candidate].mean - target

    # Pilots are the cost of the search: `tried` keeps them, and bisection needs only the sign of the gap.
    low, high = _bracket(gap, tried, target, start, within)
    best = min((low, high), key=lambda temperature: abs(gap(temperature)))
    # Temperature is a scale, so brackets are ratios: their middle is the geometric mean.
    while abs(gap(best)) > tolerance and high / low > SAME_TEMPERATURE_RATIO and len(tried) < MAX_PILOTS:
        best = _five_digits(math.sqrt(low * high))
        low, high = (best, high) if gap(best) < 0 else (low, best)
    best = min(tried, key=lambda temperature: abs(gap(temperature)))
    pilots = tuple(tried[temperature] for temperature in sorted(tried))
    # Paired by problem, so that what makes problems differ in entropy cancels out.
    difference_P = tried[best].entropy_P - target_P
    error = float(difference_P.std(ddof=1) / math.sqrt(len(difference_P))) if len(difference_P) > 1 else float("nan")
    interval = _interval(best, difference_P, _slope(pilots, best), stratum_P)
    return TemperatureSearch(best, interval, target, tried[best].mean, error, tolerance, pilots, _entropy_rises(pilots))


def _bracket(
    gap: Callable[[float], float],
    tried: dict[float, Pilot],
    target: float,
    start: float,
    within: tuple[float, float],
) -> tuple[float, float]:
    """Two temperatures between which the target lies."""
    min_temperature, max_temperature = within
    low = high = min(max(_five_digits(start), min_temperature), max_temperature)
    while gap(high) < 0 and high < max_temperature:
        low, high = high, min(_five_digits(high * STEP), max_temperature)
    while gap(low) > 0 and low > min_temperature:
        low, high = max(_five_digits(low / STEP), min_temperature), low
    if gap(low) > 0 or gap(high) < 0:
        edge = low if gap(low) > 0 else high
        relation = "is still above" if gap(low) > 0 else "stays below"
        entropies = ", ".join(f"{temperature:g}: {tried[temperature].mean:.4f}" for temperature in sorted(tried))
        raise NoMatchError(
            f"No temperature from {min_temperature:g} to {max_temperature:g} gives the second model the token "
            "entropy of the first, "
            f"{target:.4f} nats: at {edge:g} it {relation} that (entropy by temperature: {entropies}). Compare at "
            "another --temperature or --top-p; a top-p below 1 may keep entropy low at any temperature."
        )
    return low, high


def _slope(pilots: tuple[Pilot, ...], temperature: float) -> float:
    """Nats per unit of temperature around the match; NaN where no two pilots are apart."""
    below = [pilot for pilot in pilots if pilot.temperature <= temperature / SLOPE_RATIO] or [pilots[0]]
    above = [pilot for pilot in pilots if pilot.temperature >= temperature * SLOPE_RATIO] or [pilots[-1]]
    low, high = below[-1], above[0]
    if high.temperature <= low.temperature:
        return float("nan")
    return (high.mean - low.mean) / (high.temperature - low.temperature)


def _interval(temperature: float, difference_P: Float, slope: float, stratum_P: Integer) -> Interval:
    """Where the match would be with other problems (delta method): the interval of the gap, divided by the slope."""
    if not slope > 0:
        return NO_INTERVAL
    gap = mean_of(difference_P, stratum_P, -math.inf).interval
    if math.isnan(gap.low):
        return NO_INTERVAL
    low, high = temperature - gap.high / slope, temperature - gap.low / slope
    return Interval(min(temperature, low), max(temperature, high))  # a skewed interval still contains the match


def _entropy_rises(pilots: tuple[Pilot, ...]) -> bool:
    """Whether entropy rises with temperature; if not, several temperatures may match and bisection finds one of them.

    The entropy of one softmax always rises with temperature. The mean over samples need not: prefixes are drawn at that
    temperature, too, and top-p cuts more or less of each distribution.
    """
    for low, high in pairwise(pilots):
        rise_P = high.entropy_P - low.entropy_P
        if rise_P.mean() < -NOISE * rise_P.std() / math.sqrt(len(rise_P)) - 1e-9:
            return False
    return True


def _five_digits(temperature: float) -> float:
    """Five significant digits: the temperature is part of a folder's name and must be read back as the same number."""
    return float(f"{temperature:.5g}")


# The comparison: the model before, and the model after at equal decoding and at equal entropy.


RUNS = ("before", "equal", "matched")


@dataclass(frozen=True)
class RecoveredProblems:
    """Problems that the model before reaches, by what the model after does at equal decoding and at equal entropy."""

    reached: float  # by the model before
    lost: float  # at equal decoding
    lost_matched: float  # at equal entropy
    back: float  # lost at equal decoding, and reached at equal entropy
    gone: float  # reached at equal decoding, and lost at equal entropy
    chance: float  # `back`, and `gone`, if temperature did nothing: samples of both runs shuffled; NaN for one run
    share: Estimate  # of the loss at equal decoding that goes away: 1 - lost_matched/lost; NaN where nothing was lost


@dataclass(frozen=True)
class EntropyMatch:
    """Two models at equal decoding and at equal token entropy."""

    names: tuple[str, str]  # of the models
    decoding: SamplingParams  # of the model before, and of both at equal decoding
    search: TemperatureSearch
    folders: Mapping[str, Path]  # of RUNS
    entropy: Mapping[str, Estimate]  # token entropy of the k samples of RUNS: those of the match are not its pilots'
    gap: Estimate  # of the match, minus that of the model before: what the pilots left
    equal: Comparison
    matched: Comparison
    recovered: RecoveredProblems
    pilot: int  # samples per problem in a pilot

    @property
    def temperature(self) -> float:
        return self.search.temperature


def entropy_matched(
    problems: pl.DataFrame,
    before: Model,
    after: Model,
    decoding: SamplingParams,
    k: str,
    folder: Path,
    seed: int = 0,
    progress: Progress = silent,
    verifying: VerifyOptions | None = None,
    names: tuple[str, str] = ("", ""),
) -> EntropyMatch:
    """Draw both models at a decoding, find the temperature at which the second has the first's token entropy, compare.

    Run again after a kill, it resumes: runs and pilots are stored in folders below `folder`.
    """
    unique = labels(((names[0], before), (names[1], after)), folder)
    first, second = SweepModel(unique[0], before), SweepModel(unique[1], after)
    with open_runs(folder, problems, k, seed, verifying or VerifyOptions(), progress) as runs_of:
        runs_of.check((first, second), (decoding,))
        runs = [
            runs_of.run(
                member,
                decoding,
                f"{member.label} at {decoding_label(decoding)}",
                f"{member.label} at {decoding_label(decoding)}",
            )
            for member in (first, second)
        ]
        return match_runs(runs_of, (first, second), decoding, (runs[0], runs[1]), "matching")


def match_runs(
    runs_of: SweepRuns,
    members: tuple[SweepModel, SweepModel],
    decoding: SamplingParams,
    pair: tuple[Run, Run],
    label: str,
) -> EntropyMatch:
    """The same, with both runs at equal decoding drawn already."""
    before, after = members
    k = runs_of.budget
    counted = tally(pair, k, runs_of.seed)
    target_P = token_entropy(pair[0], counted, 0, k)
    if target_P is None:
        raise no_entropy(pair[0].facts.get("model", pair[0].name))
    search = _search(runs_of, after, decoding, counted, target_P, label)
    warm = replace(decoding, temperature=search.temperature)
    name = f"{after.label} at {decoding_label(warm)}"
    # a match at the very same decoding is the same run: it is not drawn twice
    matched_run = pair[1] if warm == decoding else runs_of.run(after, warm, name, f"{label}: {name}")
    runs = (pair[0], pair[1], matched_run)
    runs_of.progress(f"{label}: comparing")
    question = Question(at=k, seed=runs_of.seed, allow=frozenset({DECODING}))
    equal = compare(runs[0], runs[1], question)
    matched = equal if matched_run is pair[1] else compare(runs[0], matched_run, question)
    # The three runs in one tally, so that all counts are over the problems that each of them has.
    aligned = tally([replace(run, name=name) for run, name in zip(runs, RUNS, strict=True)], k, runs_of.seed)
    drawn = ((before, decoding), (after, decoding), (after, warm))
    folders = [run_path(runs_of.folder, member.label, params) for member, params in drawn]
    return EntropyMatch(
        (before.label, after.label),
        decoding,
        search,
        dict(zip(RUNS, folders, strict=True)),
        *_entropies(aligned, runs),
        equal,
        matched,
        _recovered_problems(aligned, matched_run is pair[1]),
        PILOT_SAMPLES,
    )


def _search(
    runs_of: SweepRuns, after: SweepModel, decoding: SamplingParams, aligned: AlignedTally, target_P: Float, label: str
) -> TemperatureSearch:
    """Pilots of the problems that both runs have."""
    names = aligned.problems.select("problem").join(aligned.own[1], on="problem", maintain_order="left")
    problems = names.select(problem="own").join(runs_of.problems, on="problem", how="left", maintain_order="left")
    sampler = runs_of.sampler(after.model)
    folder = runs_of.folder / after.label
    pilots = Pilots(sampler, str(after.model), problems, decoding, runs_of.seed, folder, runs_of.progress, label)
    try:
        return match_temperature(pilots.entropy, target_P, decoding.temperature, strata(aligned.tally.benchmark_P))
    finally:
        pilots.forget()


def _entropies(aligned: AlignedTally, runs: tuple[Run, Run, Run]) -> tuple[dict[str, Estimate], Estimate]:
    """Token entropies of RUNS, and that of the match less that of the model before, problem by problem."""
    value, stratum_P = {}, strata(aligned.tally.benchmark_P)
    for r, name in enumerate(RUNS):
        value_P = token_entropy(runs[r], aligned, r, aligned.tally.head)
        if value_P is None:
            raise no_entropy(runs[r].facts.get("model", name))
        value[name] = value_P
    gap = mean_of(value["matched"] - value["before"], stratum_P, -np.inf)
    return {name: mean_of(value_P, stratum_P) for name, value_P in value.items()}, gap


def change_by_chance(drawn_P2: Integer, correct_P2: Integer, k: int) -> Float:
    """Chance of each problem that k samples miss it and k others reach it, all drawn from the pool of two runs.

    That is what resampling an unchanged model does: if temperature did nothing, a sample could be in either run. With n
    pooled samples and miss(k) = C(n - c, k) / C(n, k), the chance is miss(k) - miss(2k): the first k all miss, minus
    all 2k miss.
    """
    drawn_P, correct_P = drawn_P2.sum(axis=1), correct_P2.sum(axis=1)
    return np.asarray(np.exp(log_miss(drawn_P, correct_P, k)) - np.exp(log_miss(drawn_P, correct_P, 2 * k)))


def _recovered_problems(aligned: AlignedTally, same: bool) -> RecoveredProblems:
    """From a tally of RUNS: counts at its k, thinned where more was drawn; the last two may be the same run."""
    # chances to be reached: the model before, the one after at equal decoding, and at equal entropy
    before_P, after_P, matched_P = reach_PRK(aligned.tally, np.array([aligned.tally.head]))[:, :, 0].T
    lost_P2 = np.stack([before_P * (1 - after_P), before_P * (1 - matched_P)], axis=1)
    lost, matched = lost_P2.sum(axis=0).tolist()
    # Four pseudo-problems of the model before (lost at both, at either alone, at neither): without them a loss of 0
    # would have an interval of no width. Columns of weight_B4: equal only, matched only, both, neither.
    weight_B4 = pseudo_weights(4, len(before_P), REPLICATES, 0)
    sums_B2 = problem_sums(lost_P2, strata(aligned.tally.benchmark_P)) + weight_B4[:, :2] + weight_B4[:, 2:3]
    chance_of_change_P = change_by_chance(
        aligned.tally.drawn_PR[:, 1:], aligned.tally.correct_PR[:, 1:], aligned.tally.head
    )
    # Negative where equal entropy loses more than equal decoding does: the share is not clipped.
    share = 1 - matched / lost if lost > 0 else float("nan")
    interval = percentile_intervals((1 - sums_B2[:, 1] / sums_B2[:, 0])[:, None], np.array([share]))[0]
    return RecoveredProblems(
        reached=float(before_P.sum()),
        lost=lost,
        lost_matched=matched,
        back=float((before_P * (1 - after_P) * matched_P).sum()),
        gone=float((before_P * after_P * (1 - matched_P)).sum()),
        chance=float("nan") if same else float((before_P * chance_of_change_P).sum()),
        share=Estimate(share, interval),
    )
