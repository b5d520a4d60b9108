"""Does this tree still measure what an older commit measured?

    python -m tests.same_as 094829c        (about ten minutes; needs git, and what `make install` installs)

The old tree is taken out of git, and both are run by the same Python on the same inputs: the example counts, a pair of
files of every log format, rows and problems with known answers, a quick demo. Of every JSON the keys and their order,
integers, classes and words must be equal, and floats to 1e-12; sentences may be reworded. Samples drawn with a seed
must be the same, the new tree must resume the old one's folder without drawing anything, and every verdict must be the
same. What both trees refuse is counted apart, since it compares little.

`OLD_VERBS` and `OLD_OPTIONS` have what verbs and options were called before they were renamed; a verb that the old tree
does not know by its new name is asked for by the old one.
"""

import json
import math
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import polars as pl

from tests.places import EXAMPLES, MODELS, ROOT, SHARED_DATA

FIXTURES = ROOT / "tests" / "logs" / "fixtures"
MODEL = f"hf:{MODELS / 'countdown'}"
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
UNORDERED = {"steps", "differences"}  # in the order in which workers and joins are done, in either tree
OLD_VERBS = {"plan samples": ["plan"], "strategies": ["ways"], "nucleus": ["cut"]}
OLD_OPTIONS = {"compare": {"--verifier": "--verify", "--verdicts": "--verifier"}}
FEW = ("--replicates", "200")
SAME, DIFFERS, REFUSED = "same", "differs", "refused"


