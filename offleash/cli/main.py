"""The `offleash` command: which verb was typed, and the one place where errors become messages.

The overview is printed from the table of verbs alone, and of the verbs only the one that was typed is imported:
starting fast is a feature.
"""

import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from types import FrameType
from typing import NoReturn

from offleash.cli.output import current_activity, warn
from offleash.cli.verbs import GROUPS, OLD_VERBS, SECTIONS, VERBS
from offleash.cpus import limit_threads
from offleash.credentials import mask_credentials
from offleash.errors import OffleashError
from offleash.version import __version__

# The overview's first line; below it the verbs, from the table of cli/verbs.py alone.
ABOUT = "Did RL widen what a language model can solve, or only sharpen it? Start with demo, compare or study."
EXIT_CODES = (
    "Exit codes: 0 done; 1 done, but something is missing or wrong in the data; 2 refused, with the next step; 3 a "
    "condition of --fail-if fails; 70 internal error; 130 interrupted."
)
HELP = ("-h", "--help")
COMPLETION = "completion"  # offleash completion SHELL prints a script
COMPLETE_COMMAND = "__complete"  # what the script calls at every TAB, with the words typed so far
RUST_PANIC = "PanicException"  # a failure inside polars or another library in Rust, which is no Exception
PARSERS = ("/json/", "/yaml/", "/ast.py")  # in the names of the files that their code is in


def main() -> None:
    """Run the command that was typed; what a user can fix is one message, never a traceback."""
    limit_threads(os.environ)  # here, since NumPy and torch read it when they are imported
    run_guarded(lambda: dispatch(sys.argv[1:]))


def dispatch(words: Sequence[str]) -> None:
    """Run the verb named by the words after `offleash`, or print the overview or the version."""
    first, second = (*words, "", "")[:2]
    if first in ("", *HELP) or (first in GROUPS and second in ("", *HELP)):
        print(overview(first if first in GROUPS else ""))
    elif first == "--version":
        print(f"offleash {__version__}")
    elif first in (COMPLETION, COMPLETE_COMMAND):
        from offleash.cli.completion import candidates, completion_script

        print("\n".join(candidates(words[1:])) if first == COMPLETE_COMMAND else completion_script(second))
    else:
        name = f"{first} {second}" if first in GROUPS else first
        if name not in VERBS:
            raise _unknown_verb_error(first, second)
        from offleash.cli.builder import run_command

        run_command(VERBS[name], list(words[len(name.split()) :]))


def overview(group: str = "") -> str:
    """The verbs by section, or those of one group, wrapped to the terminal (60 to 110 columns)."""
    from shutil import get_terminal_size
    from textwrap import fill

    width = min(max(get_terminal_size().columns, 60), 110)
    lines = [f"Usage: offleash {f'{group} ' if group else ''}COMMAND ...", "", fill(GROUPS.get(group, ABOUT), width)]
    for section, verbs in SECTIONS.items():
        listed = [verb for verb in verbs if verb.name.startswith(f"{group} " if group else "")]
        if listed:
            lines += ["", f"{section}:"]
        lines += [f"  {verb.name:<13} {verb.summary}" for verb in listed]
    more = "offleash COMMAND --help: options and examples. offleash completion bash, zsh or fish: shell completion."
    return "\n".join([*lines, "", fill(more, width), "", fill(EXIT_CODES, width)])


