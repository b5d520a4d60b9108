"""Does this tree still measure what an older commit measured?

    python -m tests.same_as 3dc200f            (about four minutes; needs git, and what `make install` installs)

The old tree is taken out of git and both are run by the same Python on the same inputs: the example counts, a pair of
files of every log format, a quick demo, files of rows. Of every JSON the keys and their order, integers, classes and
words must be equal, and floats to 1e-12; sentences may be reworded. Samples drawn with a seed must be the same, the new
tree must resume the old tree's folders without drawing anything, and every verdict must be the same.

`OLD_NAMES` has what verbs and options were called before they were renamed.
"""

import json
import math
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import polars as pl

from tests.places import MODELS, ROOT, SHARED_DATA

MODEL = MODELS / "countdown"
FIXTURES = ROOT / "tests" / "logs" / "fixtures"
RELATIVE = 1e-12
SENTENCES = {
    "text",
    "reason",
    "reasons",
    "notes",
    "note",
    "finding",
    "reading",
    "readings",
    "says",
    "words",
    "warnings",
}
CHANGING = {"seconds", "version", "versions", "time", "peak_memory_mb", "memory_mb", "samples_per_second"}
OLD_NAMES = {"strategies": "ways", "nucleus": "cut"}
REPLICATES = ("--replicates", "200")


