"""demo, and the lab's verbs: small worlds with their problems, expert traces and models. Declared as those of api/."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from offleash.api.train import require_local_extra
from offleash.errors import OffleashError
from offleash.options import Data, Flag, Seed
from offleash.progress import Progress, silent
from offleash.results.comparison import FigureResult
from offleash.results.result import Result, console_of, print_text
from offleash.signatures import verb

if TYPE_CHECKING:
    from rich.console import Console

    from offleash.lab.demo import DemoRuns


@dataclass(frozen=True, repr=False, eq=False)
class DemoResult(Result):
    """A demo: its comparisons and the page.

    >>> result = ol.demo(quick=True)  # doctest: +SKIP
    """

    runs: "DemoRuns"
    report: Path

    def to_dict(self) -> dict[str, Any]:
        from offleash.lab.demo_report import demo_document

        return demo_document(self.runs, self.report)

    def show(self, console: "Console | None" = None) -> None:
        from offleash.lab.demo_report import headline, sentences
        from offleash.reporting.comparison import show

        show(console_of(console), [self.runs.plain])
        print_text(console, "\n".join(["", headline(self.runs), *sentences(self.runs)]))
        where = f"Models, samples, verdicts: {self.runs.folder}. Report: {self.report}"
        print_text(console, f"\n{self.runs.seconds:.0f} s. {where}")

    def figure(self, name: str) -> FigureResult:
        """A figure of the comparison at temperature 1."""
        from offleash.reporting.figures import subject

        return FigureResult(name, subject([self.runs.plain]))


World = Annotated[str, Data("WORLD", "countdown, or another world (see: offleash lab list).")]


@verb
def demo(
    *,
    out: Annotated[str | Path, Flag("Output folder.", short="-o", metavar="DIR")] = "runs/demo",
    quick: Annotated[bool, Flag("Under a minute: fewer steps, problems and samples.")] = False,
    seed: Seed = 0,
    world: Annotated[str, Flag("Which world to use (see: offleash lab list).", metavar="NAME")] = "countdown",
    command: str = "",
    progress: Progress = silent,
) -> DemoResult:
    """Train a small model with GRPO, and measure what it can reach before and after.

    A base model of 158k parameters that comes with the package is trained on arithmetic puzzles (Countdown). Both
    models are sampled on held-out problems, at temperature 1 and at the paper's 0.6 with top-p 0.95; the base is
    sampled a second time, to see what chance alone does. At the end, a model halfway between the two: what it gets
    back. Everything is measured in this run: if the effect is not there, it says so. Ctrl-C loses nothing: run it again
    to resume.

    Examples:
      offleash demo
      offleash demo --quick -o runs/quick
      offleash demo --seed 3 -o runs/seed3 --json

    In Python:
      >>> result = ol.demo(quick=True, out="runs/demo")  # doctest: +SKIP
      >>> page, change = result.report, result.runs.plain.change  # doctest: +SKIP
    """
    from dataclasses import replace

    require_local_extra("demo")
    from offleash.lab.demo import QUICK, DemoSize, run_demo
    from offleash.lab.demo_report import write_report
    from offleash.lab.registry import world as world_of

    plan = replace(QUICK if quick else DemoSize(), seed=seed)
    done = run_demo(world_of(world), plan, Path(out), progress)
    return DemoResult(done, write_report(done, command, progress))


@dataclass(frozen=True, repr=False, eq=False)
class LabResult(Result):
    """What a verb of the lab wrote or lists.

    >>> ol.lab_problems("countdown", out="test.jsonl", size=3).ok
    True
    """

    document: Any
    text: str

    def to_dict(self) -> Any:
        return self.document

    def show(self, console: "Console | None" = None) -> None:
        print_text(console, self.text)


@verb
def lab_list() -> LabResult:
    """List the small worlds.

    Examples:
      offleash lab list

    In Python:
      >>> [world["name"] for world in ol.lab_list().to_dict()]
      ['countdown', 'chain_sum']
    """
    from offleash.lab.registry import WORLDS

    rows = [{"name": world.name, "about": world.about} for world in WORLDS.values()]
    return LabResult(rows, "\n".join(f"{row['name']:12} {row['about']}" for row in rows))


@verb
def lab_model(
    world: World = "countdown",
    *,
    out: Annotated[str | Path, Flag("Output folder.", short="-o", metavar="DIR")] = "base",
) -> LabResult:
    """Copy a world's base model, in Hugging Face format, to train, serve or draw from.

    Examples:
      offleash lab model countdown -o base
      offleash draw countdown:test hf:base -k 64 --max-tokens 18 -o runs/base

    In Python:
      >>> ol.lab_model("countdown", out="base").to_dict()
      {'world': 'countdown', 'model': 'base'}
    """
    from offleash.lab.pretrain import copy_base
    from offleash.lab.registry import world as world_of

    folder = copy_base(world_of(world).name, Path(out))
    text = f"Copied the base model of {world} to {folder}. Use it as hf:{folder}."
    return LabResult({"world": world, "model": str(folder)}, text)


@verb
def lab_problems(
    world: World,
    *,
    out: Annotated[str | Path, Flag("Output file (JSONL), readable by every command.", short="-o", metavar="FILE")],
    part: Annotated[str, Flag("Which split; splits share no problems.", choices=("train", "dev", "test"))] = "test",
    size: Annotated[int, Flag("Number of problems.", metavar="N", least=1)] = 200,
    seed: Seed = 0,
    progress: Progress = silent,
) -> LabResult:
    """Write problems of a world, from one of its splits: train, dev or test.

    Examples:
      offleash lab problems countdown --part train --size 4096 -o train.jsonl

    In Python:
      >>> ol.lab_problems("countdown", out="test.jsonl", size=3).to_dict()
      {'file': 'test.jsonl', 'problems': 3}
    """
    from offleash.lab.registry import world as world_of
    from offleash.lab.registry import write_problems

    progress(f"generating {world}")
    path = Path(out)
    count = write_problems(world_of(world), part, size, seed, path)
    text = f"Wrote {count:,} problems of {world} ({part}) to {path}."
    return LabResult({"file": str(path), "problems": count}, text)


@verb
def lab_traces(
    world: World,
    *,
    out: Annotated[str | Path, Flag("Output file: JSONL of {problem, text}.", short="-o", metavar="FILE")],
    problems: Annotated[str | Path, Flag("The problems to solve.", metavar="FILE")],
    each: Annotated[int, Flag("At most this many traces per problem.", metavar="N", least=1)] = 4,
    seed: Seed = 0,
    progress: Progress = silent,
) -> LabResult:
    """Write correct traces by the world's own solver, for methods that learn from expert traces.

    Examples:
      offleash lab traces countdown --problems train.jsonl -o traces.jsonl

    In Python:
      >>> problems = ol.lab_problems("countdown", out="train.jsonl", part="train", size=3)
      >>> ol.lab_traces("countdown", problems="train.jsonl", each=2, out="traces.jsonl").to_dict()
      {'file': 'traces.jsonl', 'traces': 6}
    """
    from offleash.lab.registry import world as world_of
    from offleash.lab.registry import write_expert_traces

    path = Path(out)
    count = write_expert_traces(world_of(world), Path(problems), each, seed, path, progress)
    return LabResult({"file": str(path), "traces": count}, f"Wrote {count:,} traces to {path}.")


@verb
def lab_pretrain(
    world: World,
    *,
    out: Annotated[str | Path, Flag("Output folder.", short="-o", metavar="DIR")],
    steps: Annotated[
        int | None, Flag("Training steps. Default: as for the shipped base.", metavar="N", least=1)
    ] = None,
    seed: Seed = 0,
    progress: Progress = silent,
) -> LabResult:
    """Pretrain a base model on a world's corpus: minutes on one core. The shipped base used the defaults.

    Examples:
      offleash lab pretrain countdown -o base
      offleash lab pretrain countdown --steps 300 --seed 1 -o weaker

    In Python:
      >>> ol.lab_pretrain("countdown", steps=1, out="base").ok
      True
    """
    from dataclasses import replace

    require_local_extra("lab pretrain")
    from offleash.lab.pretrain import pretrain, refuse_existing, save
    from offleash.lab.registry import world as world_of

    chosen, folder = world_of(world), Path(out)
    options = replace(chosen.pretraining, seed=seed, steps=steps or chosen.pretraining.steps)
    refuse_existing(folder)
    try:
        save(pretrain(chosen, options, progress), chosen, folder)
    except KeyboardInterrupt:
        raise OffleashError("Pretraining was interrupted. It saves no checkpoints: run it again.") from None
    text = f"Saved a base model of {world} to {folder}. Use it as hf:{folder}."
    return LabResult({"model": str(folder), "steps": options.steps}, text)
