"""tinker-cookbook (Thinking Machines): `iteration_N/{train,eval_NAME}_rollout_summaries.jsonl`, one row per rollout.

Fields: `split`, `iteration`, `group_idx`, `traj_idx`, `tags`, `total_reward`, `final_reward`, `steps` (each with
`ac_len`, the tokens of an action, `metrics` and `logs`). Traps:

* There are no texts, neither of problems nor of samples, and no gold answers.
* In training `group_idx` counts the groups of one iteration: another iteration, or run, uses the same numbers for
  other problems, so only pass@k within a file can be had.
* In an evaluation it is the position in the test set, the same in every iteration and run with the same test set.
* `total_reward` includes penalties for the format: `steps[-1].metrics.correct` is the verdict where it is there.
"""

from collections.abc import Iterator
from pathlib import Path

from offleash.data.tables import Note
from offleash.files.detect import Container, Head
from offleash.files.rows import Row, fields_of, integer_of, text_of
from offleash.logs.format import Entry, Format, Ids, Log, Options, RolloutFormat
from offleash.logs.own_verdicts import VerdictReader
from offleash.logs.training import training_log

KEYS = {"split", "iteration", "group_idx", "traj_idx", "total_reward"}


def recognise(head: Head) -> bool:
    """The indices of group and trajectory."""
    return head.container is Container.JSONL and set(head.columns) >= KEYS


def read(path: Path, head: Head, options: Options) -> Log:
    """One sample per row, without its text; the verdict is the metric `correct`, else `total_reward`."""
    verdict_metric = "correct" if "correct" in _metrics(Row(path, 1, head.first)) else "total_reward"
    verdict_metric = options.columns.get("verdict", verdict_metric)

    def expand(row: Row) -> Iterator[Row]:
        yield Row(row.path, row.number, {**row.values, **_metrics(row)})

    def convert(row: Row, judge: VerdictReader) -> Iterator[Entry]:
        if verdict_metric not in row.values:
            row.wrong(f"it has no {verdict_metric!r}, neither as a field nor as a metric of its last step")
        yield _entry(row, judge, verdict_metric)

    log = training_log(
        "tinker", head, options, convert, f"tinker {verdict_metric}", maps=("verdict",), expand=expand, step="iteration"
    )
    if _is_test(head.first.get("split")):
        identity_note = (
            "problems are identified only by their position in the test set; both runs must use the same test set"
        )
    else:
        log.ids = Ids.GROUP
        identity_note = "groups of a training run have no texts, so they cannot be matched with those of another file"
    log.notes.append(Note(f"{path.name}: {identity_note}."))
    return log


def _entry(row: Row, judge: VerdictReader, verdict_metric: str) -> Entry:
    split, group = row.text("split"), row.integer("group_idx")
    if group is None:
        row.wrong("'group_idx' is missing")
    verdict, score = judge.mark(row.values.get(verdict_metric), row.number)
    return Entry(
        # A file of several iterations (joined by a user) has a group 0 in each of them.
        problem=str(group) if _is_test(split) else f"{row.text('iteration')}/{group}",
        benchmark=split if _is_test(split) else None,
        verdict=verdict,
        score=score if score is not None else row.number_field("total_reward"),
        tokens=_tokens(row),
        row=row.number,
    )


def _is_test(split: object) -> bool:
    return not (text_of(split) or "train").startswith("train")


def _metrics(row: Row) -> dict[str, object]:
    """The metrics of the last step, in which environments say whether the answer was correct."""
    steps = row.values.get("steps")
    last = fields_of(steps[-1]) if isinstance(steps, list) and steps else {}
    return {name: value for name, value in fields_of(last.get("metrics")).items() if name not in row.values}


def _tokens(row: Row) -> int | None:
    """Tokens of all actions."""
    steps = row.values.get("steps")
    lengths = [integer_of(fields_of(step).get("ac_len")) for step in steps] if isinstance(steps, list) else []
    known = [length for length in lengths if length is not None]
    return sum(known) if known and len(known) == len(lengths) else None


FORMAT = Format(
    "tinker",
    "tinker-cookbook rollout summaries",
    recognise,
    read,
    ("iteration_000010/eval_test_rollout_summaries.jsonl",),
    columns=(KEYS,),
    rollouts=RolloutFormat(("iteration",), lambda path, values: _is_test(values.get("split"))),
)
