"""A sweep as tables, text and JSON: every decoding, the best one of each model, and the entropy-matched comparison.

Documents are literals that are encoded once, in `sweep_document`; sections below it hand over estimates as they are.
"""

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from offleash.analyses.sweep.best import BestDecoding, BestDecodingCounts
from offleash.analyses.sweep.match import RUNS, EntropyMatch
from offleash.analyses.sweep.points import SweepPoint
from offleash.analyses.sweep.runs import decoding_label
from offleash.analyses.sweep.sweep import Sweep
from offleash.comparing.compare import Comparison
from offleash.comparing.json_sections import support_section
from offleash.render.escape import clean
from offleash.render.json import SCHEMA, Json, count, encode, number
from offleash.render.numbers import duration, many
from offleash.stats.change import SupportChange
from offleash.stats.intervals import Estimate, Interval


def sweep_document(sweep: Sweep) -> Json:
    """A sweep as JSON."""
    document: Json = {
        "schema": SCHEMA,
        "folder": sweep.folder,
        "models": {member.label: str(member.model) for member in sweep.members},
        "k": sweep.k,
        "problems": sweep.problems,
        "new": sweep.new,
        "missing": sweep.missing,
        "points": [_point_document(point, sweep.k) for point in sweep.points],
        "changes": [
            {"temperature": decoding.temperature, "top_p": decoding.top_p, "support": support_section(change)}
            for decoding, change in zip(sweep.decodings, sweep.changes, strict=False)
        ],
        "best": best_document(sweep.best),
        "matched": [matched_document(match) for match in sweep.matched],
        "unmatched": [
            {"temperature": decoding.temperature, "top_p": decoding.top_p, "reason": reason}
            for decoding, reason in sweep.unmatched
        ],
        "finding": finding(sweep),
        "notes": sweep.notes,
        "seconds": round(sweep.seconds, 3),
    }
    return encode(document)


def show_sweep(console: Console, sweep: Sweep) -> None:
    """Print the tables, then the finding."""
    labels = " → ".join(clean(member.label) for member in sweep.members)
    title = Text.assemble((labels, "bold"))
    title.append(
        f"   {many(sweep.problems, 'problem')}, k = {sweep.k:,}, {many(len(sweep.decodings), 'decoding')}", "dim"
    )
    parts: list[RenderableType] = [title, *point_tables(sweep)]
    if sweep.changes:
        parts += [change_table(sweep), Text("")]
    for match in sweep.matched:
        parts += match_tables(match)
    parts.append(Text(finding(sweep)))
    parts += [
        Text(f"! not matched at {decoding_label(decoding)}: {reason}", style="yellow")
        for decoding, reason in sweep.unmatched
    ]
    parts += [
        Text(f"· {clean(note.text)}{f' ({note.rows:,})' if note.rows else ''}", style="dim") for note in sweep.notes
    ]
    drawn = f"{many(sweep.new, 'sample')} drawn" if sweep.new else "no new samples drawn"
    parts.append(Text(f"{drawn}, {duration(sweep.seconds)}; the runs are in {sweep.folder}", style="dim"))
    for part in parts:
        console.print(part)


def finding(sweep: Sweep) -> str:
    """What the decoding does to each model and to the comparison of both, in sentences."""
    sentences = [_reach(sweep, member.label) for member in sweep.members] if len(sweep.decodings) > 1 else []
    if sweep.changes:
        sentences += [_range(sweep)]
    if sweep.best is not None:
        sentences.append(best_text(sweep.best, [clean(member.label) for member in sweep.members]))
    sentences += [match_finding(match) for match in sweep.matched]
    if not sentences:
        point = sweep.points[0]
        sentences = [
            f"{clean(point.label)} reaches {_share(point.pass_k)} of the problems at {decoding_label(point.decoding)}."
        ]
    return " ".join(sentences)


