"""Options of the public functions: how an option is declared, and the options and groups that several functions share.

A public function (api/, lab/) declares an option as a keyword parameter `Annotated[type, Flag(help)]`. Everything else
follows from that line: the flag of the command line and its help (cli/builder.py), docs/cli.md and docs/api.md
(docs/reference.py), and the check of values (signatures.py, which reads the declarations).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

# How an option is declared.


@dataclass(frozen=True)
class Flag:
    """An option: what it does, its flag if that is not `--its-keyword`, and which values it takes."""

    help: str
    name: str = ""  # --map of the keyword `columns`
    short: str = ""  # -o
    metavar: str = ""  # placeholder of its value in the help
    least: float | None = None  # bounds: inclusive
    most: float | None = None
    above: float | None = None  # bounds: exclusive
    below: float | None = None
    choices: tuple[str, ...] = ()
    heading: str = ""  # in the help, of an option that no group has


@dataclass(frozen=True)
class Data:
    """What a function works on: a positional argument of the command line."""

    metavar: str
    help: str
    unless: str | None = None  # an option with which it is not needed


@dataclass(frozen=True)
class ExcludedOptions:
    """Fields of a group that do not apply to a function that takes the group."""

    names: frozenset[str]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", frozenset(names))


@dataclass(frozen=True)
class OptionsOf:
    """On `**options`: the options of another function, to which they are passed, except some."""

    function: Callable[..., object]
    without: tuple[str, ...] = ()


# Options that several functions take, and the headings that they share with the groups below.

LOGS, VERDICTS, STATISTICS = "How logs are read", "How samples are judged", "Statistics"

Columns = Annotated[
    Mapping[str, str],
    Flag(
        "Read the field NAME from COLUMN, if the file calls it something else. Repeatable.",
        name="--map",
        metavar="NAME=COLUMN",
        heading=LOGS,
    ),
]
SplitBy = Annotated[
    str | None, Flag("Split one file into several runs by this column.", metavar="COLUMN", heading=LOGS)
]
Verdicts = Annotated[
    str | None,
    Flag("Which verifier's stored verdicts to use, if a run has several.", metavar="NAME", heading=VERDICTS),
]
Verifier = Annotated[
    str | None,
    Flag(
        "Judge with this verifier, or your own FILE.py:NAME, instead of each problem's.",
        metavar="NAME",
        heading=VERDICTS,
    ),
]
Threshold = Annotated[float, Flag("Scores at or above this count as correct.", metavar="SCORE", heading=VERDICTS)]
Completions = Annotated[
    str | None,
    Flag(
        "How completions are passed to a TRL reward. Default: messages if the run used a chat template.",
        choices=("messages", "text"),
        heading=VERDICTS,
    ),
]
GoldFrom = Annotated[
    str | Path | None,
    Flag(
        "Take gold answers, tests and verifiers from these problems (see: offleash problems).",
        metavar="PROBLEMS",
        heading=VERDICTS,
    ),
]
Opened = Annotated[
    bool, Flag("The prompt ended in <think>, so a text without </think> is unfinished.", heading=VERDICTS)
]
At = Annotated[
    int | None,
    Flag(
        "Compare at this budget (samples per problem). Default: the largest that all runs have.",
        metavar="K",
        least=1,
        heading=STATISTICS,
    ),
]
Allow = Annotated[
    Sequence[str],
    Flag(
        "Settings that may differ between runs: decoding. Repeatable.",
        metavar="WORD",
        choices=("decoding",),
        heading=STATISTICS,
    ),
]
FailIf = Annotated[
    Sequence[str],
    Flag(
        "Exit with 3 if the whole 95% interval meets a condition: SRR<0.95, pass@8<0.5, NSCR<0, losses>0. Repeatable.",
        metavar="CONDITION",
        heading=STATISTICS,
    ),
]
Replicates = Annotated[int, Flag("Bootstrap replicates.", metavar="N", least=100, most=1_000_000, heading=STATISTICS)]
Seed = Annotated[int, Flag("Random seed.", metavar="S", least=0)]
Jobs = Annotated[int, Flag("Worker processes. 0: one per core.", metavar="N", least=0, heading=VERDICTS)]
TrustCode = Annotated[
    bool,
    Flag("Run model-written code even if no sandbox is available. Read the warning first.", heading=VERDICTS),
]
MAX_SAMPLES_PER_PROBLEM = 16_384 * 64  # per problem
PAPER = "paper"  # the budget of arXiv:2507.14843
SAMPLES_PER_PROBLEM = Flag(
    "Samples per problem, or 'paper' for the paper's budget.",
    short="-k",
    metavar="K",
    least=1,
    most=MAX_SAMPLES_PER_PROBLEM,
)
K = Annotated[int | str, SAMPLES_PER_PROBLEM]
OptionalK = Annotated[int | str | None, SAMPLES_PER_PROBLEM]  # of a study, whose file may say it
Until = Annotated[int, Flag("Stop sampling a problem at its M-th correct sample. 0: draw all k.", metavar="M", least=0)]
ModelName = Annotated[str, Data("MODEL", "hf:PATH@REVISION+ADAPTER, vllm:PATH, endpoint:URL#NAME or scripted:FILE.")]


@dataclass(frozen=True)
class Reading:
    """How logs are read, if they do not say it themselves.

    >>> graded = ol.Reading(threshold=0.5)
    >>> ol.compare("examples/counts/base.csv", "examples/counts/rl.csv", reading=graded).ok
    True
    """

    columns: Columns = field(default_factory=dict)
    log_format: Annotated[
        str | None, Flag("Log format (see: offleash formats). Default: detected from the content.", metavar="NAME")
    ] = None
    filter: Annotated[
        str | None, Flag("Which filter (lm-eval) or scorer (inspect) to use, if there are several.", metavar="NAME")
    ] = None
    threshold: Threshold = 1.0
    rows: Annotated[
        str | None, Flag("Where a JSON object holds its rows: a dotted path, data.results.", metavar="PATH")
    ] = None


@dataclass(frozen=True)
class Judging:
    """How samples are judged.

    >>> alone = ol.Judging(jobs=1, cache=False)
    >>> ol.verify("examples/rows.jsonl", verifier="math", judging=alone).ok
    True
    """

    jobs: Jobs = 0
    trust_code: TrustCode = False
    cache: Annotated[bool, Flag("Reuse cached verdicts of other runs, and cache new ones.")] = True
    judge: Annotated[
        str | None, Flag("OpenAI-compatible server of the judge model, for the verifier model_judge.", metavar="URL")
    ] = None
    judge_model: Annotated[str | None, Flag("Name of the judge model on that server.", metavar="NAME")] = None
    threshold: Threshold = 1.0
    completions: Completions = None


@dataclass(frozen=True)
class Decoding:
    """How tokens are sampled: a named decoding, with overrides: `Decoding("paper", max_tokens=2048)`.

    >>> paper = ol.Decoding("paper", max_tokens=2048)
    >>> run = ol.draw("examples/problems.jsonl", "scripted:examples/sums.json", k=4, out="runs/base",
    ...                decoding=paper)
    """

    decoding: Annotated[
        str,
        Flag(
            "plain: the model's own distribution; paper: temperature 0.6, top-p 0.95, 32,768 tokens.",
            metavar="NAME",
            choices=("plain", "paper"),
        ),
    ] = "plain"
    temperature: Annotated[float | None, Flag("Override the decoding's temperature.", metavar="T", least=0)] = None
    top_p: Annotated[float | None, Flag("Override the decoding's top-p.", metavar="P", above=0, most=1)] = None
    top_k: Annotated[int | None, Flag("Override the decoding's top-k. 0: all tokens.", metavar="N", least=0)] = None
    min_p: Annotated[
        float | None,
        Flag("Drop tokens less likely than P times the most likely token.", metavar="P", least=0, below=1),
    ] = None
    max_tokens: Annotated[
        int | None, Flag("Override the decoding's token limit. Longer samples are truncated.", metavar="N", least=1)
    ] = None
    stop: Annotated[Sequence[str], Flag("Stop string: a sample ends there. Repeatable.", metavar="TEXT")] = ()


@dataclass(frozen=True)
class EngineOptions:
    """How models are loaded.

    >>> engine = ol.EngineOptions(settings={"fail": "0.5"})
    >>> run = ol.draw("examples/problems.jsonl", "scripted:examples/sums.json", k=16, out="runs/base",
    ...                engine=engine)
    >>> run.ok
    False
    """

    settings: Annotated[
        Mapping[str, str],
        Flag("Set an engine option, e.g. dtype=bfloat16. Repeatable.", name="--set", metavar="NAME=VALUE"),
    ] = field(default_factory=dict)
    raw: Annotated[bool, Flag("Use prompts as they are, without the model's chat template.")] = False


@dataclass(frozen=True)
class Prompting:
    """What the model is asked.

    >>> brief = ol.Prompting(system="Answer with a number.")
    >>> run = ol.draw("examples/problems.jsonl", "scripted:examples/sums.json", k=4, out="runs/base",
    ...                prompting=brief)
    """

    prompt: Annotated[
        str | Path | None,
        Flag(
            "Ask with this template instead of each problem's own prompt: a text file with {question} in it.",
            metavar="FILE",
        ),
    ] = None
    system: Annotated[str | None, Flag("System message, before the prompt.", metavar="TEXT")] = None
    chat_kwargs: Annotated[
        Mapping[str, str],
        Flag("Set a variable of the chat template, e.g. enable_thinking=false. Repeatable.", metavar="NAME=VALUE"),
    ] = field(default_factory=dict)


@dataclass(frozen=True)
class ProblemSelection:
    """Which problems to use, and where they are read from.

    >>> two = ol.ProblemSelection(size=2)
    >>> ol.problem_set("examples/problems.jsonl", selection=two).frame.height
    2
    """

    size: Annotated[
        int | None,
        Flag("Number of problems: a random subset, or how many to generate.", metavar="N", least=1),
    ] = None
    problem_seed: Annotated[int, Flag("Random seed for choosing or generating problems.", metavar="S", least=0)] = 0
    source: Annotated[
        str | Path | None,
        Flag("Read the benchmark from a local copy instead of the hub.", name="--from", metavar="FILE"),
    ] = None
    columns: Columns = field(default_factory=dict)
