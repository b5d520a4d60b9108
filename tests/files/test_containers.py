"""Archives and compressed files: members are read like files, and nothing expands beyond a bound."""

import bz2
import gzip
import io
import json
import lzma
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

import offleash as ol
from offleash.errors import OffleashError
from offleash.files import archives
from offleash.files.archives import MemberPath, archive_members
from offleash.files.detect import read_head
from tests.logs.log_reading import FIXTURES, read
from tests.logs.plain_counts import assert_same


def rows(seed: int, correct: int, problems: int = 12) -> list[dict[str, object]]:
    return [
        {"problem_id": f"p{number}", "response": f"{seed}", "correct": number % 12 < correct}
        for number in range(problems)
    ]


def text(table: list[dict[str, object]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in table)


def zipped(path: Path, members: dict[str, bytes | str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def parquet(table: list[dict[str, object]]) -> bytes:
    buffer = io.BytesIO()
    pl.DataFrame(table).write_parquet(buffer)
    return buffer.getvalue()


def run_archive(path: Path, correct: int) -> Path:
    members: dict[str, bytes | str] = {
        "run/README.md": "# samples",
        "__MACOSX/run/._seed0.jsonl": b"\x00\x05",
        "run/seed0.jsonl": text(rows(0, correct)),
        "run/seed1.jsonl.gz": gzip.compress(text(rows(1, correct - 2)).encode()),
        "run/seed2.parquet": parquet(rows(2, correct - 4)),
        "run/seed10.json": json.dumps({"model": "m", "results": rows(10, correct)}, indent=1),
    }
    return zipped(path, members)


def test_a_zip_of_logs_is_a_run_like_a_folder_of_them(tmp_path: Path) -> None:
    def counted(path: Path) -> dict[object, tuple[int, int]]:
        counts: dict[object, tuple[int, int]] = {}
        with zipfile.ZipFile(path) as archive:
            tables = [
                [json.loads(line) for line in archive.read("run/seed0.jsonl").splitlines()],
                [json.loads(line) for line in gzip.decompress(archive.read("run/seed1.jsonl.gz")).splitlines()],
                pl.read_parquet(io.BytesIO(archive.read("run/seed2.parquet"))).to_dicts(),
                json.loads(archive.read("run/seed10.json"))["results"],
            ]
        for row in [row for table in tables for row in table]:
            n, c = counts.get(row["problem_id"], (0, 0))
            counts[row["problem_id"]] = (n + 1, c + row["correct"])
        return counts

    base, rl = run_archive(tmp_path / "base.zip", 6), run_archive(tmp_path / "rl.zip", 9)
    assert_same(counted(base), counted(rl), base, rl)


def test_members_are_shown_by_the_archive_and_their_name(tmp_path: Path) -> None:
    bad = zipped(tmp_path / "logs.zip", {"a/log.jsonl": text(rows(0, 3)) + "{oops\n" + text(rows(0, 3))})
    (member,) = archive_members(bad)
    assert isinstance(member, MemberPath)
    assert member.read_bytes().count(b"\n") == 25
    assert member.stat().st_size == len(member.read_bytes())
    with pytest.raises(OffleashError, match=r"logs\.zip/a/log\.jsonl: row 13 is cut off or not JSON"):
        ol.compare(bad, bad)


def test_archives_of_inspect_stay_its_own_alone_and_inside_a_zip(tmp_path: Path) -> None:
    log = FIXTURES / "inspect/tiny_sums.eval"
    assert archive_members(log) == (log,)
    (member,) = archive_members(zipped(tmp_path / "logs.zip", {"tiny_sums.eval": log.read_bytes()}))
    assert read(member)[1].drop("row").equals(read(log)[1].drop("row"))


PACKERS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("packer", PACKERS)
def test_compressed_logs_are_read_and_cut_off_ones_refused(packer: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    data = PACKERS[packer](text(rows(0, 3, 500)).encode())
    path.write_bytes(data)
    assert read(path)[1].height == 500
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(OffleashError, match="file is cut off or damaged"):
        read(path)


def test_what_is_not_the_log_itself_is_named_with_the_next_step(tmp_path: Path) -> None:
    pointer = tmp_path / "log.jsonl"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    with pytest.raises(OffleashError, match=r"is a Git LFS pointer, not the file itself.*git lfs pull"):
        read(pointer)
    for mode in ("w", "w:gz"):
        path = tmp_path / "logs.tar"
        with tarfile.open(path, mode) as archive:
            archive.add(pointer, "log.jsonl")
        with pytest.raises(OffleashError, match=r"is a tar archive.*tar xf logs.tar"):
            read_head(path)
    frozen = tmp_path / "log.jsonl.zst"
    frozen.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(60))
    with pytest.raises(OffleashError, match=r"zstandard|damaged"):
        read(frozen)


@pytest.mark.parametrize("place", [0.2, 0.5, 0.8, 0.99])
def test_a_damaged_zip_is_refused_without_a_traceback(place: float, tmp_path: Path) -> None:
    data = bytearray(run_archive(tmp_path / "logs.zip", 6).read_bytes())
    cut = tmp_path / "cut.zip"
    cut.write_bytes(bytes(data[: int(place * len(data))]))
    with pytest.raises(OffleashError, match=r"cut\.zip.*damaged"):
        ol.compare(cut, cut)
    position = int(place * len(data))
    data[position : position + 20] = bytes(20)
    flipped = tmp_path / "flipped.zip"
    flipped.write_bytes(bytes(data))
    with suppress(OffleashError):
        ol.compare(flipped, flipped)


def test_an_archive_without_logs_says_what_is_in_it(tmp_path: Path) -> None:
    path = zipped(tmp_path / "code.zip", {"README.md": "# code", "main.py": "print()"})
    with pytest.raises(OffleashError, match=r"'code' has no log in a known format; found README\.md, main\.py"):
        ol.compare(path, path)
    empty = zipped(tmp_path / "empty.zip", {"folder/.hidden": "x"})
    with pytest.raises(OffleashError, match="is a zip archive without files"):
        ol.compare(empty, empty)


def test_what_expands_too_far_is_refused_by_its_ratio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "ALWAYS_ALLOWED", 1 << 20)
    blank = b'{"problem_id": "a", "response": "x", "correct": true}\n' + b"\n" * (8 << 20)
    packed = tmp_path / "log.jsonl.gz"
    packed.write_bytes(gzip.compress(blank))
    with pytest.raises(
        OffleashError, match=r"expands to more than .*over 200 times its packed size.*unpack it yourself"
    ):
        read(packed)
    archive = zipped(tmp_path / "logs.zip", {"log.jsonl": blank})
    with pytest.raises(OffleashError, match="unpack it yourself"):
        ol.compare(archive, archive)
    (tmp_path / "log.jsonl").write_bytes(blank)
    assert read(tmp_path / "log.jsonl")[1].height == 1


# A child process is limited in its memory, so that a bound that does not hold ends it.
CHILD = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
from pathlib import Path
import offleash as ol
from offleash.errors import OffleashError
try:
    ol.compare(sys.argv[1], sys.argv[1])
except OffleashError as error:
    print(error)
# not ru_maxrss, which a process inherits from the one that started it, here a test run of gigabytes
print(next(int(line.split()[1]) >> 10 for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def peak(path: Path) -> tuple[str, int]:
    """What is said about a file, and the megabytes that it took."""
    done = subprocess.run([sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *said, memory = done.stdout.strip().splitlines()
    return "\n".join(said), int(memory)


def expanding(start: bytes, fill: bytes, megabytes: int) -> bytes:
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=6) as file:
        file.write(start)
        for _ in range(megabytes):
            file.write(fill * (1 << 20))
    return buffer.getvalue()


@pytest.mark.parametrize("start", [b'{"id": 1, "response": "', b"\xff\xfe"])
def test_a_line_of_gigabytes_is_refused_in_bounded_memory(start: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log.gz"
    path.write_bytes(expanding(start, b"x", 300))
    assert path.stat().st_size < 2 << 20
    said, memory = peak(path)
    assert "is longer than 256 MiB" in said
    assert memory < 1400


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 12345\n"


def folder_of(path: Path, files: dict[str, bytes | str]) -> Path:
    path.mkdir()
    for name, data in files.items():
        (path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def test_logs_of_a_folder_that_are_not_all_there_are_warned_about(tmp_path: Path) -> None:
    good = text(rows(0, 6))
    files: dict[str, bytes | str] = {
        "README.md": "# samples",
        "seed0.jsonl": good,
        "seed1.jsonl": POINTER,
        "seed2.jsonl": POINTER,
        "seed3.parquet": parquet(rows(3, 4))[:-20],
    }
    document = ol.compare(folder_of(tmp_path / "base", files), folder_of(tmp_path / "rl", {"a.jsonl": good})).to_dict()
    warnings = [note["text"] for note in document["notes"] if note["warning"]]
    assert any("2 files skipped as Git LFS pointers (seed1.jsonl, seed2.jsonl)" in text for text in warnings)
    assert any("git lfs pull" in text for text in warnings)
    assert any("1 file skipped as cut off or damaged (seed3.parquet)" in text for text in warnings)
    others = [note["text"] for note in document["notes"] if "not logs were skipped" in note["text"]]
    assert others == ["base: files that are not logs were skipped: README.md"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (POINTER, "has 1 file that cannot be read.*git lfs pull"),
        (gzip.compress(b"{}" * 5000)[:30], "has 1 file that cannot be read.*gzip file is cut off"),
        (
            bz2.compress(b"{}" * 5000)[:30] + b"x" * 9,
            "has 1 file that cannot be read.*bzip2 file is cut off or damaged",
        ),
    ],
    ids=["pointer", "gzip", "bzip2"],  # packed bytes hold the time, which differs between the workers of a test run
)
def test_a_folder_of_nothing_but_incomplete_logs_says_so(data: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(OffleashError, match=message):
        ol.load(folder_of(tmp_path / "run", {"README.md": "# samples", "seed0.jsonl": data}))


def test_an_empty_zip_is_called_one(tmp_path: Path) -> None:
    zipfile.ZipFile(tmp_path / "run.zip", "w").close()
    with pytest.raises(OffleashError, match="is a zip archive without files"):
        ol.load(tmp_path / "run.zip")


def test_texts_of_a_folder_that_begins_with_a_readme_are_shown(tmp_path: Path) -> None:
    archive = zipped(tmp_path / "base.zip", {"README.md": "# samples", "seed0.jsonl": text(rows(0, 6))})
    folder = folder_of(tmp_path / "rl", {"README.md": "# samples", "seed0.jsonl": text(rows(1, 4))})
    page = ol.compare(archive, folder).save(tmp_path / "report.html")
    assert "problem" in Path(str(page)).read_text()


def test_completions_of_trl_are_read_inside_an_archive(tmp_path: Path) -> None:
    first = [
        {"step": 1, "prompt": f"q{n}", "completion": f"a{n}", "accuracy_reward": float(n % 2), "advantage": 0.0}
        for n in range(4)
    ]
    again = [{**row, "step": 2} for row in first]
    new = [{**row, "step": 3, "completion": "b"} for row in first]
    tables = {"1": first, "2": again, "3": new}
    members: dict[str, bytes | str] = {f"run/completions_0000{n}.parquet": parquet(t) for n, t in tables.items()}
    archive = zipped(tmp_path / "base.zip", {"README.md": "# samples", **members})
    rl = zipped(tmp_path / "rl.zip", members)
    document = ol.compare(archive, rl).to_dict()
    assert document["runs"]["before"]["samples"] == 8  # the second file repeats the first
    assert [document["support"][cell] for cell in "PESO"] == [2, 0, 0, 2]
