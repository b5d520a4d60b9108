"""Verdicts do not depend on load: processor time is limited, and what a busy machine starved is tried again, alone."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from offleash.data.verdict import Verdict
from offleash.verifiers.registry import VERIFIERS
from offleash.verifiers.sandbox import run
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifiers.verifier import Case, Judgement, Verifier
from offleash.verifying.cache import Cache
from offleash.verifying.judge import Judge, problem_case
from offleash.verifying.report import notes
from offleash.verifying.verify import VerificationResult
from tests.places import SHARED_DATA
from tests.verifiers.attacks.mixed import busy, judged, mixed_cases
from tests.verifiers.sandbox.outside import crowded
from tests.verifiers.troublesome import troublesome

ISOLATED = pytest.mark.skipif(
    bool(run.unavailable_reason("bwrap") and run.unavailable_reason("namespaces")),
    reason="no sandbox can be built here",
)
BURN = "import time\nwhile time.process_time() < {seconds}: pass\ndef f(): return 1"
DETAILS: dict[str, object] = {"kind": "asserts", "setup": "", "tests": ["assert f() == 1"]}


@ISOLATED
def test_a_correct_program_stays_correct_on_a_busy_machine() -> None:
    verifier = replace(VERIFIERS["program"], seconds=1.5)
    with crowded(), Pool(1) as pool:
        short, long = (
            judgement
            for _, judgement in sorted(
                pool.judge(verifier, [Case(BURN.format(seconds=s), details=DETAILS) for s in (0.7, 9)]),
                key=lambda pair: pair[0],
            )
        )
    assert short.verdict is Verdict.CORRECT
    assert (long.verdict, long.reason) == (Verdict.WRONG, "time limit of 1.5 s")


@ISOLATED
def test_a_program_that_waits_fails_and_is_neither_wrong_nor_cached(tmp_path: Path) -> None:
    verifier = replace(VERIFIERS["program"], seconds=0.4)
    problem = problem_case("p", None, "", '{"kind": "asserts", "tests": ["assert f() == 1"]}')
    cache = Cache(tmp_path)
    for _ in range(2):
        with Pool(1) as pool:
            judge = Judge(pool, cache)
            judge.decide(verifier, [(problem, "import time\ntime.sleep(1000)")])
        judgement = judge.known(verifier, problem)["import time\ntime.sleep(1000)"]
        assert judgement.verdict is Verdict.FAILED
        assert "wall-clock limit" in judgement.reason
        assert judge.decided_by == {"failed": 1}
        assert judge.starved == 1
    cache.close()


class Busy(Pool):
    """A pool on a machine that starves some cases on the first try, and one of them always."""

    def __init__(self) -> None:
        super().__init__(1)
        self.tries: list[tuple[str, bool]] = []

    def judge(
        self, verifier: Verifier, cases: Sequence[Case], retry_wall_factor: float | None = None
    ) -> Iterator[tuple[int, Judgement]]:
        for index, case in enumerate(cases):
            self.tries.append((case.answer, retry_wall_factor is not None))
            starved = case.answer == "always" or (case.answer.startswith("once") and retry_wall_factor is None)
            yield index, Judgement(Verdict.FAILED if starved else Verdict.CORRECT, "busy" * starved, retry=starved)


def test_what_was_starved_is_tried_once_more_at_the_end_alone(tmp_path: Path) -> None:
    problem, cache = problem_case("p", "gold", "", None), Cache(tmp_path)
    pool = Busy()
    with pool:
        judge = Judge(pool, cache)
        judge.decide(troublesome(), [(problem, answer) for answer in ("once", "fine", "always", "once more")])
    first = [(answer, False) for answer in ("once", "fine", "always", "once more")]
    second = [("once", True), ("always", True), ("once more", True)]
    assert pool.tries == first + second
    verdicts = {answer: judgement.verdict for answer, judgement in judge.known(troublesome(), problem).items()}
    assert verdicts == dict.fromkeys(("once", "fine", "once more"), Verdict.CORRECT) | {"always": Verdict.FAILED}
    assert judge.starved == 1
    assert judge.decided_by == {"decided": 3, "failed": 1}
    pool = Busy()
    with pool:  # all but the failed one come from the cache
        Judge(pool, cache).decide(troublesome(), [(problem, answer) for answer in ("once", "fine", "always")])
    assert {answer for answer, _ in pool.tries} == {"always"}
    cache.close()


def test_second_tries_end_with_their_time_and_what_is_left_is_counted() -> None:
    problem = problem_case("p", "gold", "", None)
    pool = Busy()
    with pool:
        judge = Judge(pool, retry_seconds=0.5)  # less than one case may take
        judge.decide(troublesome(seconds=1.0), [(problem, "once"), (problem, "once more")])
    assert judge.starved == 2
    assert not any(retry_wall_factor for _, retry_wall_factor in pool.tries)


def test_the_notes_count_what_the_machine_was_too_busy_for() -> None:
    verdicts = {verdict.value: 0 for verdict in Verdict} | {"failed": 3}
    result = VerificationResult(Path("run"), "program@3", 3, 3, verdicts, {}, {"failed": 2}, [], 0, 1.0, starved=2)
    assert any(
        note.startswith("2 distinct answers failed only because the machine was too busy") for note in notes(result)
    )
    assert not any("too busy" in note for note in notes(replace(result, starved=0)))


@ISOLATED
@pytest.mark.attacks
def test_verdicts_are_the_same_idle_and_busy_with_a_cold_and_a_warm_cache(tmp_path: Path) -> None:
    if not (SHARED_DATA / "bench" / "humaneval.jsonl").exists():
        pytest.skip("no shared data folder beside the project")
    cases = mixed_cases(120)
    idle, _ = judged(cases, tmp_path / "idle")
    warm, by = judged(cases, tmp_path / "idle")
    assert by.get("decided", 0) == 0
    with busy(8):
        crowded_verdicts, _ = judged(cases, tmp_path / "busy")
        crowded_warm, _ = judged(cases, tmp_path / "busy")
    assert idle == warm == crowded_verdicts == crowded_warm
    assert len(set(idle)) >= 3
