"""No test reads or fills the cache of verdicts of whoever runs it."""

import os

import pytest
from hypothesis import settings

# `make test` says the same of the same code: its examples are always the same ones, and as many as ten minutes on two
# cores allow. OFFLEASH_TEST_FULL=1 (as in `make test-slow`) looks for new ones, and twice as many of every property.
settings.register_profile("quick", max_examples=50, derandomize=True)
if not os.environ.get("OFFLEASH_TEST_FULL"):
    settings.load_profile("quick")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFLEASH_CACHE", str(tmp_path_factory.getbasetemp() / "verdicts"))
