"""`offleash view` as a user runs it: a page on a loopback port until Ctrl-C."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.cli.command import offleash, refused

QUICK = ("--replicates", "100")


def write_logs(folder: Path) -> list[str]:
    """Logs of two runs with texts."""
    for name, right in (("base", 1), ("rl", 3)):
        rows = [
            {"id": f"p{p}", "question": f"What is {p}?", "text": f"{name} says {i}", "correct": i < right * p}
            for p in range(3)
            for i in range(8)
        ]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [str(folder / "base.jsonl"), str(folder / "rl.jsonl")]


def write_counts(folder: Path) -> list[str]:
    for name, c in (("base", 2), ("rl", 5)):
        (folder / f"{name}.csv").write_text(f"problem,n,c\na,64,{c}\nb,64,0\n")
    return [str(folder / "base.csv"), str(folder / "rl.csv")]


@dataclass
class Viewing:
    """A view in a process of its own: the first line it printed and, once it has ended, the rest."""

    line: str
    out: str = ""
    err: str = ""
    code: int | None = None


@contextmanager
def viewing(*arguments: str, stop: signal.Signals = signal.SIGINT) -> Iterator[Viewing]:
    """The command as it runs; at the end it is stopped by a signal."""
    command = [sys.executable, "-m", "offleash", "view", *arguments, *QUICK]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            result = Viewing(process.stdout.readline())
            assert result.line, process.communicate()
            yield result
            process.send_signal(stop)
            result.out, result.err = process.communicate(timeout=120)
            result.code = process.returncode
        finally:
            process.kill()


def fetch(url: str) -> Any:
    with urlopen(url, timeout=120) as result:
        body = result.read().decode()
        return json.loads(body) if "/api/" in url else body


def test_a_view_of_logs_hands_out_their_texts_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    with viewing(*write_logs(tmp_path), "--json") as result:
        url = json.loads(result.line)["url"]
        assert url.startswith("http://127.0.0.1:")
        assert "<html" in fetch(url)
        page = fetch(f"{url}api/samples?row=2&run=1&verdict=correct&size=1")
        assert (page["total"], page["samples"][0]["head"]) == (6, "rl says 0")
        assert any(scratch.iterdir())
    assert (result.code, result.out) == (0, "")
    assert result.err.endswith("Stopped; nothing was changed.\n")
    assert not any(scratch.iterdir())


def test_a_view_of_counts_has_a_page_and_says_that_there_are_no_samples(tmp_path: Path) -> None:
    with viewing(*write_counts(tmp_path), stop=signal.SIGTERM) as result:
        url, _, rest = result.line.partition(" ")
        assert rest.strip() == "(Ctrl-C to stop)"
        assert "no answers or samples to show" in " ".join(fetch(url).split())
        run = fetch(f"{url}api/problem?row=0")["runs"][1]
        assert (run["drawn"], run["correct"], run["samples"]) == (64, 5, [])
    assert (result.code, result.out) == (0, "Stopped; nothing was changed.\n")
    assert "offleash:" not in result.err  # on a busy machine it has lines of progress


def test_a_taken_port_is_said_before_anything_is_read(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused(
            offleash("view", tmp_path / "no-run", tmp_path / "none", "--port", str(port)), f"Port {port}", "--port 0"
        )
    refused(
        offleash("view", tmp_path / "no-run", tmp_path / "none", "--port", "65536"),
        "65536",
        "a whole number from 0 to 65,535",
    )


def test_one_run_is_not_enough(tmp_path: Path) -> None:
    refused(offleash("view", write_counts(tmp_path)[0]), "two runs, before and after", "found 1 (base)")


def test_runs_without_a_common_problem_are_refused(tmp_path: Path) -> None:
    base, other = write_counts(tmp_path)[0], tmp_path / "other.csv"
    other.write_text("problem,n,c\nz,64,1\n")
    refused(offleash("view", base, other), "no problem in common")


def test_the_browser_is_opened_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def browser(url: str) -> bool:
        opened.append(url)
        raise KeyboardInterrupt  # the user has seen enough

    monkeypatch.setattr("webbrowser.open", browser)
    result = offleash("view", *write_counts(tmp_path), "--open", *QUICK)
    assert opened == [result.out.split()[0]]
