"""Verifying run folders: verdicts for all samples that have none or whose verifier failed, shard by shard.

Resumable and idempotent. With --until, drawing verifies through the same functions; verifying/rows.py takes files.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path

import polars as pl

from offleash.cpus import usable_cpus
from offleash.data.run import read_origin
from offleash.data.run_folder import RunFolder, append_to_run, read_problems
from offleash.data.shards import DAMAGE, check_schema, damaged
from offleash.data.tables import SAMPLES, TRUNCATED, VERDICTS
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.loading.arguments import run_folders
from offleash.options import Judging
from offleash.progress import Progress, silent
from offleash.verifiers.extraction.extract import THINK, THOUGHT
from offleash.verifiers.registry import verifier as named
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifiers.verifier import Verifier
from offleash.verifying.cache import Cache
from offleash.verifying.cases import (
    ExtractionOptions,
    fill_from_problem_set,
    judge_texts,
    problem_cases,
    refuse_unreadable,
)
from offleash.verifying.judge import Ask, Judge, ProblemCase

CHUNK = 20_000  # samples judged at a time: bounds memory, and paces the progress
KEPT = 1_000  # characters of an answer that are stored; longer ones are cut and marked with a hash
EXAMPLES = 20  # failures kept to be shown
CasesByProblem = Mapping[str, tuple[ProblemCase, Verifier]]


@dataclass(frozen=True)
class VerifyOptions:
    """How samples are to be verified."""

    verifier: str | None = None  # for all problems; None: each problem's own
    extraction: ExtractionOptions = field(default_factory=ExtractionOptions)
    jobs: int = 0  # worker processes; 0: one a core
    trust_code: bool = False
    cache: Path | bool = True  # where verdicts are kept for other runs; False: nowhere
    problems: pl.DataFrame | None = None  # PROBLEMS that say more than the run does: gold answers, tests, verifiers
    ask_model: Ask | None = None  # a referee
    model_identity: str = ""  # its identity


@dataclass(frozen=True)
class VerificationResult:
    """What became of the samples of one run."""

    folder: Path
    verifier: str
    samples: int
    judged: int  # in this call; the others had their verdict already
    verdicts: Mapping[str, int]
    steps: Mapping[str, int]
    decided_by: Mapping[str, int]  # how the distinct answers were decided: exact, cached, decided, failed
    failures: Sequence[tuple[str, int, str]]  # problem, index, reason: some of them
    reopened: int  # samples that close a block of reasoning which they did not open
    seconds: float
    trouble: str = ""  # of the cache


@contextmanager
def open_judge(options: VerifyOptions, progress: Progress = silent) -> Iterator[Judge]:
    """A judge with its workers and its cache, both closed at the end."""
    cache = Cache(options.cache if isinstance(options.cache, Path) else None) if options.cache else None
    try:
        with Pool(options.jobs or usable_cpus(), trust_code=options.trust_code) as pool:
            yield Judge(pool, cache, options.ask_model, options.model_identity, progress)
    finally:
        if cache:
            cache.close()


def verify(folder: Path, options: VerifyOptions | None = None, progress: Progress = silent) -> VerificationResult:
    """Judge every sample of a run folder that has no verdict yet, or whose verifier failed."""
    options = options or VerifyOptions()
    with open_judge(options, progress) as judge:
        return verify_with(judge, folder, options, progress)


def verify_with(judge: Judge, folder: Path, options: VerifyOptions, progress: Progress = silent) -> VerificationResult:
    """As `verify`, with a judge that several runs share."""
    started, before = time.monotonic(), Counter(judge.decided_by)
    problems = read_problems(folder)
    if options.problems is not None:
        problems = fill_from_problem_set(problems, options.problems, str(folder))
    options = replace(options, extraction=extraction_for(folder, options.extraction))
    cases = problem_cases(problems, options.verifier, options.extraction, str(folder))
    refuse_unreadable(judge, cases, str(folder))
    name = stored_name(judge, [verifier for _, verifier in cases.values()])
    with append_to_run(folder) as run:
        if not run.sample_shards():
            raise OffleashError(
                f"{folder} keeps no texts of samples, so there is nothing to read; import with --texts."
            )
        done = verify_shards(run, judge, cases, options.extraction.opened, progress)
    return VerificationResult(
        folder=folder,
        verifier=name,
        samples=done.verdicts.total(),
        judged=done.judged,
        verdicts={verdict.value: done.verdicts[verdict.value] for verdict in Verdict},
        steps=dict(done.steps.most_common()),
        decided_by=dict(judge.decided_by - before),
        failures=done.failures,
        reopened=done.reopened,
        seconds=time.monotonic() - started,
        trouble=judge.cache.trouble if judge.cache else "",
    )


def extraction_for(folder: Path, extraction: ExtractionOptions) -> ExtractionOptions:
    """How a run is read: where its prompts end inside a block of reasoning, samples begin within that block."""
    origin = read_origin(folder)
    return replace(extraction, opened=extraction.opened or (origin is not None and origin.thinking))


def verify_shards(
    run: RunFolder, judge: Judge, cases: CasesByProblem, opened: bool, progress: Progress = silent
) -> "VerdictCounts":
    """Judge what has no verdict in a run that is open for writing, one shard of verdicts for each of samples."""
    name = stored_name(judge, [verifier for _, verifier in cases.values()])
    shards = run.sample_shards()
    samples = sum(_read(shard, [pl.len()]).item() for shard in shards)
    work, done = _Work(judge, cases, opened, progress, samples), VerdictCounts()
    for shard in shards:
        _verify_shard(run, shard, name, work, done)
    run.write_about(name, _about(judge, cases))
    return done


def stored_name(judge: Judge, verifiers: Sequence[Verifier]) -> str:
    """The name that verdicts are stored under: the verifier's with its version, or a hash of several."""
    identities = sorted({judge.identity(verifier) for verifier in verifiers})
    if len(identities) == 1:
        return identities[0]
    return f"mixed@{blake2b(' '.join(identities).encode(), digest_size=4).hexdigest()}"


