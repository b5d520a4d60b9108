"""Options that several verbs take, in groups: reading logs, comparing, judging, models and decodings, problems."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offleash.errors import OffleashError, unknown

if TYPE_CHECKING:
    import polars as pl

    from offleash.comparing.question import Question
    from offleash.loading.load import Reading
    from offleash.problems.problem import ProblemSet
    from offleash.progress import Progress
    from offleash.samplers.registry import Model
    from offleash.samplers.sampler import Decoding
    from offleash.verifying.verify import VerifyOptions

Runs = Annotated[
    list[str],
    typer.Argument(metavar="BEFORE AFTER...", help="Run folders, log files, folders, quoted globs, counts; NAME=PATH."),
]
Verifier = Annotated[str | None, typer.Option(metavar="NAME", help="Whose verdicts, where a run folder has several.")]
LogFormat = Annotated[
    str | None, typer.Option("--log-format", metavar="NAME", help="Force a format of logs (see: offleash formats).")
]


@dataclass(frozen=True)
class LogOptions:
    """How logs are read, where they do not say it themselves."""

    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--map", metavar="NAME=COLUMN", help="Read NAME (problem, text, verdict, ...) from COLUMN. Repeatable."
        ),
    ] = None
    split_by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Take several runs from one file, by this column.")
    ] = None
    log_format: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="Force a format (see: offleash formats).")
    ] = None
    filter_name: Annotated[
        str | None,
        typer.Option(
            "--filter", metavar="NAME", help="Which of several filters (lm-eval) or scorers (inspect) decides."
        ),
    ] = None
    threshold: Annotated[float, typer.Option(help="A score at or above it is correct.")] = 1.0
    verifier: Verifier = None

    def reading(self, texts: bool = False) -> "Reading":
        """How to read."""
        from offleash.loading.load import Reading
        from offleash.logs.format import Options

        if not math.isfinite(self.threshold):
            raise OffleashError(f"A threshold is a score; found --threshold {self.threshold}.")
        mapped = named_columns(self.columns, "verdict=is_correct")
        return Reading(
            Options(mapped, self.split_by, self.filter_name, self.threshold, texts), self.log_format, self.verifier
        )

    def fit(self, runs: Sequence[str], flags: Mapping[str, str]) -> None:
        """Refuse what run folders alone cannot serve, and formats that do not exist."""
        from offleash.loading.load import refuse_unused

        self.reading()
        typed = {
            "columns": f" {flags['columns']} ".join(self.columns or ()),
            "split_by": self.split_by,
            "log_format": self.log_format,
            "filter_name": self.filter_name,
            "threshold": "" if self.threshold == 1 else f"{self.threshold:g}",
        }
        refuse_unused(runs, {flags[name]: value for name, value in typed.items() if value})


# What is compared, and when a problem counts as reached.


@dataclass(frozen=True)
class BudgetOptions:
    """At which budget, what may differ, and how its intervals are made."""

    at: Annotated[
        int | None, typer.Option(metavar="K", help="Compare at this budget instead of the largest common.")
    ] = None
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="What may differ between the runs, else refused: decoding. Repeatable."),
    ] = None
    replicates: Annotated[int, typer.Option(help="Bootstrap replicates of the intervals.")] = 10_000
    seed: Annotated[int, typer.Option(help="Seed of the intervals.")] = 0

    def question(self) -> "Question":
        from offleash.comparing.arguments import question

        return question(at=self.at, replicates=self.replicates, seed=self.seed, allow=self.allow or ())


@dataclass(frozen=True)
class QuestionOptions(BudgetOptions):
    """Also what is counted and when a problem is reached, and which runs are compared."""

    rule: Annotated[
        str | None,
        typer.Option(help="When a problem is reached: seen (default), above, confident, posterior; certified."),
    ] = None
    per: Annotated[str, typer.Option(help="What is counted: problem, answer, solution.")] = "problem"
    tau: Annotated[float, typer.Option(help="The rate of the rule `above`.")] = 0.0
    unread: Annotated[str, typer.Option(help="Unread samples: keep (not correct) or drop (a sensitivity).")] = "keep"
    guess: Annotated[float | None, typer.Option(metavar="RATE", help="Guess floor of every problem, e.g. 0.001.")] = (
        None
    )
    before: Annotated[str | None, typer.Option(metavar="NAME", help="The run to compare with, by name.")] = None
    after: Annotated[str | None, typer.Option(metavar="NAME", help="The run that is compared, by name.")] = None

    @property
    def names(self) -> tuple[str | None, str | None]:
        return self.before, self.after

    def question(self) -> "Question":
        from offleash.comparing.arguments import question

        how = (self.rule or "seen", self.per, self.at, self.tau, self.unread, self.guess, self.replicates, self.seed)
        return question(*how, self.allow or ())


def named_columns(pairs: list[str] | None, example: str) -> dict[str, str]:
    """Names to columns."""
    columns = {}
    for pair in pairs or []:
        name, equals, column = pair.partition("=")
        if not equals or not name:
            raise OffleashError(f"--map takes NAME=COLUMN, found {pair!r}; for example --map {example}.")
        columns[name] = column
    return columns


# How samples are judged.


Jobs = Annotated[int, typer.Option(metavar="N", help="Worker processes; 0 takes one a core.")]
TrustCode = Annotated[
    bool, typer.Option("--trust-code", help="Run model-written code where no sandbox can be built. Read the warning.")
]


@dataclass(frozen=True)
class JudgingOptions:
    """By which verifier, and with what."""

    verifier: Annotated[
        str | None, typer.Option(metavar="NAME", help="Judge all problems with it, not each with its own.")
    ] = None
    jobs: Jobs = 0
    trust_code: TrustCode = False
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Neither use nor keep verdicts of other runs.")] = False
    referee: Annotated[
        str | None, typer.Option("--referee", metavar="URL", help="OpenAI-compatible server that the referee asks.")
    ] = None
    referee_model: Annotated[str | None, typer.Option(metavar="NAME", help="The model that the referee asks.")] = None

    def judging(self, last_number: bool = False, opened: bool = False, problems: str | None = None) -> "VerifyOptions":
        """How to verify."""
        from offleash.verifying.verify import verifying

        asked = (self.referee, self.referee_model)
        return verifying(
            self.verifier, last_number, opened, self.jobs, self.trust_code, not self.no_cache, *asked, problems
        )


# Which model, how it is run, how tokens are drawn.


ModelName = Annotated[
    str, typer.Argument(metavar="MODEL", help="hf:PATH@REVISION+ADAPTER, vllm:PATH, endpoint:URL or scripted:FILE.")
]
K = Annotated[str, typer.Option("-k", metavar="K", help="Samples a problem; paper: the paper's budget.")]
Until = Annotated[int, typer.Option(metavar="M", help="Stop a problem at its M-th success; 0: draw all.")]
Seed = Annotated[int, typer.Option(metavar="S", help="The same seed gives the same samples.")]


@dataclass(frozen=True)
class ModelOptions:
    """How models are opened."""

    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="An option of the engine, e.g. dtype=bfloat16. Repeatable."),
    ] = None
    raw: Annotated[
        bool, typer.Option("--raw", help="Give prompts as they stand, without the model's chat template.")
    ] = False

    def named(self) -> dict[str, str]:
        """What --set says: names to values."""
        settings: dict[str, str] = {}
        for pair in self.settings or []:
            name, equals, value = pair.partition("=")
            if not equals or not name:
                raise OffleashError(f"--set takes NAME=VALUE, found {pair!r}; for example --set dtype=bfloat16.")
            if name in settings:
                raise OffleashError(f"--set {name} is given twice: {settings[name]!r} and {value!r}; leave one out.")
            settings[name] = value
        return settings

    def model(self, name: str) -> "Model":
        """The model that the command line names."""
        from offleash.samplers.registry import model_of

        return model_of(name, self.named(), self.raw)


@dataclass(frozen=True)
class DecodingOptions:
    """How tokens are drawn: a decoding by name, with what is said otherwise."""

    decoding: Annotated[
        str,
        typer.Option(
            "--decoding", metavar="NAME", help="plain: the model's own distribution; paper: 0.6, 0.95, 32768."
        ),
    ] = "plain"
    temperature: Annotated[float | None, typer.Option(metavar="T", help="Instead of the decoding's.")] = None
    top_p: Annotated[float | None, typer.Option("--top-p", metavar="P", help="Likewise.")] = None
    top_k: Annotated[int | None, typer.Option("--top-k", metavar="N", help="Likewise; 0: all tokens.")] = None
    min_p: Annotated[
        float | None, typer.Option("--min-p", metavar="P", help="Likewise; a share of the likeliest token.")
    ] = None
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", metavar="N", help="Likewise; a longer sample is cut.")
    ] = None
    stop: Annotated[list[str] | None, typer.Option("--stop", metavar="TEXT", help="Ends a sample. Repeatable.")] = None

    def way(self) -> "Decoding":
        """The decoding."""
        from dataclasses import replace

        from offleash.samplers.sampler import DECODINGS

        if self.decoding not in DECODINGS:
            raise unknown("decoding", self.decoding, DECODINGS)
        chosen = DECODINGS[self.decoding]
        return replace(
            chosen,
            temperature=chosen.temperature if self.temperature is None else self.temperature,
            top_p=chosen.top_p if self.top_p is None else self.top_p,
            top_k=chosen.top_k if self.top_k is None else self.top_k,
            min_p=chosen.min_p if self.min_p is None else self.min_p,
            max_tokens=chosen.max_tokens if self.max_tokens is None else self.max_tokens,
            stop=chosen.stop if self.stop is None else tuple(self.stop),
        )


# Which problems.


ProblemsName = Annotated[
    str, typer.Argument(metavar="PROBLEMS", help="A benchmark, reasoning_gym:TASK or a file (offleash problems).")
]
ProblemSeed = Annotated[int, typer.Option(metavar="S", help="Seed of the sample, or of generated problems.")]


@dataclass(frozen=True)
class ProblemOptions:
    """Which of a set of problems, and where it is read from."""

    size: Annotated[int | None, typer.Option(metavar="N", help="A random sample of this many problems.")] = None
    problem_seed: Annotated[
        int, typer.Option("--problem-seed", metavar="S", help="Seed of that sample, or of generated problems.")
    ] = 0
    source: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="A local copy of the benchmark, instead of the hub.")
    ] = None
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--map", metavar="NAME=COLUMN", help="Read NAME (question, gold, problem, ...) from COLUMN. Repeatable."
        ),
    ] = None

    def read(self, name: str, tell: "Progress") -> "ProblemSet":
        """The problems of a set, with what was noted in reading them."""
        from offleash.loading.problem_set import load_problems

        mapped = named_columns(self.columns, "gold=answer")
        tell(f"reading {name}")
        return load_problems(name, size=self.size, seed=self.problem_seed, source=self.source, columns=mapped)

    def frame(self, name: str, tell: "Progress") -> "pl.DataFrame":
        """The problems themselves."""
        return self.read(name, tell).frame
