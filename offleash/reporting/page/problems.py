"""The problems on a page: which are embedded with their samples, and the table of all of them.

Lost and gained problems come first, then a selection of the others, until the page is full.
"""

import math
from dataclasses import dataclass
from hashlib import blake2b
from itertools import zip_longest

import numpy as np

from offleash.comparing.per_problem import ProblemDetail
from offleash.render.escape import script_json, shorten_middle, single_line
from offleash.render.json import Json
from offleash.reporting.samples import SampleStore, problem_documents

EMBED_ALL = 300  # up to so many problems a page tries to hold all of them
MAX_UNCHANGED = {"P": 60, "O": 40, "U": 40}  # of a larger comparison: unchanged problems that are held, by class
MAX_BYTES = 2_800_000  # of all samples together: the page must stay small enough to be sent by mail
SAMPLES_PER_VERDICT, ANSWERS = 2, 12  # samples of each verdict, answers
MAX_CHARACTERS, MIN_CHARACTERS = 2400, 240  # characters of a text, by how many problems share the page
PROBLEMS_AT_ONCE = 400  # problems fetched at a time


@dataclass(frozen=True)
class EmbeddedProblems:
    """The problems of a page by row, each as the text of its JSON, and what is to be said of the choice."""

    documents: dict[int, str]
    words: str


def embed_problems(detail: ProblemDetail, store: SampleStore, max_bytes: int = MAX_BYTES) -> EmbeddedProblems:
    """Problems with their samples until the page is full.

    Losses and gains may take four fifths of it: without unchanged problems beside them, a reader cannot tell what is
    usual for these runs.
    """
    changed, others = reading_order(detail)
    # about a dozen texts per problem (2 runs x up to 4 verdicts x SAMPLES_PER_VERDICT, few of them full) share
    # its part of the page
    characters = int(np.clip(max_bytes / max(len(changed) + len(others), 1) / 12, MIN_CHARACTERS, MAX_CHARACTERS))
    out: dict[int, str] = {}
    for rows, limit in ((changed, max_bytes * 4 // 5 if others else max_bytes), (others, max_bytes)):
        _add_documents(out, rows, limit, store, characters)
    return EmbeddedProblems(out, _embedded_text(detail, out, len(detail.class_P)))


def _add_documents(out: dict[int, str], wanted: list[int], limit: int, store: SampleStore, characters: int) -> None:
    """Add problems, in their order, while all together fit into so many bytes."""
    size = sum(len(text.encode()) for text in out.values())
    for start in range(0, len(wanted), PROBLEMS_AT_ONCE):
        rows = wanted[start : start + PROBLEMS_AT_ONCE]
        # in batches: one scan of the files serves many problems, and what does not fit any more is never read
        documents = problem_documents(store, rows, SAMPLES_PER_VERDICT, characters * 2 // 3, characters // 3, ANSWERS)
        for row in rows:
            text = script_json(_with_clipped_question(documents[row], characters))
            size += len(text.encode())
            if size > limit and out:
                return
            out[row] = text


def reading_order(detail: ProblemDetail) -> tuple[list[int], list[int]]:
    """Rows by how much a reader would miss them: losses and gains, the surest first; and some of the others, mixed."""
    classes = detail.class_P
    changed = np.flatnonzero(np.isin(classes, ["E", "S"]))
    strength = detail.tally.correct_PR[changed].max(axis=1)
    # the last key of lexsort sorts first: significant ones, then those with most successes, then by row
    first = changed[np.lexsort((changed, -strength, ~detail.significant_P[changed]))]
    rest: list[list[int]] = []
    for name, most in MAX_UNCHANGED.items():
        rows = np.flatnonzero(classes == name).tolist()
        # by a hash of the id: a selection that is the same on every page and favours no problem
        mixed = sorted(rows, key=lambda row: blake2b(str(detail.tally.problem_P[row]).encode()).digest())
        rest.append(mixed if len(classes) <= EMBED_ALL else mixed[:most])
    interleaved_rows = [
        row for class_rows in zip_longest(*rest) for row in class_rows if row is not None
    ]  # each class has its share
    return [int(row) for row in first], interleaved_rows


def _with_clipped_question(document: Json, characters: int) -> Json:
    """The document with a question of bounded length."""
    question = document.get("question")
    if isinstance(question, str) and len(question) > 2 * characters:
        return {**document, "question": question[: 2 * characters] + "…"}
    return document


def _embedded_text(detail: ProblemDetail, embedded: dict[int, str], total: int) -> str:
    """Which problems the page holds, in a sentence, so that a missing one is not taken for one that is not there."""
    if len(embedded) == total:
        return f"All {total:,} problems are on this page, with up to {SAMPLES_PER_VERDICT} samples per verdict and run."
    classes = detail.class_P
    parts = []
    for name, what in (
        ("S", "lost"),
        ("E", "gained"),
        ("P", "kept"),
        ("O", "reached by neither"),
        ("U", "undetermined"),
    ):
        every = int((classes == name).sum())
        if every:
            embedded_count = sum(classes[row] == name for row in embedded)
            parts.append(f"{embedded_count:,} of {every:,} {what}")
    return (
        f"This page includes {len(embedded):,} of {total:,} problems, with up to {SAMPLES_PER_VERDICT} samples per "
        "verdict "
        f"and run ({', '.join(parts)}); the table has the counts of all problems. offleash view shows every sample."
    )


# The table of problems, one list per column, since a page of thousands of rows should repeat no names.


MAX_NAME_CHARACTERS = 80  # characters of an id or the name of a benchmark
MAX_SEARCHED, MIN_SEARCHED, ALL_SEARCHED = (
    1000,
    140,
    1_000_000,
)  # characters of a question that can be searched, and of all of them


def searchable_characters(problems: int) -> int:
    """How many characters of every question a page of so many problems can be searched for."""
    return max(MIN_SEARCHED, min(MAX_SEARCHED, ALL_SEARCHED // max(problems, 1)))


def table(detail: ProblemDetail, embedded_rows: set[int]) -> Json:
    """Every problem of a comparison: what it is, its class, its counts and the evidence of a change."""
    tally, problems = detail.tally, detail.problems
    searched_characters = searchable_characters(problems.height)
    benchmarks = [single_line(str(name), MAX_NAME_CHARACTERS) for name in tally.benchmark_P]
    return {
        "problem": [
            single_line(shorten_middle(name, MAX_NAME_CHARACTERS), MAX_NAME_CHARACTERS)
            for name in problems["problem"].to_list()
        ],
        "text": [single_line(text or "", searched_characters) for text in problems["question"].to_list()],
        "benchmark": benchmarks if len(set(benchmarks)) > 1 else None,
        "class": "".join(detail.class_P.tolist()),
        "correct": [tally.correct_PR[:, r].tolist() for r in range(2)],
        "drawn": [_constant_or_all(tally.drawn_PR[:, r].tolist()) for r in range(2)],
        "p": [_rounded(p) for p in detail.p_P.tolist()],
        "sure": [int(row) for row in detail.significant_P.nonzero()[0]],
        "held": sorted(embedded_rows),
    }


def _constant_or_all(values: list[int]) -> int | list[int]:
    """One number where all are the same."""
    return values[0] if len(set(values)) == 1 else values


def _rounded(p: float) -> float | None:
    """A p-value in two digits, which keeps a table of thousands of rows small; None where there was no test."""
    return None if math.isnan(p) else float(f"{p:.2g}")
