"""A sweep as tables, text and JSON: every decoding, the best one of each model, and the entropy-matched comparison."""

from collections.abc import Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from offleash.analyses.certificates.report import estimate
from offleash.analyses.sweep.best import BestDecoding, BestDecodingCounts
from offleash.analyses.sweep.match import RUNS, EntropyMatch
from offleash.analyses.sweep.points import SweepPoint
from offleash.analyses.sweep.runs import way
from offleash.analyses.sweep.sweep import Sweep
from offleash.comparing.compare import Comparison
from offleash.comparing.json_sections import support_section
from offleash.render.escape import clean
from offleash.render.json import Json, count, number
from offleash.render.numbers import duration, many
from offleash.stats.change import SupportChange
from offleash.stats.intervals import Estimate, Interval

SCHEMA = 1


def swept_document(one: Sweep) -> Json:
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
            {"temperature": how.temperature, "top_p": how.top_p, "support": support_section(change)}
            for how, change in zip(one.decodings, one.changes, strict=False)
        ],
        "best": best_document(one.best),
        "matched": [matched_document(found) for found in one.matched],
        "unmatched": [
            {"temperature": how.temperature, "top_p": how.top_p, "reason": why} for how, why in one.unmatched
        ],
        "finding": finding(one),
        "notes": [{"text": note.text, "rows": note.rows, "left_out": note.left_out} for note in one.notes],
        "seconds": round(one.seconds, 3),
    }


def show_sweep(console: Console, one: Sweep) -> None:
    """Print the tables, then what was found."""
    labels = " → ".join(clean(member.label) for member in one.members)
    title = Text.assemble((labels, "bold"))
    title.append(f"   {many(one.problems, 'problem')}, k = {one.k:,}, {many(len(one.decodings), 'decoding')}", "dim")
    parts: list[RenderableType] = [title, *point_tables(one)]
    if one.changes:
        parts += [change_table(one), Text("")]
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


def finding(one: Sweep) -> str:
    """What the decoding does to each model, and to what is said of the two, in words."""
    said = [_reach(one, member.label) for member in one.members] if len(one.decodings) > 1 else []
    if one.changes:
        said += [_range(one)]
    if one.best is not None:
        said.append(best_words(one.best, [clean(member.label) for member in one.members]))
    said += [match_finding(found) for found in one.matched]
    if not said:
        point = one.points[0]
        said = [f"{clean(point.label)} reaches {_share(point.pass_k)} of the problems at {way(point.decoding)}."]
    return " ".join(said)


def _reach(one: Sweep, label: str) -> str:
    mine = one.of(label)
    most, least = (pick(mine, key=lambda point: point.pass_k.value) for pick in (max, min))
    if most.pass_k.value - least.pass_k.value < 1e-12:
        return f"{clean(label)} reaches {_share(most.pass_k)} of the problems at every decoding (k = {one.k:,})."
    return (
        f"{clean(label)} reaches {_share(most.pass_k)} of the problems at {way(most.decoding)} and "
        f"{_share(least.pass_k)} at {way(least.decoding)} (k = {one.k:,})."
    )


def _range(one: Sweep) -> str:
    """The change at equal decoding: between which values, and whether its sign is the same everywhere."""
    pairs = zip(one.changes, one.decodings, strict=True)
    known = [pair for pair in pairs if number(pair[0].value["NSCR"]) is not None]  # NaN has no place in an order
    known.sort(key=lambda pair: pair[0].value["NSCR"])
    if not known:
        return "At no decoding does either model reach a problem."
    (low, first), (high, last) = known[0], known[-1]
    if low is high:
        return f"At {way(first)} for both, net support changes by {_metric(low)}."
    signs = {sign(change.interval["NSCR"]) for change, _ in known}
    sure = {
        frozenset({-1}): "support shrinks for sure at every decoding (95% each)",
        frozenset({1}): "support grows for sure at every decoding (95% each)",
        frozenset({-1, 0}): "support shrinks for sure at some decodings, and grows for sure at none (95% each)",
        frozenset({1, 0}): "support grows for sure at some decodings, and shrinks for sure at none (95% each)",
        frozenset({0}): "at no decoding is its sign sure",
    }.get(frozenset(signs), "whether support shrinks or grows is the decoding's doing (each is sure at some, 95%)")
    span = f"from {_metric(low)} at {way(first)} to {_metric(high)} at {way(last)}"
    return f"At equal decoding the net support change (NSCR) goes {span}: {sure}."


def _point(point: SweepPoint, k: int) -> Json:
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


def _metric(change: SupportChange) -> str:
    return ends_words(change.value["NSCR"], change.interval["NSCR"]).replace("\n", " ")


