"""Single runs: load one, count its samples, look at the samples of a problem."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from offleash.errors import OffleashError
from offleash.options import At, Data, Flag, Reading, Verdicts
from offleash.progress import Progress, silent
from offleash.signatures import verb

if TYPE_CHECKING:
    import polars as pl

    from offleash.data.run import Run
    from offleash.data.tally import Tally
    from offleash.results.samples import ShowResult

SHOWN_VERDICTS = ("correct", "wrong", "unread", "failed", "all")


@verb
def show(
    run: Annotated["str | Path | Run", Data("RUN", "A run folder, a log file, a folder of logs or a quoted glob.")],
    problem: Annotated[str, Data("PROBLEM", "The id of a problem, as `compare --list` prints it.")],
    *,
    verdict: Annotated[str, Flag("Which samples to print.", choices=SHOWN_VERDICTS)] = "correct",
    most: Annotated[int, Flag("Maximum number of samples to print.", metavar="N", least=1)] = 3,
    verdicts: Verdicts = None,
    reading: Reading = Reading(),
    progress: Progress = silent,
) -> "ShowResult":
    """Print samples of one problem, with their texts: how was it solved?

    Examples:
      offleash compare runs/base runs/rl --list lost         (which problems were lost)
      offleash show runs/base aime24-7                       (how the base solved one of them)
      offleash show runs/rl aime24-7 --verdict wrong --most 10
      offleash show logs/base.jsonl 17 --verdict all --json

    In Python:
      >>> written = Path("log.jsonl").write_text('{"id": "sum", "response": "1+1 is 2", "correct": true}')
      >>> [(sample.index, sample.verdict, sample.text) for sample in ol.show("log.jsonl", "sum").samples]
      [(0, 'correct', '1+1 is 2')]
    """
    from offleash.loading.load import load_options
    from offleash.reporting.show import shown_problem
    from offleash.results.samples import ShowResult

    options = load_options((run,), reading, None, verdicts)
    return ShowResult(shown_problem(run, str(problem), verdict, most, options, progress))


# For notebooks: the command line has no verb for these.


@verb
def load(
    path: "str | Path | pl.DataFrame",
    *,
    name: str | None = None,
    verdicts: Verdicts = None,
    reading: Reading = Reading(),
    progress: Progress = silent,
) -> "Run":
    """One run, from a run folder, a log file, a folder of logs, a glob, a file of counts or a frame of them.

    In Python:
      >>> base = ol.load("examples/counts/base.csv", name="base")
      >>> base.name, base.counts.columns, base.counts.height
      ('base', ['problem', 'n', 'c'], 200)
    """
    from dataclasses import replace

    from offleash.loading.load import load as load_runs
    from offleash.loading.load import load_options, run_inputs

    inputs = run_inputs((path,))
    runs = load_runs(*inputs, options=load_options(inputs, reading, None, verdicts), progress=progress)
    if len(runs) != 1:
        raise OffleashError(f"{path} holds {len(runs)} runs. Load them separately.")
    return replace(runs[0], name=name or runs[0].name)


@verb
def tally(runs: "Mapping[str, Run]", *, at: At = None) -> "Tally":
    """How many samples of each problem were drawn and how many were correct, in runs named by the keys.

    In Python:
      >>> counts = ol.tally({"base": ol.load("examples/counts/base.csv"), "rl": ol.load("examples/counts/rl.csv")})
      >>> counts.runs, counts.correct_PR.shape
      (('base', 'rl'), (200, 2))
    """
    from dataclasses import replace

    from offleash.comparing.tally import tally as count

    if not runs:
        raise OffleashError("A tally needs at least one run: tally({'base': load(...), 'rl': load(...)}).")
    return count([replace(run, name=name) for name, run in runs.items()], at).tally
