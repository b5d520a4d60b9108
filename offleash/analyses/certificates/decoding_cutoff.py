"""What top-p cuts off, for people and programs."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from offleash.analyses.certificates.cutoff import Cut, CutOff
from offleash.render.escape import clean
from offleash.render.numbers import Json, many, number
from offleash.stats.few import Estimate

SCHEMA = 1


def cutoff_document(some: Sequence[CutOff]) -> Json:
    """Certificates under several top-p, as JSON."""
    return {"schema": SCHEMA, "certificates": [_nucleus_json(one) for one in some]}


def show_cutoff(console: Console, some: Sequence[CutOff]) -> None:
    """Print a table for every certificate, and what it says in words."""
    for one in some:
        title = Text.assemble((clean(one.name), "bold"))
        law = f"temperature {one.decoding.temperature:g}"
        law += f" (certified at {one.own:g})" if one.elsewhere else f", epsilon {one.epsilon:.3g}"
        title.append(f"   {clean(one.model)}, {law}, verdicts of {one.verifier}", "dim")
        console.print(title)
        console.print(_table(one))
        console.print(Text(nucleus_finding(one)))
        console.print()


def nucleus_finding(one: CutOff) -> str:
    """What is cut off at the smallest top-p and at the largest that cuts anything, and how sure that is."""
    if not one.reached:
        where = "is in the certificate" if one.elsewhere else "was found above epsilon"
        return f"No correct completion {where}, so there is nothing that top-p could cut."
    found = f"{many(int(one.completions_P.sum()), 'correct completion')} of {many(one.reached, 'problem')}"
    hardest, gentlest = min(one.cuts, key=lambda cut: cut.top_p), _gentlest(one)
    told = [_said(one, cut) for cut in ([hardest] if gentlest is hardest else [hardest, gentlest])]
    unknown = float(one.unexplored_P.mean())
    other = (
        f"one that is not among those certified at temperature {one.own:g}, and at {one.decoding.temperature:g} such a "
        "one may have any of that mass"
        if one.elsewhere
        else "one that is less probable than epsilon"
    )
    sure = (
        "Exact for the completions that were found: what is cut can never be drawn, however large k is. "
        f"A mean mass of {unknown:.3f} a problem was not found or not decided; it may hold correct completions, cut or "
        f"not, so a problem said to lose all may keep {other}."
    )
    return f"{found} were found. {' '.join(told)} {sure}"


def _gentlest(one: CutOff) -> Cut:
    some = [cut for cut in one.cuts if cut.removed_P.any()]
    return max(some or one.cuts, key=lambda cut: cut.top_p)


def _said(one: CutOff, cut: Cut) -> str:
    gone = int(one.completions_P.sum() - cut.left_P.sum())
    if not gone:
        return f"Top-p {cut.top_p:g} cuts none of them."
    lost = one.emptied(cut)
    problems = f"{lost} of the {one.reached} problems {'loses' if lost == 1 else 'lose'} every one"
    return (
        f"Top-p {cut.top_p:g} sets {gone:,} of them to exactly zero, {_share_text(cut.share)} of their mass; "
        f"{problems}. A sample is right with chance {float(one.correct_P.mean()):.3f} or more without it and "
        f"{float(cut.chance_P.mean()):.3f} or more with it."
    )


def _table(one: CutOff) -> Table:
    """Narrow enough for 80 columns: what is not sure stands below what is."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("top-p", "cut", "mass cut", "share of it", "problems emptied", "chance of a right sample"):
        table.add_column(name, justify="right")
    every = int(one.completions_P.sum())
    for cut in one.cuts:
        least, most = one.bounds(cut)
        table.add_row(
            f"{cut.top_p:g}",
            f"{every - int(cut.left_P.sum()):,} of {every:,}",
            f"{least:.4f}\nto {most:.4f}",
            _share_text(cut.share).replace(" [", "\n["),
            f"{one.emptied(cut)} of {one.reached}",
            f"≥ {float(cut.chance_P.mean()):.4f}",
        )
    return table


def _share_text(one: Estimate) -> str:
    if number(one.value) is None:
        return "-"
    low, high = one.interval.low, one.interval.high
    ends = "" if number(low) is None else f" [{low:.1%}, {high:.1%}]"
    return f"{one.value:.1%}{ends}"


def _nucleus_json(one: CutOff) -> Json:
    return {
        "name": one.name,
        "folder": str(one.folder),
        "model": one.model,
        "temperature": one.decoding.temperature,
        "certified_at": one.own,
        "epsilon": one.epsilon,
        "verifier": one.verifier,
        "problems": len(one.problem_P),
        "reached": one.reached,
        "correct": float(one.correct_P.mean()),
        "correct_completions": int(one.completions_P.sum()),
        "unknown": float(one.unexplored_P.mean()),
        "cuts": [_cut(one, cut) for cut in one.cuts],
        "by_problem": [_nucleus_problem(one, place) for place in range(len(one.problem_P))],
        "finding": nucleus_finding(one),
    }


def _cut(one: CutOff, cut: Cut) -> Json:
    return {
        "top_p": cut.top_p,
        "removed": estimate(cut.removed),
        "removed_bounds": list(one.bounds(cut)),
        "share": estimate(cut.share),
        "removed_completions": int(one.completions_P.sum() - cut.left_P.sum()),
        "emptied": one.emptied(cut),
        "emptied_share": estimate(cut.emptied),
        "emptied_unknown": number(one.rest(cut)),
        "chance_at_least": float(cut.chance_P.mean()),
    }


def _nucleus_problem(one: CutOff, place: int) -> Json:
    return {
        "problem": one.problem_P[place],
        "correct": float(one.correct_P[place]),
        "correct_completions": int(one.completions_P[place]),
        "unknown": float(one.unexplored_P[place]),
        "removed": {f"{cut.top_p:g}": float(cut.removed_P[place]) for cut in one.cuts},
        "left": {f"{cut.top_p:g}": int(cut.left_P[place]) for cut in one.cuts},
    }


def estimate(one: Estimate | None) -> Json | None:
    """A mean over problems with its interval."""
    return None if one is None else {"value": number(one.value), "interval": one.interval.pair()}