def _reach(sweep: Sweep, label: str) -> str:
    """The decodings at which a model reaches most and least."""
    points = sweep.of(label)
    best, worst = (select(points, key=lambda point: point.pass_k.value) for select in (max, min))
    if best.pass_k.value - worst.pass_k.value < 1e-12:
        return f"{clean(label)} reaches {_share(best.pass_k)} of the problems at every decoding (k = {sweep.k:,})."
    return (
        f"{clean(label)} reaches {_share(best.pass_k)} of the problems at {decoding_label(best.decoding)} and "
        f"{_share(worst.pass_k)} at {decoding_label(worst.decoding)} (k = {sweep.k:,})."
    )


def _range(sweep: Sweep) -> str:
    """The range of the net support change at equal decoding, and whether its sign is the same everywhere."""
    pairs = zip(sweep.changes, sweep.decodings, strict=True)
    known = [pair for pair in pairs if number(pair[0].value["NSCR"]) is not None]  # NaN has no place in an order
    known.sort(key=lambda pair: pair[0].value["NSCR"])
    if not known:
        return "Neither model solved any problem at any decoding."
    (low, first), (high, last) = known[0], known[-1]
    if low is high:
        return f"With both at {decoding_label(first)}, the net support change (NSCR) is {_metric(low)}."
    # Of whole intervals, each at 95%: no correction for looking at several decodings, hence "95% each".
    signs = {sign(change.interval["NSCR"]) for change, _ in known}
    reading = {
        frozenset({-1}): "significantly fewer problems are reached at every decoding (95% each)",
        frozenset({1}): "significantly more problems are reached at every decoding (95% each)",
        frozenset({-1, 0}): (
            "significantly fewer problems are reached at some decodings and significantly more at none (95% each)"
        ),
        frozenset({1, 0}): (
            "significantly more problems are reached at some decodings and significantly fewer at none (95% each)"
        ),
        frozenset({0}): "the change is not significant at any decoding",
    }.get(
        frozenset(signs),
        "whether fewer or more problems are reached depends on the decoding (significant in both directions, 95%)",
    )
    span = f"from {_metric(low)} at {decoding_label(first)} to {_metric(high)} at {decoding_label(last)}"
    return f"At equal decoding the net support change (NSCR) ranges {span}: {reading}."


def _point_document(point: SweepPoint, k: int) -> Json:
    return {
        "model": point.label,
        "temperature": point.decoding.temperature,
        "top_p": point.decoding.top_p,
        "folder": point.folder,
        "pass_at_1": point.pass_1,
        "pass_at_k": point.pass_k,
        "k": k,
        "reached": count(point.reached),
        "token_entropy": point.token_entropy,
        "answer_entropy": point.answer_entropy,
        "unread": point.unread,
        "failed": point.failed,
        "truncated": point.truncated,
    }


def _metric(change: SupportChange) -> str:
    return with_interval(change.value["NSCR"], change.interval["NSCR"]).replace("\n", " ")


def _share(share: Estimate) -> str:
    return f"{share.value:.1%} [{share.interval.low:.1%}, {share.interval.high:.1%}]"


# Each model at its own best decoding: on other problems, and on those that chose it.


# By the sign of NSCR's whole interval.
SIGN_CONCLUSIONS = {-1: "decoding alone does not explain the loss", 1: "decoding alone does not explain the gain"}


def best_document(best: BestDecoding | None) -> Json | None:
    """The best decodings as JSON, not yet encoded: cross-fitted counts at the top, in-sample ones beside them."""
    if best is None:
        return None
    sides = zip(("before", "after"), best.decoding, best.chosen, strict=True)
    return {
        "chosen": {
            side: {"temperature": decoding.temperature, "top_p": decoding.top_p, "share_of_halves": share}
            for side, decoding, share in sides
        },
        **_cells(best.fitted),
        "interval": best.interval,
        "in_sample": _cells(best.in_sample),
        "halvings": best.halvings,
    }


