"""A sweep under several prompts: is a gained problem new, or does the base reach it when it is asked differently?

One fixed prompt hides format repair: a base that never puts its answer into \\boxed{} looks as if it could not solve
a problem. Every prompt is a sweep of its own (sweep.py) below one folder, with the same problems and models; here the
problems that RL gained under one prompt are looked up in the base's runs under the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from offleash.analyses.sweep.report import show_sweep, sweep_document
from offleash.analyses.sweep.runs import decoding_label
from offleash.analyses.sweep.sweep import Sweep, SweepRequest, check_sweep, sweep
from offleash.data.run_folder import folder_name
from offleash.errors import OffleashError
from offleash.problems.templates import read_template, with_template
from offleash.progress import Progress, silent, stage
from offleash.render.escape import clean
from offleash.render.json import SCHEMA, Json, encode
from offleash.render.numbers import many
from offleash.samplers.sampler import SamplingParams
from offleash.stats.binomials import Integer
from offleash.stats.significance import holm_rejections, loss_p
from offleash.verifying.verify import VerifyOptions

OWN_PROMPT_NAME = "own"  # the name of each problem's own prompt
BASE, RL = 0, 1


@dataclass(frozen=True)
class NamedPrompt:
    """A template under the name of its folder; None: each problem's own prompt."""

    name: str
    template: str | None


@dataclass(frozen=True)
class OtherPromptResult:
    """The base under another prompt, on a problem that RL gained under the first one."""

    prompt: str
    drawn: int
    correct: int
    p: float  # one-sided Fisher: as many correct samples, if the prompt made no difference


@dataclass(frozen=True)
class GainedProblem:
    """A problem that RL reached and the base did not, under one prompt at one decoding."""

    problem: str
    drawn: int  # by RL
    correct: int
    other_prompts: tuple[OtherPromptResult, ...]

    @property
    def reached_under_other_prompt(self) -> bool:
        return any(other.correct for other in self.other_prompts)


@dataclass(frozen=True)
class GainedUnder:
    """What RL gained under a prompt at a decoding, and how much of it the base reaches under another prompt."""

    prompt: str
    decoding: SamplingParams
    problems: tuple[GainedProblem, ...]
    significant: int  # problems with a significantly higher rate of the base under another prompt (Holm, 95%)

    @property
    def reached_under_other_prompt(self) -> int:
        return sum(problem.reached_under_other_prompt for problem in self.problems)


@dataclass(frozen=True)
class PromptSweep:
    """The sweeps of one or two models under several prompts."""

    folder: Path
    sweeps: Mapping[str, Sweep]  # by the name of the prompt, in the order given
    gained: tuple[GainedUnder, ...]  # of two models: every prompt at every decoding

    @property
    def missing(self) -> int:
        return sum(member.missing for member in self.sweeps.values())

    @property
    def unmatched(self) -> int:
        return sum(len(member.unmatched) for member in self.sweeps.values())


def read_prompts(words: Sequence[str]) -> tuple[NamedPrompt, ...]:
    """The prompts that a user names: files of templates, and `own` for each problem's own prompt."""
    prompts = [NamedPrompt(OWN_PROMPT_NAME, None) if word == OWN_PROMPT_NAME else _read(Path(word)) for word in words]
    names = [prompt.name for prompt in prompts]
    if len(prompts) < 2:
        raise OffleashError(
            f"--prompts needs two or more prompts; found {', '.join(words) or 'none'}. For example: own,brief.txt."
        )
    for name in names:
        if names.count(name) > 1:
            raise OffleashError(f"Two prompts are called {name!r}, but each needs its own folder. Rename one file.")
    return tuple(prompts)


def sweep_prompts(
    request: SweepRequest,
    prompts: Sequence[NamedPrompt],
    folder: Path,
    verifying: VerifyOptions | None = None,
    progress: Progress = silent,
) -> PromptSweep:
    """Sweep the models under every prompt, and look up what was gained under one in the base's runs under the others.

    Args:
        request: problems, models, decodings, k and seed; its prompts are replaced.
        prompts: two or more.
        folder: gets a folder per prompt; what is there already is kept.
        verifying: verifier, extraction and workers.
        progress: called with what is being drawn.
    """
    requests = {
        prompt.name: replace(request, problems=with_template(request.problems, prompt.template), prompt=prompt.template)
        for prompt in prompts
    }
    for name, asked in requests.items():  # all of them before the first sample
        check_sweep(asked, folder / name, verifying, progress)
    sweeps = {
        name: sweep(asked, folder / name, verifying, stage(progress, f"prompt {name}"))
        for name, asked in requests.items()
    }
    return PromptSweep(folder, sweeps, gained_by_model(sweeps) if len(request.models) == 2 else ())


def gained_by_model(sweeps: Mapping[str, Sweep]) -> tuple[GainedUnder, ...]:
    """For every prompt and decoding, the problems that RL gained and the base's counts on them under other prompts."""
    decodings = next(iter(sweeps.values())).decodings
    return tuple(
        _gained_problems(name, number, decoding, sweeps) for name in sweeps for number, decoding in enumerate(decodings)
    )


