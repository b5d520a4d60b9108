"""The server of `offleash view`: what it hands out."""

import json
import socket
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

from offleash.data.run_folder import create_run
from offleash.errors import OffleashError
from offleash.reporting.samples import SampleStore, problem_document, problem_documents
from offleash.reporting.view import ViewServer, check_port
from tests.reporting.view_world import HOSTILE, LONG, PAGE, QUESTION, ask, get, port_of, serving, shelf_in, shelf_of


def test_the_page_is_handed_out_as_it_was_given(server: ViewServer) -> None:
    response, body = ask(server, "/")
    assert (response.status, response.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert body.decode() == PAGE


def test_a_problem_is_told_by_the_server_as_by_its_document(server: ViewServer, store: SampleStore) -> None:
    found = get(server, "problem", row=0)
    assert found == problem_document(store, 0)
    assert problem_documents(store, [0, 1])[0] == found
    assert (found["problem"], found["row"], found["gold"]) == ("a", 0, HOSTILE)
    run = found["runs"][1]
    assert (run["name"], run["drawn"], run["correct"], run["texts"]) == ("rl", 152, 1, True)
    assert run["kinds"] == {"correct": 1, "wrong": 151}
    assert (len(run["answers"]), run["answers_left_out"]) == (50, 102)
    assert [one["index"] for one in run["samples"]] == [0, 1, 2, 3]


def test_a_huge_question_and_a_huge_answer_are_cut_and_it_is_said(server: ViewServer) -> None:
    found = get(server, "problem", row=0)
    assert found["question"] == QUESTION[:20_000] + "…"
    assert found["question_letters"] == len(QUESTION)
    long = next(one for one in found["runs"][0]["samples"] if one["index"] == 1)
    assert long["answer"] == LONG[:500] + "…"
    assert (long["head"], long["tail"], long["letters"]) == (LONG[:3500], LONG[-500:], len(LONG))


def test_what_a_model_wrote_comes_back_letter_by_letter_and_holds_no_markup_on_its_way(server: ViewServer) -> None:
    _, body = ask(server, "/api/problem?row=0")
    assert not set("<>&\u2028\u2029\0") & set(body.decode())
    sample = json.loads(body)["runs"][0]["samples"][0]
    assert (sample["head"], sample["reason"]) == (HOSTILE, HOSTILE)
    assert get(server, "text", row=0, run=1, index=0) == {"text": HOSTILE, "start": 0, "letters": len(HOSTILE)}


def test_a_text_of_five_million_letters_is_read_part_by_part(server: ViewServer) -> None:
    parts: list[str] = []
    while (have := sum(map(len, parts))) < len(LONG):
        found = get(server, "text", row=0, run=0, index=1, start=have)
        assert (found["letters"], found["start"]) == (len(LONG), have)
        assert 0 < len(found["text"]) <= 100_000
        parts.append(found["text"])
    assert "".join(parts) == LONG
    assert get(server, "text", row=0, run=0, index=1, start=len(LONG))["text"] == ""


def test_pages_of_samples_are_of_one_verdict_and_know_their_number(server: ViewServer) -> None:
    wrong = get(server, "samples", row=0, run=1, verdict="wrong", start=98, size=100)
    assert (wrong["total"], [one["index"] for one in wrong["samples"]]) == (151, list(range(99, 152)))
    assert get(server, "samples", row=0, run=0, verdict="all")["total"] == 152
    assert get(server, "samples", row=0, run=0, verdict="failed") == {"samples": [], "total": 0}
    assert get(server, "samples", row=0, run=0, start=4_000_000_000)["samples"] == []


def test_a_client_that_goes_away_is_not_worth_a_word(server: ViewServer, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        one = socket.create_connection(("127.0.0.1", port_of(server)), timeout=20)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port_of(server)}\r\n\r\n".encode())
        assert one.recv(100).startswith(b"HTTP/1.1 200")
        one.close()  # in the middle of the page, with a reset
    assert ask(server, "/")[1].decode() == PAGE
    assert capfd.readouterr() == ("", "")


def test_many_requests_at_once_get_their_own_answers(server: ViewServer) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: get(server, "samples", row=0, run=i % 2, start=2 + i, size=1), range(40)))
    assert [one["samples"][0]["head"] for one in found] == [f"text {i}" for i in range(40)]


