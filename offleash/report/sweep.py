"""A sweep of decodings, for people and programs: tables, what they say in words, and JSON."""

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from offleash.report.cutoff import estimate
from offleash.report.document import support
from offleash.report.drawn import many
from offleash.report.numbers import Json, count, number
from offleash.report.sweep_match import match_finding, match_tables, matched_document
from offleash.study.flip_samples import clean
from offleash.study.pace import duration
from offleash.study.sweep import Swept
from offleash.study.sweep_grid import way
from offleash.study.sweep_points import Estimate, Point
from offleash.support.change import SupportChange
from offleash.support.resampling import Interval

SCHEMA = 1
SHOWN = ("SRR", "NDR", "NSCR")


def swept_document(one: Swept) -> Json:
    """A sweep as JSON."""
    return {
        "schema": SCHEMA,
        "folder": str(one.folder),
        "models": {member.label: str(member.model) for member in one.members},
        "k": one.k,
        "problems": one.problems,
        "new": one.new,
        "missing": one.missing,
        "points": [_point(point, one.k) for point in one.points],
        "changes": [
            {"temperature": how.temperature, "top_p": how.top_p, "support": support(change)}
            for how, change in zip(one.decodings, one.changes, strict=False)
        ],
        "best": _best(one),
        "matched": [matched_document(found) for found in one.matched],
        "unmatched": [
            {"temperature": how.temperature, "top_p": how.top_p, "reason": why} for how, why in one.unmatched
        ],
        "finding": finding(one),
        "notes": [{"text": note.text, "rows": note.rows, "left_out": note.left_out} for note in one.notes],
        "seconds": round(one.seconds, 3),
    }


def show_sweep(console: Console, one: Swept) -> None:
    """Print the tables, then what was found."""
    labels = " → ".join(clean(member.label) for member in one.members)
    title = Text.assemble((labels, "bold"))
    title.append(f"   {many(one.problems, 'problem')}, k = {one.k:,}, {many(len(one.decodings), 'decoding')}", "dim")
    parts: list[RenderableType] = [title, _table(one)]
    if one.changes:
        parts.append(_changes(one))
    for found in one.matched:
        parts += match_tables(found)
    parts.append(Text(finding(one)))
    parts += [Text(f"! not matched at {way(how)}: {why}", style="yellow") for how, why in one.unmatched]
    parts += [
        Text(f"· {clean(note.text)}{f' ({note.rows:,})' if note.rows else ''}", style="dim") for note in one.notes
    ]
    drawn = f"{many(one.new, 'sample')} drawn now" if one.new else "nothing was drawn, all was there"
    parts.append(Text(f"{drawn}, {duration(one.seconds)}; the runs stand below {one.folder}", style="dim"))
    for part in parts:
        console.print(part)


def finding(one: Swept) -> str:
    """What the decoding does to each model, and to what is said of the two, in words."""
    said = [_reach(one, member.label) for member in one.members] if len(one.decodings) > 1 else []
    if one.changes:
        said += [_range(one)]
    if one.best is not None:
        said.append(_best_words(one))
    said += [match_finding(found) for found in one.matched]
    if not said:
        point = one.points[0]
        said = [f"{clean(point.label)} reaches {_share(point.pass_k)} of the problems at {way(point.decoding)}."]
    return " ".join(said)


def _reach(one: Swept, label: str) -> str:
    mine = one.of(label)
    most, least = (pick(mine, key=lambda point: point.pass_k.value) for pick in (max, min))
    if most.pass_k.value - least.pass_k.value < 1e-12:
        return f"{clean(label)} reaches {_share(most.pass_k)} of the problems at every decoding (k = {one.k:,})."
    return (
        f"{clean(label)} reaches {_share(most.pass_k)} of the problems at {way(most.decoding)} and "
        f"{_share(least.pass_k)} at {way(least.decoding)} (k = {one.k:,})."
    )


def _range(one: Swept) -> str:
    """The change at equal decoding: between which values, and whether its sign is the same everywhere."""
    ordered = sorted(zip(one.changes, one.decodings, strict=True), key=lambda pair: pair[0].value["NSCR"])
    known = [pair for pair in ordered if number(pair[0].value["NSCR"]) is not None]
    if not known:
        return "At no decoding does either model reach a problem."
    (low, first), (high, last) = known[0], known[-1]
    if low is high:
        return f"At {way(first)} for both, net support changes by {_metric(low)}."
    signs = {_sign(change.interval["NSCR"]) for change, _ in known}
    sure = {
        frozenset({-1}): "support shrinks for sure at every decoding (95% each)",
        frozenset({1}): "support grows for sure at every decoding (95% each)",
        frozenset({-1, 0}): "support shrinks for sure at some decodings, and grows for sure at none (95% each)",
        frozenset({1, 0}): "support grows for sure at some decodings, and shrinks for sure at none (95% each)",
        frozenset({0}): "at no decoding is its sign sure",
    }.get(frozenset(signs), "whether support shrinks or grows is the decoding's doing (each is sure at some, 95%)")
    span = f"from {_metric(low)} at {way(first)} to {_metric(high)} at {way(last)}"
    return f"At equal decoding the net support change (NSCR) goes {span}: {sure}."


