"""Verifying run folders: verdicts for all samples that have none or whose verifier failed, shard by shard.

Resumable and idempotent. With --until, drawing verifies through the same functions; verifying/rows.py takes files.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path

import polars as pl

from offleash.cpus import usable_cpus
from offleash.data.run import Origin, read_origin
from offleash.data.run_folder import RunFolder, append_to_run, read_problems
from offleash.data.shards import READ_ERRORS, check_schema, damaged_shard_error
from offleash.data.tables import SAMPLES, TRUNCATED, VERDICTS
from offleash.data.verdict import Verdict
from offleash.data.verifier_choice import verdicts_name
from offleash.errors import OffleashError
from offleash.loading.arguments import run_folders
from offleash.options import Judging
from offleash.progress import Progress, silent
from offleash.verifiers.extraction.extract import THINK_END, THINK_START
from offleash.verifiers.own.bind import CallOptions
from offleash.verifiers.own.decide import TRL
from offleash.verifiers.registry import chosen_verifier
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifiers.verifier import Verifier
from offleash.verifying.cache import Cache
from offleash.verifying.cases import (
    CasesByProblem,
    ExtractionOptions,
    fill_from_problem_set,
    judge_texts,
    problem_cases,
    refuse_unreadable,
    unreadable_golds,
)
from offleash.verifying.judge import Ask, Judge

CHUNK = 20_000  # samples judged at a time: bounds memory, and sets how often progress is reported
STORED_CHARACTERS = 1_000  # characters of an answer that are stored; longer ones are cut and marked with a hash
EXAMPLES = 20  # failures listed in the result


@dataclass(frozen=True)
class VerifyOptions:
    """How samples are to be verified."""

    verifier: str | None = None  # for all problems; None: each problem's own
    extraction: ExtractionOptions = field(default_factory=ExtractionOptions)
    jobs: int = 0  # worker processes; 0: one per core
    trust_code: bool = False  # run model-written code without isolation where the machine offers none
    cache: Path | bool = True  # the folder of the cache; True: the user's own; False: no cache
    problems: pl.DataFrame | None = None  # PROBLEMS that say more than the run does: gold answers, tests, verifiers
    ask_model: Ask | None = None  # the judge model
    model_identity: str = ""  # of the judge model: the name that its verdicts are stored under
    partial: bool = False  # problems that cannot be judged are left unverified, instead of stopping before the first


@dataclass(frozen=True)
class VerificationResult:
    """The verdicts of one run, counted."""

    folder: Path
    verifier: str  # the name that the verdicts are stored under
    samples: int
    judged: int  # in this call; the others had their verdict already
    verdicts: Mapping[str, int]  # all four, zeros too
    steps: Mapping[str, int]  # extraction step -> samples; "nothing": no answer was found
    decided_by: Mapping[str, int]  # how the distinct answers were decided: exact, cached, decided, failed
    failures: Sequence[tuple[str, int, str]]  # problem, index, reason: some of them
    reopened: int  # samples that close a block of reasoning which they did not open: a hint that --opened is missing
    seconds: float
    cache_error: str = ""  # why verdicts could not be cached
    unjudged: int = 0  # problems that were left unverified, because their gold cannot be judged against
    unjudged_reason: str = ""  # of the first of them
    starved: int = 0  # distinct answers that stay failed because the machine was too busy for them


@contextmanager
def open_judge(options: VerifyOptions, progress: Progress = silent) -> Iterator[Judge]:
    """A judge with its workers and its cache; both are closed at the end."""
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
    """As `verify`, with a judge that several runs share: its workers stay warm, and it remembers their answers."""
    started, before, starved = time.monotonic(), Counter(judge.decided_by), judge.starved
    problems = read_problems(folder)
    if options.problems is not None:
        problems = fill_from_problem_set(problems, options.problems, str(folder))
    options = replace(options, extraction=extraction_for(folder, options.extraction))
    cases = problem_cases(problems, options.verifier, options.extraction, str(folder))
    faults = unreadable_golds(judge, list(cases.values())) if options.partial else []
    if not options.partial or len(faults) == len(cases):
        refuse_unreadable(judge, cases, str(folder))
    skipped_problems = {problem.id for problem, _ in faults}
    cases = {problem: case for problem, case in cases.items() if problem not in skipped_problems}
    name = stored_name(judge, [verifier for _, verifier in cases.values()])
    with append_to_run(folder) as run:
        if not run.sample_shards():
            raise OffleashError(
                f"{folder} has no sample texts, so there is nothing to judge. Import the log again with --texts."
            )
        counts = verify_shards(run, judge, cases, options.extraction.opened, progress, skipped_problems)
    return VerificationResult(
        folder=folder,
        verifier=name,
        samples=counts.verdicts.total(),
        judged=counts.judged,
        verdicts={verdict.value: counts.verdicts[verdict.value] for verdict in Verdict},
        steps=dict(counts.steps.most_common()),
        decided_by=dict(judge.decided_by - before),
        failures=counts.failures,
        reopened=counts.reopened,
        seconds=time.monotonic() - started,
        cache_error=judge.cache.error if judge.cache else "",
        unjudged=len(faults),
        unjudged_reason=f"{faults[0][0].id!r}: {faults[0][1]}" if faults else "",
        starved=judge.starved - starved,
    )


def extraction_for(folder: Path, extraction: ExtractionOptions) -> ExtractionOptions:
    """How a run is read: where its prompts end inside a block of reasoning, samples begin within that block."""
    origin = read_origin(folder)
    return extraction if origin is None else extraction_of(origin, extraction)


def extraction_of(origin: Origin, extraction: ExtractionOptions) -> ExtractionOptions:
    """How samples of a draw are read: by how its prompts end, and whether they went through a chat template."""
    call = replace(extraction.call, chat=origin.chat, tokenizer=origin.tokenizer)
    return replace(extraction, opened=extraction.opened or origin.thinking, call=call)


def verify_shards(
    run: RunFolder,
    judge: Judge,
    cases: CasesByProblem,
    opened: bool,
    progress: Progress = silent,
    skipped: Set[str] = frozenset(),
) -> "VerdictCounts":
    """Judge what has no verdict in a run that is open for writing.

    Every shard of samples gets a shard of verdicts of the same name, written whole: after a kill, finished shards are
    not judged again, and no shard is half judged. Samples of `skipped` problems get no verdict.
    """
    name = stored_name(judge, [verifier for _, verifier in cases.values()])
    shards = run.sample_shards()
    samples = sum(_read_shard(shard, [pl.len()]).item() for shard in shards)
    work, counts = _Work(judge, cases, opened, progress, samples, skipped), VerdictCounts()
    run.write_verifier_metadata(name, _about(judge, cases))  # first: verdicts that a kill leaves have their record
    for shard in shards:
        _verify_shard(run, shard, name, work, counts)
    return counts


def stored_name(judge: Judge, verifiers: Sequence[Verifier]) -> str:
    """The name that verdicts are stored under: the verifier's identity, or `mixed@` and a hash of several."""
    return verdicts_name(judge.identity(verifier) for verifier in verifiers)


