"""Results of `offleash score` as JSON and in words with a table, for run folders and for files of rows."""

from collections.abc import Mapping, Sequence

from offleash.render.escape import clean
from offleash.render.json import SCHEMA, Json, encode
from offleash.render.numbers import duration
from offleash.samplers.sampler import SamplingParams, decoding_text
from offleash.scoring.rows import ScoredRow
from offleash.scoring.score import ALL, ScoredFile, ScoredRun, Summary

DECODING_FIELDS = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
)  # what changes the probability of a given text, in this order
# Spread is a standard deviation over samples; pooled is the perplexity of all tokens as one text.
TABLE_HEADINGS = (
    "",
    "samples",
    "tokens",
    "log-prob/token",
    "spread",
    "entropy/token",
    "perplexity",
    "quartiles",
    "pooled",
)


def scored_document(runs: Sequence[ScoredRun]) -> Json:
    """Scored runs as JSON; unknown and infinite numbers are null."""
    document: Json = encode(
        {
            "schema": SCHEMA,
            "runs": [
                {
                    "folder": run.folder,
                    "scores": run.scores,
                    "model": run.scoring.model,
                    "decoding": {name: run.scoring.decoding.document()[name] for name in DECODING_FIELDS},
                    "new": run.new,
                    "verifier": run.verifier,
                    "groups": run.groups,
                    "reasons": run.reasons,
                    "own": run.own,
                    "compared": run.compared,
                    "retokenised": run.retokenised,
                    "seconds": round(run.seconds, 3),
                    "notes": notes(run),
                }
                for run in runs
            ],
        }
    )
    return document


def row_document(row: ScoredRow) -> Json:
    """One row's sums as JSON; minus infinity, which JSON lacks, is null with `left_out`."""
    sums = row.sums
    document: Json = {
        "id": row.row.id,
        "tokens": sums.tokens,
        "logprob_raw": sums.logprob_raw,
        "entropy_raw": sums.entropy_raw,
        "logprob_sampled": sums.logprob_sampled,
        "entropy_sampled": sums.entropy_sampled,
        "perplexity": sums.perplexity,
    }
    if sums.logprob_sampled == float("-inf"):
        document["left_out"] = True
    if sums.windows is not None and sums.windows > 1:
        document["windows"] = sums.windows
    if sums.reason:
        document["reason"] = sums.reason
    encoded: Json = encode(document)
    return encoded


def scored_text(scored: ScoredRun) -> str:
    """A scored run in words and a table."""
    summary = scored.groups[ALL]
    lines = [
        f"{scored.folder}: {summary.scored:,} of {summary.samples:,} samples scored by {scored.scoring.model}, "
        f"{_decoding_text(scored.scoring.decoding)}"
    ]
    # Resumed: some scores were there before this call.
    if scored.new < summary.samples:
        lines.append(
            f"  {scored.new:,} scored now in {duration(scored.seconds)}, {summary.samples - scored.new:,} were already "
            "stored"
        )
    else:
        lines.append(f"  in {duration(scored.seconds)}, into {scored.scores}")
    lines += _table(scored.groups)
    if scored.verifier:
        lines.append(f"  verdicts of {scored.verifier}")
    return "\n".join(lines + [f"  {clean(note)}" for note in notes(scored)])


def file_text(scored: ScoredFile) -> str:
    """A scored file of rows in words and a table."""
    head = f"{scored.path}: {scored.summary.scored:,} of {scored.summary.samples:,} rows scored by {scored.model}"
    lines = [f"{head}, {_decoding_text(scored.decoding)}", *_table({ALL: scored.summary})]
    return "\n".join(lines + [f"  {clean(note)}" for note in _notes(scored.summary, scored.reasons, scored.decoding)])


def notes(run: ScoredRun) -> list[str]:
    """What a reader of the scores should know before using them."""
    lines = _notes(run.groups[ALL], run.reasons, run.scoring.decoding)
    if run.retokenised:
        lines.append(
            f"{run.retokenised:,} of {run.compared:,} samples ({run.retokenised / run.compared:.1%}) are "
            "tokenised into a different number of tokens than was drawn; their scores are those of the text."
        )
    if run.stopped_by_text:
        lines.append("The run was drawn with stop texts, so the ends of its samples are not scored.")
    if run.other_template:
        lines.append(
            "The chat template of this model formats prompts differently from that of the model that drew the run."
        )
    return lines


def _notes(summary: Summary, reasons: Mapping[str, int], decoding: SamplingParams) -> list[str]:
    """Notes that run folders and files of rows have in common."""
    lines = [f"{count:,} without scores: {reason}." for reason, count in reasons.items()]
    if summary.empty:
        lines.append(f"{summary.empty:,} have no tokens: their sums are 0 and they have no perplexity.")
    if summary.windowed:
        lines.append(
            f"{summary.windowed:,} are longer than the model's context and were scored in windows, each with half a "
            "context of preceding text."
        )
    if summary.left_out:
        lines.append(
            f"{summary.left_out:,} contain a token that this decoding ({_decoding_text(decoding)}) cannot draw."
        )
    return lines


def _table(groups: Mapping[str, Summary]) -> list[str]:
    rows = [TABLE_HEADINGS, *(_cells(name, group) for name, group in groups.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(TABLE_HEADINGS))]
    return ["  " + "  ".join(_pad_cells(row, widths)).rstrip() for row in rows]


def _pad_cells(row: tuple[str, ...], widths: list[int]) -> list[str]:
    """Cells of one row, the name to the left and numbers to the right."""
    return [
        cell.rjust(width) if index else cell.ljust(width)
        for index, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def _cells(name: str, summary: Summary) -> tuple[str, ...]:
    """One group of samples as a row of the table."""
    ends = summary.perplexity_quartiles
    return (
        name,
        f"{summary.samples:,}",
        f"{summary.tokens:,}",
        _number(summary.logprob),
        _number(summary.logprob_spread),
        _number(summary.entropy),
        _number(summary.perplexity),
        "-" if ends is None else f"{_number(ends[0])} to {_number(ends[1])}",
        _number(summary.perplexity_pooled),
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _decoding_text(decoding: SamplingParams) -> str:
    """A decoding without its token limit, which does not change the probability of a given text."""
    words = decoding_text(decoding).split(", at most ")[0]
    return "its own distribution" if decoding.is_plain else words