def _unknown_verb_error(first: str, second: str) -> OffleashError:
    """An error for words that name no verb: with the nearest verb, or the new name of an old one."""
    if first in GROUPS:  # before it was a group, `plan` took pilots
        verbs = [name.split()[1] for name in VERBS if name.startswith(f"{first} ")]
        near = get_close_matches(second, verbs, n=1)
        step = (
            f"Type: offleash {first} {verbs[0]} {second}." if len(verbs) == 1 else f"Its commands: {', '.join(verbs)}."
        )
        return OffleashError(f"{first} has no command {second!r}. {f'Did you mean {near[0]!r}?' if near else step}")
    if first in OLD_VERBS:
        return OffleashError(f"offleash no longer has the command {first!r}. Use {OLD_VERBS[first]!r}.")
    if first.startswith("-"):
        return OffleashError(f"offleash has no option {first!r}. Options follow a command: offleash COMMAND --help.")
    known = [*(name for name in VERBS if " " not in name), *GROUPS, COMPLETION]
    near = get_close_matches(first, known, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Its commands: {', '.join(known)}."
    return OffleashError(f"offleash has no command {first!r}. {hint}")


def run_guarded(command: Callable[[], object]) -> None:
    """Run a command: errors become one message, and SIGTERM ends it as Ctrl-C does."""
    with _signals_as_interrupts() as ended:
        _run(command, ended)


def _run(command: Callable[[], object], ended: list[int]) -> None:
    """Run a command and turn its errors into messages and exit codes.

    1 is left to results that are not `ok`, 3 to conditions of --fail-if; 2 is what a user can fix, 70 (EX_SOFTWARE) a
    bug of ours, 130 Ctrl-C, 128 + number any other signal, 141 a closed pipe.
    """
    current_activity[0] = ""
    try:
        command()
    except OffleashError as error:
        _print_error(str(error))
        interrupted = isinstance(error.__context__, KeyboardInterrupt)  # a verb may have its own message for Ctrl-C
        sys.exit(_interrupted(ended) if interrupted else 2)
    except (KeyboardInterrupt, SystemExit) as stop:
        if isinstance(stop, SystemExit) and isinstance(stop.__context__, BrokenPipeError):  # rich exits with 1
            _discard_output()
        if isinstance(stop, SystemExit) and stop.code != 130:
            raise
        cause = f"stopped by {signal.Signals(ended[0]).name}" if ended else "interrupted"
        _print_error(f"{cause}. Nothing was lost: run the same command again to resume.")
        sys.exit(_interrupted(ended))
    except BrokenPipeError:
        _discard_output()
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        step = " Free some space, and run the same command again." if full else ""
        _print_error(f"{error.filename or 'the system'}: {error.strerror or error}.{step}")
        sys.exit(2)
    except MemoryError:
        _print_error(
            f"There is not enough memory{_current_activity()}. Close other programs, read fewer files at a time, or "
            "use a "
            "machine with more memory."
        )
        sys.exit(2)
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != RUST_PANIC:
            raise
        if isinstance(error, RecursionError) and _in_parser(error):
            _print_error(
                f"A file is nested too deeply to be read{_current_activity()}. Check that it is the right file."
            )
            sys.exit(2)
        if os.environ.get("OFFLEASH_TRACEBACK"):  # a traceback helps only those who can read our code
            print(mask_credentials("".join(traceback.format_exception(error))), end="", file=sys.stderr)
        else:
            _print_error(
                f"internal error, please report it ({type(error).__name__}: {error}). OFFLEASH_TRACEBACK=1 shows where "
                "it happened."
            )
        sys.exit(70)


def _discard_output() -> NoReturn:
    """End after `offleash ... | head`: nothing more can be printed, and what is buffered must not fail at the exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(141)


def _print_error(text: str) -> None:
    """Print an error without what looks like a credential in it."""
    warn(mask_credentials(f"offleash: {text}"))


def _current_activity() -> str:
    """What was being done, for errors that do not know it: the last progress line, else the files of the command."""
    if current_activity[0]:
        return f" ({current_activity[0]})"
    files = [word for word in sys.argv[1:] if not word.startswith("-") and Path(word).exists()]
    return f" (reading {', '.join(files[:5])})" if files else ""


def _in_parser(error: BaseException) -> bool:
    """Whether an error comes out of a parser of JSON, YAML or Python's literals: the text was too much for it."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and any(part in Path(frames[-1].filename).as_posix() for part in PARSERS)


def _interrupted(ended: list[int]) -> int:
    """The exit code that shells use: 128 plus the number of the signal; Ctrl-C is signal 2."""
    return 128 + ended[0] if ended else 130


@contextmanager
def _signals_as_interrupts() -> Iterator[list[int]]:
    """SIGTERM and SIGHUP do what Ctrl-C does, so that samples in memory are written: batch systems warn, then kill.

    Yields a list that gets the number of the signal, for the exit code.
    """
    ended: list[int] = []
    own_pid = os.getpid()

    def end(number: int, _: FrameType | None) -> None:
        if os.getpid() != own_pid:  # a fork that inherited this
            os._exit(128 + number)
        ended.append(number)
        raise KeyboardInterrupt

    # a closed terminal sends SIGHUP; under nohup it is ignored, and must stay so
    signals = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, end) for number in signals}
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
