"""What to do next: each step only where it applies, as a command that runs as it is printed."""

import json
import shlex
import shutil
from pathlib import Path

import pytest

import offleash as ol
from offleash.comparing.headline import Finding
from tests.cli.command import offleash
from tests.comparing.world import write_log
from tests.places import MODELS
from tests.reporting.worlds import write_counts


def commands(result: ol.ComparisonResult) -> list[str]:
    return [step.command for step in result.next_steps]


def run(command: str, *more: str) -> None:
    done = offleash(*shlex.split(command)[1:], *more)
    assert done.code == 0, done.err


def test_too_few_samples_lead_to_a_plan(tmp_path: Path) -> None:
    files = [write_counts(tmp_path / f"it's {r}.csv", [1, 0, 2, 1], 4) for r in range(2)]
    result = ol.compare(*files, replicates=200)
    assert result.headline.finding is Finding.TOO_FEW_SAMPLES
    (command,) = commands(result)
    assert command.startswith("offleash plan samples ")
    run(command)


def test_a_command_reads_its_runs_as_the_comparison_did(tmp_path: Path) -> None:
    """Columns that were named, a threshold, and logs rather than their copies, which are deleted with the result."""
    counts = [tmp_path / f"{name}.csv" for name in ("base", "rl")]
    for file in counts:
        file.write_text("item,tries,hits\na,4,1\nb,4,0\nc,4,2\n")
    reading = ol.Reading(columns={"problem": "item", "n": "tries", "c": "hits"})
    (command,) = commands(ol.compare(*counts, reading=reading, replicates=200))
    run(command)
    logs = [write_log(tmp_path / f"{name}.jsonl", [[True, False]] * 4) for name in ("base", "rl")]
    result = ol.compare(*logs, reading=ol.Reading(threshold=0.5), report=tmp_path / "page.html", replicates=200)
    assert f"offleash plan samples {logs[0]} --threshold 0.5" in commands(result)


def test_logs_that_were_copied_to_be_judged_have_no_command(tmp_path: Path) -> None:
    rows = [{"problem": f"p{i}", "gold": str(i), "text": f"<answer>{i}</answer>"} for i in range(3)]
    files = [tmp_path / f"{name}.jsonl" for name in ("base", "rl")]
    for file in files:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    judged = ol.compare(*files, verifier="string", judging=ol.Judging(jobs=1), replicates=200)
    assert judged.headline.finding is Finding.TOO_FEW_SAMPLES
    assert commands(judged) == []


def test_losses_that_rest_on_one_success_lead_to_the_samples_that_decide_them(tmp_path: Path) -> None:
    shared = [[True] * 40] * 6
    before = write_log(tmp_path / "base.jsonl", [*shared, [True] + [False] * 39])
    after = write_log(tmp_path / "rl.jsonl", [*shared, [False] * 40])
    result = ol.compare(before, after, replicates=200)
    flips = [command for command in commands(result) if command.endswith("--flips")]
    assert len(flips) == 1
    run(flips[0], "--replicates", "200")


def test_counts_have_no_verdicts_to_doubt_and_frames_no_command(tmp_path: Path) -> None:
    files = [write_counts(tmp_path / f"{r}.csv", [64 * (r == 0), 20, 1 - r], 64) for r in range(2)]
    assert not any("--flips" in command for command in commands(ol.compare(*files, replicates=200)))
    runs = [ol.load(file) for file in files]
    assert commands(ol.compare(*runs, replicates=200)) == []


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lab's base and a copy of it under another name: two models that offleash can draw from."""
    folder = tmp_path_factory.mktemp("drawn")
    shutil.copytree(MODELS / "countdown", folder / "other")
    ol.lab_problems("countdown", out=folder / "few.jsonl", size=3)
    for name, model in (("base", MODELS / "countdown"), ("rl", folder / "other")):
        decoding = ol.Decoding(max_tokens=18)
        ol.draw(folder / "few.jsonl", f"hf:{model}", k=8, out=folder / name, decoding=decoding, seed=int(name == "rl"))
        ol.verify(folder / name, judging=ol.Judging(jobs=1))
    return folder


def test_two_models_that_were_drawn_lead_to_a_sweep_at_equal_entropy(drawn: Path) -> None:
    from offleash.comparing.next_steps import _match

    command = _match(str(drawn / "base"), str(drawn / "rl"))
    assert command is not None
    run(command.replace("-k 256", "-k 4"), "--temperature", "1.0")
    assert _match(str(drawn / "base"), str(drawn / "base")) is None
