"""No test reads or fills the cache of verdicts of whoever runs it."""

import pytest
from hypothesis import settings

from tests.effort import FULL

# `make test` says the same of the same code: its examples are always the same ones, and as many as six minutes on two
# cores allow. OFFLEASH_TEST_FULL=1 (as in `make test-slow`) looks for new ones, and three times as many.
settings.register_profile("quick", max_examples=33, derandomize=True)
if not FULL:
    settings.load_profile("quick")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFLEASH_CACHE", str(tmp_path_factory.getbasetemp() / "verdicts"))
