"""open-instruct (Ai2): `{run}_rollouts_{shard}.jsonl` of grpo_fast with save_traces, one sample per row.

Fields: `step`, `sample_idx`, `prompt_idx`, `prompt_tokens`, `response_tokens`, `reward`, `advantage`, `finish_reason`,
`dataset`, `ground_truth`, `logprobs`. Traps:

* Prompts and responses are token ids: there are no texts without the tokenizer, whose name the file does not have.
  A problem is known by the hash of its prompt's tokens, so both runs need the same tokenizer and template.
* `prompt_idx` counts the prompts of one step: another step uses the same numbers for other problems.
* `reward` is scaled (a verifiable reward of 10 is the default): --threshold says from where on a sample is correct.
* `ground_truth` may be tokens too; it is compared as it is.
"""

from collections.abc import Iterator
from pathlib import Path

from offleash.data.content import content_hashes
from offleash.data.tables import Note
from offleash.files.detect import Container, Head
from offleash.files.rows import Row, text_of
from offleash.logs.format import Entry, Format, Log, Options, RolloutFormat
from offleash.logs.own_verdicts import VerdictReader
from offleash.logs.training import evaluation_by_path, training_log

KEYS = {"step", "prompt_idx", "prompt_tokens", "response_tokens", "reward"}


def recognise(head: Head) -> bool:
    """Token ids beside the index of the prompt within its step."""
    return head.container is Container.JSONL and set(head.columns) >= KEYS


def read(path: Path, head: Head, options: Options) -> Log:
    """One sample per row, without its text unless there is a tokenizer; the verdict is `reward`."""

    def convert(row: Row, judge: VerdictReader) -> Iterator[Entry]:
        return _entries(row, judge, options)

    log = training_log("open_instruct", head, options, convert, "open-instruct reward")
    if options.decode is None:
        what = "prompts and responses are token ids; only verdicts and lengths are read"
        log.notes.append(Note(f"{path.name}: {what}."))
    return log


def _entries(row: Row, judge: VerdictReader, options: Options) -> Iterator[Entry]:
    prompt, response = row.items("prompt_tokens"), row.items("response_tokens")
    gold, dataset = row.text("ground_truth"), _name(row.values.get("dataset"))
    verdict, score = judge.mark(row.values.get("reward"), row.number)
    yield Entry(
        # As where there are no ids, one content is one problem; here the content has no text to make the id of.
        problem=row.problem(question=text_of([dataset, gold, prompt])),
        question=_decoded(prompt, row, options),
        gold=gold,
        benchmark=dataset,
        contents=content_hashes(context=prompt),
        text=_decoded(response, row, options) if options.texts else None,
        verdict=verdict,
        score=score,
        tokens=len(response),
        finish=row.text("finish_reason"),
        row=row.number,
    )


def _decoded(tokens: list[object], row: Row, options: Options) -> str | None:
    """The text of token ids, where there is a tokenizer."""
    if options.decode is None:
        return None
    ids = [token for token in tokens if isinstance(token, int)]
    if len(ids) < len(tokens):
        row.wrong("its tokens are not all integers")
    return options.decode(ids)


def _name(dataset: object) -> str | None:
    """The dataset: a name, or a list of names of which most rows have one."""
    return text_of(dataset[0] if isinstance(dataset, list) and len(dataset) == 1 else dataset)


FORMAT = Format(
    "open_instruct",
    "open-instruct rollouts (save_traces)",
    recognise,
    read,
    ("grpo_rollouts_000000.jsonl",),
    columns=(KEYS,),
    rollouts=RolloutFormat(("step",), evaluation_by_path),
)
