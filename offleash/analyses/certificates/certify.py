"""Certify: the exact support of a model above epsilon, problem by problem, resumable after a kill."""

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import polars as pl

from offleash.data.certificates import (
    COMPLETIONS,
    CertificateFolder,
    CertificateSettings,
    is_certificate,
    open_certificate,
    read_terms,
)
from offleash.data.identity import (
    differences,
    origin_differences,
    problem_differences,
    refuse_differences,
    resume_step,
)
from offleash.data.run_folder import claim_run, is_run, read_problems
from offleash.data.tables import VERDICTS, as_problems
from offleash.data.verdict import Verdict
from offleash.drawing.resume import origin_of, stored_decoding
from offleash.errors import OffleashError
from offleash.progress import Progress, peak_memory_mb, silent
from offleash.render.numbers import duration
from offleash.samplers.exact_support import Completion, Expander, Expansion, expander_of, refuse_sampler
from offleash.samplers.registry import Model, open_sampler
from offleash.samplers.sampler import Request, Sampler, SamplingParams
from offleash.stats.support_classes import IN, UNDETERMINED, ZETA, Certified, State, certified, epsilon
from offleash.verifying.cases import CasesByProblem, problem_cases, refuse_unreadable
from offleash.verifying.judge import Judge
from offleash.verifying.verify import VerifyOptions, judge_rows, open_judge, stored_name

K = 8_192  # the budget whose threshold is taken where none is named


@dataclass(frozen=True)
class CertifyEstimate:
    """What is about to be certified."""

    folder: Path
    model: str
    decoding: SamplingParams
    epsilon: float
    problems: int
    done: int
    verifier: str


@dataclass(frozen=True)
class CertifiedRun:
    """What a certificate says in all."""

    folder: Path
    model: str
    epsilon: float
    problems: int
    certified: int
    new: int  # of this call
    states: Mapping[Certified, State]  # of every certified problem
    table: pl.DataFrame  # see tables.certificates.masses
    verifier: str
    seconds: float
    peak_memory_mb: float
    troubles: Mapping[str, str] = field(default_factory=dict)  # problem: why it has no certificate

    def count(self, question: Certified, state: int) -> int:
        return int((self.states[question] == state).sum())

    def total(self, column: str) -> int:
        return int(self.table[column].to_numpy().sum())

    @property
    def deepest(self) -> int:
        return int(self.table["deepest"].to_numpy().max(initial=0))

    def mean(self, column: str) -> float:
        values = self.table[column].to_numpy()
        return float(values.mean()) if len(values) else float("nan")


Announce = Callable[[CertifyEstimate], None]


def unannounced(_: CertifyEstimate) -> None:
    """A certificate that nobody waits for."""


def threshold(given: float | None, at: int | None) -> float:
    """Epsilon: as given, or that of a budget, -ln(0.05)/k."""
    if given is not None and at is not None:
        raise OffleashError(f"--epsilon {given:g} and --at {at} both set the threshold. Leave one out.")
    if given is not None:
        return given
    if at is not None and at < 4:
        raise OffleashError(f"--at takes 4 samples per problem or more here, not {at}: epsilon would be near 1.")
    return float(epsilon(K if at is None else at, ZETA))


def certify_model(
    folder: Path,
    problems: pl.DataFrame,
    model: Model,
    decoding: SamplingParams,
    above: float,
    verifying: VerifyOptions | None = None,
    progress: Progress = silent,
    announce: Announce = unannounced,
) -> CertifiedRun:
    """Certify with a model by its name; what can be refused before the model is loaded is."""
    refuse_sampler(model.sampler)
    if is_run(folder):
        refuse_words(folder, str(model), decoding, above)
    progress(f"loading {model}")
    with closing(open_sampler(model)) as sampler:
        return certify(folder, problems, sampler, str(model), decoding, above, verifying, progress, announce)


def certify(
    folder: Path,
    problems: pl.DataFrame,
    sampler: Sampler,
    model: str,
    decoding: SamplingParams,
    above: float,
    verifying: VerifyOptions | None = None,
    progress: Progress = silent,
    announce: Announce = unannounced,
) -> CertifiedRun:
    """Expand every problem that has no certificate yet, and judge what has no verdict."""
    started, options = time.monotonic(), verifying or VerifyOptions()
    expander = expander_of(sampler)
    with claim_run(folder), open_judge(options, progress) as judge:
        origin = origin_of(sampler, model, decoding, 0, 0, problems)
        terms = CertificateSettings(above, expander.vocabulary, origin)
        asked = begin(folder, problems, terms)
        extraction = replace(options.extraction, opened=options.extraction.opened or origin.thinking)
        cases = problem_cases(asked, options.verifier, extraction, str(folder))
        refuse_unreadable(judge, cases, str(folder))
        name = stored_name(judge, [verifier for _, verifier in cases.values()])
        work = _Work(CertificateFolder(folder), asked, expander, decoding, above, judge, cases, extraction.opened, name)
        work.done = work.folder.done()
        announce(CertifyEstimate(folder, model, decoding, above, asked.height, len(work.done), name))
        troubles = work.all(progress)
    if not work.done:
        first = next(iter(troubles.items()))
        raise OffleashError(f"No problem could be certified; the first, {first[0]!r}: {first[1]}.")
    whole = open_certificate(folder, verifier=name)
    return CertifiedRun(
        folder=folder,
        model=model,
        epsilon=above,
        problems=asked.height,
        certified=whole.table.height,
        new=work.new,
        states={question: states_of(whole.table, above, question) for question in Certified},
        table=whole.table,
        verifier=name,
        seconds=time.monotonic() - started,
        peak_memory_mb=peak_memory_mb(),
        troubles=troubles,
    )


