"""The `reasoning_gym` verifier: reads a problem's details; the scorers themselves run in scorer.py.

Details hold {"task", "config", "entry": {question, answer, metadata}}, written by `encode_value`
(data/reasoning_gym.py).
`decide` is imported only when a worker looks it up: the library takes two seconds to load, and `readable` does not need
it.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from offleash.data.reasoning_gym import TASKS, Json, decode_value
from offleash.errors import OffleashError
from offleash.verifiers.verifier import Case


def readable(case: Case) -> str:
    """Why the details cannot be used, or nothing. Five tasks have no gold answer and need none."""
    try:
        unpacked_case(case)
    except OffleashError as error:
        return str(error)
    return ""


def unpacked_case(case: Case) -> tuple[str, dict[str, Any], Mapping[str, object]]:
    """The task, the entry as the library made it, and the settings under which it did."""
    task = case.details.get("task")
    if not isinstance(task, str) or task not in TASKS:
        raise OffleashError(f"details must name a Reasoning Gym task; found {task!r:.80}")
    entry = decode_value(cast(Json, case.details.get("entry")))
    if entry is None:  # a row of somebody's own: question and gold answer, and the library's metadata if they kept it
        metadata = decode_value(cast(Json, case.details.get("metadata", {})))
        entry = {"question": case.question, "answer": case.gold, "metadata": metadata}
    if not isinstance(entry, dict) or not {"question", "answer", "metadata"} <= set(entry):
        raise OffleashError(f"the entry in details must hold question, answer and metadata; found {entry!r:.80}")
    if not isinstance(entry["metadata"], dict) or not isinstance(entry["answer"], str | None):
        raise OffleashError(f"the entry's metadata must be an object and its answer a string; found {entry!r:.80}")
    settings = decode_value(cast(Json, case.details.get("config", {})))
    if not isinstance(settings, dict):
        raise OffleashError(f"config in details must be an object; found {settings!r:.80}")
    return task, entry, settings


def __getattr__(name: str) -> Any:
    """`decide`, imported when it is looked up (PEP 562)."""
    if name == "decide":
        return import_module("offleash.verifiers.reasoning_gym.scorer").decide
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