def _best_words(one: Swept) -> str:
    best = one.best
    assert best is not None, "checked by the caller"
    before, after = (clean(member.label) for member in one.members)
    first, second = best.decoding
    ends = best.interval["NSCR"]
    sure = {-1: "what is lost is not the decoding's doing alone", 1: "what is found is not the decoding's doing alone"}
    told = sure.get(_sign(ends), "the two cannot be told apart so")
    return (
        f"Each at its own best decoding (chosen on half of the problems and valued on the other half, "
        f"{best.halvings} halvings; on all of them {before} at {way(first)}, {after} at {way(second)}), {after} loses "
        f"{best.S:.1f} of the {best.P + best.S:.1f} problems that {before} reaches and gains {best.E:.1f}: NSCR "
        f"{best.value['NSCR']:+.3f} [{ends.low:+.3f}, {ends.high:+.3f}]; {told}."
    )


def _table(one: Swept) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    names = ("T", "top-p", "model", "pass@1", f"pass@{one.k}", "95% interval", "reached")
    for name in (*names, "token H", "answer H", "unread", "cut"):
        table.add_column(name, justify="left" if name == "model" else "right", no_wrap=name != "95% interval")
    for point in one.points:
        ends = point.pass_k.interval
        table.add_row(
            f"{point.decoding.temperature:g}",
            f"{point.decoding.top_p:g}",
            clean(point.label),
            f"{point.pass_1.value:.3f}",
            f"{point.pass_k.value:.3f}",
            f"[{ends.low:.3f}, {ends.high:.3f}]",
            _count(point.reached),
            _nats(point.token_entropy),
            _nats(point.answer_entropy),
            f"{point.unread:.1%}",
            f"{point.truncated:.1%}",
        )
    return table


def _changes(one: Swept) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="at equal decoding", title_justify="left")
    for name in ("T", "top-p", "P", "E", "S", "O", *SHOWN):
        table.add_column(name, justify="right")
    for how, change in zip(one.decodings, one.changes, strict=True):
        cells = (_count(getattr(change, cell)) for cell in "PESO")
        table.add_row(f"{how.temperature:g}", f"{how.top_p:g}", *cells, *(_metric(change, name) for name in SHOWN))
    if one.best is not None:
        cells = (_count(getattr(one.best, cell)) for cell in "PESO")
        values = (_ends(one.best.value[name], one.best.interval[name]) for name in SHOWN)
        table.add_row("best", "each", *cells, *values)
    return table


def _point(point: Point, k: int) -> Json:
    return {
        "model": point.label,
        "temperature": point.decoding.temperature,
        "top_p": point.decoding.top_p,
        "folder": str(point.folder),
        "pass_at_1": estimate(point.pass_1),
        "pass_at_k": estimate(point.pass_k),
        "k": k,
        "reached": count(point.reached),
        "token_entropy": estimate(point.token_entropy),
        "answer_entropy": estimate(point.answer_entropy),
        "unread": point.unread,
        "failed": point.failed,
        "truncated": point.truncated,
    }


def _best(one: Swept) -> Json | None:
    best = one.best
    if best is None:
        return None
    sides = zip(("before", "after"), best.decoding, best.chosen, strict=True)
    return {
        "chosen": {
            side: {"temperature": how.temperature, "top_p": how.top_p, "share_of_halves": share}
            for side, how, share in sides
        },
        **{cell: getattr(best, cell) for cell in "PESO"},
        **{name: number(value) for name, value in best.value.items()},
        "interval": {name: ends.pair() for name, ends in best.interval.items()},
        "halvings": best.halvings,
    }


def _metric(change: SupportChange, name: str = "NSCR") -> str:
    return _ends(change.value[name], change.interval[name])


def _ends(value: float, ends: Interval) -> str:
    return "-" if number(value) is None else f"{value:.3f} [{ends.low:.3f}, {ends.high:.3f}]"


def _share(one: Estimate) -> str:
    return f"{one.value:.1%} [{one.interval.low:.1%}, {one.interval.high:.1%}]"


def _nats(one: Estimate | None) -> str:
    return "-" if one is None or number(one.value) is None else f"{one.value:.3f}"


def _count(value: float) -> str:
    return f"{round(value):,}" if abs(value - round(value)) < 1e-9 else f"{value:,.1f}"


def _sign(ends: Interval) -> int:
    return -1 if ends.high < 0 else 1 if ends.low > 0 else 0