@dataclass
class _Work:
    judge: Judge
    cases: CasesByProblem
    opened: bool
    progress: Progress
    samples: int


@dataclass
class VerdictCounts:
    """What is counted while shards go by."""

    judged: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[str, int, str]] = field(default_factory=list)
    reopened: int = 0

    def add(self, verdicts: pl.DataFrame) -> None:
        self.verdicts.update(dict(verdicts["verdict"].cast(pl.String).value_counts().iter_rows()))
        self.steps.update({step or "nothing": n for step, n in verdicts["step"].value_counts().iter_rows()})
        failed = verdicts.filter(pl.col("verdict") == Verdict.FAILED.value).select("problem", "index", "reason")
        self.failures += failed.head(EXAMPLES - len(self.failures)).rows() if len(self.failures) < EXAMPLES else []


def _verify_shard(run: RunFolder, shard: Path, name: str, work: _Work, done: VerdictCounts) -> None:
    """The verdicts of one shard: those that stand are kept, those that failed or are missing are given."""
    standing = run.verdicts_on(name, shard.name)
    keys = _read(shard, ["problem", "index"])
    stranger = keys.filter(~pl.col("problem").is_in(list(work.cases)))
    if stranger.height:
        raise OffleashError(f"{shard} has samples of {stranger['problem'][0]!r}, which is no problem of its run.")
    if standing is not None:
        standing = standing.filter(pl.col("verdict") != Verdict.FAILED.value)
        standing = standing.join(keys, on=["problem", "index"], how="semi")
        if standing.height == keys.height:
            done.add(standing)
            return
    parts = [] if standing is None else [standing]
    for start in range(0, keys.height, CHUNK):
        columns = ["problem", "index", "text", "finish"]
        rows = _read(shard, columns, start, CHUNK)
        if standing is not None:
            rows = rows.join(standing.select("problem", "index"), on=["problem", "index"], how="anti")
        if rows.height:
            parts.append(judge_rows(work.judge, work.cases, rows, work.opened))
            done.judged += rows.height
            texts = rows["text"].fill_null("")
            done.reopened += int(
                (texts.str.contains(THOUGHT, literal=True) & ~texts.str.contains(THINK, literal=True)).sum()
            )
            work.progress(f"{run.path.name}: {done.judged:,} of {work.samples:,} samples judged")
    whole = pl.concat(parts)
    run.write_verdicts(name, whole, shard=shard.name)
    done.add(whole)


