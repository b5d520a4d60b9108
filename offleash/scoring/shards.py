"""Scores of a run, shard by shard: existing ones are kept, missing ones computed, with entropies by position.

A shard of samples has a shard of scores (a row per sample) and one of positions (sums of token entropies by problem and
position) under the same name. Scores may be of selected samples; positions are of the first samples of each problem
only, because correct samples alone would look more certain than all.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from offleash.data.run_folder import read_problems
from offleash.data.scores import (
    END,
    ENTROPY_STEP,
    HEIGHT,
    POSITIONS,
    SAMPLES,
    SCORES,
    SINGLE_TOKEN_BINS,
    START,
    TENTH,
    ScoredSample,
    Trace,
    positions_of_shard,
    scores_of_shard,
    write_positions,
    write_scores,
)
from offleash.data.shards import check_schema
from offleash.data.tables import SAMPLES as SAMPLE_COLUMNS
from offleash.errors import OffleashError
from offleash.progress import Progress
from offleash.render.numbers import duration
from offleash.samplers.sampler import FINISHED, SamplingParams

if TYPE_CHECKING:
    from offleash.samplers.huggingface.scoring import Scorer, TextScore

# Per call of the scorer: enough for full batches of similar lengths, and tokens of 16 MiB of text fit into memory.
SAMPLES_AT_A_TIME = 4_096
BYTES_AT_A_TIME = 16 << 20
# Reasons are stored with the scores, so their words stay.
NO_TEXT_REASON = "the run has no text for it"
NO_PROMPT = "its problem has no question text"
IMAGES = "its problem has images, which score does not support"
KEY = ["problem", "index"]


@dataclass(frozen=True)
class Selection:
    """Which samples of a run are scored; all of them by default. The conditions are joined by and."""

    first: int | None = None  # samples per problem that are scored, by index
    correct: bool = False  # only those that the verifier judged correct
    problems: frozenset[str] | None = None  # None: all

    def keep(self, keys: pl.DataFrame, right: pl.DataFrame | None) -> pl.DataFrame:
        """The selected keys; `right` has those of correct samples, None where correctness does not matter."""
        if self.first is not None:
            keys = keys.filter(pl.col("index") < self.first)
        if self.problems is not None:
            keys = keys.filter(pl.col("problem").is_in(list(self.problems)))
        return keys if right is None else keys.join(right, on=KEY, how="semi")


@dataclass
class RunScorer:
    """Scores one run with one model."""

    folder: Path
    scorer: "Scorer"
    name: str  # of the folder that the scores go to
    decoding: SamplingParams
    selection: Selection
    right: pl.DataFrame | None  # keys of correct samples, where only they are wanted
    ends: bool  # the end-of-text token of a finished sample is scored; not after stop texts, which hide it
    progress: Progress

    def __post_init__(self) -> None:
        self._prompts = prompts_of(self.folder)
        self._selected_count = self._stored_count = self.new = 0
        self._started = time.monotonic()

    def all(self, shards: list[Path]) -> int:
        """Score what is missing, shard by shard; returns how many samples were scored."""
        self._selected_count = sum(self.selection.keep(self._keys(shard), self.right).height for shard in shards)
        for shard in shards:
            self._score(shard)
        return self.new

    def _keys(self, shard: Path) -> pl.DataFrame:
        check_schema(shard, SAMPLE_COLUMNS)
        return pl.read_parquet(shard, columns=KEY)

    def _score(self, shard: Path) -> None:
        """Score what is missing of one shard, and write its scores and positions as a whole."""
        keys, stored = self._keys(shard), scores_of_shard(self.folder, self.name, shard.name)
        chosen = self.selection.keep(keys, self.right)
        unknown = chosen.filter(~pl.col("problem").is_in(list(self._prompts)))
        if unknown.height:
            raise OffleashError(
                f"{shard} has samples of {unknown['problem'][0]!r}, which is not among the problems of its run."
            )
        scored = chosen.clear() if stored is None else stored.select(KEY)
        positions = positions_of_shard(self.folder, self.name, shard.name)
        with_positions = None if positions is None else samples_with_positions(positions, keys, scored)
        unscored = chosen.join(scored, on=KEY, how="anti")
        without_positions = self._without_positions(keys, chosen, scored, with_positions)
        missing = pl.concat([unscored, without_positions]).unique()
        # Samples outside the selection whose positions were lost are scored again, only for their positions.
        unselected_count = missing.join(chosen, on=KEY, how="anti").height
        self._selected_count += unselected_count
        self._stored_count += chosen.height + unselected_count - missing.height
        if not missing.height:
            return
        scores = [stored] if stored is not None else []
        positions_of = [pl.DataFrame(schema=POSITIONS) if positions is None or with_positions is None else positions]
        for start, size in _slices(shard):
            part = pl.scan_parquet(shard).select(*KEY, "text", "finish").slice(start, size).collect()
            rows = part.join(missing, on=KEY, how="semi").join(
                without_positions.with_columns(place=True), on=KEY, how="left", maintain_order="left"
            )
            if rows.height:
                frame, where = self._read(rows.with_columns(pl.col("place").fill_null(False)))
                scores.append(frame.join(scored, on=KEY, how="anti"))
                positions_of.append(where)
                self._report(rows.height)
        # Positions first: a kill in between leaves positions without scores, found by `samples_with_positions`.
        write_positions(self.folder, self.name, pl.concat(positions_of), shard.name)
        write_scores(self.folder, self.name, pl.concat(scores), shard.name)

    def _without_positions(
        self, keys: pl.DataFrame, chosen: pl.DataFrame, scored: pl.DataFrame, with_positions: pl.DataFrame | None
    ) -> pl.DataFrame:
        """The samples whose positions have to be computed: first samples without positions, and those that were lost.

        Samples that were selected as correct get no positions.
        """
        wanted = chosen.clear() if self.selection.correct else chosen
        if with_positions is None:  # by an older version, or a kill came between the two files
            lost = scored if are_first_samples(scored, keys) else scored.clear()
            return pl.concat([wanted, lost]).unique()
        return wanted.join(with_positions, on=KEY, how="anti")

    def _read(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Scores of samples, and positions of those with `place`; one that cannot be scored has a reason."""
        sums: list[ScoredSample] = []
        traces: list[tuple[int, str, Trace]] = []
        for problem, text, finish in rows.select("problem", "text", "finish").iter_rows():
            prompt, images = self._prompts[problem]
            if prompt is None or text is None or images:
                sums.append(
                    ScoredSample(
                        None, reason=NO_PROMPT if prompt is None else NO_TEXT_REASON if text is None else IMAGES
                    )
                )
                continue
            traces.append((len(sums), problem, Trace(prompt, text, self.ends and finish == FINISHED)))
            sums.append(ScoredSample(None))
        read = self.scorer.score_traces([trace for _, _, trace in traces], self.decoding)
        for (row, _, _), score in zip(traces, read, strict=True):
            sums[row] = score.sums
        with_positions = rows["place"].to_list()
        usable = [
            (problem, trace, score)
            for (row, problem, trace), score in zip(traces, read, strict=True)
            if with_positions[row] and np.isfinite(score.entropy_T).all()
        ]
        return frame_of(rows, sums), _positions(rows.filter("place"), usable)

    def _report(self, samples: int) -> None:
        """Progress with the time left, from the rate of this call: stored scores cost nothing."""
        self.new += samples
        left = self._selected_count - self._stored_count - self.new
        seconds = (time.monotonic() - self._started) * left / self.new
        self.progress(
            f"{self.folder.name}: {self._stored_count + self.new:,} of {self._selected_count:,} samples scored, "
            f"about {duration(seconds)} left"
        )


