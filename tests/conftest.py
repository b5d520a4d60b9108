"""No test reads or fills the cache of verdicts of whoever runs it; and what keeps `make test` short."""

import gc
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings

from tests.effort import FULL

# `make test` says the same of the same code: its examples are always the same ones, and as many as six minutes on two
# cores allow. OFFLEASH_TEST_FULL=1 (as in `make test-slow`) looks for new ones, and three times as many. Nothing fails
# because the machine is busy, so no example has a deadline.
ANY_LOAD = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", ANY_LOAD, max_examples=33, derandomize=True)
settings.register_profile("full", ANY_LOAD)
settings.load_profile("full" if FULL else "quick")

# The files that take longest, which begin first, so that no worker is left with one of them at the end.
LONGEST = (
    *("verifiers/test_bombs.py", "stats/test_known_worlds.py", "api/test_examples.py"),
    *("training/test_loop.py", "api/test_json.py", "test_docs.py"),
    *("verifiers/sandbox/test_sandbox.py", "lab/test_demo.py", "verifiers/sandbox/test_pool.py"),
    *("problems/test_reasoning_gym.py", "verifiers/sandbox/test_pool_lifetime.py", "verifiers/attacks/test_attacks.py"),
    *("drawing/test_draw.py", "verifiers/extraction/test_extract.py", "stats/test_forecast.py"),
    *("stats/test_stopping.py", "samplers/huggingface/test_huggingface.py", "reporting/test_figures.py"),
    *("cli/test_study.py", "cli/test_compare_counts.py", "verifiers/reasoning_gym/test_reasoning_gym.py"),
    *("analyses/likelihood/test_cross_support.py", "verifying/test_verify.py", "cli/test_report.py"),
    *("comparing/test_headline.py", "drawing/test_fsck_verdicts.py", "test_words.py"),
    *("api/test_journey.py", "verifiers/program/test_program.py", "files/test_containers.py"),
    *("comparing/test_unchanged_model.py", "test_architecture.py", "samplers/huggingface/test_scoring.py"),
    *("drawing/test_kill.py", "stats/test_duplicates.py", "analyses/strategies/test_strategies.py"),
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest files first, the others in their order."""
    place = {config.rootpath / "tests" / name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(LONGEST)))


def pytest_collection_finish() -> None:
    """What was imported is no garbage: a collection need not look through it, half a second each time.

    A training freezes what it finds and thaws it at its end, and with it the imports, for the next one to look through.
    """
    gc.collect()
    gc.freeze()
    patch("gc.unfreeze").start()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFLEASH_CACHE", str(tmp_path_factory.getbasetemp() / "verdicts"))