def best_text(best: BestDecoding, names: Sequence[str]) -> str:
    """What remains of the difference at the best decodings, why it may look worse than all, and the in-sample value."""
    before, after = names
    (first, second), fitted, in_sample, ends = best.decoding, best.fitted, best.in_sample, best.interval["NSCR"]
    return (
        f"Each at its own best decoding (chosen on one half of the problems, tested on the other, "
        f"{best.halvings} random splits), {after} loses {fitted.S:.1f} of the {fitted.P + fitted.S:.1f} problems that "
        f"{before} reaches and gains {fitted.E:.1f}: NSCR {fitted.value['NSCR']:+.3f} [{ends.low:+.3f}, "
        f"{ends.high:+.3f}]; {SIGN_CONCLUSIONS.get(sign(ends), 'the difference is not significant')}. This can be "
        "worse than at any single decoding, since what is best on one half need not be best on the other. Chosen and "
        f"tested on the same problems ({before} at {decoding_label(first)}, {after} at {decoding_label(second)}), "
        f"which favours both, {before} reaches {in_sample.value['before']:.1%} and {after} "
        f"{in_sample.value['after']:.1%}: NSCR {_signed_counts(in_sample)}."
    )


def _cells(counts: BestDecodingCounts) -> Json:
    return {**{cell: getattr(counts, cell) for cell in "PESO"}, **counts.value, "redraw": counts.redraw}


def _signed_counts(counts: BestDecodingCounts) -> str:
    return "-" if number(counts.value["NSCR"]) is None else f"{counts.value['NSCR']:+.3f}"


# The entropy-matched comparison.


NONE = 0.05  # expected problems lost below which the loss is printed as 0.0, so that no share of it has a meaning


def matched_document(match: EntropyMatch) -> Json:
    """The comparison at equal entropy as JSON, not yet encoded."""
    search, recovered = match.search, match.recovered
    return {
        "temperature": match.decoding.temperature,
        "top_p": match.decoding.top_p,
        "matched_temperature": search.temperature,
        "matched_interval": search.interval,
        "target": search.target,
        "pilot_entropy": search.entropy,
        "pilot_error": search.error,
        "tolerance": search.tolerance,
        "pilot_samples": match.pilot,
        "pilots": [{"temperature": pilot.temperature, "entropy": pilot.mean} for pilot in search.pilots],
        "rising": search.rising,
        "entropy": match.entropy,
        "entropy_gap": match.gap,
        "folders": match.folders,
        "equal": _comparison_json(match.equal),
        "matched": _comparison_json(match.matched),
        "recovered": {
            "reached": recovered.reached,
            "lost": recovered.lost,
            "lost_matched": recovered.lost_matched,
            "back": recovered.back,
            "gone": recovered.gone,
            "by_chance": recovered.chance,
            "share": recovered.share,
        },
        "finding": match_finding(match),
    }


def match_finding(match: EntropyMatch) -> str:
    """How much of the loss goes away at equal entropy, in sentences."""
    search, recovered = match.search, match.recovered
    before, after = (clean(name) for name in match.names)
    ends = search.interval
    interval_text = "" if number(ends.low) is None else f" [{ends.low:.3f}, {ends.high:.3f}]"
    gap = match.gap
    matched = (
        f"At {decoding_label(match.decoding)} {before} has {match.entropy['before'].value:.3f} nats of entropy per "
        f"token and {after} {match.entropy['equal'].value:.3f}; {after} matches {before} at temperature "
        f"{search.temperature:g}{interval_text} (measured on all samples drawn there: "
        f"{match.entropy['matched'].value:.3f}, {gap.value:+.3f} [{gap.interval.low:+.3f}, {gap.interval.high:+.3f}])."
    )
    if not search.rising:
        matched += (
            " Its entropy does not increase monotonically with temperature, so other temperatures may match as well."
        )
    if recovered.lost < NONE:
        loss = f"At equal decoding {after} loses none of the {recovered.reached:.1f} problems that {before} reaches"
        return f"{matched} {loss}, so there is no loss that decoding could explain."
    share = recovered.share
    part = f"{share.value:.0%} [{share.interval.low:.0%}, {share.interval.high:.0%}]"
    removed_text = f"removes {part} of the loss" if share.value >= 0 else f"removes none of the loss ({part})"
    return (
        f"{matched} Of the {count_text(recovered.reached)} problems that {before} reaches (k = "
        f"{match.equal.change.k:,}), {after} loses {count_text(recovered.lost)} at equal decoding and "
        f"{count_text(recovered.lost_matched)} at equal entropy: {_recovered_text(match)}. Matching entropy alone "
        f"{removed_text}{_interpretation(match)}."
    )