def frame_of(keys: pl.DataFrame, sums: list[ScoredSample]) -> pl.DataFrame:
    """Scores (SCORES) of samples from their sums, in the same order."""
    columns = {field.name: [getattr(row, field.name) for row in sums] for field in fields(ScoredSample)}
    columns["reason"] = [reason or None for reason in columns["reason"]]
    return pl.DataFrame({"problem": keys["problem"], "index": keys["index"], **columns}, schema=SCORES)


def prompts_of(folder: Path) -> Mapping[str, tuple[str | None, bool]]:
    """The prompt of each problem, None where the run has no text for it, and whether it has images."""
    problems = read_problems(folder).select("problem", pl.coalesce("prompt", "question"), "images")
    prompts = {problem: (prompt, bool(images)) for problem, prompt, images in problems.iter_rows()}
    if all(prompt is None for prompt, _ in prompts.values()):
        raise OffleashError(
            f"{folder} has no problem texts, but samples are scored after their prompts. "
            "Import logs with the questions, or score rows of prompt and text (offleash score FILE.jsonl)."
        )
    return prompts


def _positions(rows: pl.DataFrame, read: "list[tuple[str, Trace, TextScore]]") -> pl.DataFrame:
    """Positions of scored texts; samples without a score count as samples, without tokens.

    A text that was drawn several times is binned once and counted as often as it was drawn: low temperatures repeat.
    """
    trace_counts = Counter((problem, trace) for problem, trace, _ in read)
    first = {(problem, trace): score.entropy_T for problem, trace, score in read}
    frame = positions_of(
        [problem for problem, _ in trace_counts], [first[key] for key in trace_counts], list(trace_counts.values())
    )
    unread = Counter(rows["problem"].to_list()) - Counter(problem for problem, _, _ in read)
    more = {"problem": list(unread), "kind": [SAMPLES] * len(unread), "bin": [0] * len(unread)}
    unread_columns = {"tokens": list(unread.values()), "entropy": [0.0] * len(unread)}
    return pl.concat([frame, pl.DataFrame({**more, **unread_columns}, schema=POSITIONS)])


def _slices(shard: Path) -> Iterator[tuple[int, int]]:
    """Slices (start, size) of a shard that fit into memory as texts and as tokens."""
    text_sizes = pl.scan_parquet(shard).select(pl.col("text").str.len_bytes().fill_null(0)).collect().to_series()
    start = size = batch_bytes = 0
    for text_bytes in text_sizes:
        if size and (size == SAMPLES_AT_A_TIME or batch_bytes + text_bytes > BYTES_AT_A_TIME):
            yield start, size
            start, size, batch_bytes = start + size, 0, 0
        size, batch_bytes = size + 1, batch_bytes + text_bytes
    if size:
        yield start, size


