"""What a check of problems found, for people and programs."""

from offleash.render.escape import clean
from offleash.verifying.check import Checked

SHOWN = 20


def checked_document(found: Checked) -> dict[str, object]:
    """The check as JSON."""
    return {
        "schema": 1,
        "problems": found.problems,
        "accepted": found.accepted,
        "corruptions": found.corruptions,
        "rejected": found.rejected,
        "undecided": found.undecided,
        "unchecked": found.unchecked,
        "faults": [
            {
                "row": fault.row,
                "problem": fault.problem,
                "verifier": fault.verifier,
                "gold": fault.gold,
                "happened": fault.happened,
                "next_step": fault.next_step,
            }
            for fault in found.faults
        ],
    }


def checked_text(found: Checked, all_faults: bool = False) -> str:
    """The check in words: counts, then one paragraph a fault."""
    lines = [
        f"{found.problems:,} problems: {found.accepted:,} gold answers accepted, "
        f"{found.rejected:,} of {found.corruptions:,} corruptions rejected"
    ]
    if found.undecided:
        lines.append(f"  {found.undecided:,} corruptions not decided: the verifier failed on them")
    lines += [f"  {count:,} {reason}" for reason, count in found.unchecked.items()]
    most = len(found.faults) if all_faults else SHOWN
    for fault in found.faults[:most]:
        gold = "" if fault.gold is None else f", gold {_short(fault.gold)}"
        lines.append(
            f"  row {fault.row}, {clean(fault.problem)} ({fault.verifier}{gold}): {clean(fault.happened)}; "
            f"{fault.next_step}."
        )
    if len(found.faults) > most:
        lines.append(f"  and {len(found.faults) - most:,} more; --json lists them all")
    bad = len({fault.row for fault in found.faults})
    lines.append(f"{len(found.faults):,} faults in {bad:,} problems" if found.faults else "no faults")
    return "\n".join(lines)


def _short(text: str) -> str:
    shown = repr(text)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
