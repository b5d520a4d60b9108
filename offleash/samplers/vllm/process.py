"""The parent's side of the vLLM worker (worker.py): start it, talk to it in JSON lines, and never leave it running.

The protocol. Every command has a number; number 0 is the one that starts the engine. Every reply names the number of
its command in "to", so replies to different commands may interleave: whichever thread waits reads for all.

    start      {"number": 0, "model", "revision", "adapter", "raw", "options"}
               -> {"ready": version}, {"missing": why} (no vLLM in that Python) or {"refused": why}
    render     {"do": "render", "prompt"}                   -> {"text"}
    sample     {"do": "sample", "decoding", "requests"}     -> many {"request", "sample", "text", ...} in any order and
               {"request", "error"} where one fails, then {"done": true}; or {"refused": why}
    abandon    {"do": "abandon", "call": number}            -> {"done": true}; no more replies to that call follow

Closing the pipe ends the worker. vLLM's own output goes to a log, where errors of its inner processes are looked up.
"""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from offleash.errors import OffleashError

WORKER = Path(__file__).parent / "worker.py"
GRACE = 10.0  # seconds for the engine to shut down and remove its shared memory
CLEANUP_SECONDS = 3.0  # seconds for the resource tracker to remove the shared memory of processes that were killed
INSTALL = (
    "Create an environment for it (python -m venv vllm-env; vllm-env/bin/pip install vllm) and name its Python: "
    "--set python=vllm-env/bin/python, or OFFLEASH_VLLM_PYTHON in the environment."
)
# What vLLM raises when one of its own processes failed; the reason itself is only in the log.
VAGUE_ERRORS = (
    "EngineDead",
    "EngineCore encountered",
    "ngine core init",
    "WorkerProc init",
    "See root cause",
    "SystemExit",
)

Reply = dict[str, Any]


