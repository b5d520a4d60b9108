"""What is about to be certified and what was certified, for people and programs."""

from collections import Counter

from offleash.analyses.certificates.certify import CertifiedRun, Planned
from offleash.render.numbers import Json, duration, number
from offleash.samplers.sampler import decoding_text
from offleash.stats.rules import IN, OUT, UNDETERMINED, Certified

REASONS_SHOWN = 3  # reasons why problems have no certificate
MASSES = ("correct", "wrong", "unread", "failed", "truncated", "unexplored")


def planned_text(one: Planned) -> str:
    """What is about to be done, before it begins."""
    lines = [
        f"Certifying {one.problems:,} problems with {one.model} into {one.folder}: every completion more probable than "
        f"{one.epsilon:.4g}, at most {int(1 / one.epsilon):,} prefixes at a time, judged by {one.verifier}.",
        f"  {decoding_text(one.decoding)}",
    ]
    if one.done:
        lines.append(f"  {one.done:,} problems are there.")
    return "\n".join(lines)


def certified_text(one: CertifiedRun) -> str:
    """A certificate in words."""
    many = f"{one.certified:,} of {one.problems:,} problems"
    lines = [f"{one.folder}: {many} certified at epsilon {one.epsilon:.4g}, judged by {one.verifier}"]
    for question, words in (
        (Certified.COMPLETION, "by completion (a correct one above epsilon)"),
        (Certified.MASS, "by mass (all correct ones together)"),
    ):
        reached, out, unsure = (one.count(question, state) for state in (IN, OUT, UNDETERMINED))
        lines.append(f"  reached {words}: {reached:,}; not: {out:,}; undetermined: {unsure:,}")
    low, high = one.mean("correct"), one.mean("correct") + one.mean("failed") + one.mean("unexplored")
    lines.append(f"  correct completions above epsilon: {one.total('correct_completions'):,}")
    lines.append(f"  chance of a correct sample, mean over problems: between {low:.4f} and {high:.4f}")
    lines.append("  mass, mean over problems: " + ", ".join(f"{name} {one.mean(name):.4f}" for name in MASSES))
    lines.append(
        f"  {one.total('forwarded'):,} tokens through the model for {one.total('prefixes'):,} prefixes, the longest of "
        f"{one.deepest:,} tokens"
    )
    if one.new:
        lines.append(
            f"  {one.new:,} problems certified now in {duration(one.seconds)}, {one.peak_memory_mb:,.0f} MB at the most"
        )
    if one.troubles:
        reasons = Counter(one.troubles.values()).most_common(REASONS_SHOWN)
        why = "; ".join(f"{reason} ({count:,})" for reason, count in reasons)
        lines.append(f"  {len(one.troubles):,} problems have no certificate: {why}.")
    lines.append(f"  next: offleash compare {one.folder} OTHER")
    return "\n".join(lines)


def certified_document(one: CertifiedRun) -> Json:
    """A certificate as JSON."""
    states = {IN: "in", OUT: "out", UNDETERMINED: "undetermined"}
    rows = one.table.iter_rows(named=True)
    return {
        "schema": 1,
        "folder": str(one.folder),
        "model": one.model,
        "epsilon": one.epsilon,
        "problems": one.problems,
        "certified": one.certified,
        "new": one.new,
        "reached": {
            question.value: {word: one.count(question, state) for state, word in states.items()}
            for question in Certified
        },
        "correct_completions": one.total("correct_completions"),
        "mass": {name: number(one.mean(name)) for name in MASSES},
        "forwarded": one.total("forwarded"),
        "prefixes": one.total("prefixes"),
        "deepest": one.deepest,
        "seconds": round(one.seconds, 3),
        "peak_memory_mb": round(one.peak_memory_mb, 1),
        "verifier": one.verifier,
        "certificates": [
            {
                "problem": row["problem"],
                "p_correct": [row["correct"], min(1.0, row["correct"] + row["unexplored"] + row["failed"])],
                **{name: row[name] for name in MASSES},
                "largest": row["largest"],
                "correct_completions": row["correct_completions"],
                "completions": row["completions"],
                "forwarded": row["forwarded"],
                **{question.value: states[int(one.states[question][place])] for question in Certified},
            }
            for place, row in enumerate(rows)
        ],
        "troubles": dict(one.troubles),
    }
