"""Flips as JSON and in the terminal: the table under every alternative, and the problems to review."""

from collections.abc import Sequence

import numpy as np
from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from offleash.comparing.flip_samples import DecidingSample, VerifierOpinion
from offleash.comparing.flips import Alternative, Flip, Flips
from offleash.render.escape import clean
from offleash.render.json import Json, encode
from offleash.render.numbers import many
from offleash.stats.change import METRICS

MOST = 20  # problems shown in a terminal; --json has all
CELLS = ("P", "E", "S", "O")


def flips_json(flips: Flips) -> Json:
    """The flips of a comparison for `compare --flips --json`."""
    section: Json = encode(
        {
            "k": flips.k,
            "now": _table_json(flips.now),
            "alternatives": [_table_json(alternative) for alternative in flips.alternatives],
            "not_tried": flips.untried,
            "to_review": len(flips.to_review),
            "problems": [_flip_json(flip) for flip in flips.problems],
        }
    )
    return section


def show_flips(console: Console, flips_of_each: Sequence[Flips]) -> None:
    """Print the tables and the first problems of the review list; of several comparisons, of the last."""
    if not flips_of_each:
        return
    flips = flips_of_each[-1]
    title = Text.assemble(("Which classes depend on how samples are judged?", "bold"))
    title.append(f"   {clean(flips.before)} → {clean(flips.after)}, the first {flips.k} samples of each problem", "dim")
    parts: list[RenderableType] = [Text(""), title]
    if any(alternative.flips for alternative in flips.alternatives):
        parts.append(_table(flips))
    parts += [Text(line) for line in _summary(flips)]
    parts += [
        part for number, flip in enumerate(flips.to_review[:MOST], 1) for part in _flip_lines(number, flip, flips)
    ]
    if len(flips.to_review) > MOST:
        parts.append(Text(f"and {len(flips.to_review) - MOST:,} more; --json has all"))
    parts += [Text(f"· {line}", style="dim") for line in _untried_lines(flips)]
    console.print(Group(*parts))


def cautions(flips: Flips) -> list[str]:
    """The flips in a sentence for the warnings of a page; none where no class depends on how samples are judged.

    An alternative under which nothing is reached (the one step that reads all answers left out) is ignored.
    """
    shown_alternatives = {
        alternative.name for alternative in flips.alternatives if any(alternative.cells[name] for name in "PES")
    }
    review = [flip for flip in flips.to_review if shown_alternatives & flip.under.keys()]
    if not review:
        return []
    changed = sum(flip.now in ("E", "S") for flip in review)
    changed_text = f", {changed:,} of them currently lost or gained" if changed else ""
    first = ", ".join(clean(flip.problem)[:60] for flip in review[:3])
    return [
        f"The class of {_problems(len(review))} depends on how samples are judged{changed_text}: {first}"
        f"{', ...' if len(review) > 3 else ''}. offleash compare --flips shows the deciding samples."
    ]


def _table_json(alternative: Alternative) -> Json:
    """The table under one alternative."""
    return {
        "name": alternative.name,
        "kind": alternative.kind or "now",
        **{name: alternative.cells[name] for name in CELLS},
        "undetermined": alternative.cells["U"],
        **{name: alternative.value[name] for name in METRICS},
        "flips": alternative.flips,
        "review": alternative.review,
        "unchecked": alternative.unchecked,
    }


def _flip_json(flip: Flip) -> Json:
    """A list of named pairs where Python has a mapping: names of verifiers are data, and keys of JSON are not."""
    samples = [
        vars(sample) | {"others": [{"verifier": name} | vars(view) for name, view in sample.others.items()]}
        for sample in flip.samples
    ]
    return vars(flip) | {
        "under": [{"alternative": name, "class": letter} for name, letter in flip.under.items()],
        "correct": {"before": flip.correct[0], "after": flip.correct[1]},
        "samples": samples,
    }


