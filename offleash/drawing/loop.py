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
from offleash.drawing.backlog import Backlog
from offleash.drawing.duplicates import Duplicates
from offleash.drawing.resume import OpenRun, problem_seed
from offleash.drawing.schedule import Chunk, Schedule, Stage
from offleash.drawing.workers import BatchDone, Event, JudgeQueue, JudgingFailed, SamplerWorkers, VerdictsReady
from offleash.drawing.writer import Writer
from offleash.errors import OffleashError
from offleash.progress import Progress
from offleash.render.numbers import duration
from offleash.samplers.sampler import Request, SampleChunk, Sampler, SamplingParams

REPORT_EVERY = 0.5  # seconds: a line walks over all problems, too slow for every event


@dataclass
class DrawProgress:
    """The progress of a draw as a line of text: samples, speed, problems settled and reached, time left."""

    progress: Progress
    schedule: Schedule
    before: int  # samples that the run had when the draw began
    started: float = field(default_factory=time.monotonic)
    _last_report: float = 0.0

    def report(self, samples: int, tokens: int) -> None:
        """Report the samples and tokens of this draw; lines that follow the last one too soon are left out."""
        now = time.monotonic()
        if now - self._last_report < REPORT_EVERY:
            return
        self._last_report = now
        self.progress(self.line(samples, tokens, now - self.started))

    def line(self, samples: int, tokens: int, seconds: float) -> str:
        """The line itself; time left is by the speed of this draw, not of earlier ones on other machines."""
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


BATCHES_AHEAD = 2  # batches per worker that may be with the judge before no more problems are opened
GIVE_UP_FAILURES = (
    20  # requests: if the first ones all fail for one reason, the rest will too (wrong URL, prompt too long)
)
# Seconds that a sampler has to end: after an error its last batch may be worth keeping, after Ctrl-C a user is waiting.
PATIENCE, INTERRUPTED = 5.0, 1.0
POLL_SECONDS = 0.2  # seconds without an event after which shards that are due are written and progress is reported


@dataclass(frozen=True)
class Verification:
    """Who judges, where a draw stops early (`until`)."""

    name: str  # of the verifier, as its verdicts are stored
    # verdicts come back through the queue of the workers' events
    start: Callable[[SamplerWorkers, Backlog], JudgeQueue]


class DrawLoop:
    """One draw, in the thread that writes.

    Everything that changes the schedule or the folder happens here, one event after another, so that neither needs a
    lock: sampler workers and the judge only put events into a queue.
    """

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
        self._backlog = Backlog(holders=2 if verification else 1)
        self.writer = Writer(run, verification.name if verification else None, self._backlog)
        self.duplicates = Duplicates(decoding, open_run.origin.model)
        self._keep_late_samples = False  # of batches that end after the draw: not after a detected fault
        self._successes_count = 0
        self._judging = 0  # samples that are with the judge
        self.missing = 0  # samples of failed requests
        self.reasons: Counter[str] = Counter()

    def work(self, draw_progress: DrawProgress) -> None:
        """Draw until every problem is settled or stuck."""
        if not self._schedule.unfinished:
            return
        workers = SamplerWorkers(self._sampler, self._decoding, self._backlog)
        judge_queue = self._verification.start(workers, self._backlog) if self._verification else None
        max_wait = PATIENCE
        try:
            while self._schedule.unfinished:
                self._submit_requests(workers)
                event = workers.next_event(POLL_SECONDS)
                if event is not None:
                    self._handle(event, workers, judge_queue)
                del event  # its texts are the writer's now, who frees them
                self.writer.write_due()
                draw_progress.report(self.writer.samples, self.writer.tokens)
        except KeyboardInterrupt:
            self._keep_late_samples, max_wait = True, INTERRUPTED
            raise
        finally:
            try:
                self.writer.write()  # before waiting for the sampler: a second Ctrl-C must not lose what is here
                self._write_late(workers.stop(max_wait))
            finally:
                if judge_queue is not None:
                    judge_queue.stop(max_wait)

    def _submit_requests(self, workers: SamplerWorkers) -> None:
        """Keep the sampler busy; where too much text waits, it is its threads that wait (drawing/backlog.py)."""
        batch_size = self._sampler.batch_size
        while workers.idle:
            # what is being judged comes back as further rounds: a judge that is behind opens no more problems
            admit = self._judging < BATCHES_AHEAD * batch_size * (workers.idle + workers.busy)
            batch = self._schedule.take(batch_size, workers.idle, admit)
            if not batch:
                return
            workers.submit([self._request(chunk) for chunk in batch])

    def _request(self, chunk: Chunk) -> Request:
        """The request of a chunk. Whether more of its problem may follow says if its cache is worth keeping."""
        problem, first, size = chunk
        prompt, images = self._prompts[problem]
        more_expected = first + size < self._schedule.k
        return Request(problem, prompt, first, size, problem_seed(self._key, problem), images, more_expected)

    def _handle(self, event: Event, workers: SamplerWorkers, judge_queue: JudgeQueue | None) -> None:
        match event:
            case SampleChunk() if event.error:
                self._failed(event, workers)
            case SampleChunk():
                self._successes_count += 1
                self.duplicates.add(event.request, event.samples)
                self.writer.add(event)
                if judge_queue is not None:
                    self._judging += event.request.size
                    judge_queue.put(event)
                else:
                    self._chunk_done(event.request, 0, workers)
            case VerdictsReady():
                self._judging -= event.request.size
                self.writer.add_verdicts(event.request, event.verdicts)
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
        if not self._successes_count and len(self.reasons) == 1 and self.reasons.total() >= GIVE_UP_FAILURES:
            raise OffleashError(f"The first {GIVE_UP_FAILURES} requests all failed for the same reason: {drawn.error}")
        if self._schedule.failed(drawn.request.problem):
            workers.forget(drawn.request.problem)

    def _chunk_done(self, request: Request, hits: int, workers: SamplerWorkers) -> None:
        """Tell the schedule, and the sampler where the problem is closed by it."""
        if self._schedule.chunk_done(request.problem, request.size, hits):
            workers.forget(request.problem)

    def _write_late(self, late_chunks: list[SampleChunk]) -> None:
        if self._keep_late_samples:
            for drawn in late_chunks:
                if not drawn.error:
                    self.writer.add(drawn)
            self.writer.write()