@dataclass
class _Work:
    """What stays the same while the shards of a run are judged."""

    judge: Judge
    cases: CasesByProblem
    opened: bool
    progress: Progress
    samples: int  # of the run, for the progress
    skipped: Set[str]  # problems whose samples stay without a verdict


@dataclass
class VerdictCounts:
    """Counts over the shards of a run, whether their verdicts are new or old."""

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


def _verify_shard(run: RunFolder, shard: Path, name: str, work: _Work, counts: VerdictCounts) -> None:
    """The verdicts of one shard: old ones are kept, those that failed or are missing are decided now."""
    stored = run.verdicts_of_shard(name, shard.name)
    keys = _read_shard(shard, ["problem", "index"]).filter(~pl.col("problem").is_in(work.skipped))
    if keys.is_empty():
        return
    unknown = keys.filter(~pl.col("problem").is_in(list(work.cases)))
    if unknown.height:
        raise OffleashError(
            f"{shard} has samples of {unknown['problem'][0]!r}, which is not a problem of its run. "
            "For details, run offleash fsck."
        )
    if stored is not None:
        # `failed` says nothing about the sample, so it is tried again; verdicts on samples that are gone are dropped
        stored = stored.filter(pl.col("verdict") != Verdict.FAILED.value)
        stored = stored.join(keys, on=["problem", "index"], how="semi")
        if stored.height == keys.height:
            counts.add(stored)
            return
    parts = [] if stored is None else [stored]
    for start in range(0, _read_shard(shard, [pl.len()]).item(), CHUNK):
        rows = _read_shard(shard, ["problem", "index", "text", "finish"], start, CHUNK)
        rows = rows.filter(~pl.col("problem").is_in(work.skipped))
        if stored is not None:
            rows = rows.join(stored.select("problem", "index"), on=["problem", "index"], how="anti")
        if rows.height:
            parts.append(judge_rows(work.judge, work.cases, rows, work.opened))
            counts.judged += rows.height
            texts = rows["text"].fill_null("")
            closes_unopened = texts.str.contains(THINK_END, literal=True) & ~texts.str.contains(
                THINK_START, literal=True
            )
            counts.reopened += int(closes_unopened.sum())
            work.progress(f"{run.path.name}: {counts.judged:,} of {work.samples:,} samples judged")
    verdicts = pl.concat(parts)
    run.write_verdicts(name, verdicts, shard=shard.name)
    counts.add(verdicts)


def _read_shard(shard: Path, columns: Sequence[str | pl.Expr], start: int = 0, rows: int | None = None) -> pl.DataFrame:
    check_schema(shard, SAMPLES)
    try:
        return pl.scan_parquet(shard).select(columns).slice(start, rows).collect()
    except READ_ERRORS as error:
        raise damaged_shard_error(shard, error) from None


