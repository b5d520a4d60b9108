"""The verbs of the command line: which public function each is, its section in the overview, and one line about it.

The lines are the first lines of the functions' docstrings (a test checks this): `offleash --help` shows them without
importing the functions.
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
    about: str

    def load(self) -> Callable[..., object]:
        """The function itself."""
        module, _, name = self.function.partition(":")
        loaded: Callable[..., object] = getattr(import_module(module), name)
        return loaded


# Sections of the overview in the order in which a newcomer needs them; `make docs` writes docs/cli.md in it too.
API, LAB = "offleash.api", "offleash.lab.verbs"
SECTIONS: dict[str, tuple[Verb, ...]] = {
    "Start here": (
        Verb("demo", f"{LAB}:demo", "Train a small model with GRPO, and measure what it can reach before and after."),
        Verb(
            "compare",
            f"{API}.compare:compare",
            "What RL kept, lost and gained, with error bars and with what chance alone would produce.",
        ),
        Verb(
            "study",
            f"{API}.draw:study",
            "Draw from two models, judge their samples and compare them: two models in, one answer out.",
        ),
    ),
    "Reports and figures": (
        Verb(
            "report",
            f"{API}.compare:report",
            "One page to read and share: what RL kept, lost and gained, and whether to believe it.",
        ),
        Verb(
            "view",
            f"{API}.compare:view",
            "The page of `report` with every sample of every problem, loaded on demand.",
        ),
        Verb("show", f"{API}.compare:show", "Print samples of one problem, with their texts: how was it solved?"),
        Verb(
            "figure",
            f"{API}.compare:figure",
            "One figure of a comparison as PDF, SVG or PNG, with a caption that says how to read it.",
        ),
    ),
    "Further analyses": (
        Verb(
            "entropy",
            f"{API}.analyse:entropy",
            "Token entropy and answer entropy of runs: can local uncertainty rise while global diversity falls?",
        ),
        Verb(
            "likelihood",
            f"{API}.analyse:likelihood",
            "Perplexity by class, the other model's likelihood on lost and gained problems, and KL divergence.",
        ),
        Verb(
            "strategies",
            f"{API}.analyse:strategies",
            "Which strategies RL kept, lost and gained: support, novelty and richness of methods, not of answers.",
        ),
        Verb(
            "sweep",
            f"{API}.draw:sweep",
            "Draw from one or two models at every temperature and top-p of a grid, and show what they reach at each.",
        ),
        Verb(
            "certify",
            f"{API}.draw:certify",
            "Find every completion that is more probable than epsilon, without sampling, and judge it.",
        ),
        Verb(
            "nucleus",
            f"{API}.draw:nucleus",
            "What top-p cuts off: correct completions whose probability it sets to zero, from exact certificates.",
        ),
        Verb(
            "theory",
            f"{API}.analyse:theory",
            "Test the paper's theory (appendix C) in small exact worlds; half a minute on one core.",
        ),
        Verb(
            "plan samples",
            f"{API}.analyse:plan_samples",
            "Plan from a pilot: the budget at which the loss of a problem could be significant, and its cost.",
        ),
    ),
    "Samples, step by step": (
        Verb(
            "problems",
            f"{API}.verify:problem_set",
            "The problems of a benchmark, of Reasoning Gym or of your own file, as JSON lines.",
        ),
        Verb(
            "check",
            f"{API}.verify:check",
            "Check problems before drawing: are gold answers accepted and corrupted ones rejected? Exit code 1 if not.",
        ),
        Verb("draw", f"{API}.draw:draw", "Draw k samples per problem from a model, each exactly once."),
        Verb(
            "verify",
            f"{API}.verify:verify",
            "Extract the answer of every sample and judge it: correct, wrong, unread or failed.",
        ),
        Verb(
            "score",
            f"{API}.verify:score",
            "Log-probability, token entropy and perplexity of given texts under a model.",
        ),
        Verb(
            "import",
            f"{API}.logs:import_logs",
            "Import other tools' logs as a run folder: problems, samples with their texts, the tool's own verdicts.",
        ),
        Verb(
            "formats",
            f"{API}.logs:show_formats",
            "List the log formats that can be read; they are recognised by content.",
        ),
        Verb(
            "fsck",
            f"{API}.logs:fsck",
            "Check run folders in full: every shard is readable, every sample is there once. Changes nothing.",
        ),
    ),
    "Train": (
        Verb(
            "train",
            f"{API}.train:train",
            "Train a transformers model with an RLVR method, on-policy, from a recipe.",
        ),
        Verb("lab list", f"{LAB}:lab_list", "List the small worlds."),
        Verb(
            "lab model",
            f"{LAB}:lab_model",
            "Copy a world's base model, in Hugging Face format, to train, serve or draw from.",
        ),
        Verb(
            "lab problems",
            f"{LAB}:lab_problems",
            "Write problems of a world, from one of its splits: train, dev or test.",
        ),
        Verb(
            "lab traces",
            f"{LAB}:lab_traces",
            "Write correct traces by the world's own solver, for methods that learn from expert traces.",
        ),
        Verb(
            "lab pretrain",
            f"{LAB}:lab_pretrain",
            "Pretrain a base model on a world's corpus: minutes on one core. The shipped base used the defaults.",
        ),
    ),
}
VERBS = {verb.name: verb for verbs in SECTIONS.values() for verb in verbs}
GROUPS = {
    "plan": "Plan a study before drawing samples.",
    "lab": "Small worlds for experiments: problems, expert traces and base models.",
}
# Former names of verbs: the error names the new one. To be removed with 0.2.
OLD_VERBS = {"ways": "strategies", "cut": "nucleus"}
