"""A sweep of decodings, for people and programs: tables, what they say in words, and JSON."""

from rich.console import Console, RenderableType
from rich.text import Text

from offleash.analyses.certificates.decoding_cutoff import estimate
from offleash.analyses.sweep.decoding_best import best_document, best_words
from offleash.analyses.sweep.decoding_match import match_finding, match_tables, matched_document
from offleash.analyses.sweep.points import Point
from offleash.analyses.sweep.runs import way
from offleash.analyses.sweep.sweep import Swept
from offleash.analyses.sweep.tables import change_table, ends_words, point_tables, sign
from offleash.comparing.json_sections import support_section
from offleash.render.escape import clean
from offleash.render.numbers import Json, count, duration, many, number
from offleash.stats.change import SupportChange
from offleash.stats.few import Estimate

SCHEMA = 1


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


def show_sweep(console: Console, one: Swept) -> None:
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


def finding(one: Swept) -> str:
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


def _metric(change: SupportChange) -> str:
    return ends_words(change.value["NSCR"], change.interval["NSCR"]).replace("\n", " ")


def _share(one: Estimate) -> str:
    return f"{one.value:.1%} [{one.interval.low:.1%}, {one.interval.high:.1%}]"
