"""The entropy-matched comparison, for people and programs."""

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from offleash.analyses.certificates.decoding_cutoff import estimate
from offleash.analyses.sweep.match import RUNS, Matched
from offleash.analyses.sweep.runs import way
from offleash.analyses.sweep.tables import SHOWN, cells_table, count_words, ends_words
from offleash.comparing.compare import Comparison
from offleash.comparing.json_sections import support_section
from offleash.render.escape import clean
from offleash.render.numbers import Json, number

NONE = 0.05  # fewer problems than this are none


def matched_document(one: Matched) -> Json:
    """The comparison at equal entropy as JSON."""
    search, back = one.search, one.recovered
    return {
        "temperature": one.decoding.temperature,
        "top_p": one.decoding.top_p,
        "matched_temperature": search.temperature,
        "matched_interval": search.interval.pair(),
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


def match_finding(one: Matched) -> str:
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


def match_tables(one: Matched) -> list[RenderableType]:
    """P, E, S, O and the ratios at equal decoding and at equal entropy, then entropy and pass@k of all three runs."""
    table = cells_table()
    for words, found in (("equal\ndecoding", one.equal), ("equal\nentropy", one.matched)):
        change = found.change
        ratios = [ends_words(change.value[name], change.interval[name]) for name in SHOWN]
        table.add_row(words, *(count_words(getattr(change, cell)) for cell in "PESO"), *ratios)
    title = Text(f"entropy-matched: {way(one.decoding)} against temperature {one.temperature:g}", style="bold")
    return [title, Text(""), table, _passes(one)]


def _passes(one: Matched) -> Table:
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


def _moved(one: Matched) -> str:
    """What comes back and what is lost, beside what a second draw of one and the same law would move."""
    back = one.recovered
    come, lost = ("comes" if back.back == 1 else "come"), ("other is" if back.gone == 1 else "others are")
    seen = f"{count_words(back.back)} {come} back, {count_words(back.gone)} {lost} lost"
    if number(back.chance) is None:
        return seen
    return f"{seen}, where drawing anew without any change would on average move {back.chance:.1f} each way"


def _reading(one: Matched) -> str:
    ends = one.recovered.share.interval
    if ends.low > 0:
        return "; surer tokens alone do not explain the rest" if ends.high < 1 else ""
    if ends.high < 0.5:
        return ": most of it stays, so surer tokens alone do not explain it"
    return "; whether any of it does cannot be told from these problems"
