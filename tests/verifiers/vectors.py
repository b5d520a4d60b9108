"""The vectors of other projects, read from the folder of shared data beside the project, where there is one."""

import json

import pytest

from tests.places import SHARED_DATA

STRICT = {"core", "completion"}


def rows(name: str) -> list[dict[str, object]]:
    """The rows of a shared file; the test is skipped where the file is not there."""
    file = SHARED_DATA / name
    if not file.exists():
        pytest.skip(f"no {name} in a shared data folder beside the project")
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def equality_vectors() -> list[dict[str, object]]:
    return rows("vectors/huggingface__Math-Verify.jsonl") + rows("vectors/huggingface__lighteval.jsonl")
