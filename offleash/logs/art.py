"""ART (OpenPipe): trajectories/{split}/{step}.parquet, one trajectory per row.

Columns: `group_index`, `reward`, `metrics` and `metadata` (JSON as text), `messages` (with `role`, `content` and
`trainable`: whether the model wrote it), `group_metadata`. Traps:

* `group_index` counts the groups of one file: another file uses the same numbers for other problems.
* A problem is known by its first messages, so by its prompt; gold answers only where the user's metadata has them.
* `reward` is the user's own sum: --threshold says from where on a sample is correct, or --map verdict=NAME names one
  of the `metrics`.
* Parquet keeps the step in the name of the file only.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from offleash.data.content import content_hashes
from offleash.files.detect import Container, Head
from offleash.files.rows import Row, content_text, fields_of, text_of
from offleash.logs.format import Entry, Format, Ids, Log, Options, RolloutFormat
from offleash.logs.own_verdicts import VerdictReader
from offleash.logs.training import GOLD, IMAGES, evaluation_by_path, first_of, step_in_name, training_log

KEYS = {"group_index", "reward", "metrics", "metadata", "messages"}


def recognise(head: Head) -> bool:
    """Messages beside the index of the group."""
    return head.container is Container.PARQUET and set(head.columns) >= KEYS


def read(path: Path, head: Head, options: Options) -> Log:
    """One sample per row; the verdict is `reward`, or the metric that --map verdict=NAME names."""
    mark, step = options.columns.get("verdict", "reward"), _step(path)

    def expand(row: Row) -> Iterator[Row]:
        yield Row(row.path, row.number, {**_parsed(row, "metrics"), **row.values, "step": step})

    def convert(row: Row, judge: VerdictReader) -> Iterator[Entry]:
        if mark not in row.values:
            row.wrong(f"{mark!r} is neither a column nor a metric: {row.text('metrics')}")
        yield _entry(row, judge, mark)

    log = training_log(
        "art",
        head,
        options,
        convert,
        f"ART {mark}",
        maps=("verdict",),
        expand=expand,
        added=("step",) if step else (),
    )
    log.ids = Ids.GROUP
    return log


def _entry(row: Row, judge: VerdictReader, mark: str) -> Entry:
    messages = [fields_of(message) for message in row.items("messages")]
    first = next((place for place, message in enumerate(messages) if _is_written_by_model(message)), len(messages))
    question = "\n\n".join(content_text(message.get("content")) for message in messages[:first]) or None
    metadata = {**_parsed(row, "group_metadata"), **_parsed(row, "metadata")}
    verdict, score = judge.mark(row.values.get(mark), row.number)
    return Entry(
        problem=row.problem("group_index", question=question),
        question=question,
        gold=text_of(first_of(metadata, GOLD)),
        contents=content_hashes(images=first_of(metadata, IMAGES)),
        text="\n\n".join(content_text(message.get("content")) for message in messages if _is_written_by_model(message))
        or None,
        verdict=verdict,
        score=score if score is not None else row.number_field("reward"),
        row=row.number,
    )


def _step(path: Path) -> str | None:
    return step_in_name(path, r"^(\d+)(?:\.parquet)?$")


def _is_written_by_model(message: Mapping[str, object]) -> bool:
    """Whether the model wrote it: examples in the prompt are messages of the assistant too, but not trainable."""
    trainable = message.get("trainable")
    return message.get("role") == "assistant" if trainable is None else trainable is True


def _parsed(row: Row, name: str) -> Mapping[str, object]:
    """The fields of a column that holds JSON as text."""
    value = row.values.get(name)
    try:
        return fields_of(json.loads(value) if isinstance(value, str) else value)
    except (ValueError, RecursionError):
        row.wrong(f"{name!r} is not JSON")


FORMAT = Format(
    "art",
    "ART trajectories",
    recognise,
    read,
    ("trajectories/train/0010.parquet",),
    columns=(KEYS,),
    rollouts=RolloutFormat(("step",), evaluation_by_path, step_in=_step),
)
