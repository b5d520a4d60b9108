"""ms-swift (ModelScope): `completions.jsonl` of GRPO with log_completions, one line per logging step.

A line holds columns as lists of the same length: `step` (texts) or, in Megatron, `gen_step`, `prompt` (in old versions
`messages`), `completion`, one column per reward function, `advantages`, sometimes `entropy` and columns of the dataset.
Traps:

* Like TRL it logs its last `generation_batch_size` samples at every logging step: where a batch is trained on for
  several steps, a line repeats the line before. Repeats are found by whole groups with all columns equal.
* There is no id: a problem is known by its prompt, chat template included, and by the gold answer where one is logged.
* Rewards may be of format or length. Which of them says "correct" is guessed from its name, or must be named.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from offleash.data.content import content_hashes
from offleash.data.tables import Note
from offleash.files.detect import Container, Head
from offleash.files.rows import Row, chat_text
from offleash.logs.contents import images_in
from offleash.logs.format import Entry, Format, Log, Options, RolloutFormat
from offleash.logs.own_verdicts import VerdictReader
from offleash.logs.training import (
    GOLD,
    IMAGES,
    REPEATED,
    choose_reward,
    column_named,
    evaluation_by_path,
    first_of,
    overlap,
    training_log,
)

STEPS = ("step", "gen_step")
PROMPTS = ("prompt", "messages")
NON_REWARD_COLUMNS = (
    *STEPS,
    *PROMPTS,
    "completion",
    "advantages",
    "advantage",
    "entropy",
    *GOLD,
    *IMAGES,
)  # not rewards


def recognise(head: Head) -> bool:
    """Columns as lists, with the step repeated for every sample."""
    step, prompt = column_named(STEPS, head.columns), column_named(PROMPTS, head.columns)
    if head.container is not Container.JSONL or step is None or prompt is None:
        return False
    lists = [head.first.get(name) for name in (step, prompt, "completion")]
    return (
        all(isinstance(values, list) for values in lists)
        and len({len(values) for values in lists if isinstance(values, list)}) == 1
    )


def read(path: Path, head: Head, options: Options) -> Log:
    """One sample per position of a line's lists; the verdict is the reward that judges the answer."""
    step = column_named(STEPS, head.columns) or "step"
    rewards = [
        name for name, values in head.first.items() if name.lower() not in NON_REWARD_COLUMNS and _numbers(values)
    ]
    reward = choose_reward(rewards, head, options)
    batches = _Batches(path, step)

    def convert(row: Row, judge: VerdictReader) -> Iterator[Entry]:
        yield _entry(row, judge, reward)

    log = training_log(
        "swift",
        head,
        options,
        convert,
        f"ms-swift reward {reward}",
        maps=("verdict",),
        expand=batches.samples,
        step=step,
        closing=batches.notes,
    )
    log.notes.append(Note(f"{path.name}: the verdict is the reward {reward}."))
    return log


def _numbers(values: object) -> bool:
    return isinstance(values, list) and all(value is None or isinstance(value, int | float) for value in values)


def _column(name: str, values: list[object]) -> pl.Series:
    """A column for `overlap`, which takes numbers for rewards and the rest for the problem; any value will do."""
    written = [repr(value) for value in values]
    return pl.Series(name, list(map(hash, written)), pl.Int64) if _numbers(values) else pl.Series(name, written)


@dataclass
class _Batches:
    """The batches of a file, each without the samples that were logged before."""

    path: Path
    step: str
    before: pl.DataFrame | None = None
    repeated: int = 0
    first: int = 0  # row

    def samples(self, row: Row) -> Iterator[Row]:
        """The samples of one line."""
        lists: Mapping[str, list[object]] = {
            name: values for name, values in row.values.items() if isinstance(values, list)
        }
        prompt = column_named(PROMPTS, lists)
        if prompt is None or "completion" not in lists or self.step not in lists:
            row.wrong(f"it has no lists called prompt, completion and {self.step}")
        row.require_same_length(lists)
        rows = [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]
        batch = pl.DataFrame([_column(name, values) for name, values in lists.items() if name != self.step])
        size = overlap(self.before, batch) if self.before is not None else 0
        if size:
            self.repeated, self.first = self.repeated + size, self.first or row.number
        self.before = batch
        for values in rows[size:]:
            yield Row(row.path, row.number, {**values, "prompt": values[prompt]})

    def notes(self) -> list[Note]:
        """How many were left out, known only after the last row."""
        if not self.repeated:
            return []
        what = f"{self.repeated} samples (first: row {self.first}) repeat the previous line"
        return [Note(f"{self.path.name}: {what}; they are counted once.", self.repeated, left_out=True, code=REPEATED)]


def _entry(row: Row, judge: VerdictReader, reward: str) -> Entry:
    question = chat_text(row.values.get("prompt"), "user")
    verdict, score = judge.mark(row.values.get(reward), row.number)
    return Entry(
        problem=row.problem(question=question),
        question=question,
        gold=row.text(*(name for name in GOLD if name != reward)),
        contents=content_hashes(images=images_in(row.values.get("prompt")) or first_of(row.values, IMAGES)),
        text=chat_text(row.values.get("completion"), "assistant"),
        verdict=verdict,
        score=score,
        row=row.number,
    )


FORMAT = Format(
    "swift",
    "ms-swift GRPO completions (log_completions)",
    recognise,
    read,
    ("completions.jsonl",),
    columns=({"step", "prompt", "completion"},),
    rollouts=RolloutFormat(STEPS, evaluation_by_path, context=1),
)
