"""The verb `strategies` as it is typed."""

import json
from pathlib import Path

import pytest

from offleash.data.run import Budget, rewrite_budget
from tests.analyses.strategies.strategies_world import PRODUCT, SUM, WORDS, solved_run
from tests.cli.command import offleash, refused

HOSTILE = "\x1b[31m3 * 5 = 15\x07 [bold]\u202e"


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    base = solved_run(tmp_path / "base", {"p": [SUM] * 6 + [HOSTILE] * 4, "q": [SUM] * 10})
    rl = solved_run(tmp_path / "rl", {"p": [SUM] * 9 + [WORDS], "q": [SUM] * 10})
    return base, rl


def test_strategies_are_reported_in_words_tables_and_samples(runs: tuple[Path, Path]) -> None:
    result = offleash("strategies", *runs, "--by", "steps", "--jobs", "1")
    assert result.code == 0, result.err
    flat = " ".join(result.out.split())
    assert "rl keeps 2 of the 3 strategies of base" in flat
    for word in ("base resampled", "lost: in base", "3*5", "9 of 10 correct", "correct samples", "excess"):
        assert word in flat.replace("19 of 20 correct", "9 of 10 correct"), word
    assert not set(result.out) & {"\x1b", "\x07", "\u202e"}
    assert (runs[0] / "strategies" / "steps@1").is_dir()


def test_the_document_has_every_number_with_its_interval(runs: tuple[Path, Path]) -> None:
    result = offleash("strategies", *runs, "--by", "steps", "--json", "--at", "4", "--show", "1", "--jobs", "1")
    assert result.code == 0, result.err
    actual = result.json
    assert (actual["schema"], actual["kind"], actual["k"], actual["problems"]) == (2, "ways", 4, 2)
    assert actual["by"]["identity"] == "steps@1"
    assert actual["coverage"]["after"] == {"correct": 20, "read": 19, "failed": 0, "new": 20, "trouble": ""}
    assert actual["redraw"]["redraw_SRR"] is not None
    for basis in ("drawn", "correct"):
        for name in ("ways", "ways_redraw", "ways_excess", "mass", "mass_redraw", "mass_excess"):
            low, high = actual["novelty"][basis][name]["interval"]
            assert low <= actual["novelty"][basis][name]["value"] <= high
        assert actual["richness"][basis]["difference"]["value"] < 0
    (lost,) = actual["lost"]
    assert (lost["way"], lost["problem"], lost["seen"]) == ("3*5", "p", {"before": 4, "after": 0})
    assert actual["new"] == []


def test_a_users_function_names_the_strategies(runs: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "methods.py"
    file.write_text("def kind(problem, text):\n    return 'sum' if '+' in text else None\n")
    result = offleash("strategies", *runs, "--by", f"{file}:kind", "--json", "--jobs", "1")
    assert result.code == 0, result.err
    assert result.json["coverage"]["before"]["read"] == 16
    assert result.json["support"]["P"] == 2
    file.write_text("def kind(problem, text):\n    raise KeyError('oops')\n")
    refused(offleash("strategies", *runs, "--by", f"{file}:kind", "--jobs", "1"), "any of the correct samples", "oops")


def test_logs_that_keep_texts_are_read_as_they_are(tmp_path: Path) -> None:
    logs = []
    for name, texts in (("base", [SUM, PRODUCT, SUM, PRODUCT]), ("rl", [SUM] * 4)):
        file = tmp_path / f"{name}.jsonl"
        rows = [{"problem": "p", "text": text, "correct": True} for text in texts]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        logs.append(file)
    mapped = ["--map", "problem=problem", "--map", "text=text", "--map", "verdict=correct"]
    result = offleash("strategies", *logs, "--by", "steps", "--json", "--jobs", "1", *mapped)
    assert result.code == 0, result.err
    assert (result.json["support"]["P"], result.json["support"]["S"]) == (1, 1)
    bare = tmp_path / "bare.jsonl"
    bare.write_text("".join(json.dumps({"problem": "p", "correct": True}) + "\n" for _ in range(4)))
    refused(
        offleash("strategies", logs[0], bare, "--by", "steps", *mapped[:2], *mapped[4:]),
        "has no sample texts",
        "--map text",
    )


def test_what_cannot_be_read_is_refused_with_the_next_step(runs: tuple[Path, Path], tmp_path: Path) -> None:
    base, rl = runs
    counts = tmp_path / "counts.csv"
    counts.write_text("problem,n,c\np,10,5\nq,10,5\n")
    unjudged = solved_run(tmp_path / "unjudged", {"p": [SUM]}, judged=False)
    refused(offleash("strategies", base, rl), "needs --by", "countdown, steps, program")
    refused(offleash("strategies", base, rl, "--by", "stepps"), "'stepps'", "Did you mean 'steps'?", "FILE.py:NAME")
    refused(offleash("strategies", base, "--by", "steps"), "two runs", "found 1")
    refused(offleash("strategies", base, counts, "--by", "steps"), "counts", "offleash import")
    refused(offleash("strategies", base, unjudged, "--by", "steps"), "offleash verify")
    refused(offleash("strategies", base, rl, "--by", "program"), "any of the correct samples", "--by")
    refused(offleash("strategies", base, rl, "--by", "steps", "--at", "99"), "99", "smaller --at")
    rewrite_budget(rl, Budget(10, until=5))
    refused(offleash("strategies", base, rl, "--by", "steps"), "drawn with --until 5", "without --until")


def test_runs_without_strategies_are_refused_for_what_they_are(runs: tuple[Path, Path], tmp_path: Path) -> None:
    base, rl = runs
    wrong = [solved_run(tmp_path / name, {"p": []}, {"p": [SUM] * 3}) for name in ("none", "nothing")]
    refused(offleash("strategies", *wrong, "--by", "steps"), "Neither 'none' nor 'nothing'", "correct sample")
    refused(offleash("strategies", base, f"again={base}", "--by", "steps"), "are the same", "before training")
    for folder, heat in ((base, 1.0), (rl, 0.6)):
        document = json.loads((folder / "run.json").read_text())
        document["facts"] = {**document["facts"], "decoding": json.dumps({"temperature": heat})}
        (folder / "run.json").write_text(json.dumps(document))
    refused(offleash("strategies", base, rl, "--by", "steps"), "temperature 1 vs 0.6", "--allow decoding")
    assert not (base / "strategies").exists()  # refused before the work
    result = offleash("strategies", base, rl, "--by", "steps", "--allow", "decoding", "--json", "--jobs", "1")
    assert result.code == 0, result.err
    assert any("temperature 1 vs 0.6" in note["text"] for note in result.json["notes"])


def test_a_run_that_is_read_worse_is_named_first_and_its_sure_losses_are_withheld(
    runs: tuple[Path, Path], tmp_path: Path
) -> None:
    blurred = solved_run(tmp_path / "blurred", {"p": [SUM] * 5 + [WORDS] * 5, "q": [SUM] * 10})
    actual = offleash("strategies", runs[0], blurred, "--by", "steps", "--json", "--jobs", "1").json
    assert actual["finding"].startswith("Caution:")
    assert actual["significant"]["lost_at_least"] is actual["significant"]["new_at_least"] is None
    assert "100.0% of base and 75.0% of blurred" in actual["significant"]["reason"]
    told = offleash("strategies", *runs, "--by", "steps", "--json", "--jobs", "1", "--again").json
    assert told["significant"] == {"lost_at_least": 0, "new_at_least": 0, "reason": None}
    assert told["coverage"]["before"]["new"] == 20
    assert told["richness"]["correct"]["enough"] is False