def test_samples_that_are_gone_are_an_error_and_no_traceback(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = shelf_in(tmp_path)
    with serving(found) as server:
        for file in (tmp_path / "rl" / "samples").glob("*.parquet"):
            file.unlink()
        response, body = ask(server, "/api/problem?row=0")
        assert response.status == 500
        assert "Was the run folder moved or deleted?" in json.loads(body)["error"]
        assert ask(server, "/api/samples?row=0&run=0")[0].status == 200
    assert "Traceback" not in capfd.readouterr().err


def test_of_counts_a_problem_has_its_numbers_and_no_samples(tmp_path: Path) -> None:
    for name in ("base", "rl"):
        (tmp_path / f"{name}.csv").write_text("problem,n,c\na,10,3\n")
    with serving(shelf_of(tmp_path / "base.csv", tmp_path / "rl.csv")) as server:
        run = get(server, "problem", row=0)["runs"][0]
        assert (run["drawn"], run["correct"], run["kinds"], run["samples"], run["texts"]) == (10, 3, {}, [], False)
        assert get(server, "samples", row=0, run=1) == {"samples": [], "total": 0}
        assert ask(server, "/api/text?row=0&run=0&index=0")[0].status == 404


def test_a_port_that_is_taken_is_named(server: ViewServer, store: SampleStore) -> None:
    for refused in (check_port, lambda port: ViewServer([store], "", port)):
        with pytest.raises(OffleashError, match=f"Port {port_of(server)} .*already in use.*--port 0"):
            refused(port_of(server))
    with pytest.raises(OffleashError, match=r"65535\. Found 70000"):
        check_port(70_000)


def test_a_server_that_never_served_can_be_closed_and_its_port_had_again(store: SampleStore) -> None:
    server = ViewServer([store], "")
    port = port_of(server)
    server.close()
    ViewServer([store], "", port).close()


GROWTH = """
from pathlib import Path
from offleash.reporting.samples import SampleStore, problem_document, samples_document
from offleash.comparing.question import question
from offleash.comparing.runs import compare_inputs

def memory(what):
    return next(int(line.split()[1]) for line in Path("/proc/self/status").open() if line.startswith(what)) * 1024

comparisons, _ = compare_inputs(["base", "rl"], question=question(at=1, replicates=100))
store = SampleStore(comparisons[-1])
problem_document(store, 1)  # what the first scan of all takes
Path("/proc/self/clear_refs").write_text("5")
before = memory("VmRSS")
problem_document(store, 0)
assert samples_document(store, 0, 1, "wrong", 8_000, 100)["total"] == 8_192
print(memory("VmHWM") - before)
"""


def write_large_run(folder: Path, shards: int, letters: int, part: int = 4_096) -> None:
    """A problem with so many shards of long texts, which are small on disk, and a problem with one sample."""
    with create_run(folder, folder.name, pl.DataFrame({"problem": ["a", "b"]}), {}) as run:
        for start in range(0, shards * part, part):
            texts = [str(index) + "x" * letters for index in range(start, start + part)]
            keys = {"problem": ["a"] * part, "index": range(start, start + part)}
            run.write_samples(pl.DataFrame({**keys, "text": texts}))
            run.write_verdicts("known", pl.DataFrame({**keys, "verdict": ["correct", "wrong"] * (part // 2)}))
        run.write_samples(pl.DataFrame({"problem": ["b"], "index": [0], "text": ["short"]}))
        run.write_verdicts("known", pl.DataFrame({"problem": ["b"], "index": [0], "verdict": ["wrong"]}))


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of memory is read as Linux tells it")
def test_a_problem_of_16384_samples_is_opened_without_holding_their_texts(tmp_path: Path) -> None:
    write_large_run(tmp_path / "base", 1, 100)
    write_large_run(tmp_path / "rl", 4, 10_000)
    done = subprocess.run([sys.executable, "-c", GROWTH], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 4 * 4_096 * 10_000 / 3
