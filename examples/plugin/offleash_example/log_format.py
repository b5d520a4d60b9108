"""quizlog: JSON Lines of a quiz server, one reply per line."""

from collections.abc import Iterator
from pathlib import Path

from offleash.files.detect import Container, Head
from offleash.files.rows import Row
from offleash.logs.format import Entry, Format, Log, Options
from offleash.logs.frames import row_log
from offleash.logs.own_verdicts import VerdictReader

KEYS = {"quiz_item", "reply", "points"}


def recognise(head: Head) -> bool:
    return head.container is Container.JSONL and set(head.columns) >= KEYS


def read(path: Path, head: Head, options: Options) -> Log:
    return row_log("quizlog", head, options, _entries, verifier="quizlog")


def _entries(row: Row, judge: VerdictReader) -> Iterator[Entry]:
    question = row.text("quiz_text")
    verdict, score = judge.mark(row.values["points"], row.number)
    yield Entry(
        problem=row.problem("quiz_item", question=question),
        question=question,
        text=row.text("reply"),
        verdict=verdict,
        score=score,
        row=row.number,
    )


FORMAT = Format("quizlog", "replies of a quiz server", recognise, read, ("quiz.jsonl",))