def _table(flips: Flips) -> Table:
    """Classes and rates as judged now and under every alternative that changes any."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("", overflow="fold", min_width=16)
    undetermined = any(alternative.cells["U"] for alternative in (flips.now, *flips.alternatives))
    for column in (*CELLS, *(["?"] if undetermined else []), *METRICS, "flips"):
        table.add_column(column, justify="right", no_wrap=True)
    for alternative in (flips.now, *(alternative for alternative in flips.alternatives if alternative.flips)):
        cells = [f"{alternative.cells[name]:,}" for name in (*CELLS, *(["U"] if undetermined else []))]
        values = ["-" if np.isnan(alternative.value[name]) else f"{alternative.value[name]:.3f}" for name in METRICS]
        table.add_row(
            clean(alternative.name), *cells, *values, f"{alternative.flips:,}" if alternative.kind is not None else ""
        )
    return table


def _summary(flips: Flips) -> list[str]:
    """What changes nothing, what could not be judged in full, and how many problems to review."""
    same = [clean(alternative.name) for alternative in flips.alternatives if not alternative.flips]
    lines = [f"No class changes under: {', '.join(same)}."] if same else []
    lines += [
        f"{clean(alternative.name)} has not judged all samples of {_problems(alternative.unchecked)}, "
        "which keep their class."
        for alternative in flips.alternatives
        if alternative.unchecked
    ]
    formats = len(flips.problems) - len(flips.to_review)
    if formats:
        verb = "changes" if formats == 1 else "change"
        lines.append(f"{_problems(formats)} {verb} class only if a whole answer format is ignored (see --json).")
    if flips.to_review:
        first = "E and S first, then by the number of deciding samples"
        lines.append(f"{_problems(len(flips.to_review))} to review, {first}:")
    elif flips.alternatives:
        lines.append("No problem needs review.")
    else:
        lines.append("No alternative could be tried.")
    return lines


def _flip_lines(number: int, flip: Flip, flips: Flips) -> list[RenderableType]:
    """One entry of the review list: the classes it turns into, and the samples that decide."""
    reviewed = {alternative.name for alternative in flips.alternatives if alternative.review}
    head = Text(f"{number:>3}. ")
    head.append(clean(flip.problem), "bold")
    by_class: dict[str, list[str]] = {}
    for name, letter in ((name, letter) for name, letter in flip.under.items() if name in reviewed):
        by_class.setdefault("undetermined" if letter == "U" else letter, []).append(clean(name))
    class_texts = "; ".join(f"{letter} ({', '.join(names)})" for letter, names in by_class.items())
    gold = "" if flip.gold is None else f"   gold {flip.gold}"
    head.append(f"   {'undetermined' if flip.now == 'U' else flip.now} → {class_texts}{gold}")
    lines = [Padding(Text("\n".join(_sample(sample))), (0, 0, 0, 5), expand=False) for sample in flip.samples]
    if flip.deciding > len(flip.samples):
        lines.append(Padding(Text(f"{flip.deciding:,} samples decide it", "dim"), (0, 0, 0, 5), expand=False))
    return [head, *lines]


def _sample(sample: DecidingSample) -> list[str]:
    """One deciding sample: what each verifier decided, and the text around the answer."""
    facts = [f"{clean(sample.run)} {sample.index}: {sample.verdict or 'not judged'}"]
    if sample.reason:
        facts.append(sample.reason)
    if sample.answer is not None:
        facts.append(f"answer {sample.answer}{f' (step {clean(sample.step)})' if sample.step else ''}")
    if sample.alike > 1:
        facts.append(f"{sample.alike} with this answer")
    if sample.finish == "length":
        facts.append("truncated")
    facts += [f"{clean(name)}: {_opinion(other)}" for name, other in sample.others.items()]
    return [", ".join(facts), *([f"  {sample.text}"] if sample.text else [])]


def _opinion(other: VerifierOpinion) -> str:
    """What another verifier decided, the answer it read, and its reason."""
    read = "" if other.answer is None else f" ({other.answer})"
    return f"{other.verdict or 'not judged'}{read}{f', {other.reason}' if other.reason else ''}"


def _untried_lines(flips: Flips) -> list[str]:
    """Alternatives that could not be tried, with the command that would allow them."""
    steps = [f" ({clean(missing.next_step)})" if missing.next_step else "" for missing in flips.untried]
    pairs = zip(flips.untried, steps, strict=True)
    return [f"not tried: {clean(missing.what)}: {clean(missing.reason)}{step}" for missing, step in pairs]


def _problems(count: int) -> str:
    return many(count, "problem")
