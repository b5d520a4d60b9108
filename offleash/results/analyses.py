"""Results of analyses and of training."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offleash.errors import OffleashError
from offleash.results.result import Result, console_of, frame_of, print_text

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console

    from offleash.analyses.blending.blend import BlendedModel, Blends
    from offleash.analyses.certificates.certify import Certification
    from offleash.analyses.certificates.nucleus import NucleusCut
    from offleash.analyses.entropy.entropy import Entropies
    from offleash.analyses.frontier.frontier import Frontier
    from offleash.analyses.frontier.runs import FrontierCost
    from offleash.analyses.frontier.search import FrontierPoint, HeldOutConfirmation
    from offleash.analyses.group_signal.plan import TrainingPlan
    from offleash.analyses.likelihood.likelihood import Likelihood
    from offleash.analyses.planning import PilotPlan
    from offleash.analyses.strategies.strategies import StrategyComparison
    from offleash.analyses.sweep.prompts import PromptSweep
    from offleash.analyses.sweep.sweep import Sweep
    from offleash.analyses.theory.mechanisms import TheoryReport
    from offleash.results.comparison import FigureResult
    from offleash.training.loop import Training


@dataclass(frozen=True, repr=False, eq=False)
class EntropyResult(Result):
    """Token entropy and answer entropy of runs.

    >>> base = ol.lab_model("countdown", out="base")
    >>> problems = ol.lab_problems("countdown", out="test.jsonl", size=3)
    >>> run = ol.draw("test.jsonl", "hf:base", k=8, max_tokens=18, out="runs/base")
    >>> verified = ol.verify("runs/base")
    >>> ol.entropy("runs/base").to_dict()["schema"]
    2
    """

    entropies: "Entropies"

    def to_dict(self) -> dict[str, Any]:
        from offleash.analyses.entropy.report import entropy_document

        return entropy_document(self.entropies)

    def show(self, console: "Console | None" = None) -> None:
        from offleash.analyses.entropy.terminal import show_entropies

        show_entropies(console_of(console), self.entropies)


@dataclass(frozen=True, repr=False, eq=False)
class LikelihoodResult(Result):
    """How probable both models find what either of them, or others, wrote.

    >>> base = ol.lab_model("countdown", out="base")
    >>> problems = ol.lab_problems("countdown", out="test.jsonl", size=3)
    >>> run = ol.draw("test.jsonl", "hf:base", k=8, max_tokens=18, out="runs/base")
    >>> again = ol.draw("test.jsonl", "hf:base", k=8, seed=1, max_tokens=18, out="runs/rl")
    >>> verified = ol.verify("runs/base", "runs/rl")
    >>> ol.likelihood("runs/base", "runs/rl", first=4, at=4).to_dict()["schema"]
    2
    """

    likelihood: "Likelihood"

    def to_dict(self) -> dict[str, Any]:
        from offleash.analyses.likelihood.report import likelihood_document

        return likelihood_document(self.likelihood)

    def show(self, console: "Console | None" = None) -> None:
        from offleash.analyses.likelihood.terminal import show_likelihood

        show_likelihood(console_of(console), self.likelihood)


@dataclass(frozen=True, repr=False, eq=False)
class StrategiesResult(Result):
    """Which strategies were kept, lost and gained.

    >>> base = ol.lab_model("countdown", out="base")
    >>> problems = ol.lab_problems("countdown", out="test.jsonl", size=3)
    >>> run = ol.draw("test.jsonl", "hf:base", k=8, max_tokens=18, out="runs/base")
    >>> again = ol.draw("test.jsonl", "hf:base", k=8, seed=1, max_tokens=18, out="runs/rl")
    >>> verified = ol.verify("runs/base", "runs/rl")
    >>> ol.strategies("runs/base", "runs/rl", by="countdown").to_dict()["schema"]
    2
    """

    strategies: "StrategyComparison"

    def to_dict(self) -> dict[str, Any]:
        from offleash.analyses.strategies.report import strategies_document

        return strategies_document(self.strategies)

    def show(self, console: "Console | None" = None) -> None:
        from offleash.analyses.strategies.terminal import show_strategies

        show_strategies(console_of(console), self.strategies)


@dataclass(frozen=True, repr=False, eq=False)
class SweepResult(Result):
    """What one or two models reach at every decoding of a grid.

    >>> result = ol.sweep("examples/problems.jsonl", "scripted:examples/sums.json", temperature=1.0, k=4,
    ...                   out="runs/sweep")
    >>> result.ok, result.to_dict()["schema"]
    (True, 2)
    """

    sweep: "Sweep | None"  # None: under several prompts
    path: Path | None = None  # of the figure
    unwritten: OffleashError | None = None  # why there is no figure
    prompts: "PromptSweep | None" = None  # one sweep per prompt

    @property
    def ok(self) -> bool:
        done = self.prompts or self.sweep
        return done is not None and not done.missing and not done.unmatched

    @property
    def pending_error(self) -> OffleashError | None:
        return self.unwritten

    def with_figure(self, path: Path) -> "SweepResult":
        """Draw support against the decoding to a file; an error in it does not lose the rest."""
        from offleash.analyses.sweep.figures import support_by_decoding
        from offleash.render.export import write_figure

        if self.sweep is None:
            raise OffleashError("A figure shows one prompt. Draw it for a sweep of `.prompts.sweeps`.")
        try:
            write_figure(support_by_decoding(self.sweep), path, "--figure")
        except OffleashError as error:
            return replace(self, unwritten=error)
        return replace(self, path=path)

    def to_dict(self) -> dict[str, Any]:
        if self.prompts is not None:
            from offleash.analyses.sweep.prompts import prompts_document

            return prompts_document(self.prompts)
        from offleash.analyses.sweep.report import sweep_document

        assert self.sweep is not None
        return sweep_document(self.sweep)

    def show(self, console: "Console | None" = None) -> None:
        if self.prompts is not None:
            from offleash.analyses.sweep.prompts import show_prompts

            show_prompts(console_of(console), self.prompts)
            return
        from offleash.analyses.sweep.report import show_sweep

        assert self.sweep is not None
        show_sweep(console_of(console), self.sweep)
        if self.path is not None:
            print_text(console, f"Figure: {self.path}")


@dataclass(frozen=True, repr=False, eq=False)
class FrontierResult(Result):
    """pass@1 against retention, the recommended point and its confirmation; of a dry run only the cost.

    >>> problems = ol.ProblemSelection(size=4)
    >>> result = ol.frontier("examples/problems.jsonl", "scripted:examples/sums.json", "scripted:examples/sums.json",
    ...                      k=8, out="runs/frontier", selection=problems)
    >>> result.recommended is None, result.headline[:23]
    (True, 'Nothing is recommended:')
    """

    cost: "FrontierCost"
    frontier: "Frontier | None" = None  # None: a dry run
    path: Path | None = None  # of the figure
    report: Path | None = None  # the page
    unwritten: OffleashError | None = None  # why there is no figure or page

    @property
    def ok(self) -> bool:
        return self.frontier is None or not self.frontier.missing

    @property
    def pending_error(self) -> OffleashError | None:
        return self.unwritten

    @property
    def headline(self) -> str:
        """The recommendation in a sentence, or why there is none."""
        from offleash.analyses.frontier.report import headline

        return headline(self._measured())

    @property
    def recommended(self) -> "FrontierPoint | None":
        """The recommended point on the problems that chose it; `confirmation` has it on the others."""
        return self._measured().search.recommended

    @property
    def confirmation(self) -> "HeldOutConfirmation | None":
        """The recommended point on problems that did not choose it."""
        return self._measured().search.confirmation

    def to_dict(self) -> dict[str, Any]:
        from offleash.analyses.frontier.report import cost_document, frontier_document

        return cost_document(self.cost) if self.frontier is None else frontier_document(self.frontier)

    def to_frame(self) -> "pl.DataFrame":
        """A row per point; of a dry run the cost."""
        return frame_of(self.to_dict() if self.frontier is None else self.to_dict()["points"])

    def show(self, console: "Console | None" = None) -> None:
        from offleash.analyses.frontier.report import cost_lines, show_frontier

        if self.frontier is None:
            print_text(console, cost_lines(self.cost))
            return
        written = [f"{name}: {path}" for name, path in (("Figure", self.path), ("Report", self.report)) if path]
        show_frontier(console_of(console), self.frontier, written)

    def figure(self, name: str = "frontier") -> "FigureResult":
        """Its figure, frontier: retention against pass@1."""
        from offleash.analyses.frontier.figures import NAME
        from offleash.errors import unknown
        from offleash.results.comparison import FigureResult

        if name != NAME:
            raise unknown("figure", name, [NAME])
        return FigureResult(NAME, self._measured())

    def save(self, path: str | Path, command: str = "") -> Path:
        """Write it to a file: .html as a page, .svg, .pdf or .png as a figure, .json and .txt as every result."""
        from offleash.render.export import WRITERS, write_figure
        from offleash.render.output import PAGE_SUFFIXES, check_writable, write_text

        target = Path(path)
        if target.suffix.lower() in WRITERS:
            from offleash.analyses.frontier.figures import retention_by_pass_1

            write_figure(retention_by_pass_1(self._measured()), target, "--figure")
            return target
        if target.suffix.lower() not in PAGE_SUFFIXES:
            return super().save(target)
        from offleash.analyses.frontier.page import frontier_page

        check_writable(target)
        write_text(target, frontier_page(self._measured(), command))
        return target

    def written(self, figure: Path | None, report: Path, command: str) -> "FrontierResult":
        """The same with its figure and its page in files; trouble with them does not lose the rest."""
        try:
            return replace(
                self,
                path=None if figure is None else self.save(figure),
                report=self.save(report, command),
            )
        except OffleashError as error:
            return replace(self, unwritten=error)

    def _measured(self) -> "Frontier":
        if self.frontier is None:
            raise OffleashError("A dry run has no points. Run it without dry_run.")
        return self.frontier


@dataclass(frozen=True, repr=False, eq=False)
class CertifyResult(Result):
    """A folder of certificates.

    >>> base = ol.lab_model("countdown", out="base")
    >>> problems = ol.lab_problems("countdown", out="test.jsonl", size=3)
    >>> result = ol.certify("test.jsonl", "hf:base", epsilon=0.05, max_tokens=18, out="certs/base")
    >>> result.to_dict()["certified"]
    3
    """

    run: "Certification"

    @property
    def ok(self) -> bool:
        return not self.run.failure_reasons

    def to_dict(self) -> dict[str, Any]:
        from offleash.analyses.certificates.report import certified_document

        return certified_document(self.run)

    def show(self, console: "Console | None" = None) -> None:
        from offleash.analyses.certificates.report import certified_text

        print_text(console, certified_text(self.run))


@dataclass(frozen=True, repr=False, eq=False)
class NucleusResult(Result):
    """What top-p cuts off of certificates.

    >>> base = ol.lab_model("countdown", out="base")
    >>> problems = ol.lab_problems("countdown", out="test.jsonl", size=3)
    >>> result = ol.certify("test.jsonl", "hf:base", epsilon=0.05, max_tokens=18, out="certs/base")
    >>> result = ol.nucleus("certs/base", top_p=0.9)
    >>> len(result.cuts)
    1
    """

    cuts: "tuple[NucleusCut, ...]"

    def to_dict(self) -> dict[str, Any]:
        from offleash.analyses.certificates.report import cutoff_document

        return cutoff_document(self.cuts)

    def show(self, console: "Console | None" = None) -> None:
        from offleash.analyses.certificates.report import show_cutoff

        show_cutoff(console_of(console), self.cuts)


@dataclass(frozen=True, repr=False, eq=False)
class TheoryResult(Result):
    """The paper's statements, each checked in small exact worlds.

    >>> result = ol.theory(figures="figures")  # doctest: +SKIP
    >>> result.theory, result.figures  # doctest: +SKIP
    """

    theory: "TheoryReport"
    figures: tuple[Path, ...] = ()  # that were written
    unwritten: OffleashError | None = None  # why there are none

    @property
    def pending_error(self) -> OffleashError | None:
        return self.unwritten

    def with_figures(self, folder: Path) -> "TheoryResult":
        """Draw the figures into a folder; an error in them does not lose the rest."""
        from offleash.analyses.theory.figures import write_figures

        try:
            return replace(self, figures=tuple(write_figures(self.theory, folder)))
        except OffleashError as error:
            return replace(self, unwritten=error)

    def to_dict(self) -> list[dict[str, Any]]:
        from offleash.analyses.theory.report import theory_document

        return theory_document(self.theory)

    def show(self, console: "Console | None" = None) -> None:
        from offleash.analyses.theory.report import show_theory

        show_theory(console_of(console), self.theory)
        for path in self.figures:
            print_text(console, str(path))


@dataclass(frozen=True, repr=False, eq=False)
class PlanResult(Result):
    """From pilots, one plan per run: the budget that would settle the open problems.

    >>> ol.plan_samples("examples/counts/base.csv", "examples/counts/rl.csv").to_dict()[0]["run"]
    'base'
    """

    plans: "tuple[PilotPlan, ...]"

    def to_dict(self) -> Any:
        from offleash.analyses.planning import plan_document

        documents = [plan_document(plan) for plan in self.plans]
        return documents[0] if len(documents) == 1 else documents

    def show(self, console: "Console | None" = None) -> None:
        from offleash.analyses.planning import plan_table

        for plan in self.plans:
            console_of(console).print(plan_table(plan))


@dataclass(frozen=True, repr=False, eq=False)
class TrainingPlanResult(Result):
    """What groups of a training run would see, from counts of its base.

    >>> plan = ol.plan_training("examples/counts/base.csv", group=16)
    >>> plan.to_frame().columns[:3]
    ['problem', 'n', 'c']
    """

    plan: "TrainingPlan"

    def to_dict(self) -> dict[str, Any]:
        from offleash.analyses.group_signal.plan import group_plan_document

        return group_plan_document(self.plan)

    def to_frame(self) -> "pl.DataFrame":
        """A row per problem."""
        return frame_of(self.to_dict()["problems"])

    def show(self, console: "Console | None" = None) -> None:
        from offleash.analyses.group_signal.plan import group_plan_table

        console_of(console).print(group_plan_table(self.plan))

    def save(self, path: str | Path) -> Path:
        """Write it to a file: .svg, .pdf or .png as a figure, .json and .txt as every result."""
        from offleash.render.export import WRITERS, write_figure

        if Path(path).suffix.lower() not in WRITERS:
            return super().save(path)
        from offleash.analyses.group_signal.figure import signal_by_group_size

        write_figure(signal_by_group_size(self.plan), Path(path), "--figure")
        return Path(path)


@dataclass(frozen=True, repr=False, eq=False)
class TrainResult(Result):
    """A training run that came to its end.

    >>> base = ol.lab_model("countdown", out="base")
    >>> result = ol.train("examples/recipes/grpo.yaml", "steps=1", "sampling.problems=2", "problems.size=8",
    ...                   out="runs/grpo")
    >>> result.model.name  # use it as f"hf:{result.model}"
    'model'
    """

    training: "Training"

    @property
    def model(self) -> Path:
        """The trained model, in Hugging Face format."""
        return self.training.model

    @property
    def steps(self) -> int:
        """Steps that it has done."""
        return self.training.steps

    def to_dict(self) -> dict[str, Any]:
        from offleash.training.loop import training_document

        return training_document(self.training)

    def show(self, console: "Console | None" = None) -> None:
        from offleash.training.loop import training_text

        print_text(console, training_text(self.training))


@dataclass(frozen=True, repr=False, eq=False)
class BlendResult(Result):
    """Models between two checkpoints, on disk.

    >>> base = ol.lab_model("countdown", out="base")
    >>> ol.blend("base", "base", weights=0.5, out="blends").models[0].model
    'hf:blends/0.5'
    """

    blends: "Blends"

    @property
    def models(self) -> "tuple[BlendedModel, ...]":
        """Each with its weight, its folder, and the name by which draw and study take it."""
        return self.blends.models

    def to_dict(self) -> dict[str, Any]:
        from offleash.render.json import SCHEMA, encode

        return {"schema": SCHEMA, **encode(self.blends)}

    def show(self, console: "Console | None" = None) -> None:
        from offleash.analyses.blending.blend import blends_text

        print_text(console, blends_text(self.blends))
