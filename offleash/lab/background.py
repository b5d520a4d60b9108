"""Public functions called one after the other in a process beside this one: the demo draws the base while it trains.

The calls go to the other process as JSON, a name and its arguments each. Left early, the call at work is ended as by
Ctrl-C, which loses nothing: the same call resumes.
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

LOOK = 2.0  # seconds between two looks at calls that are waited for
GENTLE = 20.0  # seconds that a call has to end by itself


@dataclass(frozen=True)
class BackgroundCall:
    """A public function of a module, and what it is given; all of it fits into JSON."""

    name: str
    arguments: Sequence[str] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    module: str = "offleash"

    def __str__(self) -> str:
        given = [*map(repr, self.arguments), *(f"{name}={value!r}" for name, value in self.options.items())]
        return f"{self.name}({', '.join(given)})"


class BackgroundCalls:
    """Calls that run meanwhile, each in a process of its own; their output goes to a log."""

    def __init__(self, calls: Sequence[BackgroundCall], log: Path) -> None:
        self._calls, self._log = calls, log
        self._process: subprocess.Popen[bytes] | None = None
        self._trouble = ""
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
                process.wait(GENTLE)
            except subprocess.TimeoutExpired:
                process.kill()
        self._thread.join(GENTLE)

    def wait(self, waiting: Callable[[], None]) -> None:
        """Until the last call has returned; `waiting` is called meanwhile. Trouble of a call is an error here."""
        while self._thread.is_alive():
            waiting()
            self._thread.join(LOOK)
        if self._trouble:
            raise OffleashError(self._trouble)

    def _run(self) -> None:
        alone = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        with self._log.open("ab") as log:
            for call in self._calls:
                if self._stop.is_set():
                    return
                whole = [sys.executable, "-m", __name__, json.dumps(vars(call))]
                self._process = subprocess.Popen(whole, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=alone)
                if self._process.wait():
                    self._trouble = (
                        f"{call} ended with exit code {self._process.returncode}; {self._log} says why. "
                        "Run the same command again to resume."
                    )
                    return


def run(text: str) -> None:
    """Make a call and print its result as JSON."""
    from importlib import import_module

    call = BackgroundCall(**json.loads(text))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what is held is written first
    try:
        result = getattr(import_module(call.module), call.name)(*call.arguments, **call.options)
    except (OffleashError, KeyboardInterrupt) as error:
        sys.exit(f"{call}: {str(error) or 'interrupted'}")
    if result is not None:
        print(json.dumps(result.to_dict()), flush=True)
        sys.exit(0 if result.ok else 1)


if __name__ == "__main__":
    run(sys.argv[1])
