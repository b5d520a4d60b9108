"""The `offleash` command: its verbs, and the one place where errors become messages."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated

import typer

from offleash.cli.analyse import entropy, likelihood, plan, strategies, theory
from offleash.cli.compare import compare, figure, report, view
from offleash.cli.draw import certify, draw, nucleus, study, sweep
from offleash.cli.output import warn
from offleash.cli.runs import formats, fsck, import_
from offleash.cli.train import demo, lab, train
from offleash.cli.verify import check, problems, score, verify
from offleash.errors import OffleashError
from offleash.version import __version__

app = typer.Typer(
    name="offleash",
    help="Did RL widen what a language model can solve, or only sharpen it? Start with: demo, study or compare",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(study)
app.command()(compare)
app.command()(report)
app.command()(view)
app.command()(figure)
app.command()(entropy)
app.command()(likelihood)
app.command()(strategies)
app.command("import")(import_)
app.command()(draw)
app.command()(sweep)
app.command()(certify)
app.command()(nucleus)
app.command()(verify)
app.command()(score)
app.command()(theory)
app.command()(train)
app.add_typer(lab)
app.command()(problems)
app.command()(check)
app.command()(plan)
app.command()(fsck)
app.command()(formats)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"offleash {__version__}")
        raise typer.Exit()


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Options of the command itself."""


def main() -> None:
    """Run the command; what a user can mend is one message, never a traceback."""
    guarded(app)


def guarded(command: Callable[[], object]) -> None:
    """Run a command of ours: errors become one message, and SIGTERM ends it as Ctrl-C does."""
    with _ended_gently() as ended:
        _run(command, ended)


def _run(command: Callable[[], object], ended: list[int]) -> None:
    try:
        command()
    except OffleashError as error:
        warn(f"offleash: {error}")
        interrupted = isinstance(error.__context__, KeyboardInterrupt)  # by a verb that has its own words for it
        sys.exit(_interrupted(ended) if interrupted else 2)
    except (KeyboardInterrupt, SystemExit) as stop:
        if isinstance(stop, SystemExit) and stop.code != 130:
            raise
        what = f"ended by {signal.Signals(ended[0]).name}" if ended else "interrupted"
        print(f"offleash: {what}; nothing was lost, run the same command again.", file=sys.stderr)
        sys.exit(_interrupted(ended))
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:
        print(f"offleash: {error.filename or 'the system'}: {error.strerror or error}.", file=sys.stderr)
        sys.exit(2)
    except Exception as error:
        if os.environ.get("OFFLEASH_TRACEBACK"):
            raise
        print(
            f"offleash: this is a mistake in offleash, not in your input ({type(error).__name__}: {error}). "
            "Run again with OFFLEASH_TRACEBACK=1 to see where, and report it.",
            file=sys.stderr,
        )
        sys.exit(70)


def _interrupted(ended: list[int]) -> int:
    return 128 + ended[0] if ended else 130


@contextmanager
def _ended_gently() -> Iterator[list[int]]:
    """SIGTERM and SIGHUP do what Ctrl-C does: what is held is written first. Batch systems send one, then kill."""
    ended: list[int] = []
    own = os.getpid()

    def end(number: int, _: FrameType | None) -> None:
        if os.getpid() != own:  # a fork that inherited this
            os._exit(128 + number)
        ended.append(number)
        raise KeyboardInterrupt

    # a closed terminal sends SIGHUP; who asked to go on after that (nohup) has it ignored
    asked = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, end) for number in asked}
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