@dataclass(frozen=True)
class Tree:
    """A checkout, and a cache of verdicts of its own."""

    place: Path
    cache: Path
    old: bool

    def run(self, verb: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        name = OLD_NAMES.get(verb, verb) if self.old else verb
        code = f"import sys; sys.path.insert(0, {str(self.place)!r}); from offleash.cli.main import main; main()"
        return subprocess.run(
            [sys.executable, "-P", "-c", code, name, *map(str, arguments)],
            env=os.environ | {"OFFLEASH_CACHE": str(self.cache), "OMP_NUM_THREADS": "1"},
            cwd=self.cache.parent,
            capture_output=True,
            text=True,
            check=False,
        )


def differences(old: object, new: object, path: str = "") -> Iterator[str]:
    """Where two JSON values differ in more than the wording of a sentence or the time that was taken."""
    key = path.rpartition("/")[2]
    if key in CHANGING:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        if list(old) != list(new):
            yield f"{path}: keys {list(old)} became {list(new)}"
        for name in old.keys() & new.keys():
            yield from differences(old[name], new[name], f"{path}/{name}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{path}: {len(old)} entries became {len(new)}"
        for i, (before, after) in enumerate(zip(old, new, strict=False)):
            yield from differences(before, after, f"{path}/{key if key in SENTENCES else i}")
    elif isinstance(old, float) and isinstance(new, float):
        if not math.isclose(old, new, rel_tol=RELATIVE, abs_tol=0.0):
            yield f"{path}: {old!r} became {new!r}"
    elif isinstance(old, str) and isinstance(new, str):
        if old != new and not SENTENCES & set(path.split("/")):
            yield f"{path}: {old[:60]!r} became {new[:60]!r}"
    elif old != new or type(old) is not type(new):
        yield f"{path}: {old!r} became {new!r}"


def main(commit: str) -> int:
    with tempfile.TemporaryDirectory(prefix="same-as-") as scratch:
        work = Path(scratch)
        packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=BytesIO(packed)) as archive:
            archive.extractall(work / "old", filter="data")
        old = Tree(work / "old", work / "cache-old", old=True)
        new = Tree(ROOT, work / "cache-new", old=False)
        bad = 0
        for name, found in checks(old, new, work):
            print(f"{'differs' if found else 'same   '}  {name}", flush=True)
            for line in found[:20]:
                print(f"           {line}")
            bad += bool(found)
        print(f"{bad} of the checks differ" if bad else f"everything is as at {commit}")
        return min(bad, 1)


def checks(old: Tree, new: Tree, work: Path) -> Iterator[tuple[str, list[str]]]:
    """Each check by name, with the differences it found."""

    def both(verb: str, *arguments: object) -> tuple[str, list[str]]:
        with ThreadPoolExecutor(2) as threads:
            before, after = threads.map(lambda tree: tree.run(verb, *arguments, "--json"), (old, new))
        name = " ".join([verb, *(str(a).replace(f"{work}/", "") for a in arguments)])[:110]
        name += f" (refused: {before.stderr.strip()[:60]})" if before.returncode and not before.stdout else ""
        if before.returncode != after.returncode:
            return name, [f"exit {before.returncode} became {after.returncode}: {after.stderr[:300]}"]
        was, now = ([json.loads(line) for line in run.stdout.splitlines() if line] for run in (before, after))
        return name, list(differences(was, now))

    counts = ROOT / "examples" / "counts"
    yield both("compare", counts / "base.csv", counts / "rl.csv")
    for rule in ("above", "credible"):
        yield both("compare", counts / "base.csv", counts / "rl.csv", "--rule", rule, "--at", 64, *REPLICATES)
    yield both("plan", counts / "base.csv")
    for base, rl in pairs(work / "pairs"):
        yield both("compare", f"base={base}", f"rl={rl}", *REPLICATES)
        yield both("compare", f"base={base}", f"rl={rl}", "--verify", "math", *REPLICATES)
    for rows in rows_files(work / "rows"):
        yield both("verify", rows, "--verifier", "math", "--no-cache")
    yield both("check", ROOT / "examples" / "problems.jsonl")
    yield both("formats")
    yield from drawn(old, new, work)
    for name in ("base", "rl"):
        run = work / "demo" / name
        yield both("fsck", run)
    base, rl = work / "demo" / "base", work / "demo" / "rl"
    yield both("compare", base, rl, *REPLICATES)
    yield both("compare", base, rl, "--per", "solution", "--flips", *REPLICATES)
    yield both("entropy", base, rl, *REPLICATES)
    yield both("strategies", base, rl, *REPLICATES)
    yield both("compare", work / "kept" / "base", work / "kept" / "rl", *REPLICATES)
    yield both(
        "certify",
        work / "few.jsonl",
        f"hf:{ROOT / 'offleash/lab/models/countdown'}",
        "--epsilon",
        "0.02",
        "-o",
        work / "certs",
    )
    yield both("nucleus", work / "certs", "--top-p", "0.8,0.9")


def pairs(place: Path) -> Iterator[tuple[Path, Path]]:
    """Two logs of every fixture: as it is, and without its last line where it is a file of lines."""
    for file in sorted(path for path in FIXTURES.rglob("*") if path.is_file() and path.name != "README.md"):
        base, rl = (place / file.parent.name / side / file.name for side in ("base", "rl"))
        for copy in (base, rl):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
        lines = file.read_bytes().splitlines(keepends=True) if file.suffix in (".jsonl", ".csv") else []
        if len(lines) > 2:
            rl.write_bytes(b"".join(lines[:-1]))
        yield base, rl


def rows_files(place: Path) -> Iterator[Path]:
    """Files of rows with gold answers and texts: ours, and those of the shared data where it is there."""
    yield ROOT / "examples" / "rows.jsonl"
    place.mkdir()
    for name in ("vectors/probe", "vectors/huggingface__Math-Verify", "vectors/huggingface__lighteval"):
        yield from _rows(SHARED_DATA / f"{name}.jsonl", place)
    for name in ("outputs/qwen25math.math100x8", "outputs/openai_gsm8k.4models"):
        yield from _rows(SHARED_DATA / f"{name}.jsonl", place)


def _rows(file: Path, place: Path) -> Iterator[Path]:
    if not file.exists():
        print(f"skipped  {file.name}: not in the shared data")
        return
    out = place / file.name
    with out.open("w", encoding="utf-8") as sink:
        for i, line in enumerate(file.read_text("utf-8").splitlines()):
            row = json.loads(line)
            text = row.get("text") or row.get("pred") or row.get("completion") or ""
            sink.write(json.dumps({"id": str(i), "gold": row["gold"], "text": text}) + "\n")
    yield out


def drawn(old: Tree, new: Tree, work: Path) -> Iterator[tuple[str, list[str]]]:
    """A quick demo and a scripted draw by the old tree: drawn again, resumed and reopened by the new one."""
    model = f"hf:{MODEL}"
    problems, few = work / "problems.jsonl", work / "few.jsonl"
    listed = old.run("lab", "problems", "countdown", "--size", 12, "-o", problems)
    if listed.returncode:
        yield "lab problems", [listed.stderr[-300:]]
        return
    lines = problems.read_text(encoding="utf-8").splitlines()
    few.write_text("\n".join(lines[:2]) + "\n", encoding="utf-8")
    for name, seed in (("base", 0), ("rl", 1)):
        options = ("-k", 64, "--seed", seed, "--max-tokens", 48, "--json")
        for tree, place in ((old, work / "demo" / name), (new, work / "again" / name)):
            done = tree.run("draw", problems, model, "-o", place, *options)
            if done.returncode:
                yield f"draw {name}", [f"exit {done.returncode}: {done.stderr[-500:]}"]
                return
        yield f"the samples of {name}, drawn with a seed", _samples_differ(work / "demo" / name, work / "again" / name)
        yield from _resumed(new, work / "demo" / name, problems, model, options)
        verified = new.run("verify", work / "demo" / name, "--json")
        yield f"verify {name}", [] if verified.returncode == 0 else [verified.stderr[-300:]]


def _resumed(
    new: Tree, run: Path, problems: Path, model: str, options: tuple[object, ...]
) -> Iterator[tuple[str, list[str]]]:
    before = _files(run / "samples")
    done = new.run("draw", problems, model, "-o", run, *options)
    found = [f"exit {done.returncode}: {done.stderr[-300:]}"] if done.returncode else []
    if _files(run / "samples") != before:
        found.append("new samples were drawn into a finished run")
    yield f"{run.name}, drawn by the old tree, resumed by the new one without a new sample", found


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def _samples_differ(old: Path, new: Path) -> list[str]:
    frames = [pl.read_parquet(run / "samples" / "*.parquet").sort("problem", "index") for run in (old, new)]
    return [] if frames[0].equals(frames[1]) else ["they are not the same"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "3dc200f"))
