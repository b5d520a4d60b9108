"""The verb `entropy` as it is typed: from a draw of the lab's base to words, and what it refuses."""

import json
from pathlib import Path

import pytest

from offleash.lab.countdown import COUNTDOWN
from offleash.lab.pretrain import base_of
from offleash.lab.registry import write_problems
from tests.cli.command import offleash, refused
from tests.comparing.world import drawn, write_log


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two draws of the lab's base, plain and with other seeds."""
    folder = tmp_path_factory.mktemp("runs")
    model, file = f"hf:{base_of('countdown')}", folder / "problems.jsonl"
    write_problems(COUNTDOWN, "test", 8, 0, file)
    made = []
    for seed in ("0", "1"):
        run = folder / f"run{seed}"
        how = ["-k", "8", "--seed", seed, "--max-tokens", "18", "-o", run]
        result = offleash("draw", file, model, *how)
        assert result.code == 0, result.err
        judged = offleash("verify", run)
        assert judged.code == 0, judged.err
        made.append(run)
    return made[0], made[1]


def test_two_draws_of_one_model_are_told_apart_by_nothing(runs: tuple[Path, Path]) -> None:
    actual = offleash("entropy", *runs, "--json", "--replicates", "500").json
    assert actual["schema"] == 2
    assert actual["k"] == 8
    low, high = actual["measures"]["token_entropy"]["average"]["runs"]["run1"]["difference_interval"]
    assert low - 0.1 < 0 < high + 0.1
    assert actual["tokens"]["run0"]["source"] == "draw"
    assert "--first 32" in actual["positions"]["reasons"]["run0"]
    shown = offleash("entropy", *runs, "--at", "4")
    assert shown.code == 0, shown.err
    assert "the first 4 samples of each" in shown.out
    assert "run1 against run0: token entropy" in shown.out.replace("\n", " ")


def test_scoring_as_the_hint_says_gives_the_positions(runs: tuple[Path, Path]) -> None:
    hint = offleash("entropy", runs[0], "--json").json["positions"]["reasons"]["run0"]
    command = hint[hint.index("offleash score") :].split()
    assert offleash(*command[1 : command.index("computes")]).code == 0
    actual = offleash("entropy", runs[0], "--json").json["positions"]
    assert actual["samples"] == {"run0": 64}
    places = actual["places"]
    assert places["all tokens"]["run0"]["value"] > 0
    assert 0.2 < places["held by the top 20% of tokens"]["run0"]["value"] <= 1
    assert actual["bins"]["tenth"]["bin"] == sorted(actual["bins"]["tenth"]["bin"])


def test_logs_have_accuracy_and_answers_and_say_what_is_missing(tmp_path: Path) -> None:
    files = [write_log(tmp_path / f"{name}.jsonl", drawn(8, 6, seed)) for seed, name in enumerate(("base", "rl"))]
    actual = offleash("entropy", *files, "--json").json
    assert actual["measures"]["accuracy"]["average"]["runs"]["base"]["value"] > 0
    assert actual["measures"]["token_entropy"]["average"]["runs"]["rl"]["value"] is None
    assert "--texts" in actual["measures"]["token_entropy"]["reasons"]["rl"]
    text = offleash("entropy", *files)
    assert text.code == 0
    assert "offleash import" in text.out


def test_what_cannot_be_is_refused_with_the_next_step(runs: tuple[Path, Path], tmp_path: Path) -> None:
    refused(offleash("entropy", runs[0], runs[0]), "the same draw", "--seed 1")
    refused(offleash("entropy", *runs, "--at", "999"), "smaller --at")
    refused(offleash("entropy", *runs, "--allow", "decodings"), "decoding")
    refused(offleash("entropy", tmp_path / "nothing"), "is not a file, folder or run folder")
    about = json.loads((runs[1] / "run.json").read_text(encoding="utf-8"))
    about["facts"]["decoding"] = json.dumps({"temperature": 0.6})
    (runs[1] / "run.json").write_text(json.dumps(about), encoding="utf-8")
    refused(offleash("entropy", *runs), "temperature 1 vs 0.6", "--allow decoding")
    assert (
        offleash("entropy", *runs, "--allow", "decoding", "--json").json["notes"][0]["text"].startswith("run0 and run1")
    )
