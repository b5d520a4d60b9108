"""The hub: a missing extra, no network and a hanging library are told; with network, every entry is looked at."""

import os
import time
from pathlib import Path

import pytest

from offleash.errors import OffleashError
from offleash.loading.problem_set import load_problems
from offleash.problems import hub
from offleash.problems.benchmarks import PROBLEMS
from offleash.problems.hub import from_hub

AIME = PROBLEMS["aime24"]
# A library that behaves as `datasets` does, as far as fetching needs it.
LIBRARY = """
import os, sys, time
class Image:
    def __init__(self, decode=True): pass
class Sequence: pass
class DownloadConfig:
    def __init__(self, max_retries): assert max_retries <= 1
class Found:
    features = {}
    def to_parquet(self, path):
        import polars
        polars.DataFrame({"id": [1], "problem": ["1+1?"], "answer": ["002"]}).write_parquet(path)
def load_dataset(hub, config, split, download_config):
    assert (hub, config, split) == ("HuggingFaceH4/aime_2024", None, "train"), (hub, config, split)
    BODY
    return Found()
"""


def library(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Put it where the fetching process finds it, and pretend that the hub can be reached."""
    (folder / "datasets.py").write_text(LIBRARY.replace("BODY", body))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(Path(hub.__file__).parents[2])]))
    monkeypatch.setattr(hub, "reachable", lambda: True)
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)


def test_what_the_hub_gives_becomes_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library(tmp_path, monkeypatch, "pass")
    loaded = from_hub(AIME)
    assert loaded.frame.select("problem", "gold", "verifier").row(0) == ("1", "2", "math")
    assert "HuggingFaceH4/aime_2024, split train" in loaded.notes[0].text


def test_any_data_set_on_the_hub_is_read_by_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The split is what is evaluated on, unless it is named; the columns are recognised as those of a file are."""
    body = LIBRARY.partition("def load_dataset")[0] + (
        "def get_dataset_split_names(hub, config):\n    return ['train', 'test']\n"
        "def load_dataset(hub, config, split, download_config):\n"
        "    assert (hub, config, split) in {('org/sums', None, 'test'), ('org/sums', 'hard', 'dev')}, split\n"
        "    return Found()\n"
    )
    library(tmp_path, monkeypatch, "pass")
    (tmp_path / "datasets.py").write_text(body)
    for name, source in (("org/sums", "org/sums, split test"), ("org/sums:hard:dev", "org/sums (hard), split dev")):
        loaded = load_problems(name)
        assert loaded.frame.select("question", "gold").row(0) == ("1+1?", "002")
        assert source in loaded.notes[0].text


def test_a_path_is_not_taken_for_a_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hub, "reachable", lambda: pytest.fail("the network was asked"))
    (tmp_path / "data").mkdir()
    for name in ("data/none", "data/none.jsonl", "other/none.jsonl", "./org/name", "a/b/c"):
        with pytest.raises(OffleashError, match=r"none|name|a/b/c"):
            load_problems(name)


def test_a_data_set_that_is_not_there_is_refused_with_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library(tmp_path, monkeypatch, "pass")
    (tmp_path / "datasets.py").write_text(LIBRARY.replace("BODY", "pass"))  # it knows no split names
    with pytest.raises(OffleashError, match="org/name:config:split"):
        load_problems("org/sums")
    monkeypatch.setattr(hub, "find_spec", lambda name: None)
    with pytest.raises(OffleashError, match=r"offleash\[hub\]"):
        load_problems("org/sums")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "find_spec", lambda name: None)
    with pytest.raises(OffleashError, match=r"offleash\[hub\]") as caught:
        from_hub(AIME)
    assert "offleash problems aime24 --from FILE" in str(caught.value)


def test_with_no_network_the_id_and_the_way_out_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library(tmp_path, monkeypatch, "assert os.environ['HF_HUB_OFFLINE'] == '1'; raise ConnectionError('not\\nthere')")
    monkeypatch.setattr(hub, "reachable", lambda: False)
    with pytest.raises(OffleashError, match="cannot be reached") as caught:
        from_hub(AIME)
    for word in ("HuggingFaceH4/aime_2024", "split train", "ConnectionError: not there", "problems aime24 --from FILE"):
        assert word in str(caught.value)


def test_offline_by_the_users_own_setting_asks_no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library(tmp_path, monkeypatch, "raise ConnectionError('cache')")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(hub, "reachable", lambda: pytest.fail("the network was asked"))
    with pytest.raises(OffleashError, match="its cache does not have"):
        from_hub(AIME)


def test_a_hub_that_hangs_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library(tmp_path, monkeypatch, "time.sleep(600)")
    started = time.monotonic()
    with pytest.raises(OffleashError, match="not be downloaded within 2 seconds"):
        from_hub(AIME, wait=2)
    assert time.monotonic() - started < 300  # it would hang for ten minutes


def test_an_address_that_nobody_answers_is_not_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in hub.PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert not hub.reachable()


@pytest.mark.hub
@pytest.mark.skipif(os.environ.get("OFFLEASH_TEST_HUB") != "1", reason="needs the hub: make test-hub")
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_first_rows_on_the_hub_are_problems(name: str) -> None:
    rows = None if PROBLEMS[name].keep else 5  # rows that belong to it may stand anywhere
    frame = from_hub(PROBLEMS[name], rows=rows).frame
    assert frame.height > 0
    assert all(question.strip() for question in frame["question"])
    if PROBLEMS[name].verifier != "program":
        assert frame["gold"].null_count() == 0
    if rows is None:
        assert frame.height == PROBLEMS[name].paper, f"the paper has {PROBLEMS[name].paper}"
    if "images" in PROBLEMS[name].columns:
        assert frame["images"].null_count() == 0
