"""offleash: did RL widen what a language model can solve, or only sharpen it?"""

from importlib import import_module
from typing import TYPE_CHECKING

from offleash.display import render_with
from offleash.version import __version__ as __version__

if TYPE_CHECKING:
    from offleash.analyses.entropy.entropy import entropies as entropies
    from offleash.analyses.theory.world import simulated_run as simulated_run
    from offleash.api import compare as compare
    from offleash.api import draw as draw
    from offleash.api import figure as figure
    from offleash.api import load as load
    from offleash.api import run_study as run_study
    from offleash.api import tally as tally
    from offleash.api import train as train
    from offleash.api import verify as verify
    from offleash.api import write_report as write_report
    from offleash.comparing.sentences import finding as finding
    from offleash.data.tally import tally_of_counts as tally_of_counts
    from offleash.errors import OffleashError as OffleashError
    from offleash.loading.problem_set import problem_set as problem_set
    from offleash.reporting.comparison import document as document
    from offleash.reporting.notebook import notebook_html as notebook_html
    from offleash.samplers.sampler import Decoding as Decoding
    from offleash.stats.change import support_change as support_change
    from offleash.stats.curves import pass_curve as pass_curve
    from offleash.stats.pass_at_k import pass_at_k as pass_at_k

# Where each public name lives; imported when first used, so that `offleash --help` stays fast.
_FACE = {
    "Decoding": "offleash.samplers.sampler",
    "OffleashError": "offleash.errors",
    "compare": "offleash.api",
    "document": "offleash.reporting.comparison",
    "draw": "offleash.api",
    "entropies": "offleash.analyses.entropy.entropy",
    "figure": "offleash.api",
    "finding": "offleash.comparing.sentences",
    "load": "offleash.api",
    "notebook_html": "offleash.reporting.notebook",
    "pass_at_k": "offleash.stats.pass_at_k",
    "pass_curve": "offleash.stats.curves",
    "problem_set": "offleash.loading.problem_set",
    "run_study": "offleash.api",
    "simulated_run": "offleash.analyses.theory.world",
    "support_change": "offleash.stats.change",
    "tally": "offleash.api",
    "tally_of_counts": "offleash.data.tally",
    "train": "offleash.api",
    "verify": "offleash.api",
    "write_report": "offleash.api",
}
__all__ = sorted(_FACE)


def __getattr__(name: str) -> object:
    if name not in _FACE:
        raise AttributeError(f"module 'offleash' has no attribute {name!r}")
    return getattr(import_module(_FACE[name]), name)


def _notebook_html(result: object) -> str:
    return str(import_module("offleash.reporting.notebook").notebook_html(result))


render_with(_notebook_html)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
