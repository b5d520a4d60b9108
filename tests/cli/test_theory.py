"""offleash theory: a table for people, a document for programs, figures, and refusals in one message."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from offleash.analyses.theory import mechanisms, report
from offleash.analyses.theory.statements import support
from offleash.analyses.theory.statements.registry import STATEMENTS
from tests.cli.command import Result, offleash, refused

KEYS = {"statement", "verdict", "evidence"}
Results = tuple[Result, Result, Path, Result]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """The command with figures, as JSON, and with a figure that cannot be written.

    With the cheaper statements and fewer worlds than a user has.
    """
    folder = tmp_path_factory.mktemp("figures")
    few = {name: STATEMENTS[name] for name in ("C.3", "C.4", "C.5", "no shrinkage", "C.6", "tail-miss")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mechanisms, "STATEMENTS", few)
        patch.setattr(mechanisms, "SEARCHED_WORLDS", 20)
        patch.setattr(support, "SEARCHED_WORLDS", 20)
        patch.setattr(support, "DRIFT_WORLDS", 10)
        for room in (mechanisms, report):
            patch.setattr(room, "SEEDS", 2)
        mechanism = mechanisms.mechanism
        patch.setattr(mechanisms, "mechanism", lambda method, name, seed: mechanism(method, name, seed, 2))
        result = mechanisms.examine(1)
        patch.setattr(mechanisms, "examine", lambda seed, tell: result)  # once for all calls: it is the work
        shown = offleash("theory", "--figures", folder / "new")
        told = offleash("theory", "--json", "--seed", "1")
        (folder / "taken" / f"mechanism-{next(iter(mechanisms.CELLS)).replace(' ', '-')}.svg").mkdir(parents=True)
        spoilt = offleash("theory", "--figures", folder / "taken", "--json")
    return shown, told, folder / "new", spoilt


def test_the_table_names_every_statement_its_verdict_and_its_evidence(results: Results) -> None:
    shown = results[0]
    assert shown.code == 0, shown
    for word in ("C.3", "C.6", "tail-miss", "holds only if", "fails", "0.5553", "2.3901", "REINFORCE", "GRPO", "both"):
        assert word in shown.out
    assert "Counterexample (problem 1:" in " ".join(shown.out.split())
    assert "Of 6 statements, 4 hold, 1 holds only under a condition and 1 fails" in " ".join(shown.out.split())


def test_the_document_is_a_list_of_statement_verdict_and_evidence(results: Results) -> None:
    told = results[1]
    assert told.code == 0, told
    document: Any = told.json
    for item in document:
        assert set(item) >= KEYS
        assert item["verdict"] in (
            "holds",
            "holds only if",
            "fails",
            *(["not resolved"] if "mechanism" in item else []),
        )
        assert all(isinstance(item[key], str) and item[key] for key in KEYS)
        assert item["seed"] == 1
    assert len({item["statement"] for item in document}) == len(document) == 6 + 8 + 1
    for item in document[:6]:
        assert (item["condition"] is not None) == (item["verdict"] == "holds only if")
    assert {(cell["method"], cell["mechanism"]) for cell in document[6:14]} == {
        (method, name) for method in ("reinforce", "grpo") for name in mechanisms.CELLS
    }
    assert document[-1]["pass_at_k"]["tilt"]["1024"] >= document[-1]["pass_at_k"]["base"]["1024"]
    json.dumps(document, allow_nan=False)


def test_a_figure_is_written_for_each_mechanism_and_for_the_world(results: Results) -> None:
    names = {path.name for path in results[2].iterdir()}
    cells = {f"mechanism-{name.replace(' ', '-')}.svg" for name in mechanisms.CELLS}
    assert names == cells | {"mechanisms.svg", "world.svg", "tail-miss.svg"}
    assert all(path.read_text().startswith("<svg") for path in results[2].iterdir())
    assert "world.svg" in results[0].out


def test_bad_input_is_refused_before_the_work(tmp_path: Path) -> None:
    refused(offleash("theory", "--seed", "-1"), "--seed -1")
    (tmp_path / "file").write_text("x")
    refused(offleash("theory", "--figures", tmp_path / "file"), "file", "Choose another path with --figures")
    refused(offleash("theory", "--figures", tmp_path / ("long" * 99)), "too long", "with --figures")


def test_the_result_is_told_also_where_a_figure_cannot_be_written(results: Results) -> None:
    refused(results[3], "cannot be written", "with --figures")
    assert results[3].json == results[1].json


def test_interrupted_it_says_that_it_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(seed: int, tell: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(mechanisms, "examine", interrupted)
    stopped = offleash("theory")
    assert stopped.code == 130
    assert "run it again" in stopped.err
    assert "Nothing was lost" not in stopped.err


@pytest.mark.slow
def test_the_whole_of_it_takes_less_than_a_minute_of_one_core() -> None:
    begun = time.process_time()
    told: Any = offleash("theory", "--json").json
    assert time.process_time() - begun < 60
    assert [item["statement"] for item in told[: len(STATEMENTS)]] == list(STATEMENTS)
    assert len(told) == len(STATEMENTS) + 8 + 1
