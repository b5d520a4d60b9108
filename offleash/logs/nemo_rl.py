"""NeMo-RL (NVIDIA): `train_data_stepN.jsonl` and `val_data_stepN.jsonl` in the log folder, one sample per row.

A row is a batch of one, so every field is a list of one value. `content` is the list of messages: in validation objects
with `role` and `content`, in training texts without roles; `rewards`, `token_loss_mask`, `generation_logprobs`,
`input_lengths`, `idx` (position in the file). Traps:

* There is no id and no gold answer: a problem is what comes before the first token that the model wrote.
* In training that place is found by the loss mask: each run of masked or unmasked tokens is one message, and the
  prompt may be several (system and user). Without the mask, only conversations of two messages are clear.
* After the answer comes a message of the environment ("Environment: correct"), which is no part of the sample.
* The step is in the name of the file only; `expand` makes it a column.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from offleash.data.content import content_hashes
from offleash.files.detect import Container, Head
from offleash.files.rows import Row, content_text, fields_of, integer_of
from offleash.logs.contents import images_in
from offleash.logs.format import Entry, Format, Log, Options, RolloutFormat
from offleash.logs.own_verdicts import VerdictReader
from offleash.logs.training import evaluation_by_path, step_in_name, training_log

KEYS = {"content", "rewards", "idx"}


def recognise(head: Head) -> bool:
    """The messages of one sample, in a list of one."""
    messages = _single_value(head.first.get("content"))
    has_lists = isinstance(messages, list) and bool(messages) and isinstance(head.first.get("rewards"), list)
    return head.container is Container.JSONL and set(head.columns) >= KEYS and has_lists


def read(path: Path, head: Head, options: Options) -> Log:
    """One sample per row; the verdict is `rewards`."""
    step = step_in_name(path)

    def expand(row: Row) -> Iterator[Row]:
        yield Row(row.path, row.number, {**row.values, "step": step})

    return training_log(
        "nemo_rl", head, options, _entries, "NeMo-RL reward", expand=expand, added=("step",) if step else ()
    )


def _entries(row: Row, judge: VerdictReader) -> Iterator[Entry]:
    messages = _single_value(row.values.get("content"))
    if not isinstance(messages, list) or not messages:
        row.wrong("'content' is not a list with the messages of one sample")
    with_roles = all(isinstance(message, dict) and "role" in message for message in messages)
    prompt, completion = _texts_by_role(messages) if with_roles else _texts_by_mask(row, messages)
    question = "\n\n".join(map(content_text, prompt))
    verdict, score = judge.mark(_single_value(row.values.get("rewards")), row.number)
    mask = _single_value(row.values.get("token_loss_mask"))
    yield Entry(
        problem=row.problem(question=question),
        question=question,
        contents=content_hashes(images=images_in(messages)),
        text="\n\n".join(map(content_text, completion)) if completion else None,
        verdict=verdict,
        score=score,
        tokens=sum(1 for token in mask if token) if isinstance(mask, list) else None,
        row=row.number,
    )


def _texts_by_role(messages: list[object]) -> tuple[list[object], list[object]]:
    """What comes before the first message of the model, and all that the model wrote."""
    roles = [fields_of(message).get("role") for message in messages]
    texts = [fields_of(message).get("content") for message in messages]
    first = roles.index("assistant") if "assistant" in roles else len(messages)
    return texts[:first], [text for role, text in zip(roles, texts, strict=True) if role == "assistant"]


def _texts_by_mask(row: Row, messages: list[object]) -> tuple[list[object], list[object]]:
    """The same of messages without roles: after the prompt, the model and its environment take turns."""
    runs = _turns(row)
    after = len(runs) if runs is not None else len(messages) - 1
    if runs is None and len(messages) != 2:
        row.wrong(f"it has {len(messages)} messages and no 'token_loss_mask' to separate the prompt from the answer")
    if not 0 < after < len(messages):
        row.wrong(f"it has {len(messages)} messages, but its loss mask implies {after} after the prompt")
    return messages[:-after], messages[len(messages) - after :: 2]


def _turns(row: Row) -> Sequence[bool] | None:
    """Whether the model wrote it, for each run of tokens from its first token on; None where the row does not say."""
    mask = _single_value(row.values.get("token_loss_mask", row.values.get("generation_logprobs")))
    if not isinstance(mask, list):
        return None
    length = integer_of(_single_value(row.values.get("input_lengths")))  # beyond it, the batch is padded
    runs = [is_completion for is_completion, _ in groupby(bool(token) for token in mask[:length])]
    return runs[runs.index(True) :] if True in runs else None


def _single_value(value: object) -> object:
    """The value of a batch of one."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


FORMAT = Format(
    "nemo_rl",
    "NeMo-RL training and validation data",
    recognise,
    read,
    ("train_data_step10.jsonl", "val_data_step10.jsonl"),
    columns=(KEYS,),
    rollouts=RolloutFormat(("step",), evaluation_by_path, step_in=step_in_name),
)
