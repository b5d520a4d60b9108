"""The report of a demo: what was found, the tables, and the commands that show it again, as Markdown."""

import platform
from collections.abc import Sequence
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from shlex import quote

from rich.console import Console

from offleash import __version__
from offleash.lab.demo import AGAIN, BASE, PAPER, RL, TRAINING, Demonstrated
from offleash.lab.findings import headline, sentences
from offleash.report.document import document
from offleash.report.terminal import show
from offleash.study.compare import Comparison

WIDTH = 110
NAME = "report.md"


def write_report(done: Demonstrated) -> Path:
    """Write the report into the folder of the demo."""
    path = done.folder / NAME
    path.write_text(report(done), encoding="utf-8")
    return path


def demo_document(done: Demonstrated, path: Path) -> dict[str, object]:
    """The JSON of `compare` (per problem, temperature 1), with the rest of what was measured beside it."""
    return {
        **document([done.plain]),
        "seconds": round(done.seconds, 1),
        "report": str(path),
        "folder": str(done.folder),
        "finding": headline(done),
        "per_solution": document([done.solutions]),
        "paper_decoding": document([done.paper]),
        "base_again": document([done.null]),
    }


def report(done: Demonstrated) -> str:
    """The whole report."""
    folder, plan = Path(quote(str(done.folder))), done.plan
    again = [
        f"offleash compare {folder / BASE} {folder / RL}",
        f"offleash compare {folder / BASE} {folder / RL} --per solution",
        f"offleash compare {folder / PAPER / BASE} {folder / PAPER / RL}",
        f"offleash compare {folder / BASE} {folder / AGAIN}",
        f"offleash train {folder / TRAINING / 'recipe.yaml'} -o ANOTHER seed=1",
    ]
    parts = [
        f"# {done.world}: a base and the same model after {plan.steps} steps of GRPO",
        headline(done),
        *(f"* {sentence}" for sentence in sentences(done)),
        f"{plan.problems} problems that neither the corpus nor the training held; k = {plan.k:,}; seed {plan.seed}; "
        f"{done.seconds:.0f} s in the last call. Values in brackets are 95% intervals.",
        *_section("Per problem, temperature 1", done.plain),
        *_section("Per solution, temperature 1", done.solutions),
        *_section("Per problem, temperature 0.6, top-p 0.95", done.paper),
        *_section("The base drawn again: what chance alone does", done.null),
        "## Again",
        _block(again),
        f"offleash {__version__}, torch {version('torch')}, transformers {version('transformers')}, "
        f"Python {platform.python_version()}.",
    ]
    return "\n\n".join(parts) + "\n"


def _section(title: str, one: Comparison) -> list[str]:
    text = StringIO()
    show(Console(file=text, width=WIDTH, markup=False, emoji=False, highlight=False), [one])
    return [f"## {title}", _block(text.getvalue().rstrip().splitlines())]


def _block(lines: Sequence[str]) -> str:
    return "\n".join(["```text", *(line.rstrip().replace("```", "'''") for line in lines), "```"])
