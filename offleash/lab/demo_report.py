"""The result of a demo, in sentences and as a page: whether this run shows the leash.

The leash has three parts, and `leash_parts` tests each against chance: pass@1 rises, pass@k at the largest budget
falls, and more problems are lost than resampling an unchanged model would lose.
"""

from dataclasses import dataclass
from pathlib import Path
from shlex import quote

import numpy as np

from offleash.analyses.strategies.fingerprints.registry import FINGERPRINTS
from offleash.comparing.compare import Comparison
from offleash.lab.demo import BASE, BASE_REDRAW, BLEND_WEIGHT, PAPER, PROBLEMS, RL, TRAINING, DemoRuns
from offleash.lab.pretrain import base_of
from offleash.lab.registry import world
from offleash.progress import Progress, silent
from offleash.render.json import Json, encode
from offleash.render.output import write_text
from offleash.reporting.comparison import document
from offleash.reporting.figures import subject
from offleash.reporting.page.build import Chapter, PageText, report_page
from offleash.stats.curves import Curve

SIGNIFICANCE_LEVEL = 0.01  # p below which chance does not explain the losses


@dataclass(frozen=True)
class CurvePoint:
    """A curve at one budget."""

    k: int
    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def point(curve: Curve, index: int) -> CurvePoint:
    """A curve at its first (0) or its largest (-1) budget."""
    return CurvePoint(
        int(curve.k_K[index]), float(curve.value_K[index]), float(curve.low_K[index]), float(curve.high_K[index])
    )


def leash_parts(comparison: Comparison) -> dict[str, bool]:
    """The three parts of the leash, and whether each is significant."""
    first, last = point(comparison.curves["difference"], 0), point(comparison.curves["difference"], -1)
    null = comparison.evidence.null
    return {
        "pass@1 rose": first.low > 0,
        f"pass@{last.k:,} fell": last.high < 0,
        "more problems were lost than expected by chance": null is not None and null.p_S < SIGNIFICANCE_LEVEL,
    }


def headline(done: DemoRuns) -> str:
    """One sentence: whether this run shows the leash."""
    parts = leash_parts(done.plain)
    if all(parts.values()):
        return "This run shows the leash: pass@1 rose while the set of problems within reach shrank."
    missing = [name for name, is_shown in parts.items() if not is_shown]
    leash_at_paper_decoding = all(leash_parts(done.paper).values())
    paper_text = " At the paper's decoding (temperature 0.6, top-p 0.95) it does." if leash_at_paper_decoding else ""
    return f"At temperature 1 this run does not show the leash. Not significant: {'; '.join(missing)}.{paper_text}"


def sentences(done: DemoRuns) -> list[str]:
    """The measurements of this run, each with its interval."""
    return [
        _passes("Temperature 1", done.plain),
        _passes("Temperature 0.6, top-p 0.95", done.paper),
        _losses(done),
        _solutions(done),
        _blend(done),
    ]


def _passes(decoding: str, comparison: Comparison) -> str:
    before, after, difference = (comparison.curves[name] for name in ("before", "after", "difference"))
    last = point(before, -1).k
    ratio = point(after, 0).value / point(before, 0).value if point(before, 0).value else np.nan
    return (
        f"{decoding}: pass@1 {point(before, 0)} -> {point(after, 0)} ({ratio:.2f} times); pass@{last:,} "
        f"{point(before, -1)} -> {point(after, -1)}, a difference of {point(difference, -1)}."
    )


def _losses(done: DemoRuns) -> str:
    change, evidence, null_change = done.plain.change, done.plain.evidence, done.null.change
    null = evidence.null
    chance = (
        f"resampling an unchanged model would lose about {null.expected_S:.1f} (p {_p_text(null.p_S)})" if null else ""
    )
    return (
        f"Of the {change.P + change.S:,.0f} problems that the base reaches in {change.k:,} samples, RL lost "
        f"{change.S:,.0f} and gained {change.E:,.0f} others; {chance}. A second draw from the base: "
        f"{null_change.S:,.0f} lost, {null_change.E:,.0f} gained."
    )


def _p_text(value: float) -> str:
    return f"= {value:.2g}" if value else "< 1e-300"


def _solutions(done: DemoRuns) -> str:
    change = done.solutions.change
    SRR, interval = change.value["SRR"], change.interval["SRR"]
    return (
        f"Of the {change.P + change.S:,.0f} distinct solutions that the base finds, RL kept {SRR:.0%} "
        f"[{interval.low:.0%}, {interval.high:.0%}]: {change.S:,.0f} lost, {change.E:,.0f} gained.{_halves(done)}"
    )