def judge_rows(judge: Judge, cases: CasesByProblem, rows: pl.DataFrame, opened: bool) -> pl.DataFrame:
    """Verdicts (VERDICTS) of rows of samples: problem, index, text and finish."""
    pairs = [cases[problem] for problem in rows["problem"]]
    truncated = (rows["finish"] == TRUNCATED).fill_null(False).to_list()
    judged = judge_texts(judge, pairs, rows["text"].to_list(), truncated, opened)
    return pl.DataFrame(
        {
            "problem": rows["problem"],
            "index": rows["index"],
            "verdict": [judgement.verdict.value for _, judgement in judged],
            "answer": [storable(extraction.answer) for extraction, _ in judged],
            "solution": [storable(judgement.solution) for _, judgement in judged],
            "step": [extraction.step for extraction, _ in judged],
            "score": [judgement.score for _, judgement in judged],
            "reason": [judgement.reason[:STORED_CHARACTERS] or None for _, judgement in judged],
        },
        schema=VERDICTS,
    )


def storable(text: str | None) -> str | None:
    """A text as it is stored, at most STORED_CHARACTERS characters and a mark.

    Different answers must stay different after the cut, since distinct answers are counted: the mark has a hash of the
    whole. Lone surrogates, which no UTF-8 file can hold, become question marks.
    """
    if text is None:
        return None
    if len(text) > STORED_CHARACTERS:
        text_hash = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        text = f"{text[:STORED_CHARACTERS]}… [{len(text):,} characters, {text_hash}]"
    return text.encode("utf-8", "replace").decode("utf-8")


def _about(judge: Judge, cases: CasesByProblem) -> str:
    """What the verdicts of a folder were made with, for people and for later versions (about.json)."""
    verifiers = {judge.identity(verifier): verifier for _, verifier in cases.values()}
    return json.dumps(
        {
            # stored as "ladder": run folders written by earlier versions have it under that name
            identity: {"ladder": verifier.steps, "seconds": verifier.seconds, "memory": verifier.memory}
            | (
                {}
                if verifier.own is None
                else {"function": verifier.own.reference, "interface": verifier.own.interface}
            )
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
    judging = judging or Judging()
    extraction = replace(extraction or ExtractionOptions(), call=call_options(verifier, judging))
    options = VerifyOptions(verifier, extraction, judging.jobs, judging.trust_code, judging.cache, problems)
    if judging.judge is None and judging.judge_model is None:
        return options
    if judging.judge is None or judging.judge_model is None:
        raise OffleashError("A model judge needs a server and a model. Give --judge URL and --judge-model NAME.")
    from offleash.samplers.endpoint.chat import Chat
    from offleash.verifiers.model_judge import identity

    return replace(
        options, ask_model=Chat(judging.judge, judging.judge_model), model_identity=identity(judging.judge_model)
    )


def call_options(verifier: str | None, judging: Judging) -> CallOptions:
    """How a user's own function is called; an unknown verifier is an error now, not after the samples were read."""
    chosen = chosen_verifier(verifier) if verifier is not None else None
    if chosen is None or chosen.own is None:
        if judging.completions is not None or judging.threshold != 1:
            raise OffleashError(
                "--threshold and --completions are for a verifier of your own. Add --verifier FILE.py:NAME, or leave "
                "them out."
            )
        return CallOptions()
    if judging.completions is not None and chosen.own.interface != TRL:
        raise OffleashError(
            f"--completions {judging.completions} is for TRL's rewards; {verifier} takes no completions. Leave it out."
        )
    return CallOptions(judging.threshold, judging.completions)


def verify_folders(
    arguments: Sequence[str], options: VerifyOptions, further_folders: Sequence[str] = (), progress: Progress = silent
) -> list[VerificationResult]:
    """Verify run folders, one result per folder and verifier, with one judge for all of them.

    Args:
        arguments: run folders, as a user names them.
        options: how to verify.
        further_folders: verifiers whose verdicts are wanted beside those of `options.verifier`.
        progress: gets a line as work is done.
    """
    folders = run_folders(arguments)
    for name in further_folders:
        chosen_verifier(name)  # an unknown name is an error before the first verdict
    by_verifier = [options, *(replace(options, verifier=name) for name in further_folders)]
    results = []
    with open_judge(options, progress) as judge:
        if len(by_verifier) * len(folders) > 1:  # refuse all before the first verdict, or the work would stop half done
            for choice in by_verifier:
                for folder in folders:
                    _refuse_unreadable(judge, folder, choice)
        for choice in by_verifier:
            results += [verify_with(judge, folder, choice, progress) for folder in folders]
    return results


def _refuse_unreadable(judge: Judge, folder: Path, options: VerifyOptions) -> None:
    """Refuse a run with gold answers that a verifier cannot judge against; the error names the verifier."""
    problems = read_problems(folder)
    if options.problems is not None:
        problems = fill_from_problem_set(problems, options.problems, str(folder))
    cases = problem_cases(problems, options.verifier, extraction_for(folder, options.extraction), str(folder))
    try:
        refuse_unreadable(judge, cases, str(folder))
    except OffleashError as error:
        raise OffleashError(f"{f'By {options.verifier!r}: ' if options.verifier else ''}{error}") from None
