"""Tables of a sweep, narrow enough for a terminal of 80 columns: an interval stands below its value."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from offleash.analyses.sweep.sweep import Swept
from offleash.render.escape import clean
from offleash.render.numbers import number
from offleash.stats.few import Estimate
from offleash.stats.intervals import Interval

SHOWN = ("SRR", "NDR", "NSCR")
TEXTS = ("token H", "answer H", "unread", "cut")  # nats, and shares of samples


def point_tables(one: Swept) -> list[Table]:
    """What every model reaches at every decoding; then how sure it is of itself, and what could not be read."""
    reach, texts = _stands(("pass@1", f"pass@{one.k}", "95% interval", "reached")), _stands(TEXTS)
    for point in one.points:
        stand = (f"{point.decoding.temperature:g}", f"{point.decoding.top_p:g}", clean(point.label))
        ends, entropies = point.pass_k.interval, (point.token_entropy, point.answer_entropy)
        passes = (f"{found.value:.3f}" for found in (point.pass_1, point.pass_k))
        reach.add_row(*stand, *passes, f"[{ends.low:.3f}, {ends.high:.3f}]", count_words(point.reached))
        texts.add_row(*stand, *map(_nats, entropies), f"{point.unread:.1%}", f"{point.truncated:.1%}")
    return [reach, texts]


def change_table(one: Swept) -> Table:
    """P, E, S, O and the ratios at every decoding for both, and at the best of each."""
    table = cells_table("at equal decoding")
    for how, change in zip(one.decodings, one.changes, strict=True):
        words = f"T {how.temperature:g}" + (f"\ntop-p {how.top_p:g}" if how.top_p < 1 else "")
        ratios = [ends_words(change.value[name], change.interval[name]) for name in SHOWN]
        table.add_row(words, *(count_words(getattr(change, cell)) for cell in "PESO"), *ratios)
    if one.best is not None:
        fitted, flattered = one.best.fitted, one.best.in_sample
        ratios = [ends_words(fitted.value[name], one.best.interval[name]) for name in SHOWN]
        table.add_row("best, chosen\non others", *(count_words(getattr(fitted, cell)) for cell in "PESO"), *ratios)
        ratios = [ends_words(flattered.value[name], None) for name in SHOWN]
        table.add_row("best, chosen\non the same", *(count_words(getattr(flattered, cell)) for cell in "PESO"), *ratios)
    return table


def cells_table(title: str | None = None) -> Table:
    """A table for P, E, S, O and the ratios with what they are of on the left."""
    # no padding: the box itself leaves a column between two
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, title=title, title_justify="left")
    table.add_column("")
    for name in (*"PESO", *SHOWN):
        table.add_column(name, justify="right", min_width=3)
    return table


def ends_words(value: float, ends: Interval | None) -> str:
    """A value above its interval, where it has one."""
    if number(value) is None:
        return "-"
    return f"{value:.3f}" if ends is None else f"{value:.3f}\n[{ends.low:.3f}, {ends.high:.3f}]"


def count_words(value: float) -> str:
    """A number of problems: whole where it is whole."""
    return f"{round(value):,}" if abs(value - round(value)) < 1e-9 else f"{value:,.1f}"


def sign(ends: Interval) -> int:
    """The sign that all of an interval has; 0 where it holds 0."""
    return -1 if ends.high < 0 else 1 if ends.low > 0 else 0


def _stands(names: Sequence[str]) -> Table:
    """A table with a row for every model and decoding: a long name of a model is folded, numbers never are."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("T", "top-p", "model", *names):
        wide = name == "model"
        table.add_column(name, justify="left" if wide else "right", no_wrap=not wide, overflow="fold")
    return table


def _nats(one: Estimate | None) -> str:
    return "-" if one is None or number(one.value) is None else f"{one.value:.3f}"