def states_of(table: pl.DataFrame, above: float, question: Certified) -> State:
    """Whether each problem of a certificate is reached. What the verifier failed on may be right or wrong."""
    mass, rest, top, failed, top_failed = (
        table[name].to_numpy() for name in ("correct", "unexplored", "largest", "failed", "largest_failed")
    )
    state = certified(mass, rest + failed, top, above, question)
    if question is Certified.COMPLETION:
        state = np.where((state != IN) & (top_failed > above), UNDETERMINED, state).astype(np.int8)
    return state


@dataclass
class _Work:
    """What goes on while a certificate is made."""

    folder: CertificateFolder
    problems: pl.DataFrame
    expander: Expander
    decoding: SamplingParams
    above: float
    judge: Judge
    cases: CasesByProblem
    opened: bool
    name: str
    done: set[str] = field(default_factory=set)
    new: int = 0

    def all(self, progress: Progress) -> dict[str, str]:
        """Every problem in its turn; those that cannot be certified, with the reason."""
        troubles, started = {}, time.monotonic()
        rows = self.problems.select("problem", "prompt", "images").iter_rows()
        for place, (problem, prompt, images) in enumerate(rows):
            shard = f"{place:06d}.parquet"
            if shard not in self.done:
                left = self._left(time.monotonic() - started)
                head = f"problem {place + 1:,} of {self.problems.height:,}{left}"
                trouble = self._expand(shard, Request(problem, prompt, 0, 1, 0, tuple(images or ())), head, progress)
                if trouble:
                    troubles[problem] = trouble
                    continue
            self._judge(shard)
        return troubles

    def _expand(self, shard: str, request: Request, head: str, progress: Progress) -> str:
        def tell(depth: int, prefixes: int, settled: float) -> None:
            progress(f"{head}: {prefixes:,} prefixes of {depth:,} tokens, {settled:.1%} of the mass settled")

        found = self.expander.expand(request, self.decoding, self.above, tell)
        if not found.error:
            self.folder.write(
                shard, _completions(request.problem, found.completions), _expansion(request.problem, found)
            )
            self.done.add(shard)
            self.new += 1
        return found.error

    def _judge(self, shard: str) -> None:
        """Verdicts on a problem's completions: those that stand are kept, the failed and the missing are given."""
        rows, standing = self.folder.completions(shard), self.folder.verdicts(self.name, shard)
        if standing is not None:
            standing = standing.filter(pl.col("verdict") != Verdict.FAILED.value)
            if standing.height == rows.height:
                return
            rows = rows.join(standing, on=["problem", "index"], how="anti")
        given = judge_rows(self.judge, self.cases, rows, self.opened)
        whole = given if standing is None else pl.concat([standing.select(*VERDICTS), given])
        self.folder.write_verdicts(self.name, shard, whole)

    def _left(self, seconds: float) -> str:
        if not self.new:
            return ""
        return f", about {duration(seconds / self.new * (self.problems.height - len(self.done)))} left"


def _completions(problem: str, some: tuple[Completion, ...]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "problem": [problem] * len(some),
            "index": range(len(some)),
            "text": [one.text for one in some],
            "token_ids": [list(one.tokens) for one in some],
            "finish": [one.finish for one in some],
            "logprob_sampled": [one.logprob_sampled for one in some],
            "logprob_raw": [one.logprob_raw for one in some],
        },
        schema=COMPLETIONS,
    )


def _expansion(problem: str, found: Expansion) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "problem": [problem],
            "completions": [len(found.completions)],
            "unexplored": [found.unexplored],
            "prefixes": [found.prefixes],
            "deepest": [found.deepest],
            "forwarded": [found.forwarded],
        }
    )


# Start or resume a certificate; what would mix two models or two thresholds is refused.


def begin(folder: Path, problems: pl.DataFrame, terms: CertificateSettings) -> pl.DataFrame:
    """Write a new certificate's terms, or check that those in the folder are the same; the problems as asked."""
    asked = as_problems(problems).with_columns(pl.coalesce("prompt", "question").alias("prompt"))
    here = CertificateFolder(folder)
    if not is_run(folder):
        here.begin(folder.resolve().name, asked, terms)
        return asked
    _refuse_run(folder)
    if not here.whole():
        here.keep_problems(asked)
    old = read_problems(folder)
    refuse_differences(folder, "a certificate", problem_differences(old, asked), resume_step("certify"))
    _refuse_other_settings(folder, read_terms(folder), terms)
    return old


def refuse_words(folder: Path, model: str, decoding: SamplingParams, epsilon: float) -> None:
    """Refuse early what can be told before a model is loaded."""
    _refuse_run(folder)
    old = read_terms(folder)
    changed = replace(old.origin, model=model, decoding=stored_decoding(decoding))
    _refuse_other_settings(folder, old, replace(old, epsilon=epsilon, origin=changed))


def _refuse_run(folder: Path) -> None:
    if not is_certificate(folder):
        raise OffleashError(f"{folder} holds the samples of a run, not a certificate; choose another folder with -o.")


def _refuse_other_settings(folder: Path, stored: CertificateSettings, requested: CertificateSettings) -> None:
    own = [{"epsilon": settings.epsilon, "vocabulary": settings.vocabulary} for settings in (stored, requested)]
    differing = [*differences(*own), *origin_differences(stored.origin, requested.origin)]
    refuse_differences(folder, "a certificate", differing, resume_step("certify"))
