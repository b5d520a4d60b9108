"""What the judge remembers is bounded in bytes, and what it forgot is decided again."""

from pathlib import Path

import pytest

from offleash.verifiers.registry import VERIFIERS
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifying import judge as module
from offleash.verifying.cache import Cache
from offleash.verifying.judge import Judge, problem_case


def test_long_answers_are_forgotten_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REMEMBERED_BYTES", 1 << 20, raising=False)
    string, problem, cache = VERIFIERS["string"], problem_case("p", "gold", "", None), Cache(tmp_path)
    answers = [f"{place} " + "long " * 20_000 for place in range(12)]
    with Pool(1) as pool:
        judge = Judge(pool, cache)
        judge.decide(string, [(problem, answer) for answer in answers[:9]])
        judge.forget()
        assert len(judge.known(string, problem)) == 9  # 900 kB
        judge.decide(string, [(problem, answer) for answer in answers])
        before = judge.known(string, problem)[answers[0]]
        judge.forget()
        judge.decide(string, [(problem, answers[0])])
        assert list(judge.known(string, problem)) == answers[:1]
        assert judge.known(string, problem)[answers[0]].verdict is before.verdict
    cache.close()
