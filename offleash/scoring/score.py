"""Scoring run folders: log-probability and entropy of samples under a model; resumable, each sample once.

In order: whose scores a folder holds, summaries by verdict, scoring one run, and the arguments of `offleash score`.
The work on the shards is in scoring/shards.py, files of rows are in scoring/rows.py.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from offleash.data.identity import differences, refuse_differences
from offleash.data.run import PROBE_QUESTION, Origin, Run, read_origin
from offleash.data.run_folder import RunFolder, append_to_run, folder_name, open_run
from offleash.data.scores import (
    MODEL_FIELDS,
    SCORES,
    ScoredSample,
    is_same_model,
    positions_folder,
    read_score_metadata,
    scan_scores,
    scores_folder,
    with_token_means,
    write_score_metadata,
)
from offleash.data.shards import (
    READ_ERRORS,
    SHARD,
    check_schema,
    damaged_shard_error,
    remove_orphaned_sidecars,
    scan_shards,
)
from offleash.data.tables import SAMPLES
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError, unknown
from offleash.loading.arguments import run_folders
from offleash.problems.prompts import prompt_hash
from offleash.progress import Progress, silent
from offleash.samplers.registry import Model, open_sampler
from offleash.samplers.sampler import SamplingParams
from offleash.scoring.rows import ScoredRow, check_rows, score_rows
from offleash.scoring.shards import KEY, RunScorer, Selection, frame_of, prompts_of
from offleash.version import __version__

if TYPE_CHECKING:
    from offleash.samplers.huggingface.scoring import Scorer

# Whose scores: one model and decoding per folder; others are refused, before loading the model where possible.


DECODING_FIELDS = (
    "temperature",
    "top_p",
    "min_p",
    "top_k",
)  # what changes the probability of a given text; lengths do not
ScoreSettings = Mapping[str, object]


def claim(folder: Path, name: str, model: str, decoding: SamplingParams, scorer: "Scorer") -> None:
    """Record which model and decoding a folder of scores belongs to; refuse others if it belongs to one already."""
    about = scorer.about
    # Versions are recorded and not compared: another release of a library does not make the scores another model's.
    values = {field.name: getattr(about, field.name) for field in fields(about) if field.name != "versions"}
    loaded = {name: value for name, value in values.items() if value is not None}  # None: an option not given
    identity: dict[str, object] = {
        "model": model,
        "decoding": _decoding_settings(decoding),
        "about": {**loaded, "settings": dict(about.settings)},
        "template": template_of(scorer),
    }
    old = read_score_metadata(folder, name)
    if old is None:
        versions = {"offleash": __version__, **about.versions}
        write_score_metadata(folder, name, {"schema": 1, **identity, "versions": versions})
    else:
        _refuse_differences(folder, name, old, identity)


def refuse_other_settings(folder: Path, name: str, model: str, decoding: SamplingParams) -> None:
    """Refuse scores of another model or decoding by their names, before a model is loaded."""
    old = read_score_metadata(folder, name)
    if old is not None:
        _refuse_differences(folder, name, old, {"model": model, "decoding": _decoding_settings(decoding)})


def refuse_unscorable(folder: Path, verifier: str | None, selection: Selection) -> None:
    """Refuse a run of which nothing could be scored, with the messages of the scoring, before a model is loaded."""
    shards = RunFolder(folder).sample_shards()
    for shard in shards:
        check_schema(shard, SAMPLES)
        try:
            pl.scan_parquet(shard).select(*KEY, pl.col("text").str.len_bytes()).collect()
        except READ_ERRORS as error:
            raise damaged_shard_error(shard, error) from None
    run = open_run(folder, verifier=verifier)
    if not shards:
        raise no_texts_error(folder)
    if selection.correct and not run.verifier:
        raise no_verdicts_error(run.name)
    prompts_of(folder)  # refuses a run without prompts


def no_texts_error(folder: Path) -> OffleashError:
    return OffleashError(f"{folder} has no sample texts, so there is nothing to score. Import it with --texts.")


def no_verdicts_error(run: str) -> OffleashError:
    return OffleashError(
        f"{run} has no verdicts, so none of its samples is known to be correct. Run offleash verify first."
    )


def template_of(scorer: "Scorer") -> str | None:
    """Hash of what the chat template makes of a fixed prompt, as a draw records it: equal hashes, equal templates."""
    prompt = scorer.rendered_prompt(PROBE_QUESTION)
    return None if prompt is None else prompt_hash(prompt)


def _decoding_settings(decoding: SamplingParams) -> dict[str, object]:
    document = decoding.document()
    return {name: document[name] if name == "top_k" else float(str(document[name])) for name in DECODING_FIELDS}


def _refuse_differences(folder: Path, name: str, old: ScoreSettings, new: ScoreSettings) -> None:
    differing = differences({key: old.get(key) for key in new}, new)
    step = "Keep the new scores under another name with --name NAME, or delete that folder."
    refuse_differences(scores_folder(folder, name), "scores", differing, step)


# Summaries: log-probability and entropy per token, and perplexity, of all traces and by verdict.


ALL, UNVERIFIED = "all", "unverified"
QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Summary:
    """One group of traces. Means are over traces, each the mean over its tokens; None where no trace has tokens.

    The fields, in this order, are the keys of the JSON.
    """

    samples: int
    scored: int  # with a log-probability
    empty: int  # of the scored: without a token, so they have no mean and no perplexity
    left_out: int  # traces with a token that the decoding cannot draw: their log-probability is minus infinity
    windowed: int  # traces longer than the model's context, scored in windows
    tokens: int  # of those scored
    logprob: float | None  # per token
    logprob_spread: float | None  # standard deviation over traces
    logprob_pooled: float | None  # all tokens of all traces as one
    entropy: float | None  # per token; mean over the traces of a problem, then over problems, as in the paper
    entropy_spread: float | None  # standard deviation over traces
    entropy_pooled: float | None
    perplexity: float | None  # median over traces: a mean would be the few traces that the model finds impossible
    perplexity_quartiles: tuple[float, float] | None
    perplexity_pooled: float | None


def summaries(scores: pl.LazyFrame, verdicts: pl.LazyFrame | None = None) -> dict[str, Summary]:
    """Summaries by group: all traces first, then by verdict where there are verdicts."""
    frame = scores if verdicts is None else _with_verdicts(scores, verdicts)
    traces = with_token_means(frame).collect()
    groups = {ALL: summary(traces)}
    if verdicts is not None:
        for name in ("correct", "wrong", "unread", "failed", UNVERIFIED):
            group = traces.filter(pl.col("verdict") == name)
            if group.height:
                groups[name] = summary(group)
    return groups


def summary(traces: pl.DataFrame) -> Summary:
    """The summary of traces that have means per token (with_token_means)."""
    scored = traces.filter(pl.col("logprob_raw").is_not_null())
    nonempty = scored.filter(pl.col("tokens") > 0)
    tokens = int(scored["tokens"].cast(pl.Int64).sum())
    pooled = (_float(nonempty["logprob_raw"].sum()), _float(nonempty["entropy_raw"].sum())) if tokens else (None, None)
    logprob_pooled, entropy_pooled = (None if total is None else total / tokens for total in pooled)
    # Quantiles, not moments: a trace that the model finds impossible has an infinite perplexity.
    low, median, high = (_float(nonempty["perplexity"].quantile(share, "linear")) for share in QUARTILES)
    by_problem = nonempty.group_by("problem").agg(pl.col("mean_entropy").mean())["mean_entropy"]
    return Summary(
        samples=traces.height,
        scored=scored.height,
        empty=scored.height - nonempty.height,
        tokens=tokens,
        logprob=_float(nonempty["mean_logprob"].mean()),
        logprob_spread=_float(nonempty["mean_logprob"].std()),
        logprob_pooled=logprob_pooled,
        entropy=_float(by_problem.mean()),
        entropy_spread=_float(nonempty["mean_entropy"].std()),
        entropy_pooled=entropy_pooled,
        perplexity=median,
        perplexity_quartiles=None if low is None or high is None else (low, high),
        perplexity_pooled=ScoredSample(tokens, pooled[0]).perplexity,
        windowed=int((scored["windows"] > 1).sum()),
        left_out=int((scored["logprob_sampled"] == float("-inf")).sum()),
    )


def _with_verdicts(scores: pl.LazyFrame, verdicts: pl.LazyFrame) -> pl.LazyFrame:
    labels = verdicts.select("problem", "index", pl.col("verdict").cast(pl.String))
    joined = scores.join(labels, on=["problem", "index"], how="left")
    return joined.with_columns(pl.col("verdict").fill_null(UNVERIFIED))


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


# Scoring one run folder.


@dataclass(frozen=True)
class Scoring:
    """The model and decoding that samples are scored with, and the name under which scores are stored."""

    model: str  # as the user names it
    decoding: SamplingParams
    name: str  # of the folder that the scores go to
    verifier: str | None = None  # whose verdicts split the summary, where a run has several


@dataclass(frozen=True)
class ScoredRun:
    """A scored run: how much was done now, and summaries of all of its scores."""

    folder: Path
    scores: Path
    scoring: Scoring
    new: int  # samples scored in this call
    groups: Mapping[str, Summary]
    reasons: Mapping[str, int]  # why samples have no scores, and how many
    verifier: str | None
    own: bool  # the run was drawn from this model
    compared: int  # of its own samples: those whose number of tokens the draw recorded
    retokenised: int  # of these: those whose text is tokenised into another number of tokens
    stopped_by_text: bool  # the run's decoding has stop texts: it is not known which samples ended by themselves
    other_template: bool  # the chat template makes other prompts than that of the model that drew the run
    seconds: float


def score_run(
    folder: Path,
    scorer: "Scorer",
    scoring: Scoring,
    progress: Progress = silent,
    selection: Selection | None = None,
) -> ScoredRun:
    """Score the samples of a run folder, all or a selection, that have no score under this name yet.

    Shards of scores are written as they are done, so an interrupted call is resumed by the same call.
    """
    started = time.monotonic()
    run = open_run(
        folder, verifier=scoring.verifier
    )  # before hours of work: it refuses a run whose verifier has to be named
    origin = read_origin(folder)
    stopped = bool(origin and origin.decoding.get("stop"))
    with append_to_run(folder) as opened:
        shards = opened.sample_shards()
        if not shards:
            raise no_texts_error(folder)
        claim(folder, scoring.name, scoring.model, scoring.decoding, scorer)
        remove_orphaned_sidecars(folder, scores_folder(folder, scoring.name))
        remove_orphaned_sidecars(folder, positions_folder(folder, scoring.name))
        chosen = selection or Selection()
        right = _correct_keys(run, chosen) if chosen.correct else None
        work = RunScorer(folder, scorer, scoring.name, scoring.decoding, chosen, right, not stopped, progress)
        new = work.all(shards)
    # Checked after the work: whether a selection is empty is known when the shards were read.
    if not any(scores_folder(folder, scoring.name).glob(SHARD)):
        raise OffleashError(f"{folder} has no sample that matches --first and --only, so nothing was scored.")
    scores, samples = scan_scores(folder, scoring.name), scan_shards(folder / "samples", SAMPLES)
    own = origin is not None and _drawn_from(origin, scorer)
    compared, retokenised = _token_counts(samples, scores) if own and not stopped else (0, 0)
    return ScoredRun(
        folder=folder,
        scores=scores_folder(folder, scoring.name),
        scoring=scoring,
        new=new,
        groups=summaries(scores, run.verdicts if run.verifier else None),
        reasons=_reason_counts(scores),
        verifier=run.verifier,
        own=own,
        compared=compared,
        retokenised=retokenised,
        stopped_by_text=stopped,
        other_template=origin is not None and origin.template != template_of(scorer),
        seconds=time.monotonic() - started,
    )


def _correct_keys(run: Run, chosen: Selection) -> pl.DataFrame:
    """Keys of the samples that the verifier judged correct, of the selected problems."""
    if run.verdicts is None or not run.verifier:
        raise no_verdicts_error(run.name)
    correct = pl.col("verdict").cast(pl.String) == Verdict.CORRECT.value
    is_selected = pl.lit(True) if chosen.problems is None else pl.col("problem").is_in(list(chosen.problems))
    return run.verdicts.filter(correct & is_selected).select(KEY).collect(engine="streaming")


def _drawn_from(origin: Origin, scorer: "Scorer") -> bool:
    """Whether a run was drawn from the model that scores it."""
    about = scorer.about
    return is_same_model(origin.about, {name: getattr(about, name) for name in (*MODEL_FIELDS, "fingerprint")})


def _token_counts(samples: pl.LazyFrame, scores: pl.LazyFrame) -> tuple[int, int]:
    """How many samples have two token counts, of the draw and of the scored text; and for how many they differ."""
    both = samples.select(*KEY, drawn="tokens").join(scores.select(*KEY, "tokens"), on=KEY)
    known = both.filter(pl.col("drawn").is_not_null() & pl.col("tokens").is_not_null())
    compared, differing_count = known.select(pl.len(), (pl.col("drawn") != pl.col("tokens")).sum()).collect().row(0)
    return int(compared), int(differing_count)


def _reason_counts(scores: pl.LazyFrame) -> dict[str, int]:
    reason_counts = scores.filter(pl.col("reason").is_not_null()).group_by("reason").len().sort("len", descending=True)
    return dict(reason_counts.collect().iter_rows())


# Arguments of `offleash score`: run folders or a file of rows, checked before the model is loaded.


CORRECT = "correct"


@dataclass(frozen=True)
class ScoredFile:
    """A scored file: the summary of its rows."""

    path: Path
    model: str
    decoding: SamplingParams
    summary: Summary
    reasons: Mapping[str, int]


def selected(first: int | None = None, only: str | None = None) -> Selection:
    """Which samples to score, from the values of --first and --only."""
    if only is not None and only != CORRECT:
        raise unknown("--only value", only, (CORRECT,))
    return Selection(first, only == CORRECT)


def score_folders(
    arguments: Sequence[str],
    model: Model,
    decoding: SamplingParams,
    name: str | None = None,
    verifier: str | None = None,
    progress: Progress = silent,
    selection: Selection | None = None,
) -> list[ScoredRun]:
    """Score run folders with one model.

    Everything that can be refused without the model is refused for all folders before it is loaded.

    Args:
        arguments: run folders, or globs of them.
        model: the model that scores; only hf: models have the full distribution of every token.
        decoding: the law that `logprob_sampled` is under; `logprob_raw` is under the model's own distribution.
        name: of the folder of scores; None: the model's name.
        verifier: whose verdicts split the summary.
        progress: called with a line of text as work is done.
        selection: which samples; None: all.
    """
    _refuse_other_samplers(model)
    folders = run_folders(arguments)
    kept = folder_name(str(model)) if name is None else _checked_name(name)
    scoring = Scoring(str(model), decoding, kept, verifier)
    for folder in folders:
        refuse_unscorable(folder, verifier, selection or Selection())
        refuse_other_settings(folder, scoring.name, scoring.model, decoding)
    with _open_scorer(model, progress) as scorer:
        return [score_run(folder, scorer, scoring, progress, selection) for folder in folders]


def score_file(
    path: Path,
    model: Model,
    decoding: SamplingParams,
    columns: Mapping[str, str] | None = None,
    each: Callable[[ScoredRow], None] = lambda _: None,
    progress: Progress = silent,
) -> ScoredFile:
    """Score a JSONL file of prompts and texts; `each` is called with every row as it is scored."""
    _refuse_other_samplers(model)
    check_rows(path, columns or {})
    # A file has no ids of problems: rows with the same prompt are samples of one problem.
    scored: list[tuple[str, ScoredSample]] = []  # rows of one prompt are traces of one problem
    with _open_scorer(model, progress) as scorer:
        for row in score_rows(path, scorer, decoding, columns or {}, progress):
            each(row)
            scored.append((prompt_hash(row.row.trace.prompt), row.sums))
    keys = pl.DataFrame({"problem": [problem for problem, _ in scored], "index": range(len(scored))})
    frame = frame_of(keys.cast({name: SCORES[name] for name in keys.columns}), [sums for _, sums in scored])
    reason_counts = frame["reason"].drop_nulls().value_counts(sort=True)
    return ScoredFile(path, str(model), decoding, summaries(frame.lazy())[ALL], dict(reason_counts.iter_rows()))


def _refuse_other_samplers(model: Model) -> None:
    """Refuse samplers that return only the probabilities of the most likely tokens."""
    if model.sampler != "hf":
        raise OffleashError(
            f"{model} cannot score texts: log-probability and entropy need the full distribution of every token, "
            f"which only hf: provides. Name the model as hf:{model.name if model.sampler == 'vllm' else 'PATH'}."
        )


def _checked_name(name: str) -> str:
    """The name that scores are stored under; refused where it is not the name of a folder."""
    if folder_name(name) != name:
        raise OffleashError(
            "--name is a folder name: letters A to Z, digits and _.@+-, not starting or ending with '-' or '.'; "
            f"found {name!r}."
        )
    return name


@contextmanager
def _open_scorer(model: Model, progress: Progress) -> "Iterator[Scorer]":
    """The loaded model as a scorer, closed at the end."""
    progress(f"loading {model}")
    with closing(open_sampler(model)) as sampler:  # before the import below: it says what is not installed
        from offleash.samplers.huggingface.scoring import Scorer

        yield Scorer.for_sampler(sampler)