def match_tables(match: EntropyMatch) -> list[RenderableType]:
    """P, E, S, O and the ratios at equal decoding and at equal entropy, then entropy and pass@k of all three runs."""
    table = cells_table()
    for label, comparison in (("equal\ndecoding", match.equal), ("equal\nentropy", match.matched)):
        change = comparison.change
        table.add_row(label, *(count_text(getattr(change, cell)) for cell in "PESO"), *change_ratios(change))
    title = Text(
        f"entropy-matched: {decoding_label(match.decoding)} against temperature {match.temperature:g}", style="bold"
    )
    return [title, Text(""), table, _passes(match)]


def _passes(match: EntropyMatch) -> Table:
    """pass@k of the three runs, a dash where a run has fewer samples, and their token entropies."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    names = [clean(run.name) for run in (match.equal.before, match.equal.after, match.matched.after)]
    table.add_column("pass@k", justify="right", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", overflow="fold")
    curves = match.equal.curves["before"], match.equal.curves["after"], match.matched.curves["after"]
    for index, k in enumerate(curves[0].k_K):
        at = [curve.value_K[index] if index < len(curve.k_K) else float("nan") for curve in curves]
        table.add_row(f"{int(k)}", *("-" if number(value) is None else f"{value:.4f}" for value in at))
    table.add_section()
    table.add_row("token H", *(f"{match.entropy[name].value:.4f}" for name in RUNS))
    return table


def _comparison_json(comparison: Comparison) -> Json:
    """The sections of a comparison that a match needs; `offleash compare` of its folders gives all of them."""
    return {
        "support": support_section(comparison.change),
        "pass_at_k": {
            side: dict(zip(comparison.curves[side].k_K, comparison.curves[side].value_K, strict=True))
            for side in ("before", "after")
        },
        "losses_at_least": comparison.evidence.losses_at_least,
        "gains_at_least": comparison.evidence.gains_at_least,
        "runs": {"before": comparison.before.name, "after": comparison.after.name},
    }


def _recovered_text(match: EntropyMatch) -> str:
    """What comes back and what is lost, beside what resampling an unchanged model would move."""
    recovered = match.recovered
    verb, lost = ("comes" if recovered.back == 1 else "come"), ("other is" if recovered.gone == 1 else "others are")
    changes = f"{count_text(recovered.back)} {verb} back, {count_text(recovered.gone)} {lost} lost"
    if number(recovered.chance) is None:
        return changes
    return f"{changes}; resampling an unchanged model would move {recovered.chance:.1f} each way on average"


def _interpretation(match: EntropyMatch) -> str:
    """What the interval of the recovered share allows to conclude."""
    ends = match.recovered.share.interval
    # The interval decides, never the estimate: above 0 some of the loss goes away, below 1 not all of it.
    if ends.low > 0:
        return "; lower entropy alone does not explain the rest" if ends.high < 1 else ""
    if ends.high < 0.5:
        return "; most of it remains, so lower entropy alone does not explain it"
    return "; whether it removes any cannot be determined from these problems"


# Tables, narrow enough for a terminal of 80 columns: an interval is printed below its value.


SHOWN = ("SRR", "NDR", "NSCR")
POINT_COLUMNS = ("token H", "answer H", "unread", "truncated")  # nats, and shares of samples


def point_tables(sweep: Sweep) -> list[Table]:
    """What every model reaches at every decoding; then its entropies, and the shares that were unread or truncated."""
    reach, texts = _point_table(("pass@1", f"pass@{sweep.k}", "95% interval", "reached")), _point_table(POINT_COLUMNS)
    for point in sweep.points:
        key = (f"{point.decoding.temperature:g}", f"{point.decoding.top_p:g}", clean(point.label))
        ends, entropies = point.pass_k.interval, (point.token_entropy, point.answer_entropy)
        passes = (f"{rate.value:.3f}" for rate in (point.pass_1, point.pass_k))
        reach.add_row(*key, *passes, f"[{ends.low:.3f}, {ends.high:.3f}]", count_text(point.reached))
        texts.add_row(*key, *map(_nats_text, entropies), f"{point.unread:.1%}", f"{point.truncated:.1%}")
    return [reach, texts]


def change_table(sweep: Sweep) -> Table:
    """P, E, S, O and the ratios at every decoding for both, and at the best of each."""
    table = cells_table("at equal decoding")
    for decoding, change in zip(sweep.decodings, sweep.changes, strict=True):
        label = f"T {decoding.temperature:g}" + (f"\ntop-p {decoding.top_p:g}" if decoding.top_p < 1 else "")
        table.add_row(label, *(count_text(getattr(change, cell)) for cell in "PESO"), *change_ratios(change))
    if sweep.best is not None:
        fitted, in_sample = sweep.best.fitted, sweep.best.in_sample
        for label, counts, ends in (("cross-fitted", fitted, sweep.best.interval), ("in-sample", in_sample, {})):
            ratios = _ratios(counts.value, ends, counts.redraw or {})
            table.add_row(f"best,\n{label}", *(count_text(getattr(counts, cell)) for cell in "PESO"), *ratios)
    return table


def change_ratios(change: SupportChange) -> list[str]:
    """The ratios of a support change as cells of a table, SRR with that of an unchanged model below it."""
    return _ratios(change.value, change.interval, {} if change.redraw is None else change.redraw.value)


def _ratios(value: Mapping[str, float], ends: Mapping[str, Interval], redraw: Mapping[str, float]) -> list[str]:
    cells = [with_interval(value[name], ends.get(name)) for name in SHOWN]
    same = redraw.get("SRR", float("nan"))
    return cells if number(same) is None else [f"{cells[0]}\nunchanged {same:.3f}", *cells[1:]]


def cells_table(title: str | None = None) -> Table:
    """A table for P, E, S, O and the ratios with what they are of on the left."""
    # no padding: the box itself leaves a column between two
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, title=title, title_justify="left")
    table.add_column("")
    for name in (*"PESO", *SHOWN):
        table.add_column(name, justify="right", min_width=3)
    return table


def with_interval(value: float, ends: Interval | None) -> str:
    """A value above its interval, where it has one."""
    if number(value) is None:
        return "-"
    return f"{value:.3f}" if ends is None else f"{value:.3f}\n[{ends.low:.3f}, {ends.high:.3f}]"


def count_text(value: float) -> str:
    """A number of problems: whole where it is whole."""
    return f"{round(value):,}" if abs(value - round(value)) < 1e-9 else f"{value:,.1f}"


def sign(ends: Interval) -> int:
    """The sign that all of an interval has; 0 where it holds 0."""
    return -1 if ends.high < 0 else 1 if ends.low > 0 else 0


def _point_table(names: Sequence[str]) -> Table:
    """A table with a row for every model and decoding: a long name of a model is folded, numbers never are."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("T", "top-p", "model", *names):
        is_model_column = name == "model"
        table.add_column(
            name, justify="left" if is_model_column else "right", no_wrap=not is_model_column, overflow="fold"
        )
    return table


def _nats_text(entropy: Estimate | None) -> str:
    return "-" if entropy is None or number(entropy.value) is None else f"{entropy.value:.3f}"
