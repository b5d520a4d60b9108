"""offleash: did RL widen what a language model can solve, or only sharpen it?"""

from importlib import import_module
from typing import TYPE_CHECKING

from offleash.display import render_with
from offleash.version import __version__ as __version__

if TYPE_CHECKING:
    from offleash.errors import OffleashError as OffleashError
    from offleash.report.face import figure as figure
    from offleash.report.face import write_report as write_report
    from offleash.report.notebook import notebook_html as notebook_html
    from offleash.report.terminal import document as document
    from offleash.report.words import finding as finding
    from offleash.samplers.sampler import Decoding as Decoding
    from offleash.study.entropies.entropy import entropies as entropies
    from offleash.study.face import compare as compare
    from offleash.study.face import draw as draw
    from offleash.study.face import load as load
    from offleash.study.face import run_study as run_study
    from offleash.study.face import tally as tally
    from offleash.study.face import verify as verify
    from offleash.study.problems import problem_set as problem_set
    from offleash.study.simulated import simulated_run as simulated_run
    from offleash.support.change import support_change as support_change
    from offleash.support.estimators import pass_at_k as pass_at_k
    from offleash.support.passes import pass_curve as pass_curve
    from offleash.tables.tally import tally_of_counts as tally_of_counts
    from offleash.training.face import train as train

# Where each public name lives; imported when first used, so that `offleash --help` stays fast.
_FACE = {
    "Decoding": "offleash.samplers.sampler",
    "OffleashError": "offleash.errors",
    "compare": "offleash.study.face",
    "document": "offleash.report.terminal",
    "draw": "offleash.study.face",
    "entropies": "offleash.study.entropies.entropy",
    "figure": "offleash.report.face",
    "finding": "offleash.report.words",
    "load": "offleash.study.face",
    "notebook_html": "offleash.report.notebook",
    "pass_at_k": "offleash.support.estimators",
    "pass_curve": "offleash.support.passes",
    "problem_set": "offleash.study.problems",
    "run_study": "offleash.study.face",
    "simulated_run": "offleash.study.simulated",
    "support_change": "offleash.support.change",
    "tally": "offleash.study.face",
    "tally_of_counts": "offleash.tables.tally",
    "train": "offleash.training.face",
    "verify": "offleash.study.face",
    "write_report": "offleash.report.face",
}
__all__ = sorted(_FACE)


def __getattr__(name: str) -> object:
    if name not in _FACE:
        raise AttributeError(f"module 'offleash' has no attribute {name!r}")
    return getattr(import_module(_FACE[name]), name)


def _notebook_html(result: object) -> str:
    return str(import_module("offleash.report.notebook").notebook_html(result))


render_with(_notebook_html)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
