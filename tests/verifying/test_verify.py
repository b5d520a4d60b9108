"""Verify: every sample gets its verdict once, whatever is killed, repeated or added in between."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from offleash.data.run_folder import append_to_run, open_run, verifiers
from offleash.data.tables import as_problems, question_hash
from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.verifiers.extraction.extract import extract
from offleash.verifiers.registry import VERIFIERS
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifiers.verifier import Case, Judgement
from offleash.verifying.cache import Cache, key_of, problem_hash
from offleash.verifying.cases import ExtractionOptions, judge_texts
from offleash.verifying.judge import Judge, problem_case
from offleash.verifying.verify import STORED_CHARACTERS, VerifyOptions, open_judge, storable, verify, verify_with
from tests.verifying.samples import run_of_texts

GOLDS = {"half": "\\frac{1}{2}", "seven": "7", "root": "2\\sqrt{2}"}
TEXTS = {
    "half": ["\\boxed{0.5}", "\\boxed{1/2}", "\\boxed{0.5}", "no idea at all, sorry"],
    "seven": ["\\boxed{7}", "\\boxed{8}", "<think>7, or", "the answer is 7"],
    "root": ["\\boxed{\\sqrt{8}}", "\\boxed{3}", "\\boxed{\\sqrt{8}}", "\\boxed{9^{9^{9^9}}}"],
}
EXPECTED = {
    "half": ["correct", "correct", "correct", "unread"],
    "seven": ["correct", "wrong", "unread", "correct"],
    "root": ["correct", "wrong", "correct", "failed"],
}


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> VerifyOptions:
    return VerifyOptions(jobs=1, cache=tmp_path_factory.mktemp("cache"))


def verdicts(folder: Path, verifier: str | None = None) -> pl.DataFrame:
    run = open_run(folder, verifier=verifier)
    assert run.verdicts is not None
    return run.verdicts.sort("problem", "index").collect()


@pytest.mark.parametrize("shards", [1, 3])
def test_every_sample_gets_the_verdict_that_is_written_down(
    tmp_path: Path, options: VerifyOptions, shards: int
) -> None:
    folder = run_of_texts(tmp_path / "run", GOLDS, TEXTS, shards=shards)
    done = verify(folder, options)
    result = verdicts(folder)
    for problem, expected in EXPECTED.items():
        assert result.filter(pl.col("problem") == problem)["verdict"].to_list() == expected
    assert done.samples == done.judged == 12
    assert done.verdicts == {"correct": 7, "wrong": 2, "unread": 2, "failed": 1}
    assert done.steps == {"boxed": 9, "stated": 1, "unfinished": 1, "nothing": 1}
    assert done.failures[0][:2] == ("root", 3)
    assert "tower of powers" in done.failures[0][2]


def test_verifying_again_changes_nothing_and_tries_only_what_failed(tmp_path: Path, options: VerifyOptions) -> None:
    folder = run_of_texts(tmp_path / "run", GOLDS, TEXTS, shards=2)
    verify(folder, options)
    before = verdicts(folder)
    again = verify(folder, options)
    assert verdicts(folder).equals(before)
    assert again.judged == 1  # the one that failed
    assert again.samples == 12


def test_samples_that_are_added_later_are_judged_alone(tmp_path: Path, options: VerifyOptions) -> None:
    folder = run_of_texts(tmp_path / "run", GOLDS, {"seven": ["\\boxed{7}", "\\boxed{8}"]})
    verify(folder, options)
    with append_to_run(folder) as run:
        more = pl.DataFrame({"problem": ["seven"], "index": [2], "text": ["\\boxed{7}"], "finish": ["stop"]})
        run.write_samples(more)
    done = verify(folder, options)
    assert (done.judged, done.samples, done.verdicts["correct"]) == (1, 3, 2)


def test_a_verification_that_is_killed_keeps_the_shards_it_has_judged(
    tmp_path: Path, options: VerifyOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_of_texts(tmp_path / "run", GOLDS, TEXTS, shards=3)
    left = Counter(write=2)
    from offleash.data.run_folder import RunFolder

    write = RunFolder.write_verdicts

    def dies(self: RunFolder, verifier: str, frame: pl.DataFrame, shard: str | None = None) -> None:
        left["write"] -= 1
        if left["write"] < 0:
            raise KeyboardInterrupt
        write(self, verifier, frame, shard)

    monkeypatch.setattr(RunFolder, "write_verdicts", dies)
    with pytest.raises(KeyboardInterrupt):
        verify(folder, options)
    monkeypatch.undo()
    assert verify(folder, options).judged <= 6
    assert verdicts(folder)["verdict"].to_list() == [v for p in sorted(EXPECTED) for v in EXPECTED[p]]


def test_each_problem_is_judged_by_its_own_verifier_or_all_by_the_one_named(
    tmp_path: Path, options: VerifyOptions
) -> None:
    folder = run_of_texts(tmp_path / "run", {"seven": "7"}, {"seven": ["\\boxed{7.0}", "\\boxed{7}"]})
    assert verify(folder, options).verdicts["correct"] == 2
    words = verify(folder, VerifyOptions("string", jobs=1, cache=False))
    assert words.verdicts["correct"] == 1
    assert verifiers(folder) == [VERIFIERS["math"].identity, VERIFIERS["string"].identity]
    assert verdicts(folder, "string")["verdict"].to_list() == ["wrong", "correct"]


def test_options_that_change_verdicts_are_part_of_the_name_they_are_stored_under(
    tmp_path: Path, options: VerifyOptions
) -> None:
    folder = run_of_texts(tmp_path / "run", {"seven": "7"}, {"seven": ["first 3, then 5 and in the end 7 of them all"]})
    assert verify(folder, options).verdicts["unread"] == 1
    loose = verify(folder, VerifyOptions(extraction=ExtractionOptions(last_number=True), jobs=1, cache=False))
    assert loose.verdicts["correct"] == 1
    assert loose.verifier.startswith("math.last_number@")


def test_problems_without_a_verifier_need_one_to_be_named(tmp_path: Path, options: VerifyOptions) -> None:
    folder = run_of_texts(tmp_path / "run", GOLDS, TEXTS, verifier=None)
    with pytest.raises(OffleashError, match=r"3 of the 3 problems .* --verifier"):
        verify(folder, options)


def test_gold_answers_that_cannot_be_read_are_refused_before_anything_is_written(
    tmp_path: Path, options: VerifyOptions
) -> None:
    golds = {**GOLDS, "proof": "The proof goes by induction on the size of the graph.", "none": None}
    folder = run_of_texts(tmp_path / "run", golds, TEXTS)
    with pytest.raises(OffleashError, match=r"(?s)2 of the 5 problems.*'proof'.*induction.*'none'.*no gold answer"):
        verify(folder, options)
    assert verifiers(folder) == []


def test_what_was_decided_once_is_taken_from_the_cache(tmp_path: Path) -> None:
    options = VerifyOptions(jobs=1, cache=tmp_path / "cache")
    first = verify(run_of_texts(tmp_path / "a", GOLDS, TEXTS), options)
    second = verify(run_of_texts(tmp_path / "b", GOLDS, TEXTS), options)
    assert first.decided_by["decided"] >= 2
    assert second.decided_by.get("decided", 0) == 0
    assert second.decided_by["failed"] == 1  # failures are never kept
    assert verdicts(tmp_path / "a").equals(verdicts(tmp_path / "b"))


def test_several_runs_share_what_was_decided(tmp_path: Path) -> None:
    options = VerifyOptions(jobs=1, cache=False)
    folders = [run_of_texts(tmp_path / name, GOLDS, TEXTS) for name in ("base", "rl")]
    with open_judge(options) as judge:
        first, second = (verify_with(judge, folder, options) for folder in folders)
    assert first.decided_by["decided"] >= 2
    assert second.decided_by == {}  # every answer had been given by the first run


def test_reuse_gives_the_verdicts_of_deciding_every_sample_again(tmp_path: Path) -> None:
    answers = ["0.5", "1/2", "\\frac{2}{4}", "0.50", "5", "x", "50\\%", "\\frac12", ".5", "1:2", "", "\\sqrt{1/4}"]
    texts = [f"\\boxed{{{answer}}}" for answer in answers] * 3
    problem = problem_case("half", "\\frac{1}{2}", "", None)
    math = VERIFIERS["math"]
    with Pool(1) as pool:
        result = judge_texts(Judge(pool), [(problem, math)] * len(texts), texts, [False] * len(texts))
        for text, (_, judged) in zip(texts, result, strict=True):
            answer = extract(text, math.steps).answer
            alone = dict(pool.judge(math, [Case(answer, problem.gold)]))[0].verdict if answer else Verdict.UNREAD
            assert judged.verdict is alone


def test_a_damaged_cache_is_set_aside_and_verdicts_are_given_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "verdicts-1.sqlite"
    file.write_bytes(b"this is no database, and it is long enough to be read as one" * 100)
    cache = Cache(tmp_path)
    key = key_of("math@1", problem_hash("1", "", ""), Case("1"))
    cache.store({key: Judgement(Verdict.CORRECT, solution="1")})
    assert cache.lookup([key])[key].verdict is Verdict.CORRECT
    assert file.with_suffix(".damaged").exists()
    cache.close()


def test_a_cache_that_cannot_be_written_is_reported_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "below")
    assert "cannot be used" in cache.error
    cache.store({b"k": Judgement(Verdict.CORRECT)})
    assert cache.lookup([b"k"]) == {}


def test_a_verdict_depends_on_gold_details_answer_and_verifier() -> None:
    keys = {
        key_of(identity, problem_hash(gold, question, details), Case(answer))
        for identity in ("math@1", "math@2")
        for gold in ("1", "2", None, "")
        for question in ("", "1")
        for details in ("", "{}")
        for answer in ("1", "\ud800", "")
    }
    assert len(keys) == 2 * 4 * 2 * 2 * 3


def test_long_answers_are_stored_short_and_stay_distinct() -> None:
    first, other = storable("x" * 5_000 + "1"), storable("x" * 5_000 + "2")
    assert first is not None
    assert other is not None
    assert first != other
    assert len(first) < STORED_CHARACTERS + 100
    assert storable("\ud800") == "?"


def test_what_a_run_does_not_say_is_taken_from_a_set_of_problems(tmp_path: Path, options: VerifyOptions) -> None:
    folder = run_of_texts(tmp_path / "run", {"a": None, "b": None}, {"a": ["\\boxed{7}"], "b": ["\\boxed{8}"]}, None)
    sheet = pl.DataFrame(
        {
            "problem": ["other id", "b"],
            "hash": [question_hash("What is a?"), None],
            "question": ["What is a?", "Another wording"],
            "gold": ["7", "9"],
            "verifier": ["math", "math"],
        }
    )
    done = verify(folder, replace(options, problems=as_problems(sheet)))
    assert done.verdicts == {"correct": 1, "wrong": 1, "unread": 0, "failed": 0}
    with pytest.raises(OffleashError, match=r"1 of the 2 problems .* not among the 1 of --problems"):
        verify(folder, replace(options, problems=as_problems(sheet.head(1))))
