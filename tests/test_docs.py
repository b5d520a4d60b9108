"""The documents: their commands run, their Python runs, their links lead somewhere, and they describe what there is."""

import json
import re
import shlex
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from offleash.cli.verbs import GROUPS
from offleash.data.tables import PROBLEMS, SAMPLES, VERDICTS
from offleash.logs.registry import FORMATS
from tests.cli.command import offleash
from tests.places import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLE = ["compare", "examples/counts/base.csv", "examples/counts/rl.csv", "--replicates", "200", "--json"]
TAKES_A_PATH = {"compare", "report", "view", "figure", "import", "plan", "verify", "check"}
RESAMPLES = {"compare", "report", "entropy", "likelihood", "strategies", "figure"}  # fewer replicates run the same code
SWITCHES = {"--json"}  # options that take no value

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def blocks(document: Path, language: str) -> list[str]:
    """Fenced blocks of one language."""
    return [code for found, code in FENCE.findall(document.read_text(encoding="utf-8")) if found == language]


def commands(document: Path) -> list[list[str]]:
    """The words of every command that starts with `offleash`, continued lines joined."""
    lines = [line for code in blocks(document, "sh") for line in code.replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("offleash ")]


def inputs(command: list[str]) -> list[str]:
    """Paths that a command reads: what follows its verb, without options, their values and names of runs."""
    if command[1] not in TAKES_A_PATH:
        return []
    words, paths = iter(command[3 if command[1] in GROUPS else 2 :]), []
    for word in words:
        if word.startswith("-"):
            if word not in SWITCHES and "=" not in word:
                next(words, None)
        else:
            paths.append(word.split("=", 1)[-1])
    return paths


def in_repository(path: str) -> bool:
    return path.startswith(("examples/", "tests/"))


def exists(path: str, folder: Path) -> bool:
    return any(folder.glob(re.sub(r"(\.py):.*", r"\1", path)))  # FILE.py:NAME


NAMED = ("benchmarks", "source", "runs", "squares", "tokens", "samples", "fork_height", "distinct_answers", "reasons")


def keys_of(value: object) -> Iterator[str]:
    """Names of keys at any depth; those that are numbers, benchmarks, runs or facts of a log are data."""
    if isinstance(value, list):
        for one in value:
            yield from keys_of(one)
    if not isinstance(value, dict):
        return
    for key, below in value.items():
        if not re.fullmatch(r"[\d.]+", key):
            yield key
        data = key in NAMED and isinstance(below, dict)
        yield from keys_of(list(below.values()) if data else below)


def anchors(document: Path) -> set[str]:
    """Headings as links name them."""
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(document.read_text("utf-8")))
    return {heading.strip().replace(" ", "-") for heading in kept}


def described(document: str) -> str:
    return (ROOT / "docs" / document).read_text(encoding="utf-8")


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: examples/ and tests/ can be read from it, and it may be written to."""
    for name in ("examples", "tests"):
        (tmp_path / name).symlink_to(ROOT / name, target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("document", DOCUMENTS[1:], ids=lambda path: path.name)  # the README's: make test-readme
def test_commands_that_name_files_of_the_repository_run(document: Path, workplace: Path) -> None:
    earlier = [command for other in DOCUMENTS[1 : DOCUMENTS.index(document)] for command in commands(other)]
    for command in commands(document):
        seen = command in earlier and all(in_repository(path) for path in inputs(command)) and command[1] != "import"
        if seen or not all(exists(path, workplace) for path in inputs(command)):
            continue
        fewer = ["--replicates", "200"] if command[1] in RESAMPLES and "--replicates" not in command else []
        run = offleash(*command[1:], *fewer)
        assert run.code == 0, f"{shlex.join(command)}\n{run.err}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_commands_take_from_the_repository_exist(document: Path) -> None:
    named = [path for command in commands(document) for path in inputs(command) if in_repository(path)]
    assert [path for path in named if not exists(path, ROOT)] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_blocks_run(document: Path, workplace: Path) -> None:
    for number, block in enumerate(blocks(document, "python"), 1):
        if block.startswith("import offleash"):
            exec(compile(block, f"{document.name}, Python block {number}", "exec"), {})


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_relative_links_lead_to_a_file_and_a_heading_in_it(document: Path) -> None:
    text = FENCE.sub("", document.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        assert target.exists(), f"{document.name} links to {link}, which is not there"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{document.name} links to {link}, and there is no such heading"


def test_every_key_of_the_json_is_described(workplace: Path) -> None:
    run = offleash(*EXAMPLE)
    assert run.code == 0, run.err
    text, document = described("json.md"), json.loads(run.out)
    assert [key for key in document if f"| `{key}` |" not in text] == []
    assert sorted({key for key in keys_of(document) if f"`{key}`" not in text}) == []


OTHERS = [
    "plan samples examples/counts/base.csv",
    "plan training examples/counts/base.csv",
    "formats",
    "problems",
    "check examples/problems.jsonl",
]


@pytest.mark.parametrize("words", OTHERS)
def test_every_key_of_the_other_documents_is_described(words: str, workplace: Path) -> None:
    run = offleash(*words.split(), "--json")
    assert run.code == 0, run.err
    assert sorted({key for key in keys_of(json.loads(run.out)) if f"`{key}`" not in described("json.md")}) == []


@pytest.mark.parametrize("name", ["cli", "api"])
def test_the_reference_is_that_of_the_declarations(name: str) -> None:
    spec = spec_from_file_location("reference", ROOT / "docs" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    reference = module_from_spec(spec)
    spec.loader.exec_module(reference)
    assert getattr(reference, name)() == described(f"{name}.md"), "stale: make docs writes it again"


def test_every_format_is_described() -> None:
    assert [name for name in FORMATS if f"| `{name}` |" not in described("logs.md")] == []


def test_every_column_of_a_run_folder_is_described() -> None:
    text = described("run-folder.md")
    assert [column for column in (*PROBLEMS, *SAMPLES, *VERDICTS) if f"`{column}`" not in text] == []
