"""The parent's side of the vLLM worker (worker.py): start it, exchange JSON lines, and never leave it running.

Replies to different commands may interleave: whichever thread waits reads for all. Errors are looked up in vLLM's log.
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
GRACE = 10.0  # seconds for the engine to end in good order, and remove its shared memory
TIDYING = 3.0  # seconds to remove the shared memory of processes that were killed
HOW = (
    "Make an environment for it (python -m venv vllm-env; vllm-env/bin/pip install vllm) and name its Python: "
    "--set python=vllm-env/bin/python, or OFFLEASH_VLLM_PYTHON in the environment."
)
# what vLLM says of an engine that failed in a process of its own: the reason is in its log
VAGUE = ("EngineDead", "EngineCore encountered", "ngine core init", "WorkerProc init", "See root cause", "SystemExit")

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
            raise OffleashError(f"{python} cannot be run ({error.strerror}). {HOW}") from None
        self._python = python
        self._rest = b""
        self._number = 0
        self._inbox: dict[int, deque[Reply]] = {0: deque()}
        self._lock = threading.RLock()
        self._ready = self._closed = False
        self._end = weakref.finalize(self, _kill, self._process, os.getpid())

    @property
    def pid(self) -> int:
        """Of the worker; also the number of its process group."""
        return self._process.pid

    def start(self, command: Mapping[str, object], seconds: float) -> str:
        """The version of vLLM, when its engine is ready."""
        self._write({"number": 0, **command})
        reply = self.receive(0, time.monotonic() + seconds)
        if "missing" in reply:
            raise OffleashError(f"{self._python} has no vLLM that works ({_short(reply['missing'])}). {HOW}")
        self._ready = True
        return str(reply["ready"])

    def send(self, command: Mapping[str, object]) -> int:
        """Give a command; its number asks for the replies."""
        with self._lock:
            self._number += 1
            self._inbox[self._number] = deque()
            self._write({"number": self._number, **command})
            return self._number

    def receive(self, number: int, deadline: float | None = None) -> Reply:
        """The next reply to a command. Whoever waits reads for all; replies to other commands are put by."""
        while True:
            with self._lock:
                if self._inbox[number]:
                    reply = self._inbox[number].popleft()
                    break
                self._read(deadline)
        if "refused" in reply:
            raise OffleashError(f"vLLM refuses: {self._reason(str(reply['refused']))}")
        return reply

    def forget(self, number: int) -> None:
        """No more replies to a command are wanted."""
        with self._lock:
            self._inbox.pop(number, None)

    def abandon(self, call: int) -> None:
        """Stop the work on a command, and drop what is still said of it."""
        self.forget(call)
        if self._closed or self._process.poll() is not None:
            return
        with contextlib.suppress(OffleashError):  # the next command meets the same trouble, and tells it
            number = self.send({"do": "abandon", "call": call})
            self.receive(number)
            self.forget(number)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        assert self._process.stdin
        assert self._process.stdout
        try:
            with contextlib.suppress(OSError):  # it may be gone
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
            raise self._death() from None

    def _read(self, deadline: float | None) -> None:
        """One more piece of what the worker says, if there is one within half a second."""
        self._check_open()
        assert self._process.stdout
        descriptor = self._process.stdout.fileno()
        dead = self._process.poll() is not None  # looked at first: after it nothing more is written
        if not select.select([descriptor], [], [], 0.0 if dead else 0.5)[0]:
            # no end of file yet: an engine's process may hold the pipe open when the worker is gone
            if dead:
                raise self._death()
            if deadline is not None and time.monotonic() > deadline:
                raise OffleashError(
                    f"vLLM was not ready in time; wait longer with --set start=SECONDS.{self._last_words()}"
                )
            return
        data = os.read(descriptor, 1 << 20)
        if not data:
            raise self._death()
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            reply: Reply = json.loads(line)
            if (inbox := self._inbox.get(int(reply["to"]))) is not None:
                inbox.append(reply)

    def _check_open(self) -> None:
        if self._closed:
            raise OffleashError("The vLLM engine is closed; open the model again.")

    def _death(self) -> OffleashError:
        """The worker is gone; so is, from now on, what it started."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(GRACE)
        self._end()
        code = self._process.returncode
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"status {code}"
        memory = " The system may have run out of memory." if code == -signal.SIGKILL else ""
        return OffleashError(f"The vLLM process ended ({how}).{memory}{self._last_words()} What was drawn is kept.")

    def _reason(self, said: str) -> str:
        """What vLLM said, or what its log knows better."""
        vague = any(words in said for words in VAGUE)
        return (self._logged_error() if vague else "") or _short(said)

    def _last_words(self) -> str:
        told = self._logged_error() or " / ".join(_short(line, 200) for line in self._log_lines()[-3:])
        return f" Its log ends: {told}" if told else ""

    def _logged_error(self) -> str:
        """The last error in the log that says something."""
        found = (re.search(r"(?:^|[\s.])(\w+(?:Error|Exception): .+)", line) for line in self._log_lines())
        telling = [one[1] for one in found if one and not any(words in one[1] for words in VAGUE)]
        return _short(telling[-1]) if telling else ""

    def _log_lines(self) -> list[str]:
        size = os.fstat(self._log.fileno()).st_size
        tail = os.pread(self._log.fileno(), 1 << 16, max(0, size - (1 << 16)))
        return [line.strip() for line in tail.decode("utf-8", "replace").splitlines() if line.strip()]


def _kill(process: subprocess.Popen[bytes], owner: int) -> None:
    """End the worker and all that it started; not from a fork of its parent, which has a copy of this.

    Python's tracker of shared memory goes last: it removes what the killed ones left, and then ends by itself.
    """
    if os.getpid() != owner:
        return
    for pid in _group(process.pid):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    process.poll()
    end = time.monotonic() + TIDYING
    with contextlib.suppress(ProcessLookupError, PermissionError):
        while time.monotonic() < end and Path("/proc").is_dir():
            os.killpg(process.pid, 0)
            time.sleep(0.02)
            process.poll()
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _group(group: int) -> list[int]:
    """Processes of a group but the tracker of shared memory; none where the system does not list them."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):  # it ended meanwhile
            mine = os.getpgid(int(folder.name)) == group
            if mine and b"resource_tracker" not in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def _short(text: str, most: int = 500) -> str:
    words = " ".join(text.split())
    return words if len(words) <= most else f"{words[:most]}..."
