"""The main loop of a draw: requests to sampler workers, samples to writer and judge, verdicts to the schedule.

Runs in the thread that writes; samplers and judge have their own (drawing/workers.py). `DrawProgress` reports samples,
tokens per second, problems settled and reached, and time left.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from offleash.data.run_folder import RunFolder
from offleash.data.verdict import Verdict
from offleash.drawing.duplicates import Duplicates
from offleash.drawing.resume import OpenRun, problem_seed
from offleash.drawing.schedule import Chunk, Schedule, Stage
from offleash.drawing.workers import BatchDone, Event, JudgeQueue, JudgingFailed, SamplerWorkers, VerdictsReady
from offleash.drawing.writer import Writer
from offleash.errors import OffleashError
from offleash.progress import Progress
from offleash.render.numbers import duration
from offleash.samplers.sampler import DrawnChunk, Request, Sampler, SamplingParams

OFTEN = 0.5  # seconds between two words


@dataclass
class DrawProgress:
    """Tells how a draw goes."""

    progress: Progress
    schedule: Schedule
    before: int  # samples that were there
    started: float = field(default_factory=time.monotonic)
    _last: float = 0.0

    def tell(self, samples: int, tokens: int) -> None:
        """Say how far it is, when it is time to: samples and tokens of this draw."""
        now = time.monotonic()
        if now - self._last < OFTEN:
            return
        self._last = now
        self.progress(self.words(samples, tokens, now - self.started))

    def words(self, samples: int, tokens: int, seconds: float) -> str:
        schedule = self.schedule
        told = [f"{self.before + samples:,} of at most {max(schedule.most, self.before + samples):,} samples"]
        if seconds > 0 and tokens:
            told.append(f"{tokens / seconds:,.0f} tokens/s")
        told.append(f"{schedule.count(Stage.SETTLED)} of {len(schedule.records)} problems settled")
        if schedule.until:
            told.append(f"{schedule.reached} reached")
        if samples and seconds > 0:
            told.append(f"about {duration(schedule.expected() * seconds / samples)} left")
        return ", ".join(told)


BACKLOG = 128 << 20  # characters that may wait for the judge before samplers wait too
AHEAD = 2  # fills of the sampler that may be with the judge before no more problems are opened
FRUITLESS = 20  # requests that may fail alike from the start before it is no use to go on
PATIENCE, INTERRUPTED = 5.0, 1.0  # seconds that a sampler has to end after an error, and after Ctrl-C
BEAT = 0.2  # seconds


@dataclass(frozen=True)
class Verification:
    """Who judges, where a draw stops early."""

    name: str
    start: Callable[[SamplerWorkers], JudgeQueue]


class DrawLoop:
    """One draw, in the thread that writes."""

    def __init__(
        self,
        run: RunFolder,
        begun: OpenRun,
        sampler: Sampler,
        decoding: SamplingParams,
        schedule: Schedule,
        verification: Verification | None,
    ) -> None:
        self._sampler, self._decoding = sampler, decoding
        self._schedule, self._verification = schedule, verification
        self._key = begun.origin.key
        columns = begun.problems.select("problem", "prompt", "images").iter_rows()
        self._asked = {problem: (prompt, tuple(images or ())) for problem, prompt, images in columns}
        self.writer = Writer(run, verification.name if verification else None)
        self.duplicates = Duplicates(decoding, begun.origin.model)
        self._sound = False  # whether what comes late, after the draw has ended, may be kept
        self._good = 0
        self._judging = 0  # samples that are with the judge
        self.missing = 0  # samples that failed requests asked for
        self.reasons: Counter[str] = Counter()

    def work(self, pace: DrawProgress) -> None:
        """Draw until every problem is settled or stuck."""
        if not self._schedule.unfinished:
            return
        crew = SamplerWorkers(self._sampler, self._decoding)
        bench = self._verification.start(crew) if self._verification else None
        patience = PATIENCE
        try:
            while self._schedule.unfinished:
                self._give(crew, bench)
                event = crew.next(BEAT)
                if event is not None:
                    self._take(event, crew, bench)
                self.writer.write_due()
                pace.tell(self.writer.samples, self.writer.tokens)
        except KeyboardInterrupt:
            self._sound, patience = True, INTERRUPTED
            raise
        finally:
            try:
                self.writer.write()  # before the sampler is waited for
                self._keep_late(crew.stop(patience))
            finally:
                if bench is not None:
                    bench.stop(patience)

    def _give(self, crew: SamplerWorkers, bench: JudgeQueue | None) -> None:
        """Keep the sampler busy, unless the judge is far behind."""
        appetite = self._sampler.appetite
        while crew.idle and (bench is None or bench.backlog < BACKLOG):
            # what is being judged comes back as further rounds: a judge that is behind opens no more problems
            admit = self._judging < AHEAD * appetite * (crew.idle + crew.busy)
            batch = self._schedule.take(appetite, crew.idle, admit)
            if not batch:
                return
            crew.ask([self._request(chunk) for chunk in batch])

    def _request(self, chunk: Chunk) -> Request:
        problem, first, size = chunk
        prompt, images = self._asked[problem]
        again = first + size < self._schedule.k
        return Request(problem, prompt, first, size, problem_seed(self._key, problem), images, again)

    def _take(self, event: Event, crew: SamplerWorkers, bench: JudgeQueue | None) -> None:
        match event:
            case DrawnChunk() if event.trouble:
                self._failed(event, crew)
            case DrawnChunk():
                self._good += 1
                self.duplicates.add(event.request, event.samples)
                self.writer.add(event)
                if bench is not None:
                    self._judging += event.request.size
                    bench.give(event)
                else:
                    self._close(self._schedule.done(event.request.problem, event.request.size, 0), event.request, crew)
            case VerdictsReady():
                self._judging -= event.request.size
                self.writer.judged(event.request, event.verdicts)
                hits = int((event.verdicts["verdict"] == Verdict.CORRECT.value).sum())
                self._close(self._schedule.done(event.request.problem, event.request.size, hits), event.request, crew)
            case BatchDone() if event.error is not None:
                self._sound = True
                raise event.error
            case JudgingFailed():
                raise event.error

    def _failed(self, drawn: DrawnChunk, crew: SamplerWorkers) -> None:
        self.writer.failed(drawn)
        self.reasons[drawn.trouble] += 1
        self.missing += drawn.request.size
        if not self._good and len(self.reasons) == 1 and self.reasons.total() >= FRUITLESS:
            raise OffleashError(f"The first {FRUITLESS} requests all failed alike, so none was drawn: {drawn.trouble}")
        self._close(self._schedule.failed(drawn.request.problem), drawn.request, crew)

    def _close(self, closed: bool, request: Request, crew: SamplerWorkers) -> None:
        if closed:
            crew.forget(request.problem)

    def _keep_late(self, late: list[DrawnChunk]) -> None:
        if self._sound:
            for drawn in late:
                if not drawn.trouble:
                    self.writer.add(drawn)
            self.writer.write()
