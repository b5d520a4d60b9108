"""The verbs of the command line: which public function each is, where it stands in the overview, and one line about it.

The lines are the first lines of the functions' docstrings (a test holds them equal): `offleash --help` shows them
without importing the functions.
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
            "What RL kept, lost and gained, how sure that is, and what chance alone would give.",
        ),
        Verb(
            "study",
            f"{API}.draw:study",
            "Draw from two models, judge their samples and compare them: two models in, one answer out.",
        ),
    ),
    "Look at a comparison": (
        Verb(
            "report",
            f"{API}.compare:report",
            "One page to open, understand and send on: what RL kept, lost and gained, and whether to believe it.",
        ),
        Verb(
            "view",
            f"{API}.compare:view",
            "The page of `report` with everything behind it: every sample of every problem, read when it is looked at.",
        ),
        Verb(
            "figure",
            f"{API}.compare:figure",
            "One figure of a comparison as PDF, SVG or PNG, with the caption that says how to read it.",
        ),
    ),
    "Ask further": (
        Verb(
            "entropy",
            f"{API}.analyse:entropy",
            "Token entropy and answer entropy of runs: can local uncertainty rise while global diversity falls?",
        ),
        Verb(
            "likelihood",
            f"{API}.analyse:likelihood",
            "Perplexity by class, the other model's chance on lost and gained problems, and the length of the leash.",
        ),
        Verb(
            "strategies",
            f"{API}.analyse:strategies",
            "Which strategies RL kept, lost and gained: support, novelty and richness of methods, not of answers.",
        ),
        Verb(
            "sweep",
            f"{API}.draw:sweep",
            "Draw one or two models at every temperature and top-p of a grid, and show what they reach at each.",
        ),
        Verb(
            "certify",
            f"{API}.draw:certify",
            "Find every completion that is more probable than epsilon, without sampling, and judge it.",
        ),
        Verb(
            "nucleus",
            f"{API}.draw:nucleus",
            "What top-p cuts off: correct completions that it sets to exactly zero, from exact certificates.",
        ),
        Verb(
            "theory",
            f"{API}.analyse:theory",
            "The paper's statements (appendix C), run and tested in small exact worlds; half a minute on one core.",
        ),
        Verb(
            "plan samples",
            f"{API}.analyse:plan_samples",
            "From a pilot: the budget that would settle the open problems, and its cost.",
        ),
    ),
    "Samples, step by step": (
        Verb(
            "problems",
            f"{API}.verify:problem_set",
            "Problems of a benchmark, of Reasoning Gym or of your own file; as JSON lines.",
        ),
        Verb(
            "check",
            f"{API}.verify:check",
            "Check problems before they are drawn: are gold answers accepted and corruptions rejected? Exit 1 if not.",
        ),
        Verb("draw", f"{API}.draw:draw", "Draw k samples of every problem from a model, each exactly once."),
        Verb(
            "verify",
            f"{API}.verify:verify",
            "Read the answer of every sample and judge it: correct, wrong, unread or failed.",
        ),
        Verb(
            "score",
            f"{API}.verify:score",
            "Log-probability, token entropy and perplexity of given texts under a model.",
        ),
        Verb(
            "import",
            f"{API}.logs:import_logs",
            "Other tools' logs as a run folder: problems, samples with their texts, the tool's own verdicts.",
        ),
        Verb("formats", f"{API}.logs:show_formats", "The kinds of logs that can be read, recognised by content."),
        Verb(
            "fsck",
            f"{API}.logs:fsck",
            "Read run folders in full and check them: every shard, each sample once. Nothing is changed.",
        ),
    ),
    "Train": (
        Verb(
            "train",
            f"{API}.train:train",
            "Train a model of transformers with a method of RLVR, on policy, by a recipe.",
        ),
        Verb("lab list", f"{LAB}:lab_list", "The small worlds there are."),
        Verb(
            "lab model",
            f"{LAB}:lab_model",
            "Copy a world's base model, in Hugging Face format, to train, serve or draw from.",
        ),
        Verb(
            "lab problems",
            f"{LAB}:lab_problems",
            "Write problems of a world: to train on (train), to choose by (dev), to test with (test).",
        ),
        Verb(
            "lab traces",
            f"{LAB}:lab_traces",
            "Write correct traces by the world's own solver, for methods that learn from outside.",
        ),
        Verb(
            "lab pretrain",
            f"{LAB}:lab_pretrain",
            "Train a base for a world from its corpus: minutes on one core. The defaults made the one that is shipped.",
        ),
    ),
}
VERBS = {verb.name: verb for verbs in SECTIONS.values() for verb in verbs}
GROUPS = {
    "plan": "Plan a study before it is drawn.",
    "lab": "Small worlds to try things in: their problems, expert traces and models.",
}
# Names that verbs had before: typed again, they are answered with the new name. To be removed with 0.2.
OLD_VERBS = {"ways": "strategies", "cut": "nucleus"}
