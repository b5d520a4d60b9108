"""What is told of a problem to whoever looks at it, as JSON: its question, its answers and some of its samples."""

from collections.abc import Sequence

from offleash.render.numbers import Json
from offleash.reporting.samples import Answered, Much, Sample, Shelf, Told

EACH, ANSWERS = 3, 50  # samples of each verdict, answers
HEAD, TAIL = 3_500, 500  # letters of the two ends of a text
QUESTION, ANSWER = 20_000, 500  # letters of a question or a gold answer; of an answer or a reason
RUNS = (0, 1)  # before, after
CUT = "\N{HORIZONTAL ELLIPSIS}"


def problem_document(shelf: Shelf, row: int) -> Json:
    """All that is told of one problem."""
    return problem_documents(shelf, [row])[row]


def problem_documents(
    shelf: Shelf, rows: Sequence[int], each: int = EACH, head: int = HEAD, tail: int = TAIL, answers: int = ANSWERS
) -> dict[int, Json]:
    """All that is told of some problems, by row; the samples of a run are looked for once, for all of them."""
    found = [shelf.told(rows, r, Much(each, head, tail, answers)) for r in RUNS]
    return {row: _asked(shelf, row) | {"runs": [_run(shelf, row, r, found[r][row]) for r in RUNS]} for row in rows}


def samples_document(shelf: Shelf, row: int, r: int, verdict: str | None, start: int, size: int) -> Json:
    """Some samples of a problem in the order of their index, and how many there are."""
    page, total = shelf.page(row, r, verdict, start, size, HEAD, TAIL)
    return {"samples": [_sample(one) for one in page], "total": total}


def text_document(shelf: Shelf, row: int, r: int, index: int, start: int, size: int) -> Json | None:
    """A part of the text of one sample; None where there is no such text."""
    found = shelf.text(row, r, index, start, size)
    return None if found is None else {"text": found[0], "start": start, "letters": found[1]}


def _asked(shelf: Shelf, row: int) -> Json:
    """What was asked; the whole lengths say how much of it was cut."""
    asked = shelf.one.counted.problems.select("problem", "benchmark", "question", "gold").row(row)
    problem, benchmark, question, gold = asked
    return {
        "row": row,
        "problem": problem,
        "benchmark": benchmark or "",
        "question": _clipped(question, QUESTION),
        "question_letters": len(question or ""),
        "gold": _clipped(gold, QUESTION),
        "gold_letters": len(gold or ""),
    }


def _run(shelf: Shelf, row: int, r: int, told: Told) -> Json:
    """What a run answered to a problem."""
    tally = shelf.one.counted.tally
    return {
        "name": shelf.run(r).name,
        "drawn": int(tally.drawn_PR[row, r]),
        "correct": int(tally.correct_PR[row, r]),
        "kinds": told.kinds,
        "answers": [_answer(one) for one in told.answers],
        "answers_left_out": told.different - len(told.answers),
        "texts": any(one.head is not None for one in told.samples),
        "samples": [_sample(one) for one in told.samples],
    }


def _answer(one: Answered) -> Json:
    return {"answer": _clipped(one.answer, ANSWER), "verdict": one.verdict, "count": one.count}


def _sample(one: Sample) -> Json:
    """One sample: both ends of its text, and what was said of it."""
    return {
        "index": one.index,
        "verdict": one.verdict,
        "answer": _clipped(one.answer, ANSWER),
        "reason": _clipped(one.reason, ANSWER),
        "step": one.step,
        "finish": one.finish,
        "tokens": one.tokens,
        "head": one.head,
        "tail": one.tail,
        "letters": one.letters,
    }


def _clipped(text: str | None, most: int) -> str | None:
    """The beginning of a text; an ellipsis says that there is more."""
    return text if text is None or len(text) <= most else text[:most] + CUT
