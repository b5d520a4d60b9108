"""A look at a training run as a document, in words and as a table."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from offleash.logs.registry import FORMATS
from offleash.render.escape import clean
from offleash.render.json import SCHEMA, Json, encode
from offleash.render.numbers import many, short_name
from offleash.training.watch.against_base import AgainstBase
from offleash.training.watch.rollouts import TRAINERS, RolloutFolder
from offleash.training.watch.windows import Losses, Watch, WindowStats

# From where on a share of the newest window is worth a warning.
NO_SIGNAL, UNREAD, TRUNCATED, REPEATED = 0.5, 0.1, 0.1, 0.5
LISTED = 10  # problems solved before, in the terminal and on the page
WINDOWS_SHOWN = 12  # the newest, in the terminal
CHARACTERS = 34  # of a question
COLUMNS = (
    "steps",
    "samples",
    "pass@1",
    "pass@G",
    "all wrong",
    "all right",
    "entropy",
    "unread",
    "cut off",
    "repeats",
)


@dataclass(frozen=True)
class WatchWarning:
    """A warning: a name for programs and a sentence for people."""

    code: str
    text: str


@dataclass(frozen=True)
class LostProblem:
    """A problem that was solved before and not since, with its name and text."""

    problem: str
    question: str | None
    solved: int
    samples: int
    last_solved: int
    since: int
    chance: float


@dataclass(frozen=True)
class WatchedTraining:
    """One look at a training run."""

    folder: str
    trainer: str | None
    verifier: str | None  # whose verdicts count
    samples: int
    problems: int
    duplicates: int
    missing: int
    evaluation: bool  # whether the windows are of evaluations
    windows: tuple[WindowStats, ...]
    reads_answers: bool  # whether any sample had an answer; without one, nothing is known about answers
    losses: Losses
    lost: tuple[LostProblem, ...]
    warnings: tuple[WatchWarning, ...]
    base: str | None = None  # its name
    unmatched: int = 0  # problems that the base does not have
    against: tuple[AgainstBase, ...] = ()


def watched_training(
    watch: Watch, base: str | None = None, matched: int = 0, against: Sequence[AgainstBase] = ()
) -> WatchedTraining:
    """What a watch knows now."""
    folder, windows = watch.folder, tuple(watch.ordered)
    reads_answers = any(window.answered for window in windows)
    missing = overwritten(folder)
    lost = tuple(
        LostProblem(
            folder.problems[loss.problem].label,
            folder.problems[loss.problem].question,
            loss.solved,
            loss.samples,
            loss.last_solved,
            loss.since,
            loss.chance,
        )
        for loss in watch.losses.problems
    )
    warnings = [*window_warnings(windows, reads_answers), *loss_warnings(watch.losses), *file_warnings(watch, missing)]
    return WatchedTraining(
        folder=str(folder.folder),
        trainer=folder.trainer,
        verifier=folder.verifier,
        samples=sum(window.samples for window in windows),
        problems=watch.drawn,
        duplicates=sum(file.repeated for file in folder.files.values()),
        missing=missing + sum(file.damaged for file in folder.files.values()),
        evaluation=watch.only_evaluations,
        windows=windows,
        reads_answers=reads_answers,
        losses=watch.losses,
        lost=lost,
        warnings=tuple(warnings),
        base=base,
        unmatched=len(folder.problems) - matched if base is not None else 0,
        against=tuple(against),
    )


def overwritten(folder: RolloutFolder) -> int:
    """Training samples that TRL logged and an evaluation at the same step overwrote.

    TRL's file of a step holds its last batch of samples, whatever they are of: each sample of an evaluation in it
    stands in the place of one of the training, unless the file begins with a batch that was logged before.
    """
    files = [file for file in folder.files.values() if file.format is not None and file.format.name == "trl"]
    training_rows = [
        sum(len(samples) for batch, samples in file.samples.items() if not batch.evaluation) + file.repeated
        for file in files
    ]
    mixed = [any(batch.evaluation for batch in file.samples) for file in files]
    usual_rows = max((rows for rows, evaluated in zip(training_rows, mixed, strict=True) if not evaluated), default=0)
    return sum(
        max(usual_rows - rows, 0)
        for file, rows, evaluated in zip(files, training_rows, mixed, strict=True)
        if evaluated and not file.repeated
    )


# Warnings in words.


def window_warnings(windows: Sequence[WindowStats], reads_answers: bool) -> list[WatchWarning]:
    """What the newest window says about the training."""
    if not windows:
        return []
    newest = windows[-1]
    steps = _steps(newest)
    warnings = []
    if newest.all_wrong is not None and newest.all_right is not None:
        idle = newest.all_wrong + newest.all_right
        if idle >= NO_SIGNAL:
            shares_text = f"{newest.all_wrong:.0%} all wrong, {newest.all_right:.0%} all right"
            text = f"In {steps}, {idle:.0%} of the groups give no signal: {shares_text}."
            warnings.append(WatchWarning("no_signal", text))
    for code, share, limit, what in (
        ("unread", newest.unread if reads_answers else None, UNREAD, "have no readable answer"),
        ("truncated", newest.truncated, TRUNCATED, "were cut off at the length limit"),
        ("repeated", newest.repeated, REPEATED, "repeat the text of another sample of their group"),
    ):
        if share is not None and share >= limit:
            warnings.append(WatchWarning(code, f"In {steps}, {share:.0%} of the samples {what}."))
    return warnings


def loss_warnings(losses: Losses) -> list[WatchWarning]:
    """What was solved before and not since, beside what chance gives."""
    count = len(losses.problems)
    if not count:
        return []
    what = f"{many(count, 'problem')} solved in an earlier window {'was' if count == 1 else 'were'} not solved since"
    if losses.significant:
        text = (
            f"{what}; about {losses.expected:.1f} would be expected by chance if no rate fell. The loss is significant."
        )
        return [WatchWarning("lost", f"{text} Draw samples from a checkpoint and compare it with the base.")]
    text = (
        f"{what}; about {losses.expected:.1f} would be expected by chance if no rate fell, so this is not significant."
    )
    return [WatchWarning("solved_before", text)]


def file_warnings(watch: Watch, missing: int) -> list[WatchWarning]:
    """What was left out, and what will be tried again."""
    folder = watch.folder
    files = [file for file in folder.files.values() if file.format is not None]
    warnings = []
    if missing:
        text = f"{many(missing, 'training sample')} were overwritten by evaluations, which TRL logs to the same file."
        warnings.append(WatchWarning("overwritten", text))
    faults = [file for file in files if file.damaged]
    if faults:
        rows = sum(file.damaged for file in faults)
        fault = next(
            (file.fault for file in faults if file.fault), f"{faults[0].path.name} has a line that is not JSON"
        )
        warnings.append(WatchWarning("damaged", f"{many(rows, 'row')} cannot be read. The first: {clean(fault)}"))
    waiting = [file for file in folder.files.values() if file.waiting]
    if waiting:
        text = f"{many(len(waiting), 'file')} {'is' if len(waiting) == 1 else 'are'} still being written: "
        names = ", ".join(clean(file.path.name) for file in waiting[:3])
        warnings.append(WatchWarning("incomplete", f"{text}{names}. Complete rows are counted."))
    left_out = sum(
        len(samples)
        for file in files
        for batch, samples in file.samples.items()
        if batch.evaluation != watch.only_evaluations
    )
    if left_out:
        text = f"{many(left_out, 'sample')} from evaluations are left out of the windows, which cover training only."
        warnings.append(WatchWarning("evaluations", text))
    if unverified := sum(window.unverified for window in watch.windows.values()):
        text = f"{many(unverified, 'sample')} have no verdict and are left out of the rates."
        warnings.append(WatchWarning("unverified", text))
    return warnings


def nothing_recognised(folder: RolloutFolder) -> str:
    """What to say of a folder without rollouts: what is there, and what would be recognised."""
    pickles = [path.name for path in folder.folder.rglob("*") if path.suffix in (".pt", ".pkl", ".pickle")]
    file_names = sorted(path.name for path in folder.files)[:5]
    seen = (
        f"Its files {', '.join(map(clean, file_names))} do not come from any known trainer."
        if file_names
        else "It has no JSONL or Parquet files."
    )
    if pickles:
        seen += f" Pickles ({clean(sorted(pickles)[0])}) are never loaded: they can run any code."
    known = "; ".join(f"{FORMATS[name].name}: {FORMATS[name].examples[0]}" for name in TRAINERS)
    return (
        f"{folder.folder} has no rollouts. {seen} Recognised: {known}. TRL writes its files with "
        "log_completions=True, verl with trainer.rollout_data_dir."
    )


# The document.


def watch_document(look: WatchedTraining) -> Json:
    """A look as JSON."""
    document: Json = {
        "schema": SCHEMA,
        "trainer": look.trainer,
        "counts": {
            "samples": look.samples,
            "problems": look.problems,
            "duplicates": look.duplicates,
            "missing": look.missing,
        },
        "steps": [
            {
                "first": window.first,
                "last": window.last,
                "samples": window.samples,
                "pass@1": window.pass_1,
                "pass@G": window.pass_G,
                "all_wrong": window.all_wrong,
                "all_right": window.all_right,
                "answer_entropy": window.answer_entropy,
                "unread": window.unread if look.reads_answers else None,
                "truncated": window.truncated,
                "repeated": window.repeated,
            }
            for window in look.windows
        ],
        "solved_before": look.lost,
        "warnings": look.warnings,
    }
    if look.base is not None:
        document["base"] = {"run": look.base, "unmatched": look.unmatched, "steps": look.against}
    return encode(document)


# The table.


def watch_table(look: WatchedTraining) -> RenderableType:
    """A look for the terminal."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0))
    for name in COLUMNS:
        table.add_column(name.replace(" ", "\n"), justify="right", no_wrap=True)
    for window in look.windows[-WINDOWS_SHOWN:]:
        table.add_row(_steps(window, short=True), f"{window.samples:,}", *window_cells(window, look.reads_answers))
    parts: list[RenderableType] = [Text(f"{clean(look.folder)}: {title(look)}"), table]
    if look.against:
        parts.append(_base_table(look))
    parts += [Text(f"! {warning.text}", style="yellow") for warning in look.warnings]
    if look.lost:
        parts.append(_lost_table(look))
    return Group(*parts)