class WorkerProcess:
    """A process group that ends on `close`, with this object, or with this process, whichever is first."""

    def __init__(self, python: str, environment: Mapping[str, str]) -> None:
        self._log = tempfile.TemporaryFile(mode="a+b")  # noqa: SIM115 (closed in `close`)
        try:
            self._process = subprocess.Popen(
                [python, str(WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=dict(environment),
                start_new_session=True,  # Ctrl-C is for the parent to handle, and the group is killed as one
            )
        except OSError as error:
            self._log.close()
            raise OffleashError(f"{python} cannot be run ({error.strerror}). {INSTALL}") from None
        self._python = python
        self._partial_line = b""  # the beginning of a line whose end has not come yet
        self._number = 0  # of the last command
        self._inbox: dict[int, deque[Reply]] = {0: deque()}  # replies that were read and not yet received, by command
        self._lock = threading.RLock()
        self._ready = self._closed = False
        self._end = weakref.finalize(self, _kill, self._process, os.getpid())

    @property
    def pid(self) -> int:
        """Of the worker; also the number of its process group."""
        return self._process.pid

    def start(self, command: Mapping[str, object], seconds: float) -> str:
        """Start the engine and wait until it is ready; the version of vLLM."""
        self._write({"number": 0, **command})
        reply = self.receive(0, time.monotonic() + seconds)
        if "missing" in reply:
            raise OffleashError(f"{self._python} has no working vLLM ({_shorten(reply['missing'])}). {INSTALL}")
        self._ready = True
        return str(reply["ready"])

    def send(self, command: Mapping[str, object]) -> int:
        """Send a command; its number is what `receive` takes."""
        with self._lock:
            self._number += 1
            self._inbox[self._number] = deque()
            self._write({"number": self._number, **command})
            return self._number

    def receive(self, number: int, deadline: float | None = None) -> Reply:
        """The next reply to a command. Whoever waits reads for all; replies to other commands go to their inbox.

        The lock is held for one read at a time (half a second), so waiting threads take turns.
        """
        while True:
            with self._lock:
                if self._inbox[number]:
                    reply = self._inbox[number].popleft()
                    break
                self._read(deadline)
        if "refused" in reply:
            raise OffleashError(f"vLLM refused the request: {self._reason(str(reply['refused']))}")
        return reply

    def forget(self, number: int) -> None:
        """No more replies to a command are wanted."""
        with self._lock:
            self._inbox.pop(number, None)

    def abandon(self, call: int) -> None:
        """Stop the work on a command, and drop replies to it that are still under way."""
        self.forget(call)
        if self._closed or self._process.poll() is not None:
            return
        with contextlib.suppress(OffleashError):  # a worker that is gone: the next command reports it
            number = self.send({"do": "abandon", "call": call})
            self.receive(number)
            self.forget(number)

    def close(self) -> None:
        """End the worker: gently where its engine is ready, since only then is there shared memory to remove."""
        if self._closed:
            return
        self._closed = True
        assert self._process.stdin
        assert self._process.stdout
        try:
            with contextlib.suppress(OSError):  # it may have ended already
                self._process.stdin.close()
            if self._ready:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(GRACE)
        finally:
            self._end()
            self._process.stdout.close()
            self._log.close()

    def _write(self, command: Mapping[str, object]) -> None:
        self._check_open()
        assert self._process.stdin
        try:
            self._process.stdin.write(json.dumps(command).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._exit_error() from None

    def _read(self, deadline: float | None) -> None:
        """Read what the worker has written, if anything comes within half a second, into the inboxes."""
        self._check_open()
        assert self._process.stdout
        descriptor = self._process.stdout.fileno()
        has_exited = self._process.poll() is not None  # before `select`: what is readable after it is all there will be
        if not select.select([descriptor], [], [], 0.0 if has_exited else 0.5)[0]:
            # without end of file: a process of the engine may hold the pipe open after the worker has died
            if has_exited:
                raise self._exit_error()
            if deadline is not None and time.monotonic() > deadline:
                raise OffleashError(
                    f"vLLM was not ready in time. Allow more time with --set start=SECONDS.{self._log_end()}"
                )
            return
        data = os.read(descriptor, 1 << 20)
        if not data:
            raise self._exit_error()
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        for line in lines:
            reply: Reply = json.loads(line)
            if (inbox := self._inbox.get(int(reply["to"]))) is not None:
                inbox.append(reply)

    def _check_open(self) -> None:
        if self._closed:
            raise OffleashError("The vLLM engine is closed. Open the model again.")

    def _exit_error(self) -> OffleashError:
        """The error for a worker that has died; what it started is killed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        self._end()
        code = self._process.returncode
        status = f"killed by {signal.Signals(-code).name}" if code < 0 else f"status {code}"
        # what the kernel's out-of-memory killer sends
        memory = " The system may have run out of memory." if code == -signal.SIGKILL else ""
        return OffleashError(f"The vLLM process ended ({status}).{memory}{self._log_end()} Samples so far are kept.")

    def _reason(self, message: str) -> str:
        """vLLM's message, or the error in its log where the message only points there."""
        uninformative = any(phrase in message for phrase in VAGUE_ERRORS)
        return (self._logged_error() if uninformative else "") or _shorten(message)

    def _log_end(self) -> str:
        """The last error of the log, or its last lines, as the end of a message."""
        end = self._logged_error() or " / ".join(_shorten(line, 200) for line in self._log_lines()[-3:])
        return f" Its log ends: {end}" if end else ""

    def _logged_error(self) -> str:
        """The last error in the log that names a reason; "" where there is none."""
        matches = (re.search(r"(?:^|[\s.])(\w+(?:Error|Exception): .+)", line) for line in self._log_lines())
        errors = [match[1] for match in matches if match and not any(phrase in match[1] for phrase in VAGUE_ERRORS)]
        return _shorten(errors[-1]) if errors else ""

    def _log_lines(self) -> list[str]:
        """The lines in the last 64 KB of the log."""
        size = os.fstat(self._log.fileno()).st_size
        tail = os.pread(self._log.fileno(), 1 << 16, max(0, size - (1 << 16)))
        return [line.strip() for line in tail.decode("utf-8", "replace").splitlines() if line.strip()]


def _kill(process: subprocess.Popen[bytes], owner: int) -> None:
    """Kill the worker and all that it started; not from a fork of its parent, which has a copy of this finalizer.

    Python's resource tracker is spared: it removes the shared memory that the killed processes left, and then ends by
    itself. Only if it has not after `CLEANUP_SECONDS` seconds is the whole group killed.
    """
    if os.getpid() != owner:
        return
    for pid in _group_pids(process.pid):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    process.poll()
    deadline = time.monotonic() + CLEANUP_SECONDS
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < deadline and Path("/proc").is_dir():
            os.killpg(process.pid, 0)  # sends nothing: raises ProcessLookupError once the group is empty
            time.sleep(0.02)
            process.poll()
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _group_pids(group: int) -> list[int]:
    """Processes of a group without the resource tracker; empty where there is no /proc to list them."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):  # it ended meanwhile
            in_group = os.getpgid(int(folder.name)) == group
            if in_group and b"resource_tracker" not in (folder / "cmdline").read_bytes():
                pids.append(int(folder.name))
    return pids


def _shorten(text: str, longest: int = 500) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:longest]}..."
