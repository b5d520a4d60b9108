"""Results of `offleash score` as JSON, text and tables, for run folders and for files of rows."""

from collections.abc import Mapping, Sequence

from offleash.render.escape import clean
from offleash.render.json import number
from offleash.render.numbers import duration
from offleash.samplers.sampler import SamplingParams, decoding_text
from offleash.scoring.rows import ScoredRow
from offleash.scoring.score import ALL, ScoredFile, ScoredRun, Summary

HEAD = ("", "samples", "tokens", "log-prob/token", "spread", "entropy/token", "perplexity", "quartiles", "pooled")


def scored_document(runs: Sequence[ScoredRun]) -> dict[str, object]:
    """Scored runs as JSON."""
    return {
        "schema": 1,
        "runs": [
            {
                "folder": str(one.folder),
                "scores": str(one.scores),
                "model": one.scoring.model,
                "decoding": _decoding(one.scoring.decoding),
                "new": one.new,
                "verifier": one.verifier,
                "groups": {name: summary_document(group) for name, group in one.groups.items()},
                "reasons": dict(one.reasons),
                "own": one.own,
                "compared": one.compared,
                "retokenised": one.retokenised,
                "seconds": round(one.seconds, 3),
                "notes": notes(one),
            }
            for one in runs
        ],
    }


def summary_document(one: Summary) -> dict[str, object]:
    """One group of traces as JSON."""
    return {
        "samples": one.samples,
        "scored": one.scored,
        "empty": one.empty,
        "left_out": one.left_out,
        "windowed": one.windowed,
        "tokens": one.tokens,
        "logprob": number(one.logprob),
        "logprob_spread": number(one.logprob_spread),
        "logprob_pooled": number(one.logprob_pooled),
        "entropy": number(one.entropy),
        "entropy_spread": number(one.entropy_spread),
        "entropy_pooled": number(one.entropy_pooled),
        "perplexity": number(one.perplexity),
        "perplexity_quartiles": None
        if one.perplexity_quartiles is None
        else [number(end) for end in one.perplexity_quartiles],
        "perplexity_pooled": number(one.perplexity_pooled),
    }


def row_document(one: ScoredRow) -> dict[str, object]:
    """One row's sums as JSON; minus infinity, which JSON lacks, is null with `left_out`."""
    sums = one.sums
    row: dict[str, object] = {
        "id": one.row.id,
        "tokens": sums.tokens,
        "logprob_raw": number(sums.logprob_raw),
        "entropy_raw": number(sums.entropy_raw),
        "logprob_sampled": number(sums.logprob_sampled),
        "entropy_sampled": number(sums.entropy_sampled),
        "perplexity": number(one.sums.perplexity),
    }
    if sums.logprob_sampled == float("-inf"):
        row["left_out"] = True
    if sums.windows is not None and sums.windows > 1:
        row["windows"] = sums.windows
    if sums.reason:
        row["reason"] = sums.reason
    return row


def scored_text(one: ScoredRun) -> str:
    """A scored run in words and a table."""
    whole = one.groups[ALL]
    lines = [
        f"{one.folder}: {whole.scored:,} of {whole.samples:,} samples scored by {one.scoring.model}, "
        f"{_law(one.scoring.decoding)}"
    ]
    if one.new < whole.samples:
        lines.append(f"  {one.new:,} scored now in {duration(one.seconds)}, {whole.samples - one.new:,} were there")
    else:
        lines.append(f"  in {duration(one.seconds)}, into {one.scores}")
    lines += _table(one.groups)
    if one.verifier:
        lines.append(f"  verdicts of {one.verifier}")
    return "\n".join(lines + [f"  {clean(note)}" for note in notes(one)])


def file_text(one: ScoredFile) -> str:
    """A scored file of rows in words and a table."""
    head = f"{one.path}: {one.summary.scored:,} of {one.summary.samples:,} rows scored by {one.model}"
    lines = [f"{head}, {_law(one.decoding)}", *_table({ALL: one.summary})]
    return "\n".join(lines + [f"  {clean(note)}" for note in _notes(one.summary, one.reasons, one.decoding)])


def notes(one: ScoredRun) -> list[str]:
    """What a reader of the scores should know."""
    said = _notes(one.groups[ALL], one.reasons, one.scoring.decoding)
    if one.retokenised:
        said.append(
            f"{one.retokenised:,} of {one.compared:,} samples ({one.retokenised / one.compared:.1%}) have another "
            "number of tokens when their text is read than when they were drawn; their sums are those of the text."
        )
    if one.stopped_by_text:
        said.append("The run was drawn with stop texts, so no sample is scored with an end.")
    if one.other_template:
        said.append("Prompts become another text for this model than for the one that drew the run (chat template).")
    return said


def _notes(whole: Summary, reasons: Mapping[str, int], decoding: SamplingParams) -> list[str]:
    said = [f"{count:,} without sums: {reason}." for reason, count in reasons.items()]
    if whole.empty:
        said.append(f"{whole.empty:,} have no token: their sums are 0 and they have no perplexity.")
    if whole.windowed:
        said.append(
            f"{whole.windowed:,} are longer than the model's context and were read in windows, each after half a "
            "context of what stands before it."
        )
    if whole.left_out:
        said.append(f"{whole.left_out:,} hold a token that this decoding ({_law(decoding)}) would never draw.")
    return said


def _table(groups: Mapping[str, Summary]) -> list[str]:
    rows = [HEAD, *(_cells(name, group) for name, group in groups.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    return ["  " + "  ".join(_padded(row, widths)).rstrip() for row in rows]


def _padded(row: tuple[str, ...], widths: list[int]) -> list[str]:
    return [
        cell.rjust(width) if place else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def _cells(name: str, one: Summary) -> tuple[str, ...]:
    ends = one.perplexity_quartiles
    return (
        name,
        f"{one.samples:,}",
        f"{one.tokens:,}",
        _number(one.logprob),
        _number(one.logprob_spread),
        _number(one.entropy),
        _number(one.perplexity),
        "-" if ends is None else f"{_number(ends[0])} to {_number(ends[1])}",
        _number(one.perplexity_pooled),
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _law(decoding: SamplingParams) -> str:
    """A decoding as it bears on given texts: their length is given too."""
    words = decoding_text(decoding).split(", at most ")[0]
    return "its own distribution" if decoding.plain else words


def _decoding(decoding: SamplingParams) -> dict[str, object]:
    document = decoding.document()
    return {name: document[name] for name in ("temperature", "top_p", "top_k", "min_p")}
