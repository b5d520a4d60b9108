"""Call public functions one after the other in a background process: the demo draws from the base while it trains.

Calls are sent to the other process as JSON: a name and its arguments. If the block is left early, the running call is
stopped as by Ctrl-C, which loses nothing: the same call resumes.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

from offleash.errors import OffleashError

POLL_SECONDS = 2.0  # seconds between two calls of `waiting`
GRACE = 20.0  # seconds that a stopped call has to end by itself


@dataclass(frozen=True)
class BackgroundCall:
    """A public function of a module, and its arguments, all of them JSON values."""

    name: str
    arguments: Sequence[str] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    module: str = "offleash"

    def __str__(self) -> str:
        argument_texts = [*map(repr, self.arguments), *(f"{name}={value!r}" for name, value in self.options.items())]
        return f"{self.name}({', '.join(argument_texts)})"


class BackgroundCalls:
    """Calls that run in the background, each in its own process; their output goes to a log."""

    def __init__(self, calls: Sequence[BackgroundCall], log: Path) -> None:
        self._calls, self._log = calls, log
        self._process: subprocess.Popen[bytes] | None = None
        self._error = ""
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> "BackgroundCalls":
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
        self._thread.join(GRACE)

    def wait(self, waiting: Callable[[], None]) -> None:
        """Wait until the last call has returned, calling `waiting` meanwhile; raises the error of a failed call."""
        while self._thread.is_alive():
            waiting()
            self._thread.join(POLL_SECONDS)
        if self._error:
            raise OffleashError(self._error)

    def _run(self) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        with self._log.open("ab") as log:
            for call in self._calls:
                if self._stop.is_set():
                    return
                command = [sys.executable, "-m", __name__, json.dumps(vars(call))]
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
                )
                if self._process.wait():
                    self._error = (
                        f"{call} failed with exit code {self._process.returncode}; the reason is in {self._log}. "
                        "Run the same command again to resume."
                    )
                    return


def run(text: str) -> None:
    """Make a call and print its result as JSON."""
    from importlib import import_module

    call = BackgroundCall(**json.loads(text))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: samples in memory are written first
    try:
        result = getattr(import_module(call.module), call.name)(*call.arguments, **call.options)
    except (OffleashError, KeyboardInterrupt) as error:
        sys.exit(f"{call}: {str(error) or 'interrupted'}")
    if result is not None:
        print(json.dumps(result.to_dict()), flush=True)
        sys.exit(0 if result.ok else 1)


if __name__ == "__main__":
    run(sys.argv[1])
