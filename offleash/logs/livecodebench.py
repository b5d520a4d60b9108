"""LiveCodeBench (lcb_runner): its output, and the `_eval_all.json` of --evaluate; a JSON array, one object per problem.

Fields: `question_id`, `question_content`, and lists of one length: `output_list` (completions), `code_list` (programs
taken from them), `graded_list` (booleans, after the evaluation only). An empty program in `code_list` means that none
was found in the completion; lcb_runner grades it as wrong.
"""

from collections.abc import Iterator
from pathlib import Path

from offleash.files.detect import Container, Head
from offleash.files.rows import Row, text_of
from offleash.logs.format import Entry, Format, Log, Options
from offleash.logs.frames import row_log
from offleash.logs.own_verdicts import VerdictReader

KEYS = {"question_id", "output_list", "code_list"}
HINT = (
    "These samples have not been evaluated: run lcb_runner with --evaluate and read its _eval_all.json, or run their "
    "tests with `compare --verifier program --problems livecodebench_v6`."
)


def recognise(head: Head) -> bool:
    """Its lists; some versions write one object per line instead of an array."""
    return head.container in (Container.JSON, Container.JSONL) and set(head.columns) >= KEYS


def read(path: Path, head: Head, options: Options) -> Log:
    """As many samples per problem as its lists are long."""
    has_grades = "graded_list" in head.columns
    log = row_log("livecodebench", head, options, _entries, "LiveCodeBench" if has_grades else None)
    log.unverified_hint = "" if has_grades else HINT
    return log


def _entries(row: Row, judge: VerdictReader) -> Iterator[Entry]:
    texts, codes = row.items("output_list"), row.items("code_list")
    grades = row.items("graded_list") if "graded_list" in row.values else None
    row.require_same_length({"output_list": texts, "code_list": codes, "graded_list": grades})
    if not texts:
        judge.no_sample(row.number)
    question = row.text("question_content")
    about = Entry(
        problem=row.problem("question_id", question=question),
        question=question,
        benchmark="livecodebench",
        row=row.number,
    )
    for index, (text, code) in enumerate(zip(texts, codes, strict=True)):
        verdict, score = judge.mark(grades[index], row.number) if grades is not None else (None, None)
        yield about._replace(sample=index, text=text_of(text), answer=text_of(code), verdict=verdict, score=score)


FORMAT = Format(
    "livecodebench",
    "LiveCodeBench outputs and evaluations",
    recognise,
    read,
    ("Scenario.codegeneration_10_0.2_eval_all.json",),
    columns=(KEYS,),
)
