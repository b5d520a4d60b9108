"""Certify: the exact support of a model above epsilon, problem by problem, resumable after a kill.

A certificate of a problem is the list of all completions more probable than epsilon, with their verdicts, and the mass
of all that was not expanded (unexplored). Nothing is sampled, so nothing in it has sampling noise. The sampler's
expander does the search; here its results are stored, judged and summed up.
"""

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
    read_certificate_settings,
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
from offleash.drawing.resume import origin_of, with_options
from offleash.errors import OffleashError
from offleash.progress import Progress, peak_memory_mb, silent, stage
from offleash.render.numbers import duration
from offleash.samplers.exact_support import Completion, Expander, Expansion, expander_of, refuse_sampler
from offleash.samplers.registry import Model, open_sampler
from offleash.samplers.sampler import Request, Sampler, SamplingParams
from offleash.stats.support_classes import IN, UNDETERMINED, ZETA, Certified, State, certified, epsilon
from offleash.verifying.cases import CasesByProblem, problem_cases, refuse_unreadable
from offleash.verifying.judge import Judge
from offleash.verifying.verify import VerifyOptions, extraction_of, judge_rows, open_judge, stored_name

K = 8_192  # budget whose epsilon, -ln(0.05)/8192 = 0.00037, is taken where neither is named


@dataclass(frozen=True)
class CertifyEstimate:
    """What is about to be certified, announced before the work begins."""

    folder: Path
    model: str
    decoding: SamplingParams
    epsilon: float
    problems: int
    done: int  # problems that have a certificate already
    verifier: str


@dataclass(frozen=True)
class Certification:
    """A certificate after a call of `certify`: every problem, and what this call added."""

    folder: Path
    model: str
    epsilon: float
    problems: int
    certified: int
    new: int  # of this call
    states: Mapping[Certified, State]  # of every certified problem
    table: pl.DataFrame  # see data.certificates.mass_table
    verifier: str
    seconds: float
    peak_memory_mb: float
    failure_reasons: Mapping[str, str] = field(default_factory=dict)  # problem: why it has no certificate

    def count(self, question: Certified, state: int) -> int:
        """Problems that are IN, OUT or UNDETERMINED by completion or by mass."""
        return int((self.states[question] == state).sum())

    def total(self, column: str) -> int:
        """Sum of a column of `table` over problems, such as `correct_completions` or `forwarded`."""
        return int(self.table[column].to_numpy().sum())

    @property
    def deepest(self) -> int:
        """Tokens of the longest prefix that was expanded."""
        return int(self.table["deepest"].to_numpy().max(initial=0))

    def mean(self, column: str) -> float:
        """Mean of a column of `table` over problems; NaN where no problem is certified."""
        values = self.table[column].to_numpy()
        return float(values.mean()) if len(values) else float("nan")


def threshold(value: float | None, run_k: int | None) -> float:
    """Epsilon: as given, or that of a budget, -ln(0.05)/k.

    That is the probability at which k samples miss a completion with chance 5%: (1 - epsilon)^k is about
    exp(-epsilon k) = 0.05. So a certificate at epsilon speaks of what k samples would reach.
    """
    if value is not None and run_k is not None:
        raise OffleashError(f"--epsilon {value:g} and --at {run_k} both set the threshold. Leave one out.")
    if value is not None:
        return value
    if run_k is not None and run_k < 4:
        raise OffleashError(f"--at takes 4 or more samples per problem here, not {run_k}: epsilon would be near 1.")
    return float(epsilon(K if run_k is None else run_k, ZETA))


def certify_model(
    folder: Path,
    problems: pl.DataFrame,
    model: Model,
    decoding: SamplingParams,
    above: float,
    verifying: VerifyOptions | None = None,
    progress: Progress = silent,
    announce: Callable[[CertifyEstimate], None] = silent,
    prompt: str | None = None,
) -> Certification:
    """Certify with a model by its name; whatever can be refused is refused before the model is loaded."""
    refuse_sampler(model.sampler)
    if is_run(folder):
        refuse_changed_settings(folder, model, decoding, above, prompt)
    progress(f"loading {model}")
    with closing(open_sampler(model)) as sampler:
        return certify(folder, problems, sampler, str(model), decoding, above, verifying, progress, announce, prompt)


