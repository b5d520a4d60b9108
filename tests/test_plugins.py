"""Users' own code by FILE.py:NAME for every kind of extension, and packages with entry points; what fails is named."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from offleash.errors import OffleashError
from offleash.logs.registry import format_named
from offleash.plugins import GROUPS, find_plugin, is_reference, load_plugin, source_files
from offleash.samplers.registry import model_of, open_sampler
from offleash.samplers.sampler import Request, SamplingParams
from tests.cli.command import offleash, refused
from tests.places import EXAMPLES

PACKAGE = EXAMPLES / "plugin" / "offleash_example"
COUNTS = EXAMPLES / "counts"
QUIZ = [
    {"quiz_item": item, "quiz_text": f"{item}?", "reply": "4", "points": points}
    for item in ("a", "b", "c")
    for points in (1, 0)
]


def quiz_log(file: Path) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in QUIZ))
    return file


# FILE.py:NAME, in this process.


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("a.py:f", True), ("package.module:f", True), ("math", False), ("a.py:", False), (":f", False), ("a.py:1", False)],
)
def test_a_reference_is_a_place_and_a_name(text: str, is_one: bool) -> None:
    assert is_reference(text) is is_one


def test_a_file_is_loaded_again_when_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("VALUE = 1\n")
    assert load_plugin(f"{file}:VALUE", "thing") == 1
    file.write_text("VALUE = 12\n")
    assert load_plugin(f"{file}:VALUE", "thing") == 12


def test_files_of_one_name_in_two_folders_are_two_modules(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text(f"VALUE = {name!r}\n")
    assert [load_plugin(f"{tmp_path}/{name}/mine.py:VALUE", "thing") for name in "aba"] == ["a", "b", "a"]


@pytest.mark.parametrize(
    "source", ["raise ValueError('broken')", "import sys; sys.exit()", "def f(:", "import nowhere"]
)
def test_what_does_not_load_is_named_with_the_reason(tmp_path: Path, source: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(source)
    with pytest.raises(OffleashError, match=r"mine\.py:f could not be loaded"):
        load_plugin(f"{file}:f", "sampler")


def test_installed_modules_are_no_local_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # or the modules of this suite would be local
    (tmp_path / "near.py").write_text("")
    file = tmp_path / "mine.py"
    file.write_text("import json, numpy, near\ndef f(text):\n    return True\n")
    assert [path.name for path in source_files(f"{file}:f")] == ["mine.py", "near.py"]


def test_a_sampler_of_ones_own_draws_like_any(tmp_path: Path) -> None:
    model = model_of(f"{PACKAGE}/sampler.py:open_sampler:0.25")
    assert model.name == "0.25"
    (chunk,) = open_sampler(model).sample([Request("p", "?", 0, 400, seed=7)], SamplingParams())
    assert 60 < [sample.text for sample in chunk.samples].count("yes") < 140
    with pytest.raises(OffleashError, match="coin:often"):
        open_sampler(model_of(f"{PACKAGE}/sampler.py:open_sampler:often"))
    with pytest.raises(OffleashError, match="does not name a model"):
        model_of(f"{PACKAGE}/sampler.py:open_sampler")
    with pytest.raises(OffleashError, match="closest name is open_sampler"):
        open_sampler(model_of(f"{PACKAGE}/sampler.py:open_samplers:0.25"))
    with pytest.raises(OffleashError, match=r"Did you mean 'endpoint:'\?"):
        model_of("endpont:http://localhost:8000/v1")
    (tmp_path / "half.py").write_text("def make(model):\n    return model\n")
    with pytest.raises(OffleashError, match="without about"):
        open_sampler(model_of(f"{tmp_path}/half.py:make:x"))


def test_a_log_format_of_ones_own_reads_a_log(tmp_path: Path) -> None:
    log = quiz_log(tmp_path / "quiz.jsonl")
    assert format_named(f"{PACKAGE}/log_format.py:FORMAT").name == "quizlog"
    result = offleash(
        "import", log, "--log-format", f"{PACKAGE}/log_format.py:FORMAT", "-o", tmp_path / "run", "--json"
    )
    assert result.code == 0, result.err
    assert result.json["problems"] == 3
    refused(
        offleash("import", log, "--log-format", f"{PACKAGE}/log_format.py:read", "-o", tmp_path / "x"), "Name a Format"
    )
    refused(offleash("import", log, "--log-format", "quizlok", "-o", tmp_path / "x"), "no format 'quizlok'")


def test_a_training_method_of_ones_own_is_a_method_with_options() -> None:
    from offleash.training.methods.registry import method
    from tests.training.methods.groups import a_group

    raft = f"{PACKAGE}/method.py:raft"
    assert method(raft, {"clip": 0.3}).advantages(a_group([1, 0, 0, 1])).tolist() == [1, 0, 0, 1]
    with pytest.raises(OffleashError, match=r"Did you mean 'clip'\?"):
        method(raft, {"clp": 0.3})
    with pytest.raises(OffleashError, match="returned a OnlyCorrect"):
        method(f"{PACKAGE}/method.py:OnlyCorrect")


def test_a_figure_of_ones_own_is_drawn(tmp_path: Path) -> None:
    counts = (COUNTS / "base.csv", COUNTS / "rl.csv")
    result = offleash("figure", f"{PACKAGE}/figure.py:ranks", *counts, "-o", tmp_path / "ranks.svg")
    assert result.code == 0, result.err
    assert "<svg" in (tmp_path / "ranks.svg").read_text()
    refused(offleash("figure", "rankz", *counts, "-o", tmp_path / "x.svg"), "no figure 'rankz'")
    refused(
        offleash("figure", f"{PACKAGE}/figure.py:TITLE", *counts, "-o", tmp_path / "x.svg"), "figure(subject, look)"
    )


# A package with entry points, installed into an environment of its own.


BROKEN = """[project]
name = "offleash-broken"
version = "1.0"
[project.entry-points."offleash.verifiers"]
crooked = "offleash_broken:verifier"
[project.entry-points."offleash.formats"]
crooked = "offleash_broken:FORMAT"
[tool.setuptools]
py-modules = ["offleash_broken"]
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a fresh process in which the example, and a plugin that does not import, are installed."""
    folder = tmp_path_factory.mktemp("plugins")
    shutil.copytree(EXAMPLES / "plugin", folder / "example")  # building leaves files behind
    (folder / "broken").mkdir()
    (folder / "broken" / "pyproject.toml").write_text(BROKEN)
    (folder / "broken" / "offleash_broken.py").write_text("raise RuntimeError('built for another version')\n")
    flags = ("-q", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check")
    installed = folder / "installed"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *flags, "--target", installed, folder / "example", folder / "broken"],
        check=True,
        capture_output=True,
    )
    return {**os.environ, "PYTHONPATH": str(installed), "OFFLEASH_CACHE": str(folder / "cache")}


SCRIPT = """
import json
from pathlib import Path
import offleash as ol
from offleash.analyses.strategies.fingerprints.registry import fingerprint
from offleash.errors import OffleashError
from offleash.plugins import call_strategy
from offleash.reporting.figures import own_figure
from offleash.samplers.registry import model_of, open_sampler
from offleash.training.methods.registry import method

