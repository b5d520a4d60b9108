"""A study as YAML: the same options, checks and results as the flags; and what it would cost."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import offleash, refused
from tests.drawing.drawn_world import RATES, problems_file, script

EXAMPLES = sorted(Path("examples/studies").glob("*.yaml"))
VOLATILE = {"seconds", "peak_memory_mb", "new", "forwarded"}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    script(tmp_path / "base.json", RATES)
    for name, factor in (("rl", 2.0), ("later", 3.0)):
        script(tmp_path / f"{name}.json", [min(1.0, factor * rate) if rate > 0.01 else 0.0 for rate in RATES])
    problems_file(tmp_path / "problems.jsonl", len(RATES))
    problems_file(tmp_path / "fewer.jsonl", 3)
    (tmp_path / "brief.txt").write_text("{question} Be brief.")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def steady(document: Any) -> Any:
    """A document without what depends on the clock."""
    if isinstance(document, dict):
        return {key: steady(value) for key, value in document.items() if key not in VOLATILE}
    return [steady(value) for value in document] if isinstance(document, list) else document


FILE = """
models: {base: scripted:base.json, rl: scripted:rl.json}
benchmarks: problems.jsonl
decodings: {temperature: 0.8, max_tokens: 64}
budgets: 40
until: 3
seed: 2
prompt: brief.txt
system: Think.
set: {width: 2}
size: 5
jobs: 1
out: runs
"""


def test_a_study_file_gives_the_same_json_as_the_flags(world: Path) -> None:
    (world / "study.yaml").write_text(FILE)
    by_file = offleash("study", "study.yaml", "--json")
    assert by_file.code == 0, by_file.err
    (world / "runs").rename(world / "by_file")
    flags = offleash(
        "study", "problems.jsonl", "scripted:base.json", "scripted:rl.json", "-k", "40", "--until", "3", "--seed", "2",
        "--temperature", "0.8", "--max-tokens", "64", "--prompt", "brief.txt", "--system", "Think.", "--set", "width=2",
        "--size", "5", "--jobs", "1", "-o", "runs", "--json",
    )  # fmt: skip
    assert flags.code == 0, flags.err
    assert steady(by_file.json) == steady(flags.json)
    assert flags.json["drawn"][0]["new"] > 0
    stored = [json.loads((world / name / "base/run.json").read_text())["draw"] for name in ("by_file", "runs")]
    assert stored[0] == stored[1]


def test_what_is_typed_wins_over_the_file(world: Path) -> None:
    (world / "study.yaml").write_text(FILE)
    dry = offleash("study", "study.yaml", "-k", "9", "--until", "4", "--dry-run", "--json")
    assert dry.json == {"problems": 5, "k": 9, "until": 4, "least": 40, "most": 90, "tokens": 64}
    assert not (world / "runs").exists()


def test_several_models_are_each_compared_with_the_base(world: Path) -> None:
    words = ("study", "problems.jsonl", "scripted:base.json", "scripted:rl.json", "final=scripted:later.json")
    done = offleash(*words, "-k", "40", "--jobs", "1", "-o", "runs", "--json")
    assert done.code == 0, done.err
    assert [Path(run["folder"]).name for run in done.json["drawn"]] == ["base", "rl", "final"]
    assert len(done.json["comparisons"]) == 2
    parts = offleash("compare", "runs/base", "runs/rl", "runs/final", "--json").json
    assert [one["support"] for one in done.json["comparisons"]] == [one["support"] for one in parts["comparisons"]]
    assert (world / "runs/report.html").exists()
    twice = ("study", "problems.jsonl", "scripted:base.json", "a=scripted:rl.json", "a=scripted:later.json")
    refused(offleash(*twice, "-k", "4", "-o", "other"), "called 'a'", "NAME=")


def test_several_benchmarks_and_decodings_are_studies_of_their_own(world: Path) -> None:
    (world / "study.yaml").write_text(
        "models: {base: scripted:base.json, rl: scripted:rl.json}\n"
        "benchmarks: [problems.jsonl, {name: fewer.jsonl, size: 2}]\n"
        "decodings: [plain, {temperature: 0.5}]\nbudgets: {problems.jsonl: 8, fewer.jsonl: 4}\njobs: 1\nout: runs\n"
    )
    dry = offleash("study", "study.yaml", "--dry-run", "--json").json
    assert [one["most"] for one in dry["studies"].values()] == [112, 112, 16, 16]
    assert (dry["samples_at_most"], dry["tokens_at_most"]) == (256, 256 * 4096)
    done = offleash("study", "study.yaml", "--json")
    assert done.code == 0, done.err
    assert sum(run["samples"] for one in done.json["studies"].values() for run in one["drawn"]) == 256
    assert len(list(Path("runs").glob("*/base/run.json"))) == 4
    listed = offleash(
        "study", "problems.jsonl,fewer.jsonl", "scripted:base.json", "scripted:rl.json", "-k", "4", "-o", "two",
        "--dry-run", "--json",
    )  # fmt: skip
    assert [one["problems"] for one in listed.json["studies"].values()] == [7, 3]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("benchmark: aime24", ("'benchmark'", "Did you mean 'benchmarks'")),
        ("untill: 3", ("'untill'", "Did you mean 'until'")),
        ("models: {bsae: scripted:base.json, rl: scripted:rl.json}", ("'bsae'", "Did you mean 'base'")),
        ("models: {base: scripted:base.json}", ("no rl under models", "rl: hf:./rl")),
        ("models: scripted:base.json", ("models must be", "base and rl")),
        ("decodings: {temprature: 1}", ("'temprature'", "Did you mean 'temperature'")),
        ("decodings: papr", ("decodings.decoding takes plain or paper",)),
        ("budgets: {aime25: 4}", ("'aime25'", "problems.jsonl")),
        ("budgets: lots", ("budgets must be", "'lots'")),
        ("until: soon", ("until takes a whole number", "soon")),
        ("seed: -1", ("seed takes a whole number from 0", "-1")),
        ("benchmarks: [{nme: aime24}]", ("'nme'", "Did you mean 'name'")),
        ("prompt: nowhere.txt", ("no prompt template nowhere.txt",)),
        ("models: [", ("is not YAML", "line")),
        ("- a", ("Write lines of",)),
    ],
)
def test_a_study_file_that_is_wrong_is_refused_with_the_nearest_name(
    world: Path, line: str, words: tuple[str, ...]
) -> None:
    key = line.partition(":")[0]
    kept = [row for row in FILE.strip().splitlines() if row.partition(":")[0] != key]
    (world / "study.yaml").write_text("\n".join([line] if line == "- a" else [*kept, line]))
    refused(offleash("study", "study.yaml", "--dry-run"), *words)
    assert not (world / "runs").exists()


def test_a_study_that_lacks_something_is_refused(world: Path) -> None:
    (world / "study.yaml").write_text("models: {base: scripted:base.json, rl: scripted:rl.json}\nbenchmarks: aime24")
    refused(offleash("study", "study.yaml"), "study needs -k")
    refused(offleash("study", "study.yaml", "-k", "4"), "study needs --out")
    refused(offleash("study", "study.yaml", "hf:x"), "names its models")
    refused(offleash("study", "none.yaml"), "no study file none.yaml")
    refused(offleash("study", "problems.jsonl", "scripted:base.json", "-k", "4", "-o", "x"), "needs a base and a model")


def test_there_is_a_study_for_every_pair_of_the_paper_with_a_public_checkpoint() -> None:
    assert len(EXAMPLES) >= 7
    listed = Path("examples/studies/README.md").read_text()
    assert all(f"`{path.name}`" in listed for path in EXAMPLES)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_study_is_planned_without_hub_or_engine(
    path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise AssertionError("a dry run needs no network")

    monkeypatch.setattr("socket.socket.connect", unreachable)
    monkeypatch.setattr("socket.getaddrinfo", unreachable)
    dry = offleash("study", path, "-o", tmp_path / "runs", "--dry-run", "--json")
    assert dry.code == 0, dry.err
    assert dry.json["samples_at_most"] > 50_000
    if path.stem == "acereason-7b":  # the paper's problems times its budgets, for two models
        mathematics, others = 30 + 30 + 40 + 500 + 272 + 675, 433 + 100 + 128 + 50 + 692 + 323 + 131
        assert dry.json["samples_at_most"] == 2 * (8192 * mathematics + 2048 * others)
        assert dry.json["tokens_at_most"] == 32_768 * dry.json["samples_at_most"]
    assert not (tmp_path / "runs").exists()


def test_a_data_set_on_the_hub_is_planned_by_its_size_and_top_level_options_hold(world: Path) -> None:
    (world / "study.yaml").write_text(
        "models: {base: hf:org/base, rl: hf:org/rl}\nbenchmarks: [{name: org/sums, size: 9}]\nbudgets: 10\n"
        "decoding: paper\nmax_tokens: 100\nout: runs\n"
    )
    dry = offleash("study", "study.yaml", "--dry-run", "--json")
    assert dry.json == {"problems": 9, "k": 10, "until": 0, "least": 180, "most": 180, "tokens": 100}
    assert "temperature 0.6, top-p 0.95, at most 100 tokens" in dry.err


def test_a_dry_run_loads_no_engine() -> None:
    code = (
        "import sys\nfrom offleash.cli.main import dispatch\n"
        f"try:\n    dispatch(['study', {str(EXAMPLES[0])!r}, '--dry-run', '--json'])\nexcept SystemExit:\n    pass\n"
        "print('LOADED', *[name for name in ('torch', 'transformers', 'datasets', 'vllm') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "LOADED"
