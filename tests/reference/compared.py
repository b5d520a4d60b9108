"""The only module here, besides the tests, that runs the package: files in, the JSON of `ol.compare` out."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import offleash as ol
from tests.reference.studies import study

STUDIES = 200
SHORT = 20
"""Studies of `make test`: every kind of budgets in every form of file once."""
REPLICATES = 1000


@cache
def document(seed: int) -> dict[str, Any]:
    """What `ol.compare` says about the files of a study."""
    with TemporaryDirectory() as folder:
        return ol.compare(*study(seed).write(Path(folder)), replicates=REPLICATES).to_dict()


def seeds(full: int, short: int) -> list[Any]:
    """Numbers from 0: all of them in `make test-slow`, the first ones in `make test`."""
    return [seed if seed < short else pytest.param(seed, marks=pytest.mark.slow) for seed in range(full)]
