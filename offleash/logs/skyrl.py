"""SkyRL (NovaSky): evaluation dumps, dumped_evals/{eval_only,global_step_N_evals}/{data source}.jsonl.

Fields: `input_prompt` and `output_response` (decoded, with special tokens), `score`, `stop_reason`, `env_class`,
`env_extras` (with the gold answer in `reward_spec.ground_truth`), `data_source`. Traps:

* `score` is one number, or one per token of the response: then their sum is the reward, as SkyRL itself counts.
* There is no id: a problem is its prompt, gold answer, data source and images.
* The step is in the name of the folder only.
* `aggregated_results.jsonl` beside them holds averages and is no log. Training dumps are pickles, which are refused.
"""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from offleash.data.content import content_hashes
from offleash.files.detect import Container, Head
from offleash.files.rows import Row, fields_of, text_of
from offleash.logs.format import Entry, Format, Log, Options, RolloutFormat
from offleash.logs.own_verdicts import VerdictReader
from offleash.logs.training import GOLD, IMAGES, evaluation_by_path, first_of, step_in_name, training_log

KEYS = {"input_prompt", "output_response", "score", "env_class"}


def recognise(head: Head) -> bool:
    """Names that no other tool uses."""
    return head.container is Container.JSONL and set(head.columns) >= KEYS


def read(path: Path, head: Head, options: Options) -> Log:
    """One sample per row; the verdict is `score`."""
    step = step_in_name(path)

    def expand(row: Row) -> Iterator[Row]:
        yield Row(row.path, row.number, {**row.values, "step": step})

    return training_log("skyrl", head, options, _entries, "SkyRL score", expand=expand, added=("step",) if step else ())


def _entries(row: Row, judge: VerdictReader) -> Iterator[Entry]:
    question, extras = row.text("input_prompt"), row.fields("env_extras")
    verdict, score = judge.mark(_total(row), row.number)
    yield Entry(
        problem=row.problem(question=question),
        question=question,
        gold=_gold(extras),
        benchmark=row.text("data_source", "env_class"),
        contents=content_hashes(images=first_of(extras, IMAGES)),
        text=row.text("output_response"),
        verdict=verdict,
        score=score,
        finish=row.text("stop_reason"),
        row=row.number,
    )


def _total(row: Row) -> object:
    """The reward of the whole response."""
    score = row.values.get("score")
    if not isinstance(score, list):
        return score
    if not all(isinstance(part, int | float) for part in score):
        row.wrong("'score' is a list in which not all values are numbers")
    return math.fsum(score) if all(map(math.isfinite, score)) else None


def _gold(extras: Mapping[str, object]) -> str | None:
    """The gold answer, where verl's and SkyRL's datasets keep it, or a column of the dataset that is named so."""
    reward_spec = fields_of(extras.get("reward_spec")) or fields_of(extras.get("reward_model"))
    return text_of(first_of(reward_spec, ("ground_truth",)) or first_of(extras, GOLD))


FORMAT = Format(
    "skyrl",
    "SkyRL evaluation dumps",
    recognise,
    read,
    ("dumped_evals/global_step_10_evals/aime.jsonl",),
    columns=(KEYS,),
    rollouts=RolloutFormat(("step",), evaluation_by_path, step_in=step_in_name),
)
