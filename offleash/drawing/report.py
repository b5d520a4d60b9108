"""What a draw is about to do, as text, and what it did, as text and JSON."""

from offleash.drawing.draw import DrawEstimate, DrawSummary
from offleash.render.json import SCHEMA, Json, encode
from offleash.render.numbers import duration, many
from offleash.samplers.sampler import decoding_text

REASONS = 3  # distinct reasons of failed requests that are printed; --json has all of them
TRUNCATED_SHARE = 0.2  # truncated samples are mostly unread, so a larger share than this is worth a warning


def estimate_text(estimate: DrawEstimate) -> str:
    """What is about to be drawn and what is already there, printed before the first request."""
    drawing = estimate.drawing
    until_text = (
        f", each stopped after {drawing.until} successes judged by {estimate.verifier}" if drawing.until else ""
    )
    lines = [
        f"Drawing {many(estimate.problems, 'problem')} from {drawing.model} into {estimate.folder}: "
        f"up to {drawing.k:,} samples per problem{until_text}, at most {estimate.most:,} samples.",
        f"  {decoding_text(estimate.decoding)}, seed {drawing.seed}",
    ]
    if estimate.samples:
        needs = "needs" if estimate.settled == 1 else "need"
        lines.append(
            f"  Resuming from {many(estimate.samples, 'sample')}; {many(estimate.settled, 'problem')} {needs} no more."
        )
    return "\n".join(lines)


def summary_document(summary: DrawSummary) -> Json:
    """A draw as JSON: totals of the run, and what this draw added to it."""
    drawing = summary.drawing
    document: Json = encode(
        {
            "schema": SCHEMA,
            "folder": summary.folder,
            "model": drawing.model,
            "k": drawing.k,
            "until": drawing.until,
            "seed": drawing.seed,
            "problems": summary.problems,
            "samples": summary.samples,
            "new": summary.new,
            "tokens": summary.tokens,
            "truncated": summary.truncated,
            "settled": summary.settled,
            "reached": summary.reached,
            "failed_requests": summary.failed,
            "missing": summary.missing,
            "reasons": summary.reasons,
            "seconds": round(summary.seconds, 3),
            "forwarded": summary.forwarded,
            "peak_memory_mb": round(summary.peak_memory_mb, 1),
            "verifier": summary.verifier,
            "verdicts": summary.verdicts,
            "unjudged": summary.unjudged or None,
            "doubt": summary.doubt,
        }
    )
    return document


def summary_text(summary: DrawSummary, alone: bool = True) -> str:
    """A draw as text; `alone` adds the next command, which a study would run itself."""
    samples_text = f"{many(summary.samples, 'sample')} of {many(summary.problems, 'problem')}"
    if not summary.new and not summary.failed:
        lines = [f"{summary.folder}: nothing to do: the run has {samples_text}"]
    else:
        forwarded_text = f", {summary.forwarded:,} tokens through the model" if summary.forwarded is not None else ""
        lines = [
            f"{summary.folder}: {samples_text}",
            f"  {summary.new:,} new in {duration(summary.seconds)}{forwarded_text}, peak memory "
            f"{summary.peak_memory_mb:,.0f} MB",
        ]
    if summary.tokens:
        lines.append(
            f"  {many(summary.tokens, 'token')}; {many(summary.truncated, 'sample')} truncated at the token limit"
        )
    if summary.truncated > TRUNCATED_SHARE * summary.samples:
        lines.append(
            f"  warning: {summary.truncated:,} of {many(summary.samples, 'sample')} were truncated at --max-tokens. "
            "Raise it and draw into another folder: truncated samples mostly end up unread"
        )
    if summary.verdicts is not None:
        counts = ", ".join(f"{count:,} {verdict}" for verdict, count in summary.verdicts.items())
        lines.append(f"  judged by {summary.verifier}: {counts}; {many(summary.reached or 0, 'problem')} reached")
    elif summary.reached is not None:
        settled_text = many(summary.settled, "problem")
        lines.append(f"  {settled_text} settled, {summary.reached:,} reached, judged by {summary.verifier}")
    if summary.unjudged:
        lines.append(f"  not judged: {summary.unjudged}")
    if summary.doubt:
        lines.append(f"  {summary.doubt}")
    if summary.failed:
        reasons = "; ".join(f"{reason} ({count:,})" for reason, count in list(summary.reasons.items())[:REASONS])
        verb = "is" if summary.missing == 1 else "are"
        lines.append(
            f"  {many(summary.missing, 'sample')} {verb} missing because {many(summary.failed, 'request')} failed: "
            f"{reasons}. Run the same command again to retry. If a prompt is too long, lower --max-tokens or use "
            "another model; images need a vision model."
        )
    elif alone:
        step = f"compare {summary.folder} OTHER" if summary.verifier else f"verify {summary.folder}"
        lines.append(f"  next: offleash {step}")
    return "\n".join(lines)
