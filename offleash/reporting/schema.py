"""The JSON Schema of what `offleash compare --json` prints: compare.schema.json beside this file, as it is shipped."""

import json
from importlib.resources import files
from typing import Any


def compare_schema() -> dict[str, Any]:
    """The schema (draft 2020-12). Keys that it does not name may be added within a schema number."""
    text = files("offleash.reporting").joinpath("compare.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
