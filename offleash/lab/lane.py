"""A lane: commands of the package, one after the other, in processes of their own beside this one."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Thread

from offleash.errors import OffleashError

LOOK = 2.0  # seconds between two looks at a lane that is waited for
GENTLE = 20.0  # seconds that a command has to end by itself


class Lane:
    """Commands that run meanwhile; left, the one at work is ended gently, and can be run again."""

    def __init__(self, commands: Sequence[Sequence[str]], log: Path) -> None:
        self._commands, self._log = commands, log
        self._process: subprocess.Popen[bytes] | None = None
        self._trouble = ""
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Lane":
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
        """Until the last command has ended; `waiting` is called meanwhile. Trouble of a command is an error here."""
        while self._thread.is_alive():
            waiting()
            self._thread.join(LOOK)
        if self._trouble:
            raise OffleashError(self._trouble)

    def _run(self) -> None:
        alone = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        with self._log.open("ab") as log:
            for command in self._commands:
                if self._stop.is_set():
                    return
                whole = [sys.executable, "-m", "offleash", *command]
                self._process = subprocess.Popen(whole, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=alone)
                if self._process.wait():
                    self._trouble = (
                        f"offleash {' '.join(command)} ended with exit code {self._process.returncode}; {self._log} "
                        "says why. Run the same command again to go on."
                    )
                    return
