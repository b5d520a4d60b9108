"""offleash: did RL widen what a language model can solve, or only sharpen it?

    import offleash as ol
    result = ol.compare("base.jsonl", "rl.jsonl")

Every verb of the command line is a function here, with the same options: `offleash draw --max-tokens 64` is
`ol.draw(..., max_tokens=64)`. docs/api.md has them all.
"""

from importlib import import_module

from offleash.display import render_with
from offleash.version import __version__ as __version__

TYPE_CHECKING = False  # as typing has it, without importing it
if TYPE_CHECKING:
    from offleash.analyses.theory.world import simulated_run as simulated_run
    from offleash.api.analyse import entropy as entropy
    from offleash.api.analyse import likelihood as likelihood
    from offleash.api.analyse import plan_samples as plan_samples
    from offleash.api.analyse import plan_training as plan_training
    from offleash.api.analyse import strategies as strategies
    from offleash.api.analyse import theory as theory
    from offleash.api.blend import blend as blend
    from offleash.api.compare import compare as compare
    from offleash.api.compare import figure as figure
    from offleash.api.compare import report as report
    from offleash.api.compare import view as view
    from offleash.api.draw import certify as certify
    from offleash.api.draw import draw as draw
    from offleash.api.draw import nucleus as nucleus
    from offleash.api.draw import sweep as sweep
    from offleash.api.frontier import frontier as frontier
    from offleash.api.logs import fsck as fsck
    from offleash.api.logs import import_logs as import_logs
    from offleash.api.logs import show_formats as show_formats
    from offleash.api.runs import load as load
    from offleash.api.runs import show as show
    from offleash.api.runs import tally as tally
    from offleash.api.study import study as study
    from offleash.api.train import train as train
    from offleash.api.verify import check as check
    from offleash.api.verify import problem_set as problem_set
    from offleash.api.verify import score as score
    from offleash.api.verify import verify as verify
    from offleash.api.watch import watch as watch
    from offleash.data.tally import tally_of_counts as tally_of_counts
    from offleash.errors import OffleashError as OffleashError
    from offleash.lab.verbs import DemoResult as DemoResult
    from offleash.lab.verbs import LabResult as LabResult
    from offleash.lab.verbs import demo as demo
    from offleash.lab.verbs import lab_list as lab_list
    from offleash.lab.verbs import lab_model as lab_model
    from offleash.lab.verbs import lab_pretrain as lab_pretrain
    from offleash.lab.verbs import lab_problems as lab_problems
    from offleash.lab.verbs import lab_traces as lab_traces
    from offleash.options import Decoding as Decoding
    from offleash.options import EngineOptions as EngineOptions
    from offleash.options import Judging as Judging
    from offleash.options import ProblemSelection as ProblemSelection
    from offleash.options import Prompting as Prompting
    from offleash.options import Reading as Reading
    from offleash.results.analyses import BlendResult as BlendResult
    from offleash.results.analyses import CertifyResult as CertifyResult
    from offleash.results.analyses import EntropyResult as EntropyResult
    from offleash.results.analyses import FrontierResult as FrontierResult
    from offleash.results.analyses import LikelihoodResult as LikelihoodResult
    from offleash.results.analyses import NucleusResult as NucleusResult
    from offleash.results.analyses import PlanResult as PlanResult
    from offleash.results.analyses import StrategiesResult as StrategiesResult
    from offleash.results.analyses import SweepResult as SweepResult
    from offleash.results.analyses import TheoryResult as TheoryResult
    from offleash.results.analyses import TrainingPlanResult as TrainingPlanResult
    from offleash.results.analyses import TrainResult as TrainResult
    from offleash.results.comparison import ComparisonResult as ComparisonResult
    from offleash.results.comparison import FigureResult as FigureResult
    from offleash.results.comparison import ReportResult as ReportResult
    from offleash.results.comparison import ViewSession as ViewSession
    from offleash.results.result import Metric as Metric
    from offleash.results.samples import CheckResult as CheckResult
    from offleash.results.samples import DrawResult as DrawResult
    from offleash.results.samples import FormatsResult as FormatsResult
    from offleash.results.samples import FsckResult as FsckResult
    from offleash.results.samples import ImportResult as ImportResult
    from offleash.results.samples import ProblemSetResult as ProblemSetResult
    from offleash.results.samples import ScoreResult as ScoreResult
    from offleash.results.samples import ShowResult as ShowResult
    from offleash.results.samples import StudyResult as StudyResult
    from offleash.results.samples import VerifyResult as VerifyResult
    from offleash.results.watching import WatchResult as WatchResult
    from offleash.results.watching import WatchSession as WatchSession
    from offleash.stats.change import support_change as support_change
    from offleash.stats.curves import pass_curve as pass_curve
    from offleash.stats.pass_at_k import pass_at_k as pass_at_k
    from offleash.training.monitor import SupportMonitor as SupportMonitor

