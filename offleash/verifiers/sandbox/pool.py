"""Judge cases where their verifier may run: in this process, in warm workers that can be killed, or each in a sandbox.

No case can hang, crash or exhaust the caller: at its limit the worker is killed with all its children, the case is
`failed` with the reason, and a new worker takes the next one. Limits are of processor time: what a case gets does not
depend on what else the machine does. Workers are started by `subprocess`, never forked from
the caller, so that any thread, a notebook or a script without a main guard may judge; they end with the caller.
"""

import importlib
import selectors
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from types import ModuleType

from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.verifiers.sandbox.clock import WALL_FACTOR
from offleash.verifiers.sandbox.run import (
    POLICY,
    Launcher,
    ResourceLimits,
    SandboxPolicy,
    choose_backend,
)
from offleash.verifiers.sandbox.worker import describe
from offleash.verifiers.sandbox.worker_handle import State, VerifierWorker
from offleash.verifiers.verifier import Case, Isolation, Judgement, Verifier

MAX_FAILED_STARTS = 3  # in one call: a machine short of memory for a moment is not a verifier that cannot start
WorkerKey = tuple[str, Isolation, int, float, str]  # workers of verifiers that agree in these are interchangeable


class Pool:
    """Judges up to `jobs` cases at once; workers stay warm until `close`.

    Several threads may judge at the same time: each call takes idle workers out of the pool and puts them back.
    """

    def __init__(self, jobs: int = 1, *, trust_code: bool = False) -> None:
        if jobs < 1:
            raise OffleashError(f"The number of jobs must be 1 or more; found {jobs}.")
        self._jobs = jobs
        self._trust_code = trust_code
        self._idle: dict[WorkerKey, list[VerifierWorker]] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._launcher = Launcher()
        # a pool that nobody closed; must not refer to self
        weakref.finalize(self, _end_workers, self._idle, self._launcher)

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every worker."""
        with self._lock:
            self._closed = True
            _end_workers(self._idle, self._launcher)

    def judge(
        self, verifier: Verifier, cases: Sequence[Case], retry_wall_factor: float | None = None
    ) -> Iterator[tuple[int, Judgement]]:
        """Judge cases.

        Args:
            verifier: decides them.
            cases: what to decide.
            retry_wall_factor: one case at a time, and so many seconds on the clock for each of processor time: for
                those that a busy machine gave none.

        Returns:
            The index of each case and its judgement, as they are decided: one for every case, in any order.
        """
        assert not self._closed, "a closed pool judges nothing"
        assert verifier.isolation is not Isolation.REMOTE, "the pool does not run verifiers that query another model"
        if not cases:
            return iter(())
        if verifier.isolation is Isolation.IN_PROCESS:
            return self._judge_in_process(verifier, cases)
        if verifier.isolation is Isolation.FRESH_SANDBOX:
            return self._judge_in_sandboxes(verifier, cases, retry_wall_factor)
        return self._judge_in_workers(verifier, cases, retry_wall_factor)

    def _judge_in_process(self, verifier: Verifier, cases: Sequence[Case]) -> Iterator[tuple[int, Judgement]]:
        """In this process, one after the other."""
        module = _module(verifier)
        for index, case in enumerate(cases):
            yield index, _decide_safely(module, case)

    def _judge_in_sandboxes(
        self, verifier: Verifier, cases: Sequence[Case], retry_wall_factor: float | None
    ) -> Iterator[tuple[int, Judgement]]:
        """Each case in a sandbox of its own, which `decide` starts; threads, since they only wait for it."""
        module = _module(verifier)
        choose_backend(self._trust_code)  # an error now, not a failure of every case
        wall_factor, jobs = (retry_wall_factor, 1) if retry_wall_factor else (WALL_FACTOR, self._jobs)
        limits = ResourceLimits(seconds=verifier.seconds, memory=verifier.memory, wall_factor=wall_factor)
        policy = SandboxPolicy(limits, self._trust_code, threading.Event(), self._launcher)

        def judge_case(index: int) -> tuple[int, Judgement]:
            POLICY.set(policy)  # in the thread: context variables of the caller do not reach it
            started = time.monotonic()
            judgement = _decide_safely(module, cases[index])
            return index, replace(judgement, seconds=time.monotonic() - started)

        todo = iter(range(len(cases)))
        running: set[Future[tuple[int, Judgement]]] = set()
        with ThreadPoolExecutor(jobs, thread_name_prefix="offleash-verify") as threads:
            try:
                while True:
                    # not all at once: a caller that stops early would have to wait for what is queued
                    while len(running) < jobs and (index := next(todo, None)) is not None:
                        running.add(threads.submit(judge_case, index))
                    if not running:
                        return
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        yield future.result()
            finally:
                policy.stopped.set()  # what still runs is ended, not waited for

    def _judge_in_workers(
        self, verifier: Verifier, cases: Sequence[Case], retry_wall_factor: float | None
    ) -> Iterator[tuple[int, Judgement]]:
        """In workers that outlive the call, also when the caller stops reading in the middle."""
        with self._lock:
            waiting = self._idle.pop(_key(verifier), [])
        workers = [worker for worker in waiting if worker.alive]
        _end_workers({_key(verifier): [worker for worker in waiting if worker not in workers]})
        wall_factor, jobs = (retry_wall_factor, 1) if retry_wall_factor else (WALL_FACTOR, self._jobs)
        start = partial(VerifierWorker, verifier, self._trust_code, self._launcher)
        call = _JudgeCall(verifier, cases, jobs, wall_factor, start, workers)
        try:
            yield from call.work()
        finally:
            kept = call.release()
            with self._lock:
                if self._closed:
                    _end_workers({_key(verifier): kept})
                else:
                    self._idle.setdefault(_key(verifier), []).extend(kept)


class _JudgeCall:
    """One call of `judge`: its workers and the cases that are left."""

    def __init__(
        self,
        verifier: Verifier,
        cases: Sequence[Case],
        jobs: int,
        wall_factor: float,
        start: Callable[[], VerifierWorker],
        workers: list[VerifierWorker],
    ) -> None:
        self._verifier, self._cases, self._jobs = verifier, cases, jobs
        self._wall_factor, self._start = wall_factor, start
        self._workers = workers
        self._failed_starts = 0
        self._todo = deque(range(len(cases)))
        self._selector = selectors.DefaultSelector()
        for worker in workers:
            self._selector.register(worker.output_fd, selectors.EVENT_READ, worker)

    def work(self) -> Iterator[tuple[int, Judgement]]:
        """Judgements as they come, until every case has one."""
        while self._todo or self._busy_workers():
            yield from self._assign()
            yield from self._wait_for_events()

    def release(self) -> list[VerifierWorker]:
        """End workers that are busy, starting or too many; return the others, warm."""
        self._selector.close()
        idle = [worker for worker in self._workers if worker.state is State.IDLE]
        for worker in self._workers:
            if worker.state is not State.IDLE or worker not in idle[: self._jobs]:
                worker.end()
        return idle[: self._jobs]

    def _busy_workers(self) -> list[VerifierWorker]:
        return [worker for worker in self._workers if worker.state is State.BUSY]

    def _assign(self) -> Iterator[tuple[int, Judgement]]:
        """Start the workers that are wanted and give those that are idle a case each."""
        slow = sum(time.monotonic() >= self._half_time(worker) for worker in self._busy_workers())
        # one that has used half its time may have to be killed: its successor loads meanwhile
        wanted = min(self._jobs, len(self._todo) + len(self._busy_workers())) + min(slow, len(self._todo))
        while len(self._workers) < wanted:
            worker = self._start()
            self._workers.append(worker)
            self._selector.register(worker.output_fd, selectors.EVENT_READ, worker)
        for worker in self._workers:
            if not self._todo or len(self._busy_workers()) >= self._jobs:
                return
            if worker.state is State.IDLE:
                index = self._todo.popleft()
                try:
                    worker.submit(index, self._cases[index], self._wall_factor)
                except (TypeError, ValueError, RecursionError) as error:
                    yield index, Judgement(Verdict.FAILED, f"the case cannot be sent to a worker: {describe(error)}")
                if worker.has_unsent:
                    self._selector.register(worker.input_fd, selectors.EVENT_WRITE, worker)

    def _wait_for_events(self) -> Iterator[tuple[int, Judgement]]:
        """Wait until a worker has answered, can take more of its case, or has reached a limit."""
        if not any(worker.state in (State.BUSY, State.STARTING) for worker in self._workers):
            return
        now = time.monotonic()
        deadlines = [worker.deadline for worker in self._workers]
        deadlines += [half_time for worker in self._busy_workers() if (half_time := self._half_time(worker)) > now]
        for key, event in self._selector.select(max(0.0, min(deadlines) - now)):
            worker: VerifierWorker = key.data
            if worker.state is State.ENDED:
                continue
            if event & selectors.EVENT_WRITE:
                worker.write()
                if not worker.has_unsent:
                    self._selector.unregister(worker.input_fd)
            else:
                yield from self._handle_event(worker, worker.index, "read")
        for worker in [worker for worker in self._workers if worker.deadline <= time.monotonic()]:
            # it may have answered while the caller was away
            yield from self._handle_event(worker, worker.index, "read")
            if worker.deadline <= time.monotonic():
                yield from self._handle_event(worker, worker.index, "time out")

    def _handle_event(self, worker: VerifierWorker, index: int, event: str) -> Iterator[tuple[int, Judgement]]:
        """Read from a worker or time it out, and forget a worker that has ended by that."""
        fds = (worker.output_fd, worker.input_fd)
        try:
            judgement = worker.read() if event == "read" else worker.time_out()
        except OffleashError:
            self._failed_starts += 1
            if worker.cannot_load or self._failed_starts >= MAX_FAILED_STARTS:
                raise
            judgement = None
        if worker.state is State.ENDED:
            for fd in fds:
                if fd in self._selector.get_map():
                    self._selector.unregister(fd)
            self._workers.remove(worker)
        if judgement is not None:
            yield index, judgement

    def _half_time(self, worker: VerifierWorker) -> float:
        return worker.since + self._verifier.seconds / 2


def _decide_safely(module: ModuleType, case: Case) -> Judgement:
    try:
        judgement: Judgement = module.decide(case)
    except RecursionError:
        return Judgement(Verdict.FAILED, "nested too deeply for the verifier")
    except Exception as error:  # a verifier's crash says something about the verifier, not about the model
        return Judgement(Verdict.FAILED, describe(error))
    return judgement


def _module(verifier: Verifier) -> ModuleType:
    try:
        return importlib.import_module(verifier.module)
    except ImportError as error:
        hint = f" Install it with: pip install 'offleash[{verifier.extra}]'." if verifier.extra else ""
        raise OffleashError(f"The verifier {verifier.name!r} could not be loaded: {error}.{hint}") from None


def _key(verifier: Verifier) -> WorkerKey:
    # users' functions do not share a process: modules of the same name in two folders would be one
    own = verifier.own.reference if verifier.own else ""
    return verifier.module, verifier.isolation, verifier.memory, verifier.seconds, own


def _end_workers(idle: dict[WorkerKey, list[VerifierWorker]], launcher: Launcher | None = None) -> None:
    while idle:
        for worker in idle.popitem()[1]:
            worker.end()
    if launcher is not None:
        launcher.close()