# Entropies by position: sums over tokens by where a token is, and by how high its entropy is.
#
# Axes: N texts, M tokens of all texts one after the other, U pairs of problem and bin that occur.


Ints = NDArray[np.int64]
Entropies = NDArray[np.float32]


def positions_of(problems: Sequence[str], texts: Sequence[Entropies], copies: Sequence[int]) -> pl.DataFrame:
    """POSITIONS of texts.

    Args:
        problems: the problem of each text.
        texts: the entropy of each token of each text, in nats.
        copies: how often each text was drawn.

    Returns:
        Tokens and summed entropy by problem, kind and bin: START and END count tokens from either end, TENTH is the
        tenth of the text, HEIGHT the entropy itself in steps, and SAMPLES counts texts.
    """
    names = list(dict.fromkeys(problems))
    code = {name: number for number, name in enumerate(names)}
    code_N = np.array([code[name] for name in problems], np.int64)
    copies_N, length_N = np.array(copies, np.int64), np.array([len(text) for text in texts], np.int64)
    entropy_M = np.concatenate([*texts, np.zeros(0, np.float32)]).astype(np.float64)
    code_M, copies_M = np.repeat(code_N, length_N), np.repeat(copies_N, length_N)
    # The place of each token within its own text, from 0.
    position_M = np.arange(entropy_M.size) - np.repeat(np.cumsum(length_N) - length_N, length_N)
    length_M = np.repeat(length_N, length_N)
    bins = {
        START: _bin_of_position(position_M),
        END: _bin_of_position(length_M - 1 - position_M),
        TENTH: 10 * position_M // np.maximum(length_M, 1),
        # The small number keeps an entropy that is a multiple of STEP from rounding into the bin below.
        HEIGHT: np.maximum(entropy_M / ENTROPY_STEP + 1e-6, 0).astype(np.int64),
    }
    parts = [_bin_sums(names, kind, code_M, bin_M, copies_M, entropy_M) for kind, bin_M in bins.items()]
    parts.append(_bin_sums(names, SAMPLES, code_N, np.zeros_like(code_N), copies_N, np.zeros(len(code_N))))
    return pl.concat(parts)


def samples_with_positions(positions: pl.DataFrame, keys: pl.DataFrame, scored: pl.DataFrame) -> pl.DataFrame | None:
    """The samples of a shard that its positions are of: the first of each problem by index, as many as were counted.

    None where some of those have no score: a kill came between the two files, so positions have to be computed again.
    """
    count = positions.filter(pl.col("kind") == SAMPLES).group_by("problem").agg(count=pl.col("tokens").sum())
    first = _with_ranks(keys).join(count, on="problem").filter(pl.col("rank") <= pl.col("count")).select(*KEY)
    is_complete = first.height == count["count"].sum() and first.join(scored, on=KEY, how="anti").is_empty()
    return first if is_complete else None


def are_first_samples(scored: pl.DataFrame, keys: pl.DataFrame) -> bool:
    """Whether samples are the first ones of their problems, by index, among all keys."""
    count = scored.group_by("problem").agg(count=pl.len())
    last = _with_ranks(keys).join(scored, on=KEY, how="semi").group_by("problem").agg(last=pl.col("rank").max())
    return bool(count.join(last, on="problem").select((pl.col("count") == pl.col("last")).all()).item())


def _with_ranks(keys: pl.DataFrame) -> pl.DataFrame:
    return keys.select(*KEY, rank=pl.col("index").rank("ordinal").over("problem").cast(pl.UInt64))


def _bin_of_position(position_M: Ints) -> Ints:
    """The lower edge of a token's bin: the token itself up to SINGLE, then powers of two."""
    power = np.floor(np.log2(np.maximum(position_M, 1) + 0.5)).astype(
        np.int64
    )  # the half keeps 2**n from rounding down
    return np.where(position_M < SINGLE_TOKEN_BINS, position_M, 1 << power)


def _bin_sums(
    names: list[str], kind: str, code_M: Ints, bin_M: Ints, copies_M: Ints, entropy_M: np.ndarray
) -> pl.DataFrame:
    """Tokens and entropy summed by problem and bin, weighted by how often each text was drawn."""
    width = int(bin_M.max(initial=0)) + 1
    # One number per pair of problem and bin, so that one pass counts all of them.
    key_U, key_M = np.unique(code_M * width + bin_M, return_inverse=True)
    tokens_U = np.bincount(key_M, weights=copies_M, minlength=key_U.size)
    entropy_U = np.bincount(key_M, weights=copies_M * entropy_M, minlength=key_U.size)
    return pl.DataFrame(
        {
            "problem": [names[number] for number in (key_U // width).tolist()],
            "kind": [kind] * key_U.size,
            "bin": (key_U % width).astype(np.int32),
            "tokens": tokens_U.astype(np.uint64),
            "entropy": entropy_U,
        },
        schema=POSITIONS,
    )