def _read(shard: Path, columns: Sequence[str | pl.Expr], start: int = 0, rows: int | None = None) -> pl.DataFrame:
    check_schema(shard, SAMPLES)
    try:
        return pl.scan_parquet(shard).select(columns).slice(start, rows).collect()
    except DAMAGE as error:
        raise damaged(shard, error) from None


def judge_rows(judge: Judge, cases: CasesByProblem, rows: pl.DataFrame, opened: bool) -> pl.DataFrame:
    """Verdicts (VERDICTS) of rows of samples: problem, index, text and finish."""
    pairs = [cases[problem] for problem in rows["problem"]]
    truncated = (rows["finish"] == TRUNCATED).fill_null(False).to_list()
    found = judge_texts(judge, pairs, rows["text"].to_list(), truncated, opened)
    return pl.DataFrame(
        {
            "problem": rows["problem"],
            "index": rows["index"],
            "verdict": [judged.verdict.value for _, judged in found],
            "answer": [kept(read.answer) for read, _ in found],
            "solution": [kept(judged.solution) for _, judged in found],
            "step": [read.step for read, _ in found],
            "score": [judged.score for _, judged in found],
            "reason": [judged.reason[:KEPT] or None for _, judged in found],
        },
        schema=VERDICTS,
    )


def kept(text: str | None) -> str | None:
    """A text as it is stored: what is too long is cut and told apart by a hash; lone surrogates are replaced."""
    if text is None:
        return None
    if len(text) > KEPT:
        mark = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        text = f"{text[:KEPT]}… [{len(text):,} characters, {mark}]"
    return text.encode("utf-8", "replace").decode("utf-8")


def _about(judge: Judge, cases: CasesByProblem) -> str:
    """What the verdicts of a folder were made with, for people and for later versions."""
    verifiers = {judge.identity(verifier): verifier for _, verifier in cases.values()}
    return json.dumps(
        {
            identity: {"ladder": verifier.steps, "seconds": verifier.seconds, "memory": verifier.memory}
            for identity, verifier in sorted(verifiers.items())
        },
        indent=2,
    )


# Options as a user gives them, and several run folders with one judge, one pool of workers and one cache.


def verify_options(
    verifier: str | None = None,
    judging: Judging | None = None,
    extraction: ExtractionOptions | None = None,
    problems: pl.DataFrame | None = None,
) -> VerifyOptions:
    """How to verify, from options as a user gives them."""
    if verifier is not None:
        named(verifier)
    how = judging or Judging()
    options = VerifyOptions(verifier, extraction or ExtractionOptions(), how.jobs, how.trust_code, how.cache, problems)
    if how.judge is None and how.judge_model is None:
        return options
    if how.judge is None or how.judge_model is None:
        raise OffleashError("A model judge needs a server and a model. Give --judge URL and --judge-model NAME.")
    from offleash.samplers.endpoint.chat import Chat
    from offleash.verifiers.model_judge import identity

    return replace(options, ask_model=Chat(how.judge, how.judge_model), model_identity=identity(how.judge_model))


def verify_folders(
    arguments: Sequence[str], options: VerifyOptions, also: Sequence[str] = (), progress: Progress = silent
) -> list[VerificationResult]:
    """Verify run folders, with one set of workers and one memory for all of them and for every verifier."""
    folders = run_folders(arguments)
    by_verifier = [options, *(replace(options, verifier=named(name).name) for name in also)]
    done = []
    with open_judge(options, progress) as judge:
        if len(by_verifier) * len(folders) > 1:  # refuse all before the first verdict, or the work would stop half done
            for choice in by_verifier:
                for folder in folders:
                    _refuse_unreadable(judge, folder, choice)
        for choice in by_verifier:
            done += [verify_with(judge, folder, choice, progress) for folder in folders]
    return done


def _refuse_unreadable(judge: Judge, folder: Path, options: VerifyOptions) -> None:
    """Refuse a run with gold answers that a verifier cannot judge against, and name the verifier."""
    problems = read_problems(folder)
    if options.problems is not None:
        problems = fill_from_problem_set(problems, options.problems, str(folder))
    cases = problem_cases(problems, options.verifier, extraction_for(folder, options.extraction), str(folder))
    try:
        refuse_unreadable(judge, cases, str(folder))
    except OffleashError as error:
        raise OffleashError(f"{f'By {options.verifier!r}: ' if options.verifier else ''}{error}") from None