Path("rows.jsonl").write_text('{"id": 1, "gold": "odd", "text": "<answer>Odd</answer>"}')
done = {}
done["verifier"] = ol.verify("rows.jsonl", verifier="parity").rows[0].verdict.value
done["sampler"] = open_sampler(model_of("coin:0.25")).about.model
log = ol.import_logs("quiz.jsonl", out="run")
done["format"] = [log.logs.format, *[note.text for note in log.logs.notes if note.warning]]
done["method"] = type(method("raft")).__name__
done["figure"] = own_figure("ranks").__module__
done["fingerprint"] = call_strategy(fingerprint("operators").function, {}, "1 + 2 = 3")
done["formats"] = [row["name"] for row in ol.show_formats().formats][-1]
try:
    ol.verify("rows.jsonl", verifier="crooked")
except OffleashError as error:
    done["broken"] = str(error)
try:
    ol.verify("rows.jsonl", verifier="parety")
except OffleashError as error:
    done["unknown"] = str(error)
print(json.dumps(done))
"""


def test_the_example_package_adds_one_of_each_kind_and_a_broken_one_is_named(
    environment: dict[str, str], tmp_path: Path
) -> None:
    quiz_log(tmp_path / "quiz.jsonl")
    ran = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    done = json.loads(ran.stdout.splitlines()[-1])
    assert done["verifier"] == "correct"
    assert done["sampler"] == "0.25"
    assert done["format"][0] == "quizlog"
    assert "plugin 'crooked' of the package offleash-broken" in done["format"][1]
    assert "built for another version" in done["format"][1]
    assert (done["method"], done["figure"], done["formats"]) == ("Method", "offleash_example.figure", "quizlog")
    assert done["fingerprint"] == "+"
    assert "offleash-broken could not be loaded: RuntimeError: built for another version" in done["broken"]
    assert "Did you mean 'parity'?" in done["unknown"]


def test_entry_points_are_read_only_when_a_name_is_not_ours(tmp_path: Path) -> None:
    code = (
        "import sys\nimport offleash as ol\n"
        f"ol.compare({str(COUNTS / 'base.csv')!r}, {str(COUNTS / 'rl.csv')!r}, replicates=100)\n"
        "from offleash.verifiers.registry import verifier\nfrom offleash.samplers.registry import model_of\n"
        "verifier('math'); model_of('scripted:x')\n"
        "from offleash import plugins\nprint(plugins._entry_points.cache_info().misses)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "0"


def test_every_group_finds_nothing_without_plugins() -> None:
    assert {find_plugin(group, "no such plugin", "thing") for group in GROUPS} == {None}


@pytest.mark.parametrize("name", ["sampler", "log_format", "method", "figure"])
def test_the_files_that_extending_shows_are_those_of_the_example(name: str) -> None:
    """What is copied from the document runs, because the same text runs here."""
    assert (PACKAGE / f"{name}.py").read_text() in (EXAMPLES.parent / "docs" / "extending.md").read_text()
