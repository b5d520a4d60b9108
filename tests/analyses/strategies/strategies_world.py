"""Run folders of worked texts whose verdicts and ways are known."""

from pathlib import Path

import polars as pl

from offleash.data.run_folder import append_to_run
from tests.verifying.samples import Texts, run_of_texts

SUM, PRODUCT, WORDS = "5 + 5 + 5 = 15", "3 * 5 = 15", "The answer is 15."
GOLD = "15"


def solved_run(folder: Path, texts: Texts, wrong: Texts | None = None, judged: bool = True) -> Path:
    """A run in which all `texts` are correct and, of each problem, `wrong` ones come after them."""
    every = {problem: [*some, *(wrong or {}).get(problem, [])] for problem, some in texts.items()}
    run_of_texts(folder, dict.fromkeys(every, GOLD), every, verifier="number")
    if judged:
        judge(folder, texts, every)
    return folder


def judge(folder: Path, right: Texts, every: Texts) -> None:
    """Verdicts: the first samples of each problem, as many as `right` has, are correct."""
    rows = [
        (problem, index, "correct" if index < len(right[problem]) else "wrong")
        for problem, some in every.items()
        for index in range(len(some))
    ]
    frame = pl.DataFrame(rows, schema=["problem", "index", "verdict"], orient="row")
    with append_to_run(folder) as run:
        run.write_verdicts("number@1", frame, "000000.parquet")
