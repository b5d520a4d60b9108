"""Results of `offleash verify` as JSON and text, for run folders and for files of rows."""

from collections import Counter
from collections.abc import Sequence
from shlex import quote

from offleash.data.verdict import Verdict
from offleash.render.escape import clean
from offleash.render.json import SCHEMA, Json, encode
from offleash.verifiers.own.bind import PREFIX
from offleash.verifying.rows import Outcome
from offleash.verifying.verify import VerificationResult

DECIDED_BY = {  # keys of Judge.decided_by, in the words of the terminal
    "exact": "by exact comparison",
    "cached": "decided in an earlier run",
    "decided": "by the verifier",
    "failed": "failed",
}


def outcome_json(outcome: Outcome) -> Json:
    """One row's verdict as a line of `verify --json`; no reason and no score where there is none."""
    document: Json = {
        "id": outcome.id,
        "verdict": outcome.verdict,
        "answer": outcome.answer,
        "step": outcome.step,
        "seconds": round(outcome.seconds, 6),
    }
    if outcome.reason:
        document["reason"] = outcome.reason
    if outcome.score is not None:
        document["score"] = outcome.score
    return encode(document)


def verification_json(results: Sequence[VerificationResult]) -> Json:
    """Verified runs as `verify --json` prints them."""
    runs = [
        {
            "folder": result.folder,
            "verifier": result.verifier,
            "samples": result.samples,
            "judged": result.judged,
            "verdicts": result.verdicts,
            "steps": result.steps,
            "distinct": result.decided_by,
            "failures": [dict(zip(("problem", "index", "reason"), row, strict=True)) for row in result.failures],
            "seconds": round(result.seconds, 3),
            "notes": notes(result),
        }
        for result in results
    ]
    return encode({"schema": SCHEMA, "runs": runs})


def verification_text(result: VerificationResult) -> str:
    """A verified run for the terminal: verdicts, how they came about, notes, and the command to run next."""
    lines = [f"{result.folder}: {result.samples:,} samples by {result.verifier}: {verdict_counts(result) or 'none'}"]
    if result.judged < result.samples:
        lines.append(f"  {result.judged:,} judged now, {result.samples - result.judged:,} had a verdict already")
    if distinct_answers := sum(result.decided_by.values()):
        counts_text = [f"{n:,} {text}" for name, text in DECIDED_BY.items() if (n := result.decided_by.get(name))]
        lines.append(f"  {distinct_answers:,} distinct answers in {result.seconds:.1f} s: {', '.join(counts_text)}")
    steps = ", ".join(f"{step} {count:,}" for step, count in result.steps.items())
    lines.append(f"  answers extracted by: {steps}")
    lines += [f"  {clean(note)}" for note in notes(result)]
    return "\n".join([*lines, f"  next: {clean(next_step(result))}"])


def verdict_counts(result: VerificationResult) -> str:
    """The verdicts that occur, as in `12 correct, 3 wrong`."""
    return ", ".join(f"{count:,} {verdict}" for verdict, count in result.verdicts.items() if count)


def next_step(result: VerificationResult) -> str:
    """The command that uses the verdicts; it names their verifier, since a run may have verdicts of several."""
    name, _, version = result.verifier.partition("@")
    # With an option of extraction the bare name would be ambiguous: the same verifier without it may be there too.
    has_other_steps = any(option in version for option in (".last_number", ".opened"))
    # The version of a user's own function is a hash: after an edit, nothing says which of two is the newer one.
    verdicts = quote(result.verifier if has_other_steps or name.startswith(PREFIX) else name)
    return f"offleash compare {quote(str(result.folder))} OTHER --verdicts {verdicts} --flips"


def notes(result: VerificationResult, kept: bool = True) -> list[str]:
    """What a reader of the verdicts should know; `kept`: they are in a run folder, where failures can be retried."""
    sentences = []
    if result.unjudged:
        sentences.append(
            f"{'1 problem' if result.unjudged == 1 else f'{result.unjudged:,} problems'} cannot be judged and "
            f"{'stays' if result.unjudged == 1 else 'stay'} unverified (first: {result.unjudged_reason}). "
            "Take gold answers from a problem set with --problems."
        )
    if failed := result.verdicts[Verdict.FAILED.value]:
        reasons = Counter(reason for _, _, reason in result.failures)
        # only the first failures are listed, so their counts are shown where these are all
        whole = len(result.failures) == failed
        frequent_reasons = "; ".join(
            f"{reason} ({count})" if whole else reason for reason, count in reasons.most_common(3)
        )
        sentences.append(
            f"{failed:,} samples could not be judged and are neither correct nor wrong: {frequent_reasons}."
            + (" Run verify again to retry them." if kept else "")
        )
    if result.starved:
        answers = "1 distinct answer" if result.starved == 1 else f"{result.starved:,} distinct answers"
        sentences.append(f"{answers} failed only because the machine was too busy, even when run alone.")
    if result.reopened and ".opened" not in result.verifier:
        sentences.append(
            f"{result.reopened:,} samples close a reasoning block that their prompt opened. With --opened, texts "
            "that never close it count as unread instead of being searched for an answer."
        )
    return sentences + ([result.cache_error] if result.cache_error else [])


def outcomes_text(verdicts: Counter[str], steps: Counter[str], failures: Sequence[str]) -> str:
    """A verified file of rows for the terminal."""
    counts = ", ".join(f"{verdicts[verdict.value]:,} {verdict.value}" for verdict in Verdict if verdicts[verdict.value])
    lines = [
        f"{verdicts.total():,} rows: {counts}",
        "  answers extracted by: " + ", ".join(f"{step} {count:,}" for step, count in steps.most_common()),
    ]
    return "\n".join(lines + [f"  failed: {clean(reason)}" for reason in failures])