def _gained_problems(name: str, number: int, decoding: SamplingParams, sweeps: Mapping[str, Sweep]) -> GainedUnder:
    tally = sweeps[name].tally
    base, rl = 2 * number + BASE, 2 * number + RL  # at each decoding first the model before, then the one after
    rows = np.flatnonzero((tally.correct_PR[:, base] == 0) & (tally.correct_PR[:, rl] > 0))
    problems = []
    for row in rows.tolist():
        problem = str(tally.problem_P[row])
        here = int(tally.drawn_PR[row, base]), 0
        other_prompts = tuple(
            _other_prompt_result(other, problem, base, here, sweeps[other]) for other in sweeps if other != name
        )
        counts = int(tally.drawn_PR[row, rl]), int(tally.correct_PR[row, rl])
        problems.append(GainedProblem(problem, *counts, tuple(other for other in other_prompts if other is not None)))
    # one test per problem: the smallest p over the other prompts, Bonferroni over these, then Holm over the problems
    smallest = [
        min(1.0, len(gained.other_prompts) * min((other.p for other in gained.other_prompts), default=1.0))
        for gained in problems
    ]
    return GainedUnder(name, decoding, tuple(problems), holm_rejections(np.array(smallest)) if smallest else 0)


def _other_prompt_result(
    name: str, problem: str, column: int, own_prompt_counts: tuple[int, int], other: Sweep
) -> OtherPromptResult | None:
    """The base's counts under another prompt; None where that run has no verdict on the problem."""
    rows = np.flatnonzero(other.tally.problem_P == problem)
    if not len(rows):
        return None
    drawn, correct = (int(counts[rows[0], column]) for counts in (other.tally.drawn_PR, other.tally.correct_PR))
    drawn_P2: Integer = np.array([[drawn, own_prompt_counts[0]]])
    return OtherPromptResult(
        name, drawn, correct, float(loss_p(drawn_P2, np.array([[correct, own_prompt_counts[1]]]))[0])
    )


def _read(path: Path) -> NamedPrompt:
    return NamedPrompt(folder_name(path.stem), read_template(path))


# The report: a sweep per prompt, then what the base reaches when it is asked differently.


def prompts_finding(prompts: PromptSweep) -> str:
    """Which gained problems the base reaches under another prompt, in sentences; for one model, what each reaches."""
    if not prompts.gained:
        best = {
            name: max(member.points, key=lambda point: point.pass_k.value) for name, member in prompts.sweeps.items()
        }
        k = next(iter(prompts.sweeps.values())).k
        reached = ", ".join(f"{point.pass_k.value:.1%} under {clean(name)}" for name, point in best.items())
        return f"Within {many(k, 'sample')}, {clean(next(iter(best.values())).label)} reaches {reached}."
    return " ".join(_sentence(prompts, gained) for gained in prompts.gained)


def _sentence(prompts: PromptSweep, gained: GainedUnder) -> str:
    member = prompts.sweeps[gained.prompt]
    base, rl = (clean(model.label) for model in member.members)
    several = len(member.decodings) > 1
    where = f"under the prompt {clean(gained.prompt)}{f' at {decoding_label(gained.decoding)}' if several else ''}"
    start = f"Within {many(member.k, 'sample')}, {rl} gained"
    if not gained.problems:
        return f"{start} no problem {where}."
    count = many(len(gained.problems), "problem")
    if not gained.reached_under_other_prompt:
        return f"{start} {count} {where}; {base} reaches none of them under another prompt."
    subject = f"{gained.reached_under_other_prompt} of them" if len(gained.problems) > 1 else "it"
    rate = (
        f", {gained.significant} at a significantly higher rate than {where.partition(' at ')[0]} (Holm, 95%)"
        if gained.significant
        else ", none at a significantly higher rate: resampling could do the same"
    )
    return f"{start} {count} {where}; {base} reaches {subject} under another prompt{rate}."


def show_prompts(console: Console, prompts: PromptSweep) -> None:
    """Print the sweep of every prompt, the gained problems that the base reaches elsewhere, then the finding."""
    for name, member in prompts.sweeps.items():
        console.print(Text(f"prompt {clean(name)}", "bold underline"))
        show_sweep(console, member)
        console.print()
    rows = [
        (gained, problem)
        for gained in prompts.gained
        for problem in gained.problems
        if problem.reached_under_other_prompt
    ]
    if rows:
        table = Table(
            box=box.SIMPLE_HEAD, pad_edge=False, title="gained, but reached under another prompt", title_justify="left"
        )
        for column in ("problem", "gained under", "RL", "base under another prompt"):
            table.add_column(column, overflow="fold")
        for gained, problem in rows:
            others = ", ".join(
                f"{clean(other.prompt)} {other.correct:,} of {other.drawn:,}"
                for other in problem.other_prompts
                if other.correct
            )
            table.add_row(
                clean(problem.problem), clean(gained.prompt), f"{problem.correct:,} of {problem.drawn:,}", others
            )
        console.print(table)
    console.print(Text(prompts_finding(prompts)))


def prompts_document(prompts: PromptSweep) -> Json:
    """The sweeps under several prompts as JSON."""
    document: Json = {
        "schema": SCHEMA,
        "folder": prompts.folder,
        "prompts": [{"prompt": name, **sweep_document(member)} for name, member in prompts.sweeps.items()],
        "gained": [
            {
                "prompt": gained.prompt,
                "temperature": gained.decoding.temperature,
                "top_p": gained.decoding.top_p,
                "gained": len(gained.problems),
                "reached_elsewhere": gained.reached_under_other_prompt,
                "significant": gained.significant,
                "problems": [
                    {
                        "id": problem.problem,
                        "n_after": problem.drawn,
                        "c_after": problem.correct,
                        "elsewhere": [
                            {"prompt": other.prompt, "n_before": other.drawn, "c_before": other.correct, "p": other.p}
                            for other in problem.other_prompts
                        ],
                    }
                    for problem in gained.problems
                ],
            }
            for gained in prompts.gained
        ],
        "finding": prompts_finding(prompts),
    }
    return encode(document)
