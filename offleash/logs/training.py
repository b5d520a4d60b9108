"""What the rollout files of trainers have in common: training steps, repeated batches, gold answers in extra columns.

The formats of trainers (prime_rl, nemo_rl, skyrl, open_instruct, swift, tinker, areal, art, trl, verl) say what a row
means; here is what they share. `training_log` is `row_log` for rows that are not yet samples: a line may hold a batch,
and the step may be in the file's name or inside an object, where --split-by would not find it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from offleash.data.tables import Note
from offleash.errors import OffleashError
from offleash.files.columns import require_column
from offleash.files.detect import Head, rows_after_head
from offleash.files.lines import LOG, Repairs
from offleash.files.rows import Row, text_of
from offleash.logs.format import Log, Options
from offleash.logs.frames import Closing, Convert, check_maps, check_split, converted

# Columns of a dataset that users log beside a completion, first match first. Lower case.
GOLD = ("ground_truth", "gts", "gold", "solution", "answer", "label", "target")
IMAGES = ("images", "image", "multi_modal_data")
# Columns by which users separate evaluation from training, and the values that say evaluation.
SPLIT_MARKERS = ("split", "mode", "phase", "probe", "is_eval", "eval")
EVALUATION_VALUES = {"eval", "evaluation", "val", "valid", "validation", "test", "probe", "true", "yes", "1", "1.0"}
EVALUATION_NAME = re.compile(r"(?<![a-z])(eval|evals|evaluation|val|valid|validation|test)(?![a-z])", re.IGNORECASE)
REPEATED = "samples_repeated"  # the code of a note on samples that a trainer logged twice
# Names of rewards that judge the answer: accuracy_reward, is_correct, exact_match, ...
CORRECTNESS_NAME = re.compile(r"acc|correct|exact|match|verif|solve|pass", re.IGNORECASE)


def training_log(
    format_name: str,
    head: Head,
    options: Options,
    convert: Convert,
    verifier: str,
    maps: Iterable[str] = (),
    expand: Callable[[Row], Iterable[Row]] | None = None,
    added: Sequence[str] = (),
    step: str = "step",
    closing: Closing = list,
) -> Log:
    """A log of a trainer, each of whose samples is turned into entries by `convert`.

    Args:
        format_name: Name of the format, for messages.
        head: The head of the file.
        options: As the user gave them; one that the format does not know is refused.
        convert: From the row of a sample to its entries.
        verifier: Whose verdicts these are: mostly a reward.
        maps: The roles of --map that the format honours.
        expand: From a row of the file to the rows of its samples; None where they are the same.
        added: Columns that `expand` adds, by which a user may split.
        step: The column of the training step, or of the version of the weights.
        closing: Gives the notes that are known only after the last row.

    Returns:
        The log, as lazy as that of `row_log`, with a note where its samples come from several steps.
    """
    check_maps(format_name, options, maps)
    check_split(replace(head, columns=(*head.columns, *added)), options)
    repairs, steps = Repairs(), Steps(head.path, step, options.split_by)

    def samples() -> Iterable[Row]:
        for row in rows_after_head(head, LOG, repairs):
            for sample in expand(row) if expand is not None else (row,):
                steps.seen[text_of(sample.values.get(step))] = None
                yield sample

    log = Log(format_name, verifier, iter(()))
    log.frames = converted(
        log,
        samples(),
        head.path,
        options,
        convert,
        lambda: [*closing(), *steps.notes(), *repairs.all_notes(head.path)],
    )
    return log


@dataclass
class Steps:
    """The training steps of a file: weights change between them, so their samples are not draws from one model."""

    path: Path
    column: str
    split_by: str | None
    seen: dict[str | None, None] = field(default_factory=dict)

    def notes(self) -> list[Note]:
        """Known only after the last row."""
        if self.split_by == self.column or len(self.seen) < 2:
            return []
        steps_note = f"samples of {len(self.seen)} training steps are drawn from different weights"
        return [Note(f"{self.path.name}: {steps_note}; --split-by {self.column} keeps them apart.")]


def step_in_name(path: Path, pattern: str = r"step_?(\d+)") -> str | None:
    """The training step in the name of a file or, nearest first, of a folder that it is in.

    >>> step_in_name(Path("logs/train_data_step12.jsonl")), step_in_name(Path("global_step_7_evals/aime.jsonl"))
    ('12', '7')
    """
    for part in reversed(path.parts):
        if match := re.search(pattern, part):
            return str(int(match[1]))
    return None


def evaluation_by_path(path: Path, _: Mapping[str, object]) -> bool:
    """Whether the name of a file, or of one of the three folders it is in, says that it is of an evaluation.

    >>> evaluation_by_path(Path("logs/val_data_step12.jsonl"), {}), evaluation_by_path(Path("rollouts/12.jsonl"), {})
    (True, False)
    """
    return any(EVALUATION_NAME.search(part) for part in path.parts[-4:])


def evaluation_by_mark(path: Path, values: Mapping[str, object]) -> bool:
    """Whether a column of the user says that a sample is of an evaluation; without one, the path decides."""
    marker = column_named(SPLIT_MARKERS, values)
    if marker is None:
        return evaluation_by_path(path, values)
    return str(values[marker]).strip().lower() in EVALUATION_VALUES


def choose_reward(rewards: Sequence[str], head: Head, options: Options) -> str:
    """The reward that says whether a sample is correct: the one mapped, the only one, or the only one named so."""
    if "verdict" in options.columns:
        return require_column(options.columns["verdict"], head.columns, head.path, "--map verdict")
    candidates = [name for name in rewards if CORRECTNESS_NAME.search(name)]
    for names in (rewards, candidates):
        if len(names) == 1:
            return names[0]
    raise OffleashError(
        f"{head.path} has the reward columns {', '.join(rewards) or '(none)'}. Name the one that says whether a "
        f"sample is correct: --map verdict=NAME{f', for example --map verdict={rewards[0]}' if rewards else ''}."
    )


def column_named(names: Sequence[str], columns: Iterable[str]) -> str | None:
    """The first of these names that a column has, whatever its case."""
    by_name = {column.lower(): column for column in columns}
    return next((by_name[name] for name in names if name in by_name), None)


def first_of(values: Mapping[str, object], names: Sequence[str]) -> object:
    """The value of the first of these columns that has one."""
    return next((values[name] for name in names if values.get(name) not in (None, "", [], {})), None)


def overlap(before: pl.DataFrame, after: pl.DataFrame) -> int:
    """How many rows at the start of a logged batch were in the batch logged before it.

    TRL and ms-swift log the last `generation_batch_size` samples whenever they log: where a generated batch is trained
    on for several steps, all of it again (ms-swift with entropies: as much as was trained on by then); after a short
    evaluation, the end of it. Texts repeat by chance (a group may hold one answer eight times), so only whole batches
    or groups with every column equal are taken for the same samples.

    Args:
        before: The rows logged before, without the step.
        after: The rows logged next, with the same columns.

    >>> rows = pl.DataFrame({"prompt": ["a", "a", "b", "b"], "completion": ["1", "1", "2", "3"]})
    >>> overlap(rows, rows), overlap(rows, rows.tail(2)), overlap(rows, rows.tail(1)), overlap(rows, rows.reverse())
    (4, 2, 0, 0)
    """
    if before.columns != after.columns or before.is_empty() or after.is_empty():
        return 0
    old, new = _keys(before), _keys(after)
    shorter_length = min(len(old), len(new))
    if old[:shorter_length] == new[:shorter_length]:
        return shorter_length
    for start in range(max(len(old) - len(new), 1), len(old)):
        size = len(old) - start
        if old[start] != new[0] or old[start:] != new[:size]:
            continue
        inside = old[start - 1][0] == old[start][0]  # the group began before
        group_continues = size < len(new) and new[size - 1][0] == new[size][0]  # the group goes on
        return 0 if inside or group_continues else size
    return 0


def _keys(rows: pl.DataFrame) -> list[tuple[int, int]]:
    """Hashes of the group and of all columns of each row.

    A group is its prompt and what else was logged of the problem, which is text: numbers are rewards.
    """
    about = [name for name, kind in rows.schema.items() if name != "completion" and not kind.is_numeric()]
    group = pl.struct(about).hash() if about else pl.lit(0, pl.UInt64)
    return rows.select(group.alias("group"), pl.struct(rows.columns).hash().alias("row")).rows()
