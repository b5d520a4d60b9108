"""offleash view: the page with every sample behind it, served from the run folders to this machine alone."""

from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from offleash.cli.asking import Asked
from offleash.cli.commands import taking
from offleash.cli.options import LogFormat, Logs, Runs
from offleash.cli.output import AsJson, progress

if TYPE_CHECKING:
    from offleash.reporting.view import Server


@taking(log_format=LogFormat)
def view(
    runs: Runs,
    asked: Asked,
    logs: Logs,
    port: Annotated[int, typer.Option(metavar="N", help="The port of 127.0.0.1 to serve on; 0: any free one.")] = 0,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    as_json: AsJson = False,
) -> None:
    """The page of `report` with everything behind it: every sample of every problem, read when it is looked at.

    It is served on 127.0.0.1, to this machine alone, until Ctrl-C. Samples stay in their run folders; logs of other
    tools are copied to a scratch place first, which is removed at the end.

    \b
    Examples:
      offleash view runs/base runs/rl --open
      offleash view base=logs/base.jsonl rl=logs/rl.jsonl
      offleash view runs/base runs/rl --port 8000            (from elsewhere: ssh -L 8000:127.0.0.1:8000 HOST)
      offleash view runs/base runs/rl --json                 (prints the address as JSON, and serves)
    """
    from offleash.cli.command import command_line
    from offleash.reporting.page.build import Telling, view_page
    from offleash.reporting.samples import Shelf
    from offleash.reporting.subject import subject_of
    from offleash.reporting.view import Server, check_port

    check_port(port)
    with ExitStack() as held:
        with progress(as_json) as tell:
            subject = held.enter_context(
                subject_of(runs, logs.reading(), asked.question(), *asked.names, texts=True, progress=tell)
            )
            page = view_page(subject, Telling(command=command_line()), tell)
        server = held.enter_context(Server(Shelf(subject.one), page, port))
        _serve(server, open_, as_json)


def _serve(server: "Server", in_browser: bool, as_json: bool) -> None:
    """Say where the page is, and serve it until Ctrl-C."""
    import json
    import sys
    import webbrowser

    print(json.dumps({"url": server.url}) if as_json else f"{server.url}   (Ctrl-C to stop)", flush=True)
    if in_browser and not webbrowser.open(server.url):
        print(f"No browser was found; open {server.url} by hand.", file=sys.stderr)
    server.serve()
    print("Stopped; nothing was changed.", file=sys.stderr if as_json else sys.stdout, flush=True)
