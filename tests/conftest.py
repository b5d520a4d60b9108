"""No test reads or fills the cache of verdicts of whoever runs it."""

import pytest


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFLEASH_CACHE", str(tmp_path_factory.getbasetemp() / "verdicts"))