def _share(one: Estimate) -> str:
    return f"{one.value:.1%} [{one.interval.low:.1%}, {one.interval.high:.1%}]"


# Each model at its own best decoding: on other problems, and on those that chose it.


SURE = {-1: "what is lost is not the decoding's doing alone", 1: "what is found is not the decoding's doing alone"}


def best_document(best: BestDecoding | None) -> Json | None:
    """The best decodings as JSON."""
    if best is None:
        return None
    sides = zip(("before", "after"), best.decoding, best.chosen, strict=True)
    return {
        "chosen": {
            side: {"temperature": how.temperature, "top_p": how.top_p, "share_of_halves": share}
            for side, how, share in sides
        },
        **_cells(best.fitted),
        "interval": {name: ends.to_json() for name, ends in best.interval.items()},
        "in_sample": _cells(best.in_sample),
        "halvings": best.halvings,
    }


def best_words(best: BestDecoding, names: Sequence[str]) -> str:
    """What is left of the difference at the best decodings, why it may look worse than all, and the flattered end."""
    before, after = names
    (first, second), fitted, flattered, ends = best.decoding, best.fitted, best.in_sample, best.interval["NSCR"]
    return (
        f"Each at its own best decoding (chosen on half of the problems and valued on the other half, "
        f"{best.halvings} halvings), {after} loses {fitted.S:.1f} of the {fitted.P + fitted.S:.1f} problems that "
        f"{before} reaches and gains {fitted.E:.1f}: NSCR {fitted.value['NSCR']:+.3f} [{ends.low:+.3f}, "
        f"{ends.high:+.3f}]; {SURE.get(sign(ends), 'the two cannot be told apart so')}. This can be worse than at "
        f"every single decoding, since what is best on one half need not be on the other. Chosen and valued on the "
        f"same problems ({before} at {way(first)}, {after} at {way(second)}), the optimistic end for both, {before} "
        f"reaches {flattered.value['before']:.1%} and {after} {flattered.value['after']:.1%}: NSCR "
        f"{_signed(flattered)}."
    )


def _cells(one: BestDecodingCounts) -> Json:
    return {
        **{cell: getattr(one, cell) for cell in "PESO"},
        **{name: number(value) for name, value in one.value.items()},
    }


def _signed(one: BestDecodingCounts) -> str:
    return "-" if number(one.value["NSCR"]) is None else f"{one.value['NSCR']:+.3f}"


# The entropy-matched comparison.


NONE = 0.05  # fewer problems than this are none


def matched_document(one: EntropyMatch) -> Json:
    """The comparison at equal entropy as JSON."""
    search, back = one.search, one.recovered
    return {
        "temperature": one.decoding.temperature,
        "top_p": one.decoding.top_p,
        "matched_temperature": search.temperature,
        "matched_interval": search.interval.to_json(),
        "target": search.target,
        "pilot_entropy": search.entropy,
        "pilot_error": number(search.error),
        "tolerance": search.tolerance,
        "pilot_samples": one.pilot,
        "pilots": [{"temperature": pilot.temperature, "entropy": pilot.mean} for pilot in search.pilots],
        "rising": search.rising,
        "entropy": {name: estimate(found) for name, found in one.entropy.items()},
        "entropy_gap": estimate(one.gap),
        "folders": {name: str(folder) for name, folder in one.folders.items()},
        "equal": _comparison(one.equal),
        "matched": _comparison(one.matched),
        "recovered": {
            "reached": back.reached,
            "lost": back.lost,
            "lost_matched": back.lost_matched,
            "back": back.back,
            "gone": back.gone,
            "by_chance": number(back.chance),
            "share": estimate(back.share),
        },
        "finding": match_finding(one),
    }


def match_finding(one: EntropyMatch) -> str:
    """How much of the loss goes away by decoding alone, in words."""
    search, back = one.search, one.recovered
    before, after = (clean(name) for name in one.names)
    ends = search.interval
    sure = "" if number(ends.low) is None else f" [{ends.low:.3f}, {ends.high:.3f}]"
    gap = one.gap
    matched = (
        f"At {way(one.decoding)} {before} has {one.entropy['before'].value:.3f} nats of entropy a token and {after} "
        f"{one.entropy['equal'].value:.3f}; {after} has as much as {before} at temperature {search.temperature:g}"
        f"{sure} (measured again on all its samples: {one.entropy['matched'].value:.3f}, {gap.value:+.3f} "
        f"[{gap.interval.low:+.3f}, {gap.interval.high:+.3f}])."
    )
    if not search.rising:
        matched += " Its entropy does not rise with temperature everywhere, so this is one of several matches."
    if back.lost < NONE:
        loss = f"At equal decoding {after} loses none of the {back.reached:.1f} problems that {before} reaches"
        return f"{matched} {loss}, so there is no loss that decoding could explain."
    share = back.share
    gone = f"{share.value:.0%} [{share.interval.low:.0%}, {share.interval.high:.0%}] of the loss goes away"
    gone = (
        gone if share.value >= 0 else f"no part of the loss goes away ({gone.removesuffix(' of the loss goes away')})"
    )
    return (
        f"{matched} Of the {count_words(back.reached)} problems that {before} reaches (k = {one.equal.change.k:,}), "
        f"{after} loses {count_words(back.lost)} at equal decoding and {count_words(back.lost_matched)} at equal "
        f"entropy: {_moved(one)}. By decoding alone {gone}{_reading(one)}."
    )