@dataclass(frozen=True)
class Tree:
    """A checkout, and a cache of verdicts of its own."""

    place: Path
    cache: Path
    old: bool
    renamed: bool = True  # verbs had their old names in the tree, not only options

    def run(self, verb: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        words = verb.split()
        if self.old:
            words = OLD_VERBS[verb] if verb in OLD_VERBS and (self.renamed or verb == "plan samples") else words
            arguments = tuple(OLD_OPTIONS.get(verb, {}).get(str(one), one) for one in arguments)
        code = f"import sys; sys.path.insert(0, {str(self.place)!r}); from offleash.cli.main import main; main()"
        return subprocess.run(
            [sys.executable, "-P", "-c", code, *words, *map(str, arguments)],
            env=os.environ | {"OFFLEASH_CACHE": str(self.cache), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(self.place)},
            cwd=self.cache.parent,
            capture_output=True,
            text=True,
            check=False,
        )


@dataclass(frozen=True)
class Check:
    """What was compared, and where it differs."""

    name: str
    differs: list[str]
    refused: str = ""

    @property
    def outcome(self) -> str:
        return DIFFERS if self.differs else REFUSED if self.refused else SAME


def differences(old: object, new: object, path: str = "") -> Iterator[str]:
    """Where two JSON values differ in more than the wording of a sentence or the time that was taken."""
    key = path.rpartition("/")[2]
    if key in CHANGING:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        if list(old) != list(new) and (key not in UNORDERED or old.keys() != new.keys()):
            yield f"{path}: keys {list(old)} became {list(new)}"
        for name in old.keys() & new.keys():
            yield from differences(old[name], new[name], f"{path}/{name}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{path}: {len(old)} entries became {len(new)}"
        if key in UNORDERED:
            old, new = sorted(old, key=json.dumps), sorted(new, key=json.dumps)
        for i, (before, after) in enumerate(zip(old, new, strict=False)):
            yield from differences(before, after, f"{path}/{i}")
    elif isinstance(old, float) and isinstance(new, float):
        if not math.isclose(old, new, rel_tol=RELATIVE, abs_tol=0.0):
            yield f"{path}: {old!r} became {new!r}"
    elif isinstance(old, str) and isinstance(new, str):
        if old != new and not SENTENCES & set(path.split("/")):
            yield f"{path}: {old[:60]!r} became {new[:60]!r}"
    elif old != new or type(old) is not type(new):
        yield f"{path}: {old!r} became {new!r}"


@dataclass(frozen=True)
class Pair:
    """Both trees, and a folder for what they write."""

    old: Tree
    new: Tree
    work: Path

    def json(self, verb: str, *arguments: object, at_once: bool = True) -> Check:
        """The same command in both trees; not `at_once` where it writes into its inputs."""
        with ThreadPoolExecutor(2 if at_once else 1) as threads:
            before, after = threads.map(lambda tree: tree.run(verb, *arguments, "--json"), (self.old, self.new))
        name = " ".join([verb, *(str(a).replace(f"{self.work}/", "") for a in arguments)])
        if before.returncode != after.returncode:
            return Check(name, [f"exit {before.returncode} became {after.returncode}: {after.stderr[-300:]}"])
        was, now = ([json.loads(line) for line in run.stdout.splitlines() if line] for run in (before, after))
        refused = before.stderr.strip().replace(f"{self.work}/", "") if before.returncode and not was else ""
        return Check(name, list(differences(was, now)), refused)

    def checks(self) -> Iterator[Check]:
        """Every check."""
        counts = EXAMPLES / "counts"
        yield self.json("compare", counts / "base.csv", counts / "rl.csv")
        for rule in (("above", "--tau", "0.01"), ("confident",), ("posterior",)):
            yield self.json("compare", counts / "base.csv", counts / "rl.csv", "--rule", *rule, "--at", 64, *FEW)
        yield self.json("plan samples", counts / "base.csv")
        yield self.json("formats")
        for base, rl in log_pairs(self.work / "logs"):
            yield self.json("compare", f"base={base}", f"rl={rl}", *FEW)
            yield self.json("compare", f"base={base}", f"rl={rl}", "--verifier", "math", *FEW)
        for file, verifier in rows_files(self.work / "rows"):
            yield self.json("verify", file, "--verifier", verifier, "--no-cache")
        for problems, options in problem_files():
            yield self.json("check", problems, *options)
        yield from self.demo()
        yield from self.drawn()
        yield from self.certified()

    def demo(self) -> Iterator[Check]:
        """The run folders of a demo that the old tree made."""
        folder = self.work / "demo"
        made = self.old.run("demo", "--quick", "-o", folder)
        yield Check("demo --quick, by the old tree", [made.stderr[-300:]] if made.returncode else [])
        base, rl, again = (folder / name for name in ("base", "rl", "base-again"))
        for other in (rl, again):
            yield self.json("compare", base, other, *FEW)
            yield self.json("compare", base, other, "--per", "solution", *FEW)
        yield self.json("compare", base, rl, "--flips", *FEW)
        yield self.json("compare", base, again, rl, *FEW)
        yield self.json("entropy", base, rl, *FEW)
        yield self.json("fsck", base, rl)
        told = self.old.run(
            "strategies", base, rl, "--by", "countdown", *FEW
        )  # into ways/, which the new tree then reads
        yield Check("ways, by the old tree", [told.stderr[-300:]] if told.returncode else [])
        yield self.json("strategies", base, rl, "--by", "countdown", *FEW, at_once=False)
        scored = self.old.run("likelihood", base, rl, *FEW)
        yield Check("likelihood, by the old tree", [scored.stderr[-300:]] if scored.returncode else [])
        yield self.json("likelihood", base, rl, *FEW, at_once=False)
        for run in (base, rl):  # as the model judge of the old tree stored its verdicts
            stored = next((run / "verdicts").iterdir())
            shutil.copytree(stored, stored.parent / "referee@1+judge+0123456789abcdef")
        yield self.json("compare", base, rl, "--verdicts", "referee", *FEW)

    def drawn(self) -> Iterator[Check]:
        """Samples and verdicts of both trees, and a folder that one began and the other resumes."""
        problems, was, now = self.work / "problems.jsonl", self.work / "was", self.work / "now"
        self.old.run("lab", "problems", "countdown", "--size", 12, "-o", problems)
        options = ("-k", 64, "--seed", 3, "--max-tokens", 48)
        for tree, place in ((self.old, was), (self.new, now)):
            for verb in (("draw", problems, MODEL, "-o", place, *options), ("verify", place)):
                done = tree.run(*verb)
                yield Check(f"{verb[0]}, {place.name}", [done.stderr[-300:]] if done.returncode else [])
        yield Check("samples drawn with a seed", _tables_differ(was, now, "samples"))
        yield Check("verdicts on them", _tables_differ(was, now, "verdicts/*"))
        before = _files(was / "samples")
        resumed = self.new.run("draw", problems, MODEL, "-o", was, *options)
        trouble = [resumed.stderr[-300:]] if resumed.returncode else []
        trouble += [] if _files(was / "samples") == before else ["new samples were drawn into a finished run"]
        yield Check("a run of the old tree, resumed by the new one without a new sample", trouble)

    def certified(self) -> Iterator[Check]:
        """A certificate of each tree, and what top-p leaves of the old one's."""
        few = self.work / "few.jsonl"
        few.write_text("\n".join((self.work / "problems.jsonl").read_text("utf-8").splitlines()[:2]) + "\n", "utf-8")
        was: dict[str, object] = {}
        now: dict[str, object] = {}
        for tree, place, into in ((self.old, "cert-old", was), (self.new, "cert-new", now)):
            done = tree.run("certify", few, MODEL, "--epsilon", "0.02", "-o", self.work / place, "--json")
            into |= {**json.loads(done.stdout or "{}"), "folder": "", "name": ""}
        yield Check("certify", list(differences(was, now)))
        yield self.json("nucleus", self.work / "cert-old", "--top-p", "0.8,0.9", at_once=False)


def log_pairs(place: Path) -> Iterator[tuple[Path, Path]]:
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


def rows_files(place: Path) -> Iterator[tuple[Path, str]]:
    """Files of rows with gold answers and texts, and who judges them: ours, and the shared data where it is there."""
    yield EXAMPLES / "rows.jsonl", "math"
    place.mkdir()
    names = ["vectors/probe", "vectors/huggingface__Math-Verify", "vectors/huggingface__lighteval"]
    names += ["outputs/qwen25math.math100x8", "outputs/openai_gsm8k.4models"]
    for name in names:
        file = SHARED_DATA / f"{name}.jsonl"
        if not file.exists():
            print(f"skipped  {file.name}: not in the shared data")
            continue
        rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        for verifier in sorted({str(row.get("verifier", "math")) for row in rows} - {"referee"}):
            out = place / f"{file.stem}.{verifier}.jsonl"
            with out.open("w", encoding="utf-8") as sink:
                for i, row in enumerate(rows):
                    text = row.get("text") or row.get("pred") or row.get("completion") or ""
                    if row.get("verifier", "math") == verifier and row["gold"] is not None:
                        kept = {"id": str(i), "gold": row["gold"], "text": text}
                        sink.write(json.dumps(kept | {"details": row["details"]} if "details" in row else kept) + "\n")
            yield out, verifier


def problem_files() -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Problems with gold answers, and the options to check them with."""
    yield EXAMPLES / "problems.jsonl", ()
    for name, verifier in (("aime24", "math"), ("amc23", "number"), ("gsm8k", "number"), ("olympiadbench", "math")):
        file = SHARED_DATA / "bench" / f"{name}.jsonl"
        if file.exists():
            yield file, ("--verifier", verifier)


def _files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.parquet"))}


def _tables_differ(old: Path, new: Path, part: str) -> list[str]:
    frames = [pl.read_parquet(run / part / "*.parquet").sort("problem", "index") for run in (old, new)]
    return [] if frames[0].equals(frames[1]) else [f"{part} are not the same"]


def main(commit: str) -> int:
    with tempfile.TemporaryDirectory(prefix="same-as-") as scratch:
        work = Path(scratch)
        packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=BytesIO(packed)) as archive:
            archive.extractall(work / "old", filter="data")
        renamed = not (work / "old" / "offleash" / "analyses").exists()
        pair = Pair(
            Tree(work / "old", work / "cache-old", old=True, renamed=renamed),
            Tree(ROOT, work / "cache-new", old=False),
            work,
        )
        outcomes: Counter[str] = Counter()
        for check in pair.checks():
            outcomes[check.outcome] += 1
            print(f"{check.outcome:8} {check.name[:110]}", flush=True)
            for line in check.differs[:20] or ([check.refused[:110]] if check.refused else []):
                print(f"             {line}")
        print(f"against {commit}: " + ", ".join(f"{outcomes[name]} {name}" for name in (SAME, DIFFERS, REFUSED)))
        return min(outcomes[DIFFERS], 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "094829c"))
