"""What is about to be drawn as text, and what was drawn as text and JSON."""

from offleash.drawing.draw import DrawEstimate, DrawnRun
from offleash.render.numbers import duration, many
from offleash.samplers.sampler import decoding_text

SHOWN = 3  # reasons of failed requests
CUT = 0.2  # the share of samples that may be cut at the token limit without a word


def prospect_text(one: DrawEstimate) -> str:
    """What is about to be done, before it begins."""
    drawing = one.drawing
    stop = f", each stopped at {drawing.until} successes by {one.verifier}" if drawing.until else ""
    lines = [
        f"Drawing {many(one.problems, 'problem')} from {drawing.model} into {one.folder}: up to {drawing.k:,} samples "
        f"a problem{stop}, at most {one.most:,} samples.",
        f"  {decoding_text(one.decoding)}, seed {drawing.seed}",
    ]
    if one.samples:
        need = "needs" if one.settled == 1 else "need"
        there = "is" if one.samples == 1 else "are"
        lines.append(f"  {many(one.samples, 'sample')} {there} there; {many(one.settled, 'problem')} {need} no more.")
    return "\n".join(lines)


def drawn_document(one: DrawnRun) -> dict[str, object]:
    """A draw as JSON."""
    return {
        "schema": 1,
        "folder": str(one.folder),
        "model": one.drawing.model,
        "k": one.drawing.k,
        "until": one.drawing.until,
        "seed": one.drawing.seed,
        "problems": one.problems,
        "samples": one.samples,
        "new": one.new,
        "tokens": one.tokens,
        "truncated": one.truncated,
        "settled": one.settled,
        "reached": one.reached,
        "failed_requests": one.failed,
        "missing": one.missing,
        "reasons": dict(one.reasons),
        "seconds": round(one.seconds, 3),
        "forwarded": one.forwarded,
        "peak_memory_mb": round(one.peak_memory_mb, 1),
        "verifier": one.verifier,
        "doubt": one.doubt,
    }


def drawn_text(one: DrawnRun, alone: bool = True) -> str:
    """A draw in words; the next step too, unless it is part of a study."""
    held = f"{many(one.samples, 'sample')} of {many(one.problems, 'problem')}"
    if not one.new and not one.failed:
        lines = [f"{one.folder}: nothing to do: {held} {'is' if one.samples == 1 else 'are'} there"]
    else:
        lines = [f"{one.folder}: {held}"]
        forwarded = f", {one.forwarded:,} tokens through the model" if one.forwarded is not None else ""
        lines.append(
            f"  {one.new:,} drawn now in {duration(one.seconds)}{forwarded}, {one.peak_memory_mb:,.0f} MB at the most"
        )
    if one.tokens:
        lines.append(f"  {many(one.tokens, 'token')}; {many(one.truncated, 'sample')} cut at the token limit")
    if one.truncated > CUT * one.samples:
        lines.append(
            f"  warning: {one.truncated:,} of {many(one.samples, 'sample')} were cut at --max-tokens: raise it (into "
            "another folder); cut samples mostly end unread"
        )
    if one.reached is not None:
        lines.append(f"  {many(one.settled, 'problem')} settled, {one.reached:,} reached, judged by {one.verifier}")
    if one.doubt:
        lines.append(f"  {one.doubt}")
    if one.failed:
        why = "; ".join(f"{reason} ({count:,})" for reason, count in list(one.reasons.items())[:SHOWN])
        lines.append(
            f"  {many(one.missing, 'sample')} {'is' if one.missing == 1 else 'are'} missing: "
            f"{many(one.failed, 'request')} failed: {why}. Run the same command again to try once more; a prompt that "
            "is too long needs fewer --max-tokens or another model, and an image a model that sees."
        )
    elif alone:
        step = f"offleash compare {one.folder} OTHER" if one.verifier else f"offleash verify {one.folder}"
        lines.append(f"  next: {step}")
    return "\n".join(lines)
