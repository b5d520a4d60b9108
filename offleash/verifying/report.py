"""Results of `offleash verify` as JSON and text, for run folders and for files of rows."""

from collections import Counter
from collections.abc import Sequence
from shlex import quote

from offleash.data.verdict import Verdict
from offleash.render.escape import clean
from offleash.verifying.rows import Outcome
from offleash.verifying.verify import VerificationResult

DECIDED_BY = {
    "exact": "by exact comparison",
    "cached": "decided in an earlier run",
    "decided": "by the verifier",
    "failed": "failed",
}


def outcome_json(outcome: Outcome) -> dict[str, object]:
    """One row's verdict as JSON."""
    row: dict[str, object] = {
        "id": outcome.id,
        "verdict": outcome.verdict.value,
        "answer": outcome.answer,
        "step": outcome.step,
        "seconds": round(outcome.seconds, 6),
    }
    if outcome.reason:
        row["reason"] = outcome.reason
    if outcome.score is not None:
        row["score"] = outcome.score
    return row


def verification_json(done: Sequence[VerificationResult]) -> dict[str, object]:
    """Verified runs as JSON."""
    return {
        "schema": 1,
        "runs": [
            {
                "folder": str(one.folder),
                "verifier": one.verifier,
                "samples": one.samples,
                "judged": one.judged,
                "verdicts": dict(one.verdicts),
                "steps": dict(one.steps),
                "distinct": dict(one.decided_by),
                "failures": [
                    {"problem": problem, "index": index, "reason": reason} for problem, index, reason in one.failures
                ],
                "seconds": round(one.seconds, 3),
                "notes": notes(one),
            }
            for one in done
        ],
    }


def verification_text(one: VerificationResult) -> str:
    """A verified run in words."""
    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in one.verdicts.items() if count)
    lines = [f"{one.folder}: {one.samples:,} samples by {one.verifier}: {counts or 'none'}"]
    if one.judged < one.samples:
        lines.append(f"  {one.judged:,} judged now, {one.samples - one.judged:,} had their verdict")
    if one.decided_by:
        how = ", ".join(
            f"{one.decided_by[decision]:,} {words}"
            for decision, words in DECIDED_BY.items()
            if one.decided_by.get(decision)
        )
        lines.append(f"  {sum(one.decided_by.values()):,} distinct answers in {one.seconds:.1f} s: {how}")
    steps = ", ".join(f"{step} {count:,}" for step, count in one.steps.items())
    lines.append(f"  answers read by: {steps}")
    lines += [f"  {clean(note)}" for note in notes(one)]
    return "\n".join([*lines, f"  next: {clean(next_step(one))}"])


def next_step(one: VerificationResult) -> str:
    """The command that uses the verdicts; it names their verifier, since a run may have verdicts of several."""
    name, _, version = one.verifier.partition("@")
    changed = any(option in version for option in (".last_number", ".opened"))  # beside it there may be the plain one
    return (
        f"offleash compare {quote(str(one.folder))} OTHER --verdicts {quote(one.verifier if changed else name)} --flips"
    )


def notes(one: VerificationResult) -> list[str]:
    """What a reader of the verdicts should know."""
    said = []
    if one.verdicts[Verdict.FAILED.value]:
        reasons = Counter(reason for _, _, reason in one.failures)
        first = "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common(3))
        said.append(
            f"{one.verdicts[Verdict.FAILED.value]:,} samples could not be judged and are neither correct nor wrong: "
            f"{first}. Run verify again to try them once more."
        )
    if one.reopened and ".opened" not in one.verifier:
        said.append(
            f"{one.reopened:,} samples end a block of reasoning that their prompt opened; with --opened, texts that "
            "never end it are unread instead of searched for an answer."
        )
    return said + ([one.trouble] if one.trouble else [])


def outcomes_text(verdicts: Counter[str], steps: Counter[str], failures: Sequence[str]) -> str:
    """A verified file of rows in words."""
    counts = ", ".join(f"{verdicts[verdict.value]:,} {verdict.value}" for verdict in Verdict if verdicts[verdict.value])
    lines = [
        f"{verdicts.total():,} rows: {counts}",
        "  answers read by: " + ", ".join(f"{s} {n:,}" for s, n in steps.most_common()),
    ]
    return "\n".join(lines + [f"  failed: {clean(reason)}" for reason in failures])
