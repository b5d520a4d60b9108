"""Which problems a page holds with their samples: those lost and found first, then a sample of the others."""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from offleash.report.numbers import Json
from offleash.report.page.safe import script_json
from offleash.report.view.documents import problem_documents
from offleash.study.detail import Detail
from offleash.study.shelf import Shelf

ALL = 300  # problems of a study whose every problem is held
OTHERS = {"P": 60, "O": 40, "?": 40}  # of a larger one
BYTES = 2_800_000
EACH, ANSWERS = 2, 12  # samples of a verdict, answers
LONGEST, SHORTEST = 2400, 240  # letters of a text
BATCH = 400  # problems fetched at a time


@dataclass(frozen=True)
class Held:
    """The problems of a page by row, each as the text of its JSON, and what is to be said of the choice."""

    documents: dict[int, str]
    words: str


def chosen(detail: Detail, shelf: Shelf, most: int = BYTES) -> Held:
    """Problems with their samples until the page is full."""
    wanted, total = order(detail), len(detail.class_P)
    letters = int(np.clip(most / max(len(wanted), 1) / 12, SHORTEST, LONGEST))
    out: dict[int, str] = {}
    size = 0
    for start in range(0, len(wanted), BATCH):
        rows = wanted[start : start + BATCH]
        found = problem_documents(shelf, rows, EACH, letters * 2 // 3, letters // 3, ANSWERS)
        for row in rows:
            text = script_json(_small(found[row], letters))
            if size + len(text.encode()) > most and out:
                return Held(out, _words(detail, out, total))
            out[row] = text
            size += len(text.encode())
    return Held(out, _words(detail, out, total))


def order(detail: Detail) -> list[int]:
    """Rows by how much a reader would miss them: sure losses and gains, other ones by evidence, some of the rest."""
    classes = detail.class_P
    changed = np.flatnonzero(np.isin(classes, ["E", "S"]))
    strength = detail.tally.correct_PR[changed].max(axis=1)
    first = changed[np.lexsort((changed, -strength, ~detail.sure_P[changed]))]
    rest: list[int] = []
    for name, most in OTHERS.items():
        rows = np.flatnonzero(classes == name).tolist()
        mixed = sorted(rows, key=lambda row: blake2b(str(detail.tally.problem_P[row]).encode()).digest())
        rest += mixed if len(classes) <= ALL else mixed[:most]
    return [int(row) for row in first] + rest


def _small(document: Json, letters: int) -> Json:
    """The document with a question of bounded length."""
    question = document.get("question")
    if isinstance(question, str) and len(question) > 2 * letters:
        return {**document, "question": question[: 2 * letters] + "…"}
    return document


def _words(detail: Detail, held: dict[int, str], total: int) -> str:
    if len(held) == total:
        return f"All {total:,} problems are here, with up to {EACH} samples of each verdict of each run."
    classes = detail.class_P
    parts = []
    for name, what in (
        ("S", "lost"),
        ("E", "found"),
        ("P", "kept"),
        ("O", "reached by neither"),
        ("?", "undetermined"),
    ):
        every = int((classes == name).sum())
        if every:
            have = sum(classes[row] == name for row in held)
            parts.append(f"{have:,} of {every:,} {what}")
    return (
        f"This page holds {len(held):,} of {total:,} problems with up to {EACH} samples of each verdict of each run "
        f"({', '.join(parts)}); the counts of all are in the table. offleash view shows every sample."
    )
