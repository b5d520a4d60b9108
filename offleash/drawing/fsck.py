"""What was found in run folders, for people and programs."""

from collections.abc import Sequence

from offleash.drawing.study_fsck import Inspected
from offleash.render.numbers import many


def fsck_document(runs: Sequence[Inspected]) -> dict[str, object]:
    """Inspected runs as JSON."""
    return {
        "schema": 1,
        "runs": [
            {
                "folder": str(one.folder),
                "good": one.good,
                "samples": one.samples,
                "shards": one.shards,
                "unsealed": one.unsealed,
                "findings": [
                    {"what": finding.what, "next_step": finding.next_step or None, "wrong": finding.wrong}
                    for finding in one.findings
                ],
            }
            for one in runs
        ],
    }


def fsck_text(one: Inspected) -> str:
    """An inspected run in words."""
    wrong = sum(finding.wrong for finding in one.findings)
    state = "good" if one.good else f"{wrong} thing{'s' if wrong > 1 else ''} wrong"
    lines = [f"{one.folder}: {many(one.samples, 'sample')} in {many(one.shards, 'shard')}: {state}"]
    if one.unsealed:
        lines.append(f"  {many(one.unsealed, 'shard')} unsealed (no checksum was noted), read in full and good")
    for finding in one.findings:
        lines.append(f"  {'wrong' if finding.wrong else 'note'}: {finding.what}")
        if finding.next_step:
            lines.append(f"    next: {finding.next_step}")
    return "\n".join(lines)