def certify(
    folder: Path,
    problems: pl.DataFrame,
    sampler: Sampler,
    model: str,
    decoding: SamplingParams,
    above: float,
    verifying: VerifyOptions | None = None,
    progress: Progress = silent,
    announce: Callable[[CertifyEstimate], None] = silent,
    prompt: str | None = None,
) -> Certification:
    """Expand every problem that has no certificate yet, and judge what has no verdict.

    Args:
        folder: a new certificate, or one to resume: model, decoding, epsilon and problems must be the same.
        problems: the table of problems, as `load_problems` gives it.
        sampler: the loaded model; only samplers with an expander can be certified.
        model: its name, as stored.
        decoding: part of what is certified: temperature and top-p change every probability.
        above: epsilon.
        verifying: verifier and extraction; another verifier judges the stored completions again, without the model.
        progress: called with the state of the search.
        announce: called once with the plan, before the work begins.
        prompt: the user's template that made the problems' prompts.

    Returns:
        The certificate in sums over problems, and the problems that could not be certified with the reason.
    """
    started, options = time.monotonic(), verifying or VerifyOptions()
    expander = expander_of(sampler)
    with claim_run(folder), open_judge(options, progress) as judge:
        origin = origin_of(sampler, model, decoding, 0, 0, problems, prompt)
        terms = CertificateSettings(above, expander.vocabulary, origin)
        frame = begin(folder, problems, terms)
        # Where the prompt ends inside a reasoning block, completions lack its opening tag: extraction has to know.
        extraction = extraction_of(origin, options.extraction)
        cases = problem_cases(frame, options.verifier, extraction, str(folder))
        refuse_unreadable(judge, cases, str(folder))
        name = stored_name(judge, [verifier for _, verifier in cases.values()])
        certifier = _Certifier(
            CertificateFolder(folder), frame, expander, decoding, above, judge, cases, extraction.opened, name
        )
        certifier.done = certifier.folder.completed_shards()
        announce(CertifyEstimate(folder, model, decoding, above, frame.height, len(certifier.done), name))
        failure_reasons = certifier.run(progress)
    if not certifier.done:
        failure = next(iter(failure_reasons.items()))
        raise OffleashError(f"No problem could be certified. The first failure, on {failure[0]!r}: {failure[1]}.")
    # Read back rather than summed up on the way: the result covers problems of earlier calls, too.
    certificate = open_certificate(folder, verifier=name)
    return Certification(
        folder=folder,
        model=model,
        epsilon=above,
        problems=frame.height,
        certified=certificate.table.height,
        new=certifier.new,
        states={question: certified_states(certificate.table, above, question) for question in Certified},
        table=certificate.table,
        verifier=name,
        seconds=time.monotonic() - started,
        peak_memory_mb=peak_memory_mb(),
        failure_reasons=failure_reasons,
    )


def certified_states(table: pl.DataFrame, above: float, question: Certified) -> State:
    """Whether each problem of a certificate is reached (IN), not reached (OUT), or UNDETERMINED.

    What the verifier failed on may be correct or wrong: its mass counts as unexplored, and a problem whose only
    completion above epsilon has no verdict is undetermined.
    """
    mass, unexplored_mass, top_mass, failed, top_failed_mass = (
        table[name].to_numpy() for name in ("correct", "unexplored", "largest", "failed", "largest_failed")
    )
    # By mass: in if the correct mass found exceeds epsilon, out if even all unexplored mass could not lift it there.
    state = certified(mass, unexplored_mass + failed, top_mass, above, question)
    if question is Certified.COMPLETION:
        state = np.where((state != IN) & (top_failed_mass > above), UNDETERMINED, state).astype(np.int8)
    return state