def match_tables(one: EntropyMatch) -> list[RenderableType]:
    """P, E, S, O and the ratios at equal decoding and at equal entropy, then entropy and pass@k of all three runs."""
    table = cells_table()
    for words, found in (("equal\ndecoding", one.equal), ("equal\nentropy", one.matched)):
        change = found.change
        ratios = [ends_words(change.value[name], change.interval[name]) for name in SHOWN]
        table.add_row(words, *(count_words(getattr(change, cell)) for cell in "PESO"), *ratios)
    title = Text(f"entropy-matched: {way(one.decoding)} against temperature {one.temperature:g}", style="bold")
    return [title, Text(""), table, _passes(one)]


def _passes(one: EntropyMatch) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    names = [clean(run.name) for run in (one.equal.before, one.equal.after, one.matched.after)]
    table.add_column("pass@k", justify="right", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", overflow="fold")
    curves = one.equal.curves["before"], one.equal.curves["after"], one.matched.curves["after"]
    for place, k in enumerate(curves[0].k_K):
        at = [curve.value_K[place] if place < len(curve.k_K) else float("nan") for curve in curves]
        table.add_row(f"{int(k)}", *("-" if number(value) is None else f"{value:.4f}" for value in at))
    table.add_section()
    table.add_row("token H", *(f"{one.entropy[name].value:.4f}" for name in RUNS))
    return table


def _comparison(one: Comparison) -> Json:
    before, after = one.curves["before"], one.curves["after"]
    return {
        "support": support_section(one.change),
        "pass_at_k": {
            side: {str(int(k)): number(float(value)) for k, value in zip(curve.k_K, curve.value_K, strict=True)}
            for side, curve in (("before", before), ("after", after))
        },
        "losses_at_least": one.evidence.losses_at_least,
        "gains_at_least": one.evidence.gains_at_least,
        "runs": {"before": one.before.name, "after": one.after.name},
    }


def _moved(one: EntropyMatch) -> str:
    """What comes back and what is lost, beside what a second draw of one and the same law would move."""
    back = one.recovered
    come, lost = ("comes" if back.back == 1 else "come"), ("other is" if back.gone == 1 else "others are")
    seen = f"{count_words(back.back)} {come} back, {count_words(back.gone)} {lost} lost"
    if number(back.chance) is None:
        return seen
    return f"{seen}, where drawing anew without any change would on average move {back.chance:.1f} each way"


def _reading(one: EntropyMatch) -> str:
    ends = one.recovered.share.interval
    if ends.low > 0:
        return "; surer tokens alone do not explain the rest" if ends.high < 1 else ""
    if ends.high < 0.5:
        return ": most of it stays, so surer tokens alone do not explain it"
    return "; whether any of it does cannot be told from these problems"


# Tables, narrow enough for a terminal of 80 columns: an interval is printed below its value.


SHOWN = ("SRR", "NDR", "NSCR")
TEXTS = ("token H", "answer H", "unread", "cut")  # nats, and shares of samples


def point_tables(one: Sweep) -> list[Table]:
    """What every model reaches at every decoding; then how sure it is of itself, and what could not be read."""
    reach, texts = _stands(("pass@1", f"pass@{one.k}", "95% interval", "reached")), _stands(TEXTS)
    for point in one.points:
        stand = (f"{point.decoding.temperature:g}", f"{point.decoding.top_p:g}", clean(point.label))
        ends, entropies = point.pass_k.interval, (point.token_entropy, point.answer_entropy)
        passes = (f"{found.value:.3f}" for found in (point.pass_1, point.pass_k))
        reach.add_row(*stand, *passes, f"[{ends.low:.3f}, {ends.high:.3f}]", count_words(point.reached))
        texts.add_row(*stand, *map(_nats, entropies), f"{point.unread:.1%}", f"{point.truncated:.1%}")
    return [reach, texts]


def change_table(one: Sweep) -> Table:
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
