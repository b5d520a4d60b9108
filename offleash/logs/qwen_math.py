"""Qwen2.5-Math evaluation and limit-of-RLVR (arXiv:2504.13837): JSONL with lists, one row per problem.

Fields: `idx`, `question`, `gt`, and lists of one length: `code` (completions, despite the name), `pred` (extracted
answers), `score` (booleans), `finish_reason`. Traps:

* `score` is written by the grading; files from before it have none, and their samples stay unverified.
* The extractor writes "" where it found no answer: wrong with an empty `pred` is unread.
"""

from collections.abc import Iterator
from pathlib import Path

from offleash.data.verdict import Verdict
from offleash.files.detect import Container, Head
from offleash.files.rows import Row, text_of
from offleash.logs.format import Entry, Format, Log, Options
from offleash.logs.frames import row_log
from offleash.logs.own_verdicts import VerdictReader

KEYS = {"idx", "question", "gt", "code", "pred"}
HINT = "The file has no scores: judge its samples with --verifier math, or run Qwen2.5-Math's evaluate.py on it."


def recognise(head: Head) -> bool:
    """`code` as a list: in other tables it is the program of one sample."""
    return head.container is Container.JSONL and set(head.columns) >= KEYS and isinstance(head.first.get("code"), list)


def read(path: Path, head: Head, options: Options) -> Log:
    """As many samples per row as its lists are long."""
    has_scores = "score" in head.columns
    log = row_log("qwen_math", head, options, _entries, "Qwen2.5-Math grader" if has_scores else None)
    log.unverified_hint = "" if has_scores else HINT
    return log


def _entries(row: Row, judge: VerdictReader) -> Iterator[Entry]:
    texts = row.items("code")
    answers = row.items("pred")
    scores = row.items("score") if "score" in row.values else None
    row.require_same_length({"code": texts, "pred": answers, "score": scores})
    if not texts:
        judge.no_sample(row.number)
    question, finishes = row.text("question"), row.values.get("finish_reason")
    about = Entry(problem=row.problem("idx", question=question), question=question, gold=row.text("gt"), row=row.number)
    for index, (text, answer) in enumerate(zip(texts, answers, strict=True)):
        verdict, score = judge.mark(scores[index], row.number) if scores is not None else (None, None)
        if verdict == Verdict.WRONG and answer == "":  # the extractor found nothing
            verdict = Verdict.UNREAD
        finish = text_of(finishes[index]) if isinstance(finishes, list) and len(finishes) == len(texts) else None
        entry = about._replace(sample=index, text=text_of(text), answer=text_of(answer), finish=finish)
        yield entry._replace(verdict=verdict, score=score)


FORMAT = Format(
    "qwen_math",
    "Qwen2.5-Math and limit-of-RLVR outputs",
    recognise,
    read,
    ("test_qwen25-math-cot_-1_seed0_t0.6.jsonl",),
    columns=(KEYS,),
)
