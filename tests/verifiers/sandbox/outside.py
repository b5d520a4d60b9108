"""What a test looks at outside of a sandbox: processes that carry a marker, and a server on the loopback."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path


def processes_with(marker: str) -> list[int]:
    """Processes, but this one, whose command line holds the marker."""
    collected = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if marker.encode() in (folder / "cmdline").read_bytes() and int(folder.name) != os.getpid():
                collected.append(int(folder.name))
    return collected


def children(parent: int | None = None) -> set[int]:
    """Processes that this one has started and that still run."""
    collected = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            if int(fields[1]) == (parent or os.getpid()) and fields[0] != b"Z":
                collected.add(int(folder.name))
    return collected


def gone(marker: str, seconds: float = 30.0) -> bool:
    """Whether no process carries the marker, at the latest after that time."""
    end = time.monotonic() + seconds
    while processes_with(marker):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@contextlib.contextmanager
def listening() -> Iterator[tuple[int, list[bytes]]]:
    """A server on the loopback: its port, and who has called."""
    calls: list[bytes] = []
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(0.1)
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                connection, _ = server.accept()
                calls.append(b"called")
                connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield server.getsockname()[1], calls
    finally:
        stop.set()
        thread.join()
        server.close()


@contextlib.contextmanager
def crowded(others: int = 4) -> Iterator[None]:
    """A busy machine: this process, all that it starts from here on, and that many busy processes on one core."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    busy = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(others)]
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        for process in busy:
            process.kill()
            process.wait()
