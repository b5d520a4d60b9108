"""No test reads or fills the cache of verdicts of whoever runs it."""

import os

import pytest
from hypothesis import settings

# `make test` has ten minutes on two cores; OFFLEASH_TEST_FULL=1 tries twice as many examples of every property
settings.register_profile("quick", max_examples=50)
if not os.environ.get("OFFLEASH_TEST_FULL"):
    settings.load_profile("quick")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFLEASH_CACHE", str(tmp_path_factory.getbasetemp() / "verdicts"))
