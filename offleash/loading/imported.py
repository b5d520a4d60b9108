"""What an import did, for people and programs."""

from offleash.loading.import_logs import Imported


def imported_document(done: Imported) -> dict[str, object]:
    """The import as JSON."""
    return {
        "schema": 1,
        "folder": str(done.folder),
        "format": done.format,
        "problems": done.problems,
        "samples": done.samples,
        "verdicts": done.verdicts,
        "verifier": done.verifier,
        "unverified": done.samples - done.verdicts,
        "unverified_hint": done.unverified_hint or None,
        "notes": [{"text": note.text, "rows": note.rows, "left_out": note.left_out} for note in done.notes],
    }


def imported_text(done: Imported) -> str:
    """The import in words."""
    lines = [
        f"{done.folder}: {done.samples:,} samples of {done.problems:,} problems, read as {done.format}",
        f"  {done.verdicts:,} verdicts by {done.verifier}" if done.verdicts else "  no verdicts",
    ]
    missing = done.samples - done.verdicts
    if missing:
        hint = f" ({done.unverified_hint.rstrip('.')})" if done.unverified_hint else ""
        lines.append(f"  {missing:,} samples lack a verdict{hint}")
        lines.append(f"  judge them with: offleash verify {done.folder} --verifier math (or another verifier)")
    lines += [f"  {note.text}{f' ({note.rows:,})' if note.rows else ''}" for note in done.notes]
    return "\n".join(lines)
