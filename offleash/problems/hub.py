"""Benchmarks from the Hugging Face hub: a subprocess fetches one into a Parquet file, read like any other file.

The subprocess (fetch.py) keeps `datasets` and its settings out of ours and can be killed: without a network nothing
hangs.
"""

import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

from offleash.data.tables import Note
from offleash.errors import OffleashError
from offleash.problems.problem import Benchmark, ProblemSet
from offleash.problems.read import Columns, read_problems

ENDPOINT = "https://huggingface.co"
REACH = 5.0  # seconds to reach the hub, before its cache is read instead
FETCH_SECONDS = 3600.0  # seconds to fetch a data set: LiveCodeBench is gigabytes
PROXY_VARIABLES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
# Without these a stalled connection waits for minutes per file.
HUB_ENVIRONMENT = {
    "HF_HUB_DOWNLOAD_TIMEOUT": "20",
    "HF_HUB_ETAG_TIMEOUT": "10",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
}


def from_hub(
    benchmark: Benchmark, *, columns: Columns | None = None, rows: int | None = None, wait: float = FETCH_SECONDS
) -> ProblemSet:
    """The benchmark's problems from the hub, or from its cache when the hub cannot be reached.

    Args:
        benchmark: Which.
        columns: --map: role -> column.
        rows: Only the first so many rows; None for all.
        wait: Seconds until the download is given up.
    """
    if find_spec("datasets") is None:
        raise OffleashError(
            f"{benchmark.name} is read from the Hugging Face hub ({benchmark.source}), which needs: "
            f"pip install 'offleash[hub]'. {local_file_hint(benchmark)}"
        )
    environment = {**HUB_ENVIRONMENT, **os.environ}  # what the user has set wins
    offline = _offline() or not reachable()
    if offline:
        environment |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    with tempfile.TemporaryDirectory(prefix="offleash-hub-") as folder:
        path = Path(folder) / f"{benchmark.name}.parquet"
        fetch(benchmark, path, environment, rows, wait, offline)
        read = read_problems(path, columns=columns, benchmark=benchmark)
    where = "the cache of " if offline else ""
    return replace(read, rows={}, notes=(Note(f"{benchmark.name}: read from {where}{benchmark.source}."), *read.notes))


def fetch(
    benchmark: Benchmark, path: Path, environment: dict[str, str], rows: int | None, wait: float, offline: bool
) -> None:
    """Write the benchmark's rows into a Parquet file, in a process that is killed after `wait` seconds."""
    split = benchmark.split if rows is None else f"{benchmark.split}[:{rows}]"
    command = [
        sys.executable,
        "-m",
        "offleash.problems.fetch",
        benchmark.hub,
        benchmark.config or "",
        split,
        str(path),
    ]
    try:
        done = subprocess.run(
            command,
            env=environment,
            timeout=wait,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise OffleashError(
            f"{benchmark.source} was not downloaded in {wait:g} seconds. {local_file_hint(benchmark)}"
        ) from None
    if done.returncode == 0 and path.exists():
        return
    why = "The hub cannot be reached, and its cache does not have" if offline else "The hub did not return"
    reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1][:300]
    raise OffleashError(f"{why} {benchmark.source} ({reason}). {local_file_hint(benchmark)}")


def local_file_hint(benchmark: Benchmark) -> str:
    """The next step without the hub, for errors."""
    wanted = ", ".join(benchmark.columns.values())
    return (
        f"To use a local copy: offleash problems {benchmark.name} --from FILE (JSONL, JSON, CSV or Parquet "
        f"with the columns {wanted}, or usual names such as id, question, answer)."
    )


def reachable(wait: float = REACH) -> bool:
    """Whether a connection to the hub can be made. Behind a proxy it is assumed: the proxy itself resolves names."""
    if any(os.environ.get(name) for name in PROXY_VARIABLES):
        return True
    # HF_ENDPOINT names a mirror.
    parts = urlsplit(os.environ.get("HF_ENDPOINT") or ENDPOINT)
    results: list[bool] = []

    def connect() -> None:
        try:
            port = parts.port or (80 if parts.scheme == "http" else 443)
            with socket.create_connection((parts.hostname or "", port), timeout=wait):
                results.append(True)
        except (OSError, ValueError):
            results.append(False)

    # A name that no server resolves can take longer than the time allowed for the connection.
    thread = Thread(target=connect, daemon=True)
    thread.start()
    thread.join(wait)
    return bool(results and results[0])


def _offline() -> bool:
    """Whether the user asked the hub's libraries to stay offline, by the values that they take for true."""
    return any(
        os.environ.get(name, "").upper() in ("1", "ON", "YES", "TRUE")
        for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")
    )