def title(look: WatchedTraining) -> str:
    """What was read, in a line."""
    kind = "evaluation samples" if look.evaluation else "rollouts"
    counted = f"{look.samples:,} {kind} of {many(look.problems, 'problem')}"
    repeats_text = f", {look.duplicates:,} logged again" if look.duplicates else ""
    return f"{counted}{repeats_text} ({look.trainer}; verdicts: {clean(look.verifier or 'none')})"


def window_cells(window: WindowStats, reads_answers: bool) -> list[str]:
    """The shares of a window as they are shown."""
    entropy = "-" if window.answer_entropy is None else f"{window.answer_entropy:.2f}"
    shares = (window.pass_1, window.pass_G, window.all_wrong, window.all_right)
    rest = (window.unread if reads_answers else None, window.truncated, window.repeated)
    return [*map(_percent, shares), entropy, *map(_percent, rest)]


def _base_table(look: WatchedTraining) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title=f"against {clean(look.base or '')}", title_justify="left")
    for name in ("steps", "k", "problems", "P", "E", "S", "O", "SRR", "S of a redraw"):
        table.add_column(name, justify="right")
    for row in look.against[-WINDOWS_SHOWN:]:
        table.add_row(*base_cells(row))
    return table


def base_cells(row: AgainstBase) -> list[str]:
    """The classes of a window as they are shown."""
    steps = str(row.first) if row.first == row.last else f"{row.first}-{row.last}"
    srr = "-" if row.SRR != row.SRR else f"{row.SRR:.2f} [{row.SRR_interval.low:.2f}, {row.SRR_interval.high:.2f}]"
    redraw = "-" if row.redraw_S is None else f"{row.redraw_S:.1f}"
    return [
        steps,
        str(row.k),
        str(row.problems),
        *(f"{cell:.1f}" for cell in (row.P, row.E, row.S, row.O)),
        srr,
        redraw,
    ]


def _lost_table(look: WatchedTraining) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="solved before and not since", title_justify="left")
    table.add_column("problem", no_wrap=True, overflow="ellipsis")
    for name in ("solved", "last at step", "samples since", "by chance"):
        table.add_column(name, justify="right")
    for loss in look.lost[:LISTED]:
        table.add_row(*lost_problem_cells(loss))
    return table


def lost_problem_cells(loss: LostProblem) -> list[str]:
    """A problem solved before as it is shown; texts of a log are data, cut and without control characters."""
    return [
        short_name(clean(loss.question or loss.problem), CHARACTERS),
        f"{loss.solved} of {loss.samples}",
        str(loss.last_solved),
        str(loss.since),
        f"{loss.chance:.2g}",
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.3g}%"


def _steps(window: WindowStats, short: bool = False) -> str:
    steps = str(window.first) if window.first == window.last else f"{window.first}-{window.last}"
    return steps if short else f"step{'' if window.first == window.last else 's'} {steps}"
