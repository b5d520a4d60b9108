"""The verbs of the command line: which public function each is, its section in the overview, and its summary.

`offleash --help` shows the summaries without importing the functions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module


@dataclass(frozen=True)
class Verb:
    """One verb of the command line.

    A verb of a group is typed `group verb`, and its function is group_verb. The function is named by a string, so that
    the overview and the other verbs do not import it.
    """

    name: str
    function: str  # module:name
    summary: str  # at most 45 characters

    def load(self) -> Callable[..., object]:
        """The function itself."""
        module, _, name = self.function.partition(":")
        loaded: Callable[..., object] = getattr(import_module(module), name)
        return loaded


# Sections of the overview in the order in which a newcomer needs them; `make docs` writes docs/cli.md in it too. A
# summary has at most 45 characters, so that the overview fits a terminal of 80 columns with every one on its line.
API, LAB = "offleash.api", "offleash.lab.verbs"
SECTIONS: dict[str, tuple[Verb, ...]] = {
    "Start": (
        Verb("demo", f"{LAB}:demo", "Train a small model and measure its support"),
        Verb("compare", f"{API}.compare:compare", "What RL kept, lost and gained, from logs"),
        Verb("study", f"{API}.study:study", "Draw, judge and compare models in one command"),
    ),
    "Measure": (
        Verb("draw", f"{API}.draw:draw", "Draw k samples per problem from a model"),
        Verb("verify", f"{API}.verify:verify", "Judge samples: correct, wrong, unread, failed"),
        Verb("report", f"{API}.compare:report", "One page to read and share"),
        Verb("view", f"{API}.compare:view", "Browse every sample of a comparison"),
        Verb("show", f"{API}.runs:show", "The samples of one problem, with texts"),
        Verb("figure", f"{API}.compare:figure", "One figure as PDF, SVG or PNG"),
        Verb("plan samples", f"{API}.analyse:plan_samples", "How many samples a study needs"),
        Verb("plan training", f"{API}.analyse:plan_training", "Which groups would teach nothing"),
    ),
    "Explain": (
        Verb("entropy", f"{API}.analyse:entropy", "Token entropy and answer entropy of runs"),
        Verb("likelihood", f"{API}.analyse:likelihood", "Perplexity by class, KL, the other model"),
        Verb("strategies", f"{API}.analyse:strategies", "Strategies kept, lost and gained"),
        Verb("sweep", f"{API}.draw:sweep", "Support by temperature, top-p and prompt"),
        Verb("frontier", f"{API}.frontier:frontier", "pass@1 against reach, and the point to use"),
        Verb("score", f"{API}.verify:score", "Log-probability of texts under a model"),
    ),
    "Exact": (
        Verb("certify", f"{API}.draw:certify", "Every completion above a probability"),
        Verb("nucleus", f"{API}.draw:nucleus", "What top-p cuts off, from certificates"),
        Verb("theory", f"{API}.analyse:theory", "Test the paper's theory in exact worlds"),
    ),
    "Train": (
        Verb("train", f"{API}.train:train", "Train a model with an RLVR method"),
        Verb("blend", f"{API}.blend:blend", "Write models between two checkpoints"),
        Verb("watch", f"{API}.watch:watch", "Follow a training run by its rollouts"),
        Verb("lab list", f"{LAB}:lab_list", "List the small worlds"),
        Verb("lab model", f"{LAB}:lab_model", "Copy a world's base model"),
        Verb("lab problems", f"{LAB}:lab_problems", "Write problems of a world"),
        Verb("lab traces", f"{LAB}:lab_traces", "Write correct traces by a world's solver"),
        Verb("lab pretrain", f"{LAB}:lab_pretrain", "Pretrain a base model on a world's corpus"),
    ),
    "Data": (
        Verb("problems", f"{API}.verify:problem_set", "Problems of a benchmark or file, as JSON"),
        Verb("check", f"{API}.verify:check", "Check gold answers before drawing"),
        Verb("import", f"{API}.logs:import_logs", "Import other tools' logs as a run folder"),
        Verb("formats", f"{API}.logs:show_formats", "List the log formats that can be read"),
        Verb("fsck", f"{API}.logs:fsck", "Check run folders in full"),
    ),
}
VERBS = {verb.name: verb for verbs in SECTIONS.values() for verb in verbs}
GROUPS = {
    "plan": "Plan a study before drawing samples, or a training run before it starts.",
    "lab": "Small worlds for experiments: problems, expert traces and base models.",
}
# Former names of verbs: the error names the new one. To be removed with 0.2.
OLD_VERBS = {"ways": "strategies", "cut": "nucleus"}