# Where each public name lives; imported when first used, so that `import offleash` and `offleash --help` stay fast.
_PUBLIC = {
    "BlendResult": "offleash.results.analyses",
    "CertifyResult": "offleash.results.analyses",
    "CheckResult": "offleash.results.samples",
    "ComparisonResult": "offleash.results.comparison",
    "Decoding": "offleash.options",
    "DemoResult": "offleash.lab.verbs",
    "DrawResult": "offleash.results.samples",
    "EngineOptions": "offleash.options",
    "EntropyResult": "offleash.results.analyses",
    "FigureResult": "offleash.results.comparison",
    "FormatsResult": "offleash.results.samples",
    "FrontierResult": "offleash.results.analyses",
    "FsckResult": "offleash.results.samples",
    "ImportResult": "offleash.results.samples",
    "Judging": "offleash.options",
    "LabResult": "offleash.lab.verbs",
    "LikelihoodResult": "offleash.results.analyses",
    "Metric": "offleash.results.result",
    "NucleusResult": "offleash.results.analyses",
    "OffleashError": "offleash.errors",
    "PlanResult": "offleash.results.analyses",
    "ProblemSelection": "offleash.options",
    "ProblemSetResult": "offleash.results.samples",
    "Prompting": "offleash.options",
    "Reading": "offleash.options",
    "ReportResult": "offleash.results.comparison",
    "ScoreResult": "offleash.results.samples",
    "ShowResult": "offleash.results.samples",
    "StrategiesResult": "offleash.results.analyses",
    "StudyResult": "offleash.results.samples",
    "SupportMonitor": "offleash.training.monitor",
    "SweepResult": "offleash.results.analyses",
    "TheoryResult": "offleash.results.analyses",
    "TrainResult": "offleash.results.analyses",
    "TrainingPlanResult": "offleash.results.analyses",
    "VerifyResult": "offleash.results.samples",
    "ViewSession": "offleash.results.comparison",
    "WatchResult": "offleash.results.watching",
    "WatchSession": "offleash.results.watching",
    "blend": "offleash.api.blend",
    "certify": "offleash.api.draw",
    "check": "offleash.api.verify",
    "compare": "offleash.api.compare",
    "demo": "offleash.lab.verbs",
    "draw": "offleash.api.draw",
    "entropy": "offleash.api.analyse",
    "figure": "offleash.api.compare",
    "frontier": "offleash.api.frontier",
    "fsck": "offleash.api.logs",
    "import_logs": "offleash.api.logs",
    "lab_list": "offleash.lab.verbs",
    "lab_model": "offleash.lab.verbs",
    "lab_pretrain": "offleash.lab.verbs",
    "lab_problems": "offleash.lab.verbs",
    "lab_traces": "offleash.lab.verbs",
    "likelihood": "offleash.api.analyse",
    "load": "offleash.api.runs",
    "nucleus": "offleash.api.draw",
    "pass_at_k": "offleash.stats.pass_at_k",
    "pass_curve": "offleash.stats.curves",
    "plan_samples": "offleash.api.analyse",
    "plan_training": "offleash.api.analyse",
    "problem_set": "offleash.api.verify",
    "report": "offleash.api.compare",
    "score": "offleash.api.verify",
    "show": "offleash.api.runs",
    "show_formats": "offleash.api.logs",
    "simulated_run": "offleash.analyses.theory.world",
    "strategies": "offleash.api.analyse",
    "study": "offleash.api.study",
    "support_change": "offleash.stats.change",
    "sweep": "offleash.api.draw",
    "tally": "offleash.api.runs",
    "tally_of_counts": "offleash.data.tally",
    "theory": "offleash.api.analyse",
    "train": "offleash.api.train",
    "verify": "offleash.api.verify",
    "view": "offleash.api.compare",
    "watch": "offleash.api.watch",
}
__all__ = sorted(_PUBLIC)

# Until 0.2: what public names were called before.
_RENAMED = {
    "document": "the method to_dict() of a result",
    "entropies": "entropy",
    "finding": "the attribute `finding` of the result of compare",
    "notebook_html": "the result itself, which notebooks display",
    "run_study": "study",
    "write_report": "report, or the method save() of the result of compare",
}


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        raise AttributeError(f"offleash no longer has {name!r}. Use {_RENAMED[name]}.")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'offleash' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)


def _notebook_html(result: object) -> str:
    return str(import_module("offleash.reporting.notebook").notebook_html(result))


render_with(_notebook_html)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
