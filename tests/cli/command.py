"""The command as a user types it, run in this process."""

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from offleash.cli.main import main


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.out)
        return document


def offleash(*arguments: str | Path) -> Result:
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with patch.object(sys, "argv", ["offleash", *map(str, arguments)]), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
    return Result(code, out.getvalue(), err.getvalue())


def refused(result: Result, *words: str) -> None:
    """The command failed with one message that holds the words, and without a traceback."""
    assert result.code == 2, result
    assert "Traceback" not in result.err
    for word in words:
        assert word in result.err, f"{word!r} is not in {result.err!r}"
