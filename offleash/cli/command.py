"""The command as it was typed, for the record."""

import shlex
import sys


def command_line() -> str:
    """The words of this command, quoted so that they can be typed again."""
    return shlex.join(["offleash", *sys.argv[1:]])
