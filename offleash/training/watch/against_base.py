"""A training run against its base: P, E, S and O of each window, at the size of the training's own groups.

The base is a run folder, a log or counts of the same problems. A trainer's prompt is the question inside a chat
template, so a base question that a prompt contains stands for it; otherwise problems are matched as `compare` does.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl

from offleash.comparing.align import match
from offleash.comparing.tally import tally
from offleash.data.run import Run
from offleash.data.tables import as_problems, question_hash
from offleash.data.tally import tally_of_counts
from offleash.errors import OffleashError
from offleash.stats.change import support_change
from offleash.stats.intervals import Interval
from offleash.stats.pass_at_k import pass_at_k
from offleash.training.watch.rollouts import LoggedProblem
from offleash.training.watch.windows import WindowStats

SHORTEST_QUESTION = 12  # characters: shorter texts may be in a prompt by chance
REPLICATES = 2_000  # of the interval, which is computed again at every look


@dataclass(frozen=True)
class AgainstBase:
    """Classes of the problems of one window, at k samples of the base and of the training each."""

    first: int
    last: int
    k: int
    problems: int
    P: float
    E: float
    S: float
    O: float  # noqa: E741  the paper's name
    SRR: float
    SRR_interval: Interval
    redraw_S: (
        float | None
    )  # lost problems, and as many gained ones, if the base were drawn again; None: below 2k samples


class Base:
    """The base's counts, and which problem of a training run is which of its own."""

    def __init__(self, run: Run) -> None:
        self.name = run.name
        self._run = run
        counted = tally([run]).tally
        rows = zip(counted.problem_P, counted.drawn_PR[:, 0], counted.correct_PR[:, 0], strict=True)
        self._counts = {str(problem): (int(n), int(c)) for problem, n, c in rows}
        texts = [text for text in run.problems["question"].drop_nulls() if len(text.strip()) >= SHORTEST_QUESTION]
        self._questions = sorted({text.strip() for text in texts}, key=len, reverse=True)  # the longest match wins
        self._base_ids: dict[int, str] = {}  # the base's id of a problem of the training
        self._known = 0  # problems of the training that were looked up

    @property
    def matched(self) -> int:
        """Problems of the training that the base has."""
        return len(self._base_ids)

    def look_up(self, problems: list[LoggedProblem]) -> None:
        """Find the problems that are new; they are all matched again, since a match must be the only one."""
        if len(problems) == self._known:
            return
        self._known = len(problems)
        questions = [self._question_within(problem.question) for problem in problems]
        table = pl.DataFrame(
            {
                # an id of the log may be the base's; a number must not look like one of its ids
                "problem": [problem.label for problem in problems],
                "question": questions,
                "hash": [None if text is None else question_hash(text) for text in questions],
                "gold": [problem.gold for problem in problems],
                "benchmark": [problem.benchmark for problem in problems],
                "identity": [problem.identity for problem in problems],
                "contents": [problem.contents for problem in problems],
            },
            schema_overrides=dict.fromkeys(
                ("question", "hash", "gold", "benchmark", "identity", "contents"), pl.String
            ),
        )
        training = Run("training", as_problems(table).unique("problem", keep="first", maintain_order=True), None)
        try:
            pairs = match([self._run, training]).own[1]
        except OffleashError as error:
            raise OffleashError(
                f"None of the training run's {len(problems)} problems is in {self.name!r}: {error} Give a base with "
                "the same questions: a run folder, a log, or counts under the ids that the trainer logs."
            ) from None
        by_label = dict(pairs.select("own", "problem").rows())
        self._base_ids = {
            number: by_label[problem.label] for number, problem in enumerate(problems) if problem.label in by_label
        }

    def _question_within(self, prompt: str | None) -> str | None:
        """The question of the base that a prompt contains, else the prompt itself."""
        if prompt is None:
            return None
        return next((question for question in self._questions if question in prompt), prompt)

    def compare_window(self, window: WindowStats) -> AgainstBase | None:
        """The classes of a window's problems; None where the base has none of them."""
        k = window.group_size
        pairs = [
            (self._counts[self._base_ids[problem]], counts)
            for problem, counts in window.problems.items()
            if problem in self._base_ids
        ]
        pairs = [(base, now) for base, now in pairs if min(base[0], now[0]) >= k]
        if not pairs or not k:
            return None
        drawn_P2 = np.array([[base[0], now[0]] for base, now in pairs])
        correct_P2 = np.array([[base[1], now[1]] for base, now in pairs])
        counts = tally_of_counts(drawn_P2, correct_P2, runs=("base", "training"))
        change = support_change(counts, "base", "training", k=k, replicates=REPLICATES)
        pass_2k_P = pass_at_k(drawn_P2[:, 0], correct_P2[:, 0], 2 * k)  # NaN below 2k samples
        redraw = float((pass_2k_P - pass_at_k(drawn_P2[:, 0], correct_P2[:, 0], k)).sum())
        return AgainstBase(
            first=window.first,
            last=window.last,
            k=k,
            problems=len(pairs),
            P=change.P,
            E=change.E,
            S=change.S,
            O=change.O,
            SRR=change.value["SRR"],
            SRR_interval=change.interval["SRR"],
            redraw_S=None if np.isnan(redraw) else redraw,
        )
