r"""A comparison as rows of a LaTeX table, in the layout of Table 1 of arXiv:2507.14843.

\begin{tabular}{llrrrrrrrr} \toprule ... \midrule \input{rows} \bottomrule \end{tabular}
"""

import math
from collections.abc import Sequence

from offleash.comparing.compare import Comparison
from offleash.comparing.sentences import SPELT_OUT, redraw_rates
from offleash.render.escape import tex
from offleash.reporting.markdown import cells, rule_in_words, targets
from offleash.stats.change import METRICS, SupportChange
from offleash.stats.intervals import Interval
from offleash.version import __version__

# the order of Table 1 of the paper
COLUMNS = ("model", "domain", *METRICS, "P", "E", "S", "O")
OVERALL_DOMAIN = "Overall"  # the domain of the row over all benchmarks
UNDEFINED_TEXT = "--"  # an en dash in LaTeX


def latex(comparisons: Sequence[Comparison], intervals: bool = False) -> str:
    """LaTeX rows: for each comparison one per benchmark and one over all problems.

    Args:
        comparisons: each against the same first run.
        intervals: put the 95% interval beside each rate.
    """
    lines = [
        f"% {' & '.join(COLUMNS)} \\\\",
        f"% {', '.join(f'{short}: {name}' for short, name in SPELT_OUT.items())}",
        "% unchanged: what two draws of one model would show in place of the two runs",
        "% P: preserved, E: gained, S: lost, O: neither; counts with a decimal are means over all subsets of k samples",
        *map(_scope_comment, comparisons),
        f"% offleash {__version__}",
    ]
    # only rows are written, without a tabular around them: papers have their own column layout
    for number, comparison in enumerate(comparisons):
        if number:
            lines.append("\\midrule")
        lines += rows(comparison, intervals)
    return "\n".join(lines) + "\n"


def rows(comparison: Comparison, intervals: bool = False) -> list[str]:
    """The rows of one comparison: its benchmarks, then all of it; one row where there is one benchmark."""
    model, several = comparison.change.after, len(comparison.benchmarks) > 1
    out = [row(model, part.name, part.change, intervals) for part in comparison.benchmarks] if several else []
    # with one benchmark, a row for it and one overall would be the same row twice
    alone = OVERALL_DOMAIN if several or not comparison.benchmarks else comparison.benchmarks[0].name
    return [*out, row(model, alone, comparison.change, intervals)]


def row(model: str, domain: str, change: SupportChange, intervals: bool = False) -> str:
    """One row, ended as LaTeX ends it."""
    names = [tex(model), tex(domain) or OVERALL_DOMAIN]
    metrics = [_metric(change.value[name], change.interval[name] if intervals else None) for name in METRICS]
    same = ", ".join(f"{name} {value:.2f}" for name, value in redraw_rates(change).items())
    # the layout is the paper's, so what an unchanged model drawn twice would show goes behind the row, as a comment
    return (
        " & ".join([*names, *metrics, *map(_number_cell, cells(change))]) + r" \\" + (same and f" % unchanged: {same}")
    )


def _scope_comment(comparison: Comparison) -> str:
    """A comment with what the numbers depend on: k, rule, target."""
    change = comparison.change
    runs = f"{tex(change.before)} -> {tex(change.after)}"
    per = f"per {change.per.value}, {targets(comparison)}"
    return f"% {runs}: k = {change.k}, rule {change.rule.value} (reached: {tex(rule_in_words(comparison))}), {per}"


def _metric(value: float, ends: Interval | None) -> str:
    """A rate, with its interval where it is wanted and known."""
    if math.isnan(value):
        return UNDEFINED_TEXT
    if ends is None or math.isnan(ends.low):
        return _number(value)
    return f"{_number(value)} {{\\scriptsize [{_number(ends.low)}, {_number(ends.high)}]}}"


def _number(value: float) -> str:
    """Two digits, as in the paper, which prints a small loss as -0.00; the minus is one of mathematics."""
    text = f"{value:.2f}"
    return f"${text}$" if text.startswith("-") else text


def _number_cell(value: float) -> str:
    """A count without thousands separators, which siunitx would read as decimal commas."""
    if math.isnan(value):
        return UNDEFINED_TEXT
    return f"{round(value)}" if abs(value - round(value)) < 1e-9 else f"{value:.1f}"
