"""The pool: one judgement for every case, within its limits, whatever a verifier does to its process."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.verifiers.sandbox import run
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifiers.verifier import Case, Isolation, Judgement, Verifier
from tests.places import ROOT
from tests.verifiers.sandbox.outside import children, gone
from tests.verifiers.troublesome import troublesome

ISOLATED = not run.unavailable_reason("bwrap") or not run.unavailable_reason("namespaces")
ISOLATIONS = [
    Isolation.WORKER,
    pytest.param(Isolation.SANDBOX, marks=pytest.mark.skipif(not ISOLATED, reason="no sandbox can be built here")),
]
HARMLESS = ["a", "", "print", "raise x", "leave", "nonsense", "leave_behind b", "echo c", "sleep 0.01"]
HARMFUL = ["hang", "multiply", "grab", "recurse", "vanish 3", "vanish", "crash", "kill", "scribble", "sleep 100"]
FAILING = {"raise x", "leave", "nonsense"} | set(HARMFUL)


def judged(pool: Pool, verifier: Verifier, cases: Sequence[Case]) -> list[Judgement]:
    """Judgements in the order of the cases; each case exactly once."""
    actual = list(pool.judge(verifier, cases))
    assert sorted(index for index, _ in actual) == list(range(len(cases)))
    return [judgement for _, judgement in sorted(actual, key=lambda pair: pair[0])]


@pytest.fixture
def pool() -> Iterator[Pool]:
    before = children()
    with Pool(2) as made:
        yield made
    assert children() <= before, "a pool leaves no process behind"


@pytest.mark.parametrize("isolation", [Isolation.IN_PROCESS, *ISOLATIONS])
def test_a_case_is_judged_with_all_it_holds(pool: Pool, isolation: Isolation) -> None:
    case = Case("é\ud800\x00\ud83d\ude00", "é\ud800\x00\ud83d\ude00", "?", {"note": "n"})
    wrong = replace(case, gold=None)
    right, other = judged(pool, troublesome(isolation), [case, wrong])
    assert right.verdict is Verdict.CORRECT
    assert right.score == len(case.answer)
    assert right.solution == "n"
    assert other.verdict is Verdict.WRONG


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_an_error_fails_its_case_alone_with_the_reason(pool: Pool, isolation: Isolation) -> None:
    words = ["fine", *HARMFUL, "raise some words", "leave", "nonsense", "fine"]
    actual = dict(zip(words, judged(pool, troublesome(isolation), [Case(word, "fine") for word in words]), strict=True))
    assert actual.pop("fine").verdict is Verdict.CORRECT
    assert {judgement.verdict for judgement in actual.values()} == {Verdict.FAILED}
    expected = {
        "hang": "time limit of 1 s",
        "multiply": "time limit of 1 s",
        "sleep 100": "wall-clock limit: it waited for 1 s",
        "grab": "memory limit of 1 GiB",
        "recurse": "nested too deeply",
        "vanish 3": "exit code 3",
        "crash": "signal 11",
        "kill": "signal 9",
        "scribble": "unreadable reply",
        "raise some words": "ValueError: some words",
        "leave": "SystemExit",
        "nonsense": "AttributeError",
    }
    for word, reason in expected.items():
        assert reason in actual[word].reason, (word, actual[word])
        assert actual[word].retry is (word == "sleep 100")


def test_a_verifier_that_raises_here_is_failed_for_its_case_alone(pool: Pool) -> None:
    raised, fine = judged(pool, troublesome(Isolation.IN_PROCESS), [Case("raise x"), Case("fine", "fine")])
    assert raised == Judgement(Verdict.FAILED, "ValueError: x")
    assert fine.verdict is Verdict.CORRECT


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_hung_case_costs_its_limit_and_little_more(isolation: Isolation) -> None:
    verifier = troublesome(isolation, seconds=2.0)
    with Pool(1) as pool:
        judged(pool, verifier, [Case("warm")])
        first, second = judged(pool, verifier, [Case("multiply"), Case("fine", "fine")])
    assert first.verdict is Verdict.FAILED
    assert second.verdict is Verdict.CORRECT
    assert 2.0 <= first.seconds < 60  # a busy machine looks late; the multiplication itself takes hours


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_ten_megabytes_go_there_and_back(pool: Pool, isolation: Isolation) -> None:
    text = "\ud800x\x00é" * 2_500_000
    (actual,) = judged(pool, troublesome(isolation, seconds=30.0), [Case("echo " + text)])
    assert actual.solution == text


def test_details_that_are_no_json_fail_their_case_alone(pool: Pool) -> None:
    odd, fine = judged(pool, troublesome(), [Case("a", details={"note": object()}), Case("fine", "fine")])
    assert odd.verdict is Verdict.FAILED
    assert "cannot be sent" in odd.reason
    assert fine.verdict is Verdict.CORRECT


@pytest.mark.skipif(not ISOLATED, reason="no sandbox can be built here")
def test_a_sandboxed_worker_sees_neither_files_nor_environment(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("a secret")
    monkeypatch.setenv("OFFLEASH_SECRET", "a secret")
    texts = [f"read {secret}", "variable OFFLEASH_SECRET", f"read {ROOT / 'pyproject.toml'}"]
    read, variable, project = judged(pool, troublesome(Isolation.SANDBOX), [Case(text) for text in texts])
    assert (read.reason, variable.reason, project.reason) == ("FileNotFoundError", "absent", "FileNotFoundError")


@pytest.mark.skipif(not ISOLATED, reason="no sandbox can be built here")
def test_a_sandboxed_case_leaves_nothing_for_the_next() -> None:
    with Pool(1) as pool:
        result = judged(pool, troublesome(Isolation.SANDBOX), [Case("leave_behind x"), Case("left"), Case("left")])
    assert [judgement.reason for judgement in result] == ["", "", ""]


def test_children_of_a_killed_worker_are_killed_with_it(pool: Pool) -> None:
    marker = uuid4().hex
    (actual,) = judged(pool, troublesome(seconds=0.3), [Case(f"child {marker}")])
    assert actual.verdict is Verdict.FAILED
    assert gone(marker, 2.0)


def test_a_worker_loads_no_table_library(pool: Pool) -> None:
    verifier = replace(troublesome(), module="tests.verifiers.loaded")
    (actual,) = judged(pool, verifier, [Case("a")])
    assert not {"polars", "numpy", "sympy", "hypothesis", "pytest"} & set(actual.reason.split())


def test_a_module_that_cannot_be_loaded_is_an_error_with_the_next_step(pool: Pool) -> None:
    verifier = replace(troublesome(), module="tests.verifiers.not_there", extra="gym")
    with pytest.raises(OffleashError, match=r"could not be loaded: ModuleNotFoundError.*pip install 'offleash\[gym\]'"):
        judged(pool, verifier, [Case("a")])
    with pytest.raises(OffleashError, match=r"could not be loaded.*pip install 'offleash\[gym\]'"):
        judged(pool, replace(verifier, isolation=Isolation.IN_PROCESS), [Case("a")])


def test_without_a_sandbox_nothing_runs_unless_the_code_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "unavailable_reason", lambda _: "not to be had")
    for isolation in (Isolation.SANDBOX, Isolation.FRESH_SANDBOX):
        with Pool(1) as pool, pytest.raises(OffleashError, match="--trust-code"):
            judged(pool, troublesome(isolation), [Case("a")])
    words = ["fine", "hang", "grab", "leave_behind x", "left", "crash"]
    with Pool(1, trust_code=True) as pool:
        result = judged(pool, troublesome(Isolation.SANDBOX), [Case(word, "fine") for word in words])
    assert [judgement.verdict for judgement in result] == [
        *(Verdict.CORRECT, Verdict.FAILED, Verdict.FAILED, Verdict.WRONG, Verdict.CORRECT, Verdict.FAILED)
    ]
    assert result[4].reason == ""


def test_no_jobs_is_an_error_and_no_cases_are_no_judgements() -> None:
    with pytest.raises(OffleashError, match="jobs must be 1 or more; found 0"):
        Pool(0)
    with Pool(1) as pool:
        assert judged(pool, troublesome(), []) == []


def test_a_verifier_that_asks_a_model_is_not_the_pools() -> None:
    with Pool(1) as pool, pytest.raises(AssertionError, match="query another model"):
        pool.judge(troublesome(Isolation.REMOTE), [Case("a")])


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(st.sampled_from(HARMLESS), st.sampled_from(HARMFUL), st.text(st.characters(), max_size=20)),
        max_size=6,
    ),
    st.sampled_from([Isolation.WORKER, Isolation.SANDBOX] if ISOLATED else [Isolation.WORKER]),
)
def test_any_sequence_of_texts_gives_one_judgement_each_within_limits(texts: list[str], isolation: Isolation) -> None:
    seconds = 0.3
    before = children()
    started = time.monotonic()
    with Pool(2) as pool:
        result = judged(pool, troublesome(isolation, seconds=seconds), [Case(text, text) for text in texts])
    assert children() <= before
    assert time.monotonic() - started < 60 * (1 + len(texts))  # a text that hangs would do so for hours
    for text, judgement in zip(texts, result, strict=True):
        if text in FAILING:
            assert judgement.verdict is Verdict.FAILED, text
            assert judgement.reason
        elif text in HARMLESS or text.partition(" ")[0] not in {word.partition(" ")[0] for word in HARMFUL}:
            assert judgement.verdict is Verdict.CORRECT or "time limit" in judgement.reason, (text, judgement)
