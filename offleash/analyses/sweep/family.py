"""A family of runs: models at decodings, drawn and judged where that is not done yet, one model in memory at a time."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from offleash.analyses.sweep.runs import place
from offleash.analyses.sweep.weights import refuse_other_weights
from offleash.data.folder import is_run, open_run, read_problems
from offleash.data.run import Run
from offleash.data.samples import SAMPLES
from offleash.data.shards import scan_shards
from offleash.drawing.differences import refuse_other_problems
from offleash.drawing.draw import Drawing, DrawnRun, draw
from offleash.drawing.drawing import budget, check_draw, check_model
from offleash.drawing.resume import askable
from offleash.errors import OffleashError
from offleash.progress import Progress
from offleash.samplers.models import Model, open_sampler
from offleash.samplers.sampler import Decoding, Sampler
from offleash.verifying.cases import refuse_unreadable, subjects_of
from offleash.verifying.judge import Judge
from offleash.verifying.verify import Verifying, judge_of, verify_with


@dataclass(frozen=True)
class Member:
    """A model under its label."""

    label: str
    model: Model


@dataclass
class Family:
    """Runs of members at decodings, below one folder; made by `family`."""

    folder: Path
    problems: pl.DataFrame
    k: str
    seed: int
    verifying: Verifying
    judge: Judge
    progress: Progress
    new: int = 0  # samples drawn
    missing: int = 0  # samples that could not be drawn
    reasons: dict[str, int] = field(default_factory=dict)
    _open: tuple[str, Sampler] | None = None

    @property
    def budget(self) -> int:
        return budget(self.k, self.problems)

    def check(self, members: Sequence[Member], decodings: Sequence[Decoding]) -> None:
        """Refuse what can be told before the first sample, of every folder and model, and of how samples are judged."""
        if self.folder.is_file() or is_run(self.folder):
            what = "a file" if self.folder.is_file() else "a run"
            raise OffleashError(f"{self.folder} is {what}, and a sweep is a folder of runs; choose another with -o.")
        for member in members:
            for decoding in decodings:
                self._drawing(member, decoding)
            check_model(member.model)
            for decoding in decodings:
                refuse_other_weights(place(self.folder, member.label, decoding), member.model)
        options, where = self.verifying, "this sweep"
        subjects = subjects_of(askable(self.problems), options.verifier, options.ladder, where)
        refuse_unreadable(self.judge, subjects, where)

    def run(self, member: Member, decoding: Decoding, name: str, told: str) -> Run:
        """A member at a decoding as a run: drawn to k and judged, as far as that is missing."""
        folder = place(self.folder, member.label, decoding)
        drawing = self._drawing(member, decoding)

        def tell(text: str) -> None:
            self.progress(f"{told}: {text}")

        self.progress(told)
        if not self._complete(folder, member.model):
            sampler = self.sampler(member.model)
            self._count(draw(folder, self.problems, sampler, decoding, drawing, self.verifying, tell))
        judged = verify_with(self.judge, folder, self.verifying, tell)
        return open_run(folder, name, judged.verifier)

    def sampler(self, model: Model) -> Sampler:
        """The model, loaded; the one before it is freed."""
        if self._open is not None and self._open[0] == str(model):
            return self._open[1]
        self.close()
        self.progress(f"loading {model}")
        self._open = str(model), open_sampler(model)
        return self._open[1]

    def close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _drawing(self, member: Member, decoding: Decoding) -> Drawing:
        folder = place(self.folder, member.label, decoding)
        return check_draw(folder, self.problems, member.model, decoding, self.k, 0, self.seed)

    def _complete(self, folder: Path, model: Model) -> bool:
        """Whether a folder holds k samples of every problem from this very model, so that none need be loaded."""
        if not refuse_other_weights(folder, model):
            return False  # it is loaded, and `draw` tells what differs
        refuse_other_problems(folder, read_problems(folder), askable(self.problems), "run", "sweep")
        held = scan_shards(folder / "samples", SAMPLES).group_by("problem").agg(pl.len()).collect()
        return held.height == self.problems.height and int(held["len"].to_numpy().min()) >= self.budget

    def _count(self, drawn: DrawnRun) -> None:
        if not drawn.samples:
            why = "; ".join(drawn.reasons) or "nothing was asked for"
            raise OffleashError(f"{drawn.folder}: no sample could be drawn: {why}.")
        self.new += drawn.new
        self.missing += drawn.missing
        for reason, count in drawn.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count


@contextmanager
def family(
    folder: Path, problems: pl.DataFrame, k: str, seed: int, verifying: Verifying, progress: Progress
) -> Iterator[Family]:
    """A family with its workers, which are closed at the end with the last model."""
    with ExitStack() as stack:
        judge = stack.enter_context(judge_of(verifying, progress))
        made = Family(folder, problems, k, seed, verifying, judge, progress)
        stack.callback(made.close)
        yield made
