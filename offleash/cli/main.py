"""The `offleash` command: which verb was typed, and the one place where errors become messages.

The overview is printed from the table of verbs alone, and of the verbs only the one that was typed is imported:
starting fast is a feature.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from types import FrameType

from offleash.cli.output import warn
from offleash.cli.verbs import GROUPS, OLD_VERBS, SECTIONS, VERBS
from offleash.cpus import limit_threads
from offleash.errors import OffleashError
from offleash.version import __version__

# The overview's first line; below it the verbs, from the table of cli/verbs.py alone.
ABOUT = "Did RL widen what a language model can solve, or only sharpen it? Start with demo, compare or study."
HELP = ("-h", "--help")


def main() -> None:
    """Run the command that was typed; what a user can fix is one message, never a traceback."""
    limit_threads(os.environ)  # here, since NumPy and torch read it when they are imported
    guarded(lambda: dispatch(sys.argv[1:]))


def dispatch(words: Sequence[str]) -> None:
    """Run the verb named by the words after `offleash`, or print the overview or the version."""
    first, second = (*words, "", "")[:2]
    if first in ("", *HELP) or (first in GROUPS and second in ("", *HELP)):
        print(overview(first if first in GROUPS else ""))
    elif first == "--version":
        print(f"offleash {__version__}")
    else:
        name = f"{first} {second}" if first in GROUPS else first
        if name not in VERBS:
            raise _no_verb(first, second)
        from offleash.cli.builder import run_command

        run_command(VERBS[name], list(words[len(name.split()) :]))


def overview(group: str = "") -> str:
    """The verbs by section, or those of one group, wrapped to the terminal (60 to 110 columns)."""
    from shutil import get_terminal_size
    from textwrap import fill, wrap

    width = min(max(get_terminal_size().columns, 60), 110)
    lines = [f"Usage: offleash {f'{group} ' if group else ''}VERB ...", "", fill(GROUPS.get(group, ABOUT), width)]
    for section, verbs in SECTIONS.items():
        listed = [verb for verb in verbs if verb.name.startswith(f"{group} " if group else "")]
        if listed:
            lines += ["", f"{section}:"]
        for verb in listed:
            first, *rest = wrap(verb.about, width - 16)
            lines += [f"  {verb.name:<13} {first}", *(f"{'':16}{line}" for line in rest)]
    return "\n".join(
        [*lines, "", "offleash VERB --help shows its options and examples; offleash --version the version."]
    )


def _no_verb(first: str, second: str) -> OffleashError:
    """An error for words that name no verb: with the nearest verb, or the new name of an old one."""
    if first in GROUPS:  # before it was a group, `plan` took pilots
        verbs = [name.split()[1] for name in VERBS if name.startswith(f"{first} ")]
        near = get_close_matches(second, verbs, n=1)
        step = f"Type: offleash {first} {verbs[0]} {second}." if len(verbs) == 1 else f"Its verbs: {', '.join(verbs)}."
        return OffleashError(f"{first} has no verb {second!r}. {f'Did you mean {near[0]!r}?' if near else step}")
    if first in OLD_VERBS:
        return OffleashError(f"offleash no longer has the verb {first!r}. Use {OLD_VERBS[first]!r}.")
    if first.startswith("-"):
        return OffleashError(f"offleash has no option {first!r}. Options follow a verb: offleash VERB --help.")
    known = [*(name for name in VERBS if " " not in name), *GROUPS]
    near = get_close_matches(first, known, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Its verbs: {', '.join(known)}."
    return OffleashError(f"offleash has no verb {first!r}. {hint}")


def guarded(command: Callable[[], object]) -> None:
    """Run a command: errors become one message, and SIGTERM ends it as Ctrl-C does."""
    with _signals_as_interrupts() as ended:
        _run(command, ended)


def _run(command: Callable[[], object], ended: list[int]) -> None:
    """Run a command and turn its errors into messages and exit codes.

    1 is left to results that are not `ok`; 2 is what a user can fix, 70 (EX_SOFTWARE) a bug of ours, 130 Ctrl-C, 128 +
    number any other signal, 141 a closed pipe.
    """
    try:
        command()
    except OffleashError as error:
        warn(f"offleash: {error}")
        interrupted = isinstance(error.__context__, KeyboardInterrupt)  # a verb may have its own message for Ctrl-C
        sys.exit(_interrupted(ended) if interrupted else 2)
    except (KeyboardInterrupt, SystemExit) as stop:
        if isinstance(stop, SystemExit) and stop.code != 130:
            raise
        cause = f"stopped by {signal.Signals(ended[0]).name}" if ended else "interrupted"
        print(f"offleash: {cause}. Nothing was lost: run the same command again to resume.", file=sys.stderr)
        sys.exit(_interrupted(ended))
    except BrokenPipeError:  # `offleash ... | head`: the reader has left, and nothing can be printed
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:
        print(f"offleash: {error.filename or 'the system'}: {error.strerror or error}.", file=sys.stderr)
        sys.exit(2)
    except Exception as error:
        if os.environ.get("OFFLEASH_TRACEBACK"):  # a traceback helps only those who can read our code
            raise
        print(
            f"offleash: internal error, please report it ({type(error).__name__}: {error}). "
            "OFFLEASH_TRACEBACK=1 shows where it happened.",
            file=sys.stderr,
        )
        sys.exit(70)


def _interrupted(ended: list[int]) -> int:
    """The exit code that shells use: 128 plus the number of the signal; Ctrl-C is signal 2."""
    return 128 + ended[0] if ended else 130


@contextmanager
def _signals_as_interrupts() -> Iterator[list[int]]:
    """SIGTERM and SIGHUP do what Ctrl-C does, so that samples in memory are written: batch systems warn, then kill.

    Yields a list that gets the number of the signal, for the exit code.
    """
    ended: list[int] = []
    own = os.getpid()

    def end(number: int, _: FrameType | None) -> None:
        if os.getpid() != own:  # a fork that inherited this
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
