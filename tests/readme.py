"""What a newcomer pastes works: every `offleash` line of the README and every Python block of the documents, in order.

python -m tests.readme            all documents            (make test-readme: minutes, the demo is among them)
python -m tests.readme README.md  some of them

Each document is run in its own copy of what git tracks, as in a clean clone after `make install`: the lines of `sh`
blocks and the commands in its text one after the other, its `python` blocks in one process. A block after "In `NAME`:"
is added to that literal, a block after "`path.py`:" is written to that file, and its tests are run. Blocks fenced
`console` need a GPU, a server or the hub, and the sentence before them says so.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.places import ROOT

DOCUMENTS = ("README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))))
GENERATED = ("docs/api.md", "docs/cli.md")  # signatures and help texts; tests/test_docs.py compares them with the code

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(offleash [^`]+)`")
FILE_OF = re.compile(r"`([\w/]+\.py)`[^`]*(?:`[^`]+`[^`]*)*:\s*\Z")  # the paragraph before a block that is a file
LITERAL_OF = re.compile(
    r"In `([A-Z]+)`(?: of `([\w/]+\.py)`)?[^`]*(?:`[^`]+`[^`]*)*:\s*\Z"
)  # ... or an entry of a literal
NEEDS = re.compile(r"\b(need|needs)\b", re.IGNORECASE)

# Literals that extending.md adds to, with the file each is in: what it says in its table.
LITERALS = {
    "VERIFIERS": "offleash/verifiers/registry.py",
    "SAMPLERS": "offleash/samplers/registry.py",
    "FORMATS": "offleash/logs/registry.py",
    "PROBLEMS": "offleash/problems/benchmarks.py",
    "METHODS": "offleash/training/methods/registry.py",
    "FIGURES": "offleash/reporting/figures.py",
}
HANGS = 4 * 3600  # seconds after which a command is taken to hang: the demo takes minutes, on a busy machine an hour


@dataclass(frozen=True)
class Block:
    """A fenced block, or a command in the text."""

    language: str
    code: str
    before: str  # the paragraph in front of it, which says what it is or needs


def blocks(text: str, inline: bool) -> Iterator[Block]:
    """Fenced blocks and, where the document is one to paste from, the `offleash` commands in its text, in order."""
    end = 0
    for match in FENCE.finditer(text):
        yield from inline_commands(text[end : match.start()]) if inline else ()
        yield Block(match[1], match[2], text[: match.start()].rstrip().rsplit("\n\n", 1)[-1])
        end = match.end()
    yield from inline_commands(text[end:]) if inline else ()


def inline_commands(text: str) -> Iterator[Block]:
    for match in INLINE.finditer(text):
        words = match[1].split()
        if len(words) > 2 or words[-1] == "theory":  # `offleash score` alone is a name, not a command
            yield Block("sh", match[1] + "\n", "")


def run_document(name: str, folder: Path) -> list[str]:
    """Run what a document says, and return what went wrong."""
    copy_tracked(folder)
    environment = os.environ | {
        "PYTHONPATH": str(folder),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    environment.setdefault("OMP_NUM_THREADS", "1")
    text = (ROOT / name).read_text(encoding="utf-8")
    python: list[str] = []
    problems: list[str] = []
    tests: list[str] = []
    for block in blocks(text, inline=name == "README.md"):
        if block.language == "sh" and name == "README.md":  # those of other documents: tests/test_docs.py
            for line in block.code.replace("\\\n", " ").splitlines():
                problems += run_line(line, folder, environment)
        elif block.language == "console" and not NEEDS.search(block.before):
            problems.append(f"{block.code.strip()}: the sentence before it does not say what it needs")
        elif block.language == "" and "offleash " in block.code and name == "README.md":
            problems.append(f"{block.code.strip()}: fence it sh, or console with what it needs")
        elif block.language == "diff":
            kept = [line[1:].strip() for line in block.code.splitlines() if line[0] in " -" and "# " not in line]
            source = (folder / "offleash/api/compare.py").read_text(encoding="utf-8")
            problems += [f"{name}: no line {line!r} in offleash/api/compare.py" for line in kept if line not in source]
        elif block.language == "python":
            path, literal = FILE_OF.match(block.before), LITERAL_OF.search(block.before)
            if literal:
                add_entry(folder / (literal[2] or LITERALS[literal[1]]), literal[1], block.code)
                tests += [literal[2]] if literal[2] else []
            elif path:
                (folder / path[1]).parent.mkdir(parents=True, exist_ok=True)
                (folder / path[1]).write_text(block.code, encoding="utf-8")
                tests += [path[1]] if path[1].startswith("tests/") else []
            else:
                python.append(block.code)
    if python:
        problems += run([sys.executable, "-c", "\n".join(python)], folder, environment, f"{name}, its Python blocks")
    if tests:
        add_imports(folder)
        problems += run([sys.executable, "-m", "pytest", "-q", *tests], folder, environment, f"{name}, {tests}")
    return problems


def run_line(line: str, folder: Path, environment: dict[str, str]) -> list[str]:
    """Run a line as a shell would. `make` has targets of its own, and a server is read from and stopped."""
    if not line.startswith(("offleash ", "python ")):
        return []
    if line.startswith("offleash view"):
        return serve(line, folder, environment)
    return run(["bash", "-c", line], folder, environment, line)


def run(command: list[str], folder: Path, environment: dict[str, str], name: str) -> list[str]:
    started = time.monotonic()
    try:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=HANGS)
    except subprocess.TimeoutExpired:
        return [f"{name}: still running after {HANGS / 3600:g} hours"]
    good = done.returncode == 0
    print(
        f"{'ok  ' if good else 'FAIL'} {time.monotonic() - started:6.1f} s  {name.split('  #')[0].strip()}", flush=True
    )
    return [] if good else [f"{name}\nexit {done.returncode}\n{done.stdout[-1500:]}\n{done.stderr[-3000:]}"]


def serve(line: str, folder: Path, environment: dict[str, str]) -> list[str]:
    """Start the viewer, read its page, and stop it as Ctrl-C does."""
    process = subprocess.Popen(
        ["bash", "-c", f"exec {line}"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    seen = ""
    try:
        assert process.stdout is not None
        for printed in process.stdout:
            seen += printed
            if address := re.search(r"http://127\.0\.0\.1:\d+/?\S*", printed):
                with urllib.request.urlopen(address[0], timeout=60) as page:
                    good = b"<html" in page.read().lower()
                print(f"{'ok  ' if good else 'FAIL'}            {line}", flush=True)
                return [] if good else [f"{line}: {address[0]} is no page"]
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
    return [f"{line}: printed no address\n{seen[-2000:]}"]


def add_entry(path: Path, literal: str, entry: str) -> None:
    """Put an entry into a literal dict, first, so that it goes before whatever would take its files."""
    text = path.read_text(encoding="utf-8")
    opening = re.search(rf"^{literal}\b[^\n]*(?:\n\s*)?\{{\n", text, re.MULTILINE)
    assert opening, f"{path} has no literal {literal}"
    path.write_text(text[: opening.end()] + entry + text[opening.end() :], encoding="utf-8")


def add_imports(folder: Path) -> None:
    """The imports that extending.md leaves to the reader ("with its import")."""
    for name, line in (
        ("offleash/logs/registry.py", "from offleash.logs import quizlog"),
        ("offleash/training/methods/registry.py", "from offleash.training.methods.raft import raft"),
        ("offleash/reporting/figures.py", "from offleash.comparing.figures.ranks import ranks"),
    ):
        path = folder / name
        text = path.read_text(encoding="utf-8")
        first = re.search(r"^(from|import) ", text, re.MULTILINE)
        assert first
        path.write_text(text[: first.start()] + line + "\n" + text[first.start() :], encoding="utf-8")


def copy_tracked(folder: Path) -> None:
    """The files that git tracks, as they are in the working tree."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in listed.decode().split("\0"):
        if name and (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def main() -> None:
    names = sys.argv[1:] or [name for name in DOCUMENTS if name not in GENERATED]
    problems: list[str] = []
    for name in names:
        with tempfile.TemporaryDirectory() as scratch:
            problems += [f"{name}: {problem}" for problem in run_document(name, Path(scratch))]
    print("\n\n".join(problems))
    print(f"{len(names)} documents, {len(problems)} problems")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
