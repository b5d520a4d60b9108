"""Compare certificates: which problems and completions RL kept, lost and gained, by the rule `certified`.

A problem is in the support of a model by completion, if one correct completion has probability above epsilon, or by
mass, if all correct ones together do. Both are known exactly, except where unexplored or undecided mass could tip the
balance: such problems are undetermined (U) and in none of P, E, S, O. Intervals resample problems: within a problem
nothing is random.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from offleash.comparing.align import Alignment, match
from offleash.comparing.question import choice, question
from offleash.data.certificates import Certificate, merge_certificates, open_certificate
from offleash.data.run import Run
from offleash.data.tables import Note
from offleash.data.tally import Per, Tally, tally_of_counts
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError, unknown
from offleash.loading.arguments import disambiguate_names, distinct_names, parse_argument
from offleash.loading.load import RunInput
from offleash.progress import Progress, silent
from offleash.stats.change import SupportChange, change_at
from offleash.stats.intervals import REPLICATES
from offleash.stats.support_classes import IN, OUT, ZETA, Certified, Rule, State, rule_cells

SIDES = ("before", "after")
# state before and after: the class; any other pair has an undetermined side
CLASS_OF_STATES = {(IN, IN): "P", (OUT, IN): "E", (IN, OUT): "S", (OUT, OUT): "O"}
UNDETERMINED_CLASS = "U"


@dataclass(frozen=True)
class CertifiedQuestion:
    """How certificates are to be compared."""

    question: Certified = Certified.COMPLETION  # definition 2.1 of arXiv:2507.14843, literally
    replicates: int = REPLICATES
    seed: int = 0


def certified_question(
    name: str = "completion", replicates: int = 10_000, seed: int = 0, sample_options: Mapping[str, bool] | None = None
) -> CertifiedQuestion:
    """How to compare certificates, from the options of `compare`; those that need samples are refused if set."""
    for option in (option for option, is_given in (sample_options or {}).items() if is_given):
        raise OffleashError(f"{option} needs samples, but certificates have none. Leave it out.")
    checked = question(replicates=replicates, seed=seed)
    return CertifiedQuestion(choice("question", name, Certified), checked.replicates, checked.seed)


@dataclass(frozen=True)
class CompletionChange:
    """The correct completions above epsilon: kept (P), lost (S) and gained (E), and their mass per problem."""

    change: SupportChange
    mass: dict[str, tuple[float, float]]  # P, E, S: mean over problems of their mass before and after
    known: tuple[int, float]  # of the lost: how many are known after, below epsilon, and their mass there


@dataclass(frozen=True)
class BenchmarkCertificates:
    """One benchmark."""

    name: str
    problems: int
    change: dict[Certified, SupportChange]


@dataclass(frozen=True)
class CertifiedComparison:
    """Two certificates: per problem by completion and by mass, and per completion."""

    before: Certificate
    after: Certificate
    epsilon: float
    settings: CertifiedQuestion
    table: pl.DataFrame  # per problem: problem, benchmark, columns of both sides, class by completion and by mass
    change: dict[Certified, SupportChange]
    completions: CompletionChange | None  # None: there are none above epsilon, or two vocabularies cannot be matched
    benchmarks: tuple[BenchmarkCertificates, ...]
    notes: tuple[Note, ...]

    def mean(self, side: str, column: str) -> float:
        """Mean over problems of a mass, such as `correct`, on one of SIDES."""
        return float(self.table[f"{column}_{side}"].to_numpy().mean())

    @property
    def unmatched(self) -> str | None:
        """Why there is no table of completions; None when there is one."""
        if self.completions is not None:
            return None
        same = self.before.terms.vocabulary == self.after.terms.vocabulary
        return "neither has a correct completion above epsilon" if same else "their vocabularies differ"

    def bounds(self, side: str) -> tuple[float, float]:
        """The chance of a correct sample, mean over problems, at least and at most."""
        low = self.mean(side, "correct")
        return low, low + self.mean(side, "failed") + self.mean(side, "unexplored")


def compare_certificates(
    inputs: Sequence[RunInput],
    settings: CertifiedQuestion | None = None,
    verdicts: str | None = None,
    before: str | None = None,
    after: str | None = None,
    progress: Progress = silent,
) -> list[CertifiedComparison]:
    """Compare the first certificate with each of the others.

    Args:
        inputs: folders, `NAME=FOLDER`, or globs: the problems of several folders of one model are joined.
        settings: by completion or by mass, and how intervals are computed.
        verdicts: which verifier's verdicts to read, where a certificate has several.
        before: name of the certificate that the others are compared with; by default the first.
        after: compare with this one only.
        progress: called with what is being read.
    """
    arguments = disambiguate_names([parse_argument(parsed) for parsed in map(str, inputs)])
    certificates = {}
    for name, parsed in zip(distinct_names([argument.name for argument in arguments]), arguments, strict=True):
        progress(f"reading {name}")
        certificates[name] = replace(
            merge_certificates(name, [open_certificate(path, name, verdicts) for path in parsed.paths]), name=name
        )
    for requested_name in (before, after):
        if requested_name is not None and requested_name not in certificates:
            raise unknown("certificate", requested_name, certificates)
    first = certificates.pop(before or next(iter(certificates)))
    others = [certificates[after]] if after in certificates else list(certificates.values())
    if not others or after == first.name:
        raise OffleashError(f"Only {first.name} was given. Name two certificates: before and after.")
    return [compare_pair(first, other, settings) for other in others]


def compare_pair(
    before: Certificate, after: Certificate, settings: CertifiedQuestion | None = None
) -> CertifiedComparison:
    """Compare the certificate before with the one after, at the larger epsilon of the two.

    Both are complete only there: a completion between the two epsilons is listed in one certificate, and the search of
    the other never looked for it.
    """
    settings, pair = settings or CertifiedQuestion(), (before, after)
    above = max(certificate.terms.epsilon for certificate in pair)
    alignment = match([Run(certificate.name, certificate.problems, None) for certificate in pair])
    sides = [_side(certificate, alignment, r, above) for r, certificate in enumerate(pair)]
    table, left_out = _join_sides(alignment, sides)
    tally = _tally(pair, table["problem"].to_list(), table["benchmark"].to_list())
    k = round(-np.log(ZETA) / above)  # the budget that epsilon stands for: -ln(0.05)/k
    state = {question: _states(table, above, question) for question in Certified}
    table = table.with_columns(
        pl.Series(
            question.value,
            [CLASS_OF_STATES.get((int(b), int(a)), UNDETERMINED_CLASS) for b, a in state[question]],
            pl.String,
        )
        for question in Certified
    )
    return CertifiedComparison(
        before=before,
        after=after,
        epsilon=above,
        settings=settings,
        table=table,
        change={question: _change(tally, state[question], k, settings) for question in Certified},
        completions=_completions(pair, alignment, table, above, k, settings),
        benchmarks=_benchmarks(tally, state, k, settings),
        notes=_notes(pair, above, alignment, left_out),
    )


def _side(certificate: Certificate, alignment: Alignment, r: int, above: float) -> pl.DataFrame:
    """The table of one certificate under the common names of problems, its completions counted above epsilon."""
    correct = certificate.completions.filter((pl.col("verdict") == Verdict.CORRECT.value) & (pl.col("p") > above))
    correct_counts = correct.group_by("problem").agg(pl.len().cast(pl.Int64).alias("correct_completions")).collect()
    table = certificate.table.drop("correct_completions").join(correct_counts, on="problem", how="left")
    table = table.with_columns(pl.col("correct_completions").fill_null(0))
    named = table.rename({"problem": "own"}).join(alignment.own[r], on="own").drop("own")
    return named.rename({column: f"{column}_{SIDES[r]}" for column in named.columns if column != "problem"})


def _join_sides(alignment: Alignment, sides: Sequence[pl.DataFrame]) -> tuple[pl.DataFrame, int]:
    """Problems that are certified on both sides, in the order of their names, and how many are not."""
    problems = alignment.problems.select("problem", pl.col("benchmark").fill_null(""))
    table = problems
    for side in sides:
        table = table.join(side, on="problem", how="inner", maintain_order="left")
    if not table.height:
        raise OffleashError("No problem is certified in both. Run `offleash certify` again to finish them.")
    return table, problems.height - table.height


def _tally(pair: tuple[Certificate, Certificate], problems: Sequence[str], benchmarks: Sequence[str]) -> Tally:
    """Targets without counts: the problems and benchmarks that the intervals resample."""
    zero_P2 = np.zeros((len(problems), 2), np.int64)  # the classes come from the states, never from these counts
    names = (pair[0].name, pair[1].name)
    return tally_of_counts(zero_P2, zero_P2, runs=names, problem_P=list(problems), benchmark_P=list(benchmarks))


def _states(table: pl.DataFrame, above: float, question: Certified) -> State:
    from offleash.analyses.certificates.certify import certified_states  # it brings samplers and verifiers along

    columns = ("correct", "unexplored", "largest", "failed", "largest_failed")
    sides = (table.select(pl.col(f"{name}_{side}").alias(name) for name in columns) for side in SIDES)
    return np.stack([certified_states(side, above, question) for side in sides], axis=1)


def _change(tally: Tally, state_PR: State, k: int, settings: CertifiedQuestion) -> SupportChange:
    sums = rule_cells(tally, state_PR, k).sums(settings.replicates, settings.seed)
    return change_at(sums, 0, tally, Rule.CERTIFIED)


def _completions(
    pair: tuple[Certificate, Certificate],
    alignment: Alignment,
    table: pl.DataFrame,
    above: float,
    k: int,
    settings: CertifiedQuestion,
) -> CompletionChange | None:
    """Correct completions above epsilon on either side, matched by their tokens.

    A certificate lists everything above epsilon: a completion that the other side does not list is below it there, so
    its class is known although its probability is not.
    """
    if pair[0].terms.vocabulary != pair[1].terms.vocabulary:
        return None
    # By tokens, not by text: one text can be several token sequences, each with its own probability. `finish` tells a
    # sequence that ended from the same one cut at the token limit.
    keys, frames = ["problem", "key", "finish"], []
    for r, certificate in enumerate(pair):
        aligned_completions = (
            certificate.completions.rename({"problem": "own"}).join(alignment.own[r].lazy(), on="own").drop("own")
        )
        frames.append(aligned_completions.join(table.lazy().select("problem"), on="problem", how="semi").collect())
    correct = [frame.filter((pl.col("verdict") == Verdict.CORRECT.value) & (pl.col("p") > above)) for frame in frames]
    targets = pl.concat([frame.select(keys) for frame in correct]).unique().sort(keys)
    for side, frame in zip(SIDES, frames, strict=True):
        chance = frame.select(*keys, pl.col("p").alias(side))
        targets = targets.join(chance, on=keys, how="left", maintain_order="left")
    targets = targets.join(table.select("problem", "benchmark"), on="problem", how="left", maintain_order="left")
    if not targets.height:
        return None
    # Not listed means at most epsilon, not 0: the 0 gives the right class, and a mass that is a lower bound.
    p_TR = targets.select(SIDES).fill_null(0.0).to_numpy()
    state_TR = np.where(p_TR > above, IN, OUT).astype(np.int8)
    tally = replace(_tally(pair, targets["problem"].to_list(), targets["benchmark"].to_list()), per=Per.SOLUTION)
    mask_by_class = {cell: (state_TR == states).all(axis=1) for states, cell in CLASS_OF_STATES.items()}
    mass = {cell: tuple((p_TR[mask_by_class[cell]].sum(axis=0) / table.height).tolist()) for cell in "PES"}
    # Completions below the common epsilon may still be listed after: the mass of these losses is known there.
    known = mask_by_class["S"] & targets["after"].is_not_null().to_numpy()
    return CompletionChange(
        _change(tally, state_TR, k, settings),
        {cell: (before, after) for cell, (before, after) in mass.items()},
        (int(known.sum()), float(p_TR[known, 1].sum() / table.height)),
    )


def _benchmarks(
    tally: Tally, state: dict[Certified, State], k: int, settings: CertifiedQuestion
) -> tuple[BenchmarkCertificates, ...]:
    parts = []
    for name in np.unique(tally.benchmark_P):
        rows = tally.benchmark_P == name
        benchmark_tally = tally.rows(rows)
        changes = {
            question: _change(benchmark_tally, state_PR[rows], k, settings) for question, state_PR in state.items()
        }
        parts.append(BenchmarkCertificates(str(name), len(benchmark_tally), changes))
    return tuple(parts)


def _notes(
    pair: tuple[Certificate, Certificate], above: float, alignment: Alignment, left_out: int
) -> tuple[Note, ...]:
    notes = [
        Note(f"{certificate.name}: problems missing from the other certificate were left out", count, left_out=True)
        for certificate, count in zip(pair, alignment.left_out, strict=True)
        if count
    ]
    if left_out:
        notes.append(Note("problems not certified in both were left out", left_out, left_out=True))
    epsilons = [f"{certificate.name} {certificate.terms.epsilon:.4g}" for certificate in pair]
    if pair[0].terms.epsilon != pair[1].terms.epsilon:
        notes.append(Note(f"epsilons differ ({', '.join(epsilons)}); both are compared at the larger, {above:.4g}"))
    decodings = [dict(certificate.terms.origin.decoding) for certificate in pair]
    differing = [name for name in decodings[0] if decodings[0][name] != decodings[1].get(name)]
    if differing:
        values = "; ".join(f"{name}: {decodings[0][name]} and {decodings[1].get(name)}" for name in differing)
        notes.append(Note(f"the decodings differ ({values}), and support depends on decoding"))
    if pair[0].terms.vocabulary != pair[1].terms.vocabulary:
        notes.append(Note("the vocabularies differ, so completions cannot be matched by their tokens"))
    if pair[0].verifier != pair[1].verifier:
        judged = ", ".join(f"{certificate.name} by {certificate.verifier}" for certificate in pair)
        notes.append(
            Note(f"the certificates use different verifiers ({judged}); certify one of them again with --verifier")
        )
    return tuple(notes)