@dataclass
class _Certifier:
    """Expands and judges the problems of a certificate, one shard per problem, so that a kill loses one problem."""

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

    def run(self, progress: Progress) -> dict[str, str]:
        """Expand and judge every problem in order; returns those that cannot be certified, with the reason."""
        reasons, started = {}, time.monotonic()
        rows = self.problems.select("problem", "prompt", "images").iter_rows()
        for row, (problem, prompt, images) in enumerate(rows):
            shard = f"{row:06d}.parquet"  # by row: a resumed call has the same problems in the same order
            if shard not in self.done:
                remaining = self._time_left(time.monotonic() - started)
                label = f"problem {row + 1:,} of {self.problems.height:,}{remaining}"
                # First sample, number and seed are placeholders: the expander enumerates and draws nothing.
                reason = self._expand(shard, Request(problem, prompt, 0, 1, 0, tuple(images or ())), label, progress)
                if reason:
                    reasons[problem] = reason
                    continue
            self._judge(shard)
        return reasons

    def _expand(self, shard: str, request: Request, label: str, progress: Progress) -> str:
        expansion = self.expander.expand(request, self.decoding, self.above, stage(progress, label))
        if not expansion.error:
            self.folder.write(
                shard, _completions(request.problem, expansion.completions), _expansion(request.problem, expansion)
            )
            self.done.add(shard)
            self.new += 1
        return expansion.error

    def _judge(self, shard: str) -> None:
        """Judge a problem's completions that have no verdict yet, or whose verifier failed; keep the other verdicts."""
        rows, stored_verdicts = self.folder.completions(shard), self.folder.verdicts(self.name, shard)
        if stored_verdicts is not None:
            # A verifier that crashed or ran out of time may succeed now; every other verdict is final.
            stored_verdicts = stored_verdicts.filter(pl.col("verdict") != Verdict.FAILED.value)
            if stored_verdicts.height == rows.height:
                return
            rows = rows.join(stored_verdicts, on=["problem", "index"], how="anti")
        judged = judge_rows(self.judge, self.cases, rows, self.opened)
        verdicts = judged if stored_verdicts is None else pl.concat([stored_verdicts.select(*VERDICTS), judged])
        self.folder.write_verdicts(self.name, shard, verdicts)

    def _time_left(self, seconds: float) -> str:
        if not self.new:  # the rate is that of this call: certificates stored before cost it nothing
            return ""
        return f", about {duration(seconds / self.new * (self.problems.height - len(self.done)))} left"


def _completions(problem: str, completions: tuple[Completion, ...]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "problem": [problem] * len(completions),
            "index": range(len(completions)),
            "text": [completion.text for completion in completions],
            "token_ids": [list(completion.tokens) for completion in completions],
            "finish": [completion.finish for completion in completions],
            "logprob_sampled": [completion.logprob_sampled for completion in completions],
            "logprob_raw": [completion.logprob_raw for completion in completions],
        },
        schema=COMPLETIONS,
    )


def _expansion(problem: str, expansion: Expansion) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "problem": [problem],
            "completions": [len(expansion.completions)],
            "unexplored": [expansion.unexplored],
            "prefixes": [expansion.prefixes],
            "deepest": [expansion.deepest],
            "forwarded": [expansion.forwarded],
        }
    )


# Start or resume a certificate; what would mix two models or two thresholds is refused.


def begin(folder: Path, problems: pl.DataFrame, terms: CertificateSettings) -> pl.DataFrame:
    """Write a new certificate's settings, or check that those in the folder are the same; returns its problems."""
    frame = as_problems(problems).with_columns(pl.coalesce("prompt", "question").alias("prompt"))
    certificate = CertificateFolder(folder)
    if not is_run(folder):
        certificate.begin(folder.resolve().name, frame, terms)
        return frame
    _refuse_run(folder)
    if not certificate.has_problems():  # a kill came between run.json and the problems
        certificate.write_problems(frame)
    stored_problems = read_problems(folder)
    refuse_differences(folder, "a certificate", problem_differences(stored_problems, frame), resume_step("certify"))
    _refuse_other_settings(folder, read_certificate_settings(folder), terms)
    return stored_problems


def refuse_changed_settings(
    folder: Path, model: Model, decoding: SamplingParams, epsilon: float, prompt: str | None = None
) -> None:
    """Refuse a model, decoding or epsilon that differs from the folder's, before the model is loaded."""
    _refuse_run(folder)
    stored_settings = read_certificate_settings(folder)
    changed = with_options(stored_settings.origin, model, decoding, stored_settings.origin.seed, prompt)
    _refuse_other_settings(folder, stored_settings, replace(stored_settings, epsilon=epsilon, origin=changed))


def _refuse_run(folder: Path) -> None:
    if not is_certificate(folder):
        raise OffleashError(f"{folder} holds the samples of a run, not a certificate. Choose another folder with -o.")


def _refuse_other_settings(folder: Path, stored: CertificateSettings, requested: CertificateSettings) -> None:
    old, new = ({"epsilon": settings.epsilon, "vocabulary": settings.vocabulary} for settings in (stored, requested))
    differing = [*differences(old, new), *origin_differences(stored.origin, requested.origin)]
    refuse_differences(folder, "a certificate", differing, resume_step("certify"))
