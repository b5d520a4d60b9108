"""AReaL (Ant Group): {rollout,eval-rollout}/{version}/{task_id}.jsonl of dump_to_file, one sample per row.

Fields: `task_id`, `sample_idx`, `seqlen`, `prompt_len`, `head_version` and `tail_version` (of the weights, at the first
and the last token), `reward`, `original_reward` (where the trainer changed it), `prompt`, `completion` (decoded), and
where tools took part `segments`, each with `role` (prompt, gen or context) and `text`. Traps:

* One file per task: give the folder of a version, or a quoted glob.
* `task_id` counts the rollouts of a run: the same problem has another one later, and in another run.
* There is no gold answer. A problem is known by its prompt, so both runs need the same template.
* An agent's turns are rows of their own in some workflows, each with the turns before in its prompt: they are then
  problems of their own.
* A sample may be written by several versions of the weights; `tail_version` is that of its end.
"""

from collections.abc import Iterator
from pathlib import Path

from offleash.files.detect import Container, Head
from offleash.files.rows import Row, fields_of, integer_of, text_of
from offleash.logs.format import Entry, Format, Ids, Log, Options, RolloutFormat
from offleash.logs.own_verdicts import VerdictReader
from offleash.logs.training import GOLD, evaluation_by_path, training_log

KEYS = {"task_id", "head_version", "tail_version", "reward", "prompt", "completion"}


def recognise(head: Head) -> bool:
    """The versions of the weights at the beginning and the end of a sample."""
    return head.container is Container.JSONL and set(head.columns) >= KEYS


def read(path: Path, head: Head, options: Options) -> Log:
    """One sample per row; the verdict is `original_reward`, else `reward`."""
    log = training_log("areal", head, options, _entries, "AReaL reward", step="tail_version")
    log.ids = Ids.GROUP
    return log


def _entries(row: Row, judge: VerdictReader) -> Iterator[Entry]:
    question = row.text("prompt")
    verdict, score = judge.mark(row.values.get("original_reward", row.values.get("reward")), row.number)
    total, prompt = integer_of(row.values.get("seqlen")), integer_of(row.values.get("prompt_len"))
    yield Entry(
        problem=row.problem("task_id", question=question),
        question=question,
        gold=row.text(*GOLD),
        text=_completion_text(row),
        verdict=verdict,
        score=score,
        tokens=total - prompt if total is not None and prompt is not None and total >= prompt else None,
        row=row.number,
    )


def _completion_text(row: Row) -> str | None:
    """What the model wrote: the completion without what tools returned."""
    segments = row.values.get("segments")
    parts = [fields_of(segment) for segment in segments] if isinstance(segments, list) else []
    texts = [text_of(part.get("text")) or "" for part in parts if part.get("role") == "gen"]
    return "\n\n".join(texts) if texts else row.text("completion")


FORMAT = Format(
    "areal",
    "AReaL rollout dumps",
    recognise,
    read,
    ("rollout/10/128.jsonl",),
    columns=(KEYS,),
    rollouts=RolloutFormat(("tail_version",), evaluation_by_path),
)
