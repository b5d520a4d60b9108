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
from offleash.samplers.sampler import Request, SampleChunk, Sampler, SamplingParams

OFTEN = 0.5  # seconds between two words


@dataclass
class DrawProgress:
    """Tells how a draw goes."""

    progress: Progress
    schedule: Schedule
    before: int  # samples that were there
    started: float = field(default_factory=time.monotonic)
    _last: float = 0.0

    def report(self, samples: int, tokens: int) -> None:
        """Say how far it is, when it is time to: samples and tokens of this draw."""
        now = time.monotonic()
        if now - self._last < OFTEN:
            return
        self._last = now
        self.progress(self.words(samples, tokens, now - self.started))

    def words(self, samples: int, tokens: int, seconds: float) -> str:
        schedule = self.schedule
        parts = [f"{self.before + samples:,} of at most {max(schedule.most, self.before + samples):,} samples"]
        if seconds > 0 and tokens:
            parts.append(f"{tokens / seconds:,.0f} tokens/s")
        parts.append(f"{schedule.count(Stage.SETTLED)} of {len(schedule.records)} problems settled")
        if schedule.until:
            parts.append(f"{schedule.reached} reached")
        if samples and seconds > 0:
            parts.append(f"about {duration(schedule.expected() * seconds / samples)} left")
        return ", ".join(parts)


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
        open_run: OpenRun,
        sampler: Sampler,
        decoding: SamplingParams,
        schedule: Schedule,
        verification: Verification | None,
    ) -> None:
        self._sampler, self._decoding = sampler, decoding
        self._schedule, self._verification = schedule, verification
        self._key = open_run.origin.key
        columns = open_run.problems.select("problem", "prompt", "images").iter_rows()
        self._prompts = {problem: (prompt, tuple(images or ())) for problem, prompt, images in columns}
        self.writer = Writer(run, verification.name if verification else None)
        self.duplicates = Duplicates(decoding, open_run.origin.model)
        self._keep_late_samples = False  # whether what comes late, after the draw has ended, may be kept
        self._succeeded = 0
        self._judging = 0  # samples that are with the judge
        self.missing = 0  # samples that failed requests asked for
        self.reasons: Counter[str] = Counter()

    def work(self, draw_progress: DrawProgress) -> None:
        """Draw until every problem is settled or stuck."""
        if not self._schedule.unfinished:
            return
        workers = SamplerWorkers(self._sampler, self._decoding)
        judge_queue = self._verification.start(workers) if self._verification else None
        patience = PATIENCE
        try:
            while self._schedule.unfinished:
                self._submit_requests(workers, judge_queue)
                event = workers.next_event(BEAT)
                if event is not None:
                    self._handle(event, workers, judge_queue)
                self.writer.write_due()
                draw_progress.report(self.writer.samples, self.writer.tokens)
        except KeyboardInterrupt:
            self._keep_late_samples, patience = True, INTERRUPTED
            raise
        finally:
            try:
                self.writer.write()  # before the sampler is waited for
                self._write_late(workers.stop(patience))
            finally:
                if judge_queue is not None:
                    judge_queue.stop(patience)

    def _submit_requests(self, workers: SamplerWorkers, judge_queue: JudgeQueue | None) -> None:
        """Keep the sampler busy, unless the judge is far behind."""
        batch_size = self._sampler.batch_size
        while workers.idle and (judge_queue is None or judge_queue.backlog < BACKLOG):
            # what is being judged comes back as further rounds: a judge that is behind opens no more problems
            admit = self._judging < AHEAD * batch_size * (workers.idle + workers.busy)
            batch = self._schedule.take(batch_size, workers.idle, admit)
            if not batch:
                return
            workers.submit([self._request(chunk) for chunk in batch])

    def _request(self, chunk: Chunk) -> Request:
        problem, first, size = chunk
        prompt, images = self._prompts[problem]
        more_expected = first + size < self._schedule.k
        return Request(problem, prompt, first, size, problem_seed(self._key, problem), images, more_expected)

    def _handle(self, event: Event, workers: SamplerWorkers, judge_queue: JudgeQueue | None) -> None:
        match event:
            case SampleChunk() if event.error:
                self._failed(event, workers)
            case SampleChunk():
                self._succeeded += 1
                self.duplicates.add(event.request, event.samples)
                self.writer.add(event)
                if judge_queue is not None:
                    self._judging += event.request.size
                    judge_queue.put(event)
                else:
                    self._chunk_done(event.request, 0, workers)
            case VerdictsReady():
                self._judging -= event.request.size
                self.writer.judged(event.request, event.verdicts)
                hits = int((event.verdicts["verdict"] == Verdict.CORRECT.value).sum())
                self._chunk_done(event.request, hits, workers)
            case BatchDone() if event.error is not None:
                self._keep_late_samples = True
                raise event.error
            case JudgingFailed():
                raise event.error

    def _failed(self, drawn: SampleChunk, workers: SamplerWorkers) -> None:
        self.writer.failed(drawn)
        self.reasons[drawn.error] += 1
        self.missing += drawn.request.size
        if not self._succeeded and len(self.reasons) == 1 and self.reasons.total() >= FRUITLESS:
            raise OffleashError(f"The first {FRUITLESS} requests all failed alike, so none was drawn: {drawn.error}")
        if self._schedule.failed(drawn.request.problem):
            workers.forget(drawn.request.problem)

    def _chunk_done(self, request: Request, hits: int, workers: SamplerWorkers) -> None:
        if self._schedule.done(request.problem, request.size, hits):
            workers.forget(request.problem)

    def _write_late(self, late: list[SampleChunk]) -> None:
        if self._keep_late_samples:
            for drawn in late:
                if not drawn.error:
                    self.writer.add(drawn)
            self.writer.write()
