"""Benchmarks from the Hugging Face hub: a subprocess fetches one into a Parquet file, read like any other file.

The subprocess (fetch.py) keeps `datasets` and its settings out of ours and can be killed: without a network nothing
hangs.
"""

import os
import re
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

from offleash.data.tables import Note
from offleash.errors import OffleashError
from offleash.problems.problem import Benchmark, ProblemSet
from offleash.problems.read import Columns, read_problems

ENDPOINT = "https://huggingface.co"
CONNECT_TIMEOUT = 5.0  # seconds to reach the hub, before its cache is read instead
FETCH_SECONDS = 3600.0  # seconds to fetch a data set: LiveCodeBench is gigabytes
PROXY_VARIABLES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
# Without these a stalled connection waits for minutes per file.
HUB_ENVIRONMENT = {
    "HF_HUB_DOWNLOAD_TIMEOUT": "20",
    "HF_HUB_ETAG_TIMEOUT": "10",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
}


@dataclass(frozen=True)
class HubDataset:
    """A data set on the hub that is not in the registry, as a user names it: org/name, org/name:config:split."""

    name: str
    hub: str
    config: str = ""
    split: str = ""  # empty: test, else validation, else train

    @property
    def source(self) -> str:
        """Id, config and split as one text."""
        return f"{self.hub}{f' ({self.config})' if self.config else ''}{f', split {self.split}' if self.split else ''}"


def hub_dataset(name: str) -> HubDataset | None:
    """The data set that a name stands for: org/name with an optional :split or :config:split; None for other names.

    >>> hub_dataset("org/sums:hard:test")
    HubDataset(name='org/sums:hard:test', hub='org/sums', config='hard', split='test')
    """
    match = re.fullmatch(r"([\w-][\w.-]*/[\w-][\w.-]*?)(?::([\w.-]+))??(?::([\w.-]+))?", name)
    return None if match is None else HubDataset(name, match[1], match[2] or "", match[3] or "")


def dataset_from_hub(dataset: HubDataset, *, columns: Columns | None = None, wait: float = FETCH_SECONDS) -> ProblemSet:
    """The problems of any data set on the hub, its columns recognised as those of a file are."""
    if find_spec("datasets") is None:
        raise OffleashError(
            f"{dataset.name} is read from the Hugging Face hub, which needs: pip install 'offleash[hub]'. If it is a "
            "file, check its path."
        )
    environment, offline = hub_environment()
    with tempfile.TemporaryDirectory(prefix="offleash-hub-") as folder:
        path = Path(folder) / f"{dataset.hub.partition('/')[2]}.parquet"
        split = fetch(dataset, path, environment, None, wait, offline)
        problem_set = read_problems(path, columns=columns)
    origin_text = "the cache of " if offline else ""
    note = Note(f"{dataset.name}: read from {origin_text}{replace(dataset, split=split).source}.")
    return replace(problem_set, rows={}, notes=(note, *problem_set.notes))


def hub_environment() -> tuple[dict[str, str], bool]:
    """The environment of a download, and whether the hub is out of reach, so that only its cache is read."""
    environment = {**HUB_ENVIRONMENT, **os.environ}  # what the user has set wins
    offline = _offline() or not reachable()
    if offline:
        environment |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    return environment, offline


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
    environment, offline = hub_environment()
    with tempfile.TemporaryDirectory(prefix="offleash-hub-") as folder:
        path = Path(folder) / f"{benchmark.name}.parquet"
        fetch(benchmark, path, environment, rows, wait, offline)
        problem_set = read_problems(path, columns=columns, benchmark=benchmark)
    origin_text = "the cache of " if offline else ""
    return replace(
        problem_set,
        rows={},
        notes=(Note(f"{benchmark.name}: read from {origin_text}{benchmark.source}."), *problem_set.notes),
    )


def fetch(
    benchmark: Benchmark | HubDataset,
    path: Path,
    environment: dict[str, str],
    rows: int | None,
    wait: float,
    offline: bool,
) -> str:
    """Write the rows into a Parquet file, in a process that is killed after `wait` seconds; the split that was read."""
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
        completed = subprocess.run(
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
            f"{benchmark.source} could not be downloaded within {wait:g} seconds. {local_file_hint(benchmark)}"
        ) from None
    if completed.returncode == 0 and path.exists():
        return (completed.stdout.strip().splitlines() or [split])[-1]
    failure = "The hub cannot be reached, and its cache does not have" if offline else "The hub did not return"
    reason = (completed.stderr.strip().splitlines() or ["no reason given"])[-1][:300]
    raise OffleashError(f"{failure} {benchmark.source} ({reason}). {local_file_hint(benchmark)}")


def local_file_hint(benchmark: Benchmark | HubDataset) -> str:
    """The next step without the hub, for errors."""
    if isinstance(benchmark, HubDataset):
        return "If it is a file, check its path; to name a config and a split: org/name:config:split."
    column_names = ", ".join(benchmark.columns.values())
    return (
        f"To use a local copy: offleash problems {benchmark.name} --from FILE (JSONL, JSON, CSV or Parquet "
        f"with the columns {column_names}, or usual names such as id, question, answer)."
    )


def reachable(wait: float = CONNECT_TIMEOUT) -> bool:
    """Whether a connection to the hub can be made. Behind a proxy it is assumed: the proxy itself resolves names."""
    if any(os.environ.get(name) for name in PROXY_VARIABLES):
        return True
    # HF_ENDPOINT names a mirror.
    address = urlsplit(os.environ.get("HF_ENDPOINT") or ENDPOINT)
    results: list[bool] = []

    def connect() -> None:
        try:
            port = address.port or (80 if address.scheme == "http" else 443)
            with socket.create_connection((address.hostname or "", port), timeout=wait):
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
