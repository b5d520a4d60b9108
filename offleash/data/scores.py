"""Scores: log-probability and entropy sums of texts under a model, and token entropies by position.

Both are tables beside the samples of a run folder, one set per model: written by scoring/shards.py, read by
analyses/likelihood and analyses/entropy.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, inf
from pathlib import Path

import polars as pl

from offleash.data.atomic import write_text_atomically
from offleash.data.run_folder import folder_name
from offleash.data.shards import SHARD, read_sidecar, scan_shards, write_sidecar
from offleash.errors import OffleashError

SCORES: dict[str, pl.DataType] = {
    "problem": pl.String(),
    "index": pl.UInt32(),
    "tokens": pl.UInt32(),  # of the text, its end included where it ended by itself; null: there is no text
    "logprob_raw": pl.Float64(),  # sums over the tokens; null: `reason` says why
    "entropy_raw": pl.Float64(),
    "logprob_sampled": pl.Float64(),  # -inf where the decoding leaves a token of the text out
    "entropy_sampled": pl.Float64(),
    "windows": pl.UInt32(),  # 1: read whole; more: longer than the model's context, read in so many parts
    "reason": pl.String(),  # why there are no sums
}
SCORES_FOLDER, ABOUT_FILE = "scores", "about.json"
MODEL_FIELDS = ("model", "revision", "adapter")  # what tells a model where its weights cannot be seen
LARGEST = 700.0  # what exp can take


@dataclass(frozen=True)
class Trace:
    """A text that is given for a prompt, whoever wrote it."""

    prompt: str  # the message, before any chat template
    text: str
    ended: bool = False  # by itself: then its end is a token like the others


@dataclass(frozen=True)
class ScoredSample:
    """What a model says of a trace; sums over its tokens, None where there are none and `reason` says why."""

    tokens: int | None
    logprob_raw: float | None = None
    entropy_raw: float | None = None
    logprob_sampled: float | None = None
    entropy_sampled: float | None = None
    windows: int | None = None  # in how many parts it was read; 1: whole
    reason: str = ""

    @property
    def perplexity(self) -> float | None:
        """exp of minus the mean log-probability a token; None without tokens or sums."""
        if self.logprob_raw is None or not self.tokens:
            return None
        mean = -self.logprob_raw / self.tokens
        return exp(mean) if mean < LARGEST else inf


def scored_models(run: Path) -> list[str]:
    """Names under which a run folder holds scores."""
    folder = run / SCORES_FOLDER
    return sorted(entry.name for entry in folder.iterdir() if any(entry.glob(SHARD))) if folder.is_dir() else []


def scan_scores(run: Path, name: str) -> pl.LazyFrame:
    """All scores of a run that stand under a name (SCORES), read lazily."""
    return scan_shards(scores_folder(run, name), SCORES)


def scores_folder(run: Path, name: str) -> Path:
    return run / SCORES_FOLDER / folder_name(name)


def scores_of_shard(run: Path, name: str, shard: str) -> pl.DataFrame | None:
    """The scores of a shard of samples; None where there are none yet."""
    return read_sidecar(scores_folder(run, name) / shard, SCORES, f"score {run} again")


def write_scores(run: Path, name: str, frame: pl.DataFrame, shard: str) -> None:
    """The scores of a shard of samples, under its name; written whole."""
    write_sidecar(scores_folder(run, name) / shard, frame, SCORES)


def read_score_metadata(run: Path, name: str) -> dict[str, object] | None:
    """What the scores under a name were made with; None where there are none."""
    file = scores_folder(run, name) / ABOUT_FILE
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if any(file.parent.glob(SHARD)):
            raise OffleashError(
                f"{file.parent} has scores but no {ABOUT_FILE}, so it is unknown which model computed them. Delete the "
                "folder and score again."
            ) from None
        return None
    except ValueError as error:
        raise OffleashError(f"{file} is damaged ({error}). Delete {file.parent} and score again.") from None
    if not isinstance(document, dict):
        raise OffleashError(f"{file} is damaged (not a JSON object). Delete {file.parent} and score again.")
    return document


def write_score_metadata(run: Path, name: str, document: Mapping[str, object]) -> None:
    """Note what the scores under a name are made with, before the first of them."""
    file = scores_folder(run, name) / ABOUT_FILE
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text_atomically(file, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise OffleashError(
            f"{file} could not be written ({error.strerror}). Check disk space and permissions."
        ) from None


def is_same_model(first: Mapping[str, object], second: Mapping[str, object]) -> bool:
    """Whether two descriptions are of the same model, by the hash of its weights where both have one."""
    if first.get("fingerprint") and second.get("fingerprint"):
        return first["fingerprint"] == second["fingerprint"]
    return all(first.get(name) == second.get(name) for name in MODEL_FIELDS)


def own_scores(run: Path, drawn: Mapping[str, object]) -> str | None:
    """The name of the scores by the model that drew the run; if there are several, those under temperature 1."""
    candidates = []
    for name in scored_models(run):
        stored = read_score_metadata(run, name) or {}
        about, decoding = stored.get("about"), stored.get("decoding")
        if isinstance(about, dict) and is_same_model(drawn, about):
            is_plain_decoding = (
                isinstance(decoding, dict) and decoding.get("temperature") == 1 and decoding.get("top_p") == 1
            )
            candidates.append((not is_plain_decoding, name))
    return min(candidates)[1] if candidates else None


def with_token_means(scores: pl.LazyFrame) -> pl.LazyFrame:
    """Scores with their means per token and the perplexity of each trace; null where it has no tokens or no sums."""
    tokens = pl.when(pl.col("tokens") > 0).then(pl.col("tokens"))
    means = scores.with_columns(
        mean_logprob=pl.col("logprob_raw") / tokens,
        mean_entropy=pl.col("entropy_raw") / tokens,
    )
    return means.with_columns(perplexity=(-pl.col("mean_logprob")).exp())


# Positions: token entropy by position in the sample and by height, summed over a problem's samples.
#
# For each shard and problem they cover the first samples by index, as many as SAMPLES counts: never a chosen subset.


POSITIONS: dict[str, pl.DataType] = {
    "problem": pl.String(),
    "kind": pl.String(),
    "bin": pl.Int32(),  # its lower edge
    "tokens": pl.UInt64(),  # how many tokens; of SAMPLES, how many samples
    "entropy": pl.Float64(),  # their sum, nats, by the model's own distribution
}
START, END = "start", "end"  # tokens from the start or the end: 0, 1, ..., 15, then 16 to 31, 32 to 63, ...
TENTH = "tenth"  # of the text: 0 to 9
HEIGHT = "height"  # entropy of the token, in steps of ENTROPY_STEP
SAMPLES = "samples"  # how many samples were read: bin 0
ENTROPY_STEP = 0.1  # nats
SINGLE_TOKEN_BINS = 16  # tokens that have a bin of their own
POSITIONS_FOLDER = "positions"


def positions_folder(run: Path, name: str) -> Path:
    return scores_folder(run, name) / POSITIONS_FOLDER


def scan_positions(run: Path, name: str) -> pl.LazyFrame:
    """All positions of a run's samples stored under a model's name (POSITIONS), read lazily."""
    return scan_shards(positions_folder(run, name), POSITIONS)


def has_positions(run: Path, name: str) -> bool:
    return any(positions_folder(run, name).glob(SHARD))


def positions_of_shard(run: Path, name: str, shard: str) -> pl.DataFrame | None:
    """The positions of a shard of samples; None where there are none, or they cannot be read."""
    try:
        return read_sidecar(positions_folder(run, name) / shard, POSITIONS, "score again")
    except OffleashError:  # they are made again from the same samples
        return None


def write_positions(run: Path, name: str, frame: pl.DataFrame, shard: str) -> None:
    """The positions of a shard of samples, under its name; written whole."""
    summed_bins = frame.group_by("problem", "kind", "bin").agg(pl.col("tokens", "entropy").sum())
    write_sidecar(positions_folder(run, name) / shard, summed_bins, POSITIONS, ("problem", "kind", "bin"))