def _halves(done: DemoRuns) -> str:
    """What chance alone does to solutions: one half of the base's samples against the other."""
    retest_result = done.solutions.evidence.retest
    if retest_result is None or not np.isfinite(retest_result.redraw_SRR):
        return ""
    return (
        f" By chance alone, one half of the base's own samples shows {retest_result.redraw_SRR:.0%} of what the other "
        f"half reaches; RL shows {retest_result.observed_SRR:.0%} (k = {retest_result.k:,})."
    )


def _blend(done: DemoRuns) -> str:
    """What the model halfway between base and RL gets back, and its price in pass@1."""
    blend, rl = done.blend.change, done.plain_at_blend.change
    before, after = (point(part.curves["after"], 0) for part in (done.plain_at_blend, done.blend))
    price = before.value - after.value
    return (
        f"Halfway between base and RL (offleash blend, weight {BLEND_WEIGHT:g}): of the {blend.P + blend.S:,.0f} "
        f"problems that the base reaches in {blend.k:,} samples it loses {blend.S:,.0f}, RL {rl.S:,.0f}; "
        f"pass@1 {after}, {abs(price):.3f} {'below' if price >= 0 else 'above'} that of RL."
    )


# The page and the JSON of a demo, with the other comparisons beside the main one.


NAME = "report.html"


def write_report(done: DemoRuns, command: str = "", progress: Progress = silent) -> Path:
    """Write the page into the folder of the demo; `command` is what the page says made it."""
    path = done.folder / NAME
    write_text(path, report_page(subject([done.plain]), page_text(done, command), progress))
    return path


def demo_document(done: DemoRuns, path: Path) -> Json:
    """The JSON of `compare` (per problem, temperature 1), with the other comparisons beside it."""
    extra_fields: Json = {
        "seconds": round(done.seconds, 1),
        "report": path,
        "folder": done.folder,
        "finding": headline(done),
        "per_solution": document([done.solutions]),
        "paper_decoding": document([done.paper]),
        "base_again": document([done.null]),
        "blend": document([done.blend]),
    }
    return {**document([done.plain]), **encode(extra_fields)}


def page_text(done: DemoRuns, command: str = "") -> PageText:
    """The text of the page: how it was made, and robustness checks beside the main comparison."""
    plan = done.plan
    description = (
        f"{done.world}: a base model and the same model after {plan.steps} steps of GRPO; {plan.problems} problems "
        f"that are neither in the corpus nor trained on, seed {plan.seed}; {done.seconds:.0f} s in the last call."
    )
    return PageText(
        command="\n".join([*([command] if command else []), *next_commands(done)]),
        headline=headline(done),
        sentences=[*sentences(done), description],
        chapters=[
            Chapter("Per solution instead of per problem, temperature 1", done.solutions),
            Chapter("At the paper's decoding: temperature 0.6, top-p 0.95", done.paper),
            Chapter("The base against itself: what chance alone does", done.null),
            Chapter(f"Halfway between base and RL, {done.blend.change.k:,} samples per problem", done.blend),
        ],
    )


def next_commands(done: DemoRuns) -> list[str]:
    """Commands that look further into the runs of the demo."""
    folder = Path(quote(str(done.folder)))
    fingerprint = done.world if done.world in FINGERPRINTS else "steps"
    return [
        f"offleash view {folder / BASE} {folder / RL}",
        f"offleash compare {folder / BASE} {folder / RL} --per solution",
        f"offleash compare {folder / PAPER / BASE} {folder / PAPER / RL}",
        f"offleash compare {folder / BASE} {folder / BASE_REDRAW}",
        f"offleash entropy {folder / BASE} {folder / RL} --at 32",
        f"offleash strategies {folder / BASE} {folder / RL} --by {fingerprint}",
        f"offleash likelihood {folder / BASE} {folder / RL}",
        f"offleash sweep {folder / PROBLEMS / 'test.jsonl'} base=hf:{quote(str(base_of(done.world)))} "
        f"rl=hf:{quote(str(done.trained.model))} --match -k 1024 --max-tokens {world(done.world).longest} "
        f"-o {folder / 'match'}",
        f"offleash blend {quote(str(base_of(done.world)))} {quote(str(done.trained.model))} -o {folder / 'blends'}",
        f"offleash train {folder / TRAINING / 'recipe.yaml'} -o ANOTHER seed=1",
    ]
