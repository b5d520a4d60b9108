"""Certify: exact masses that bound the truth, resumed problem by problem, never mixed."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from offleash.analyses.certificates.certify import Certification, certified_states, certify, threshold
from offleash.data.certificates import open_certificate
from offleash.data.shards import SHARD
from offleash.errors import OffleashError
from offleash.progress import Progress, silent
from offleash.samplers.exact_support import expander_of
from offleash.samplers.huggingface.sampler import HuggingFace, open_sampler
from offleash.samplers.registry import model_of
from offleash.samplers.sampler import Request, SamplingParams
from offleash.stats.support_classes import IN, OUT, UNDETERMINED, Certified
from offleash.verifying.verify import VerifyOptions
from tests.analyses.certificates.certified_world import BOXES, problems
from tests.samplers.huggingface.tiny import tiny_model

EPSILON = 4e-3
WAY = SamplingParams(max_tokens=4)
QUIET = VerifyOptions(jobs=1, cache=False)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"), words=BOXES)


@pytest.fixture(scope="module")
def sampler(model: Path) -> HuggingFace:
    return open_sampler(model_of(f"hf:{model}"))


def certified(
    folder: Path,
    sampler: HuggingFace,
    frame: pl.DataFrame | None = None,
    decoding: SamplingParams = WAY,
    epsilon: float = EPSILON,
    progress: Progress = silent,
    model: str = "hf:tiny",
) -> Certification:
    asked = problems() if frame is None else frame
    return certify(folder, asked, sampler, model, decoding, epsilon, QUIET, progress)


def rows(folder: Path) -> pl.DataFrame:
    return pl.concat(
        [pl.read_parquet(shard).drop("logprob_raw") for shard in sorted((folder / "completions").glob(SHARD))]
    )


def test_masses_sum_to_one_and_bound_the_chance_of_a_correct_sample(tmp_path: Path, sampler: HuggingFace) -> None:
    done = certified(tmp_path / "cert", sampler)
    masses = done.table.select("correct", "wrong", "unread", "failed", "unexplored").to_numpy()
    assert masses.sum(axis=1) == pytest.approx(np.ones(4), abs=1e-6)
    whole = certified(tmp_path / "whole", sampler, epsilon=1e-9)
    assert whole.table["unexplored"].to_numpy().max() < 1e-4
    truth = whole.table["correct"].to_numpy()
    assert (truth > done.table["correct"].to_numpy() - 1e-6).all()
    assert (truth < masses[:, 0] + masses[:, 4] + 1e-6).all()
    assert (masses[:, 4] > 0.01).all()
    assert 0 < done.total("correct_completions") < whole.total("correct_completions")
    assert done.total("forwarded") < whole.total("forwarded")


def test_the_correct_completions_are_those_whose_text_is_right(tmp_path: Path, sampler: HuggingFace) -> None:
    certified(tmp_path / "cert", sampler)
    found = rows(tmp_path / "cert").filter(pl.col("problem") == "p1", pl.col("logprob_sampled") > np.log(EPSILON))
    request = Request("p1", "b a", 0, 1, 0)
    expansion = expander_of(sampler).expand(request, WAY, EPSILON)
    above = [one for one in expansion.completions if one.logprob_sampled > np.log(EPSILON)]
    assert found["token_ids"].to_list() == [list(one.tokens) for one in above]
    # boxes side by side are one answer of several parts: the last such group must be one box, with a 2 in it
    groups = [re.findall(r"(?:\\boxed\{\d\} ?)+", text) for text in found["text"]]
    right = [group for group in groups if group and group[-1].strip() == "\\boxed{2}"]
    assert right
    table = open_certificate(tmp_path / "cert").table
    assert table.filter(pl.col("problem") == "p1")["correct_completions"].to_list() == [len(right)]
    assert found["text"].n_unique() < found.height  # padding is no text: two sequences, one text, both are kept


def test_an_interrupted_certificate_goes_on_where_it_was(tmp_path: Path, sampler: HuggingFace) -> None:
    def interrupt(text: str) -> None:
        if "problem 3 of 4" in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        certified(tmp_path / "cert", sampler, progress=interrupt)
    kept = {file: file.read_bytes() for file in (tmp_path / "cert").rglob(SHARD)}
    assert len(list((tmp_path / "cert" / "expansions").glob(SHARD))) == 2
    done = certified(tmp_path / "cert", sampler)
    assert (done.new, done.certified) == (2, 4)
    assert all(file.read_bytes() == content for file, content in kept.items())
    certified(tmp_path / "whole", sampler)
    assert rows(tmp_path / "cert").equals(rows(tmp_path / "whole"))
    assert certified(tmp_path / "cert", sampler).new == 0


def test_what_a_kill_left_halfway_is_done_again(tmp_path: Path, sampler: HuggingFace) -> None:
    folder = tmp_path / "cert"
    whole = certified(folder, sampler)
    (folder / "expansions" / "000002.parquet").unlink()  # killed between two files
    (folder / "judged" / "string@1" / "000001.parquet").unlink()  # killed before its verdicts
    (folder / "problems.parquet").unlink()  # killed after run.json
    (folder / "completions" / "000007.parquet.writing").write_bytes(b"cut off")
    done = certified(folder, sampler)
    assert done.new == 1
    assert_frame_equal(done.table, whole.table)


def test_what_would_mix_two_certificates_is_refused_with_both_values(tmp_path: Path, sampler: HuggingFace) -> None:
    folder = tmp_path / "cert"
    certified(folder, sampler)
    with pytest.raises(OffleashError, match=r"epsilon: stored 0.004, requested 0.01"):
        certified(folder, sampler, epsilon=0.01)
    with pytest.raises(OffleashError, match=r"temperature: stored 1.0, requested 0.6"):
        certified(folder, sampler, decoding=replace(WAY, temperature=0.6))
    with pytest.raises(OffleashError, match=r"model: stored hf:tiny, requested hf:other"):
        certified(folder, sampler, model="hf:other")
    with pytest.raises(
        OffleashError, match=r"problems: stored 4, requested 3\n  has problem 'p3': stored true, requested false"
    ):
        certified(folder, sampler, problems(3))
    with pytest.raises(OffleashError, match=r"gold of problem 'p0': stored 1, requested 7"):
        certified(folder, sampler, problems().with_columns(gold=pl.lit("7")))
    about = replace(sampler.about, fingerprint="other weights")
    with pytest.raises(OffleashError, match=r"fingerprint: stored .*, requested other weights"):
        certified(folder, HuggingFace(about, sampler.loaded, sampler.network, sampler.prompt_encoder, sampler.limits))


def test_a_problem_that_cannot_be_asked_is_told_and_the_others_are_certified(
    tmp_path: Path, sampler: HuggingFace
) -> None:
    long = problems().with_columns(
        question=pl.when(pl.col("problem") == "p1").then(pl.lit("a " * 80)).otherwise("question"), prompt=None
    )
    done = certified(tmp_path / "cert", sampler, long)
    assert (done.problems, done.certified) == (4, 3)
    assert list(done.failure_reasons) == ["p1"]
    assert "80 tokens" in done.failure_reasons["p1"]


def test_what_the_verifier_failed_on_may_be_right() -> None:
    table = pl.DataFrame(
        {
            "correct": [0.02, 0.0, 0.0, 0.0],
            "unexplored": [0.5, 0.001, 0.001, 0.02],
            "failed": [0.2, 0.2, 0.002, 0.0],
            "largest": [0.02, 0.0, 0.0, 0.0],
            "largest_failed": [0.2, 0.2, 0.002, 0.0],
        }
    )
    assert certified_states(table, 0.01, Certified.COMPLETION).tolist() == [IN, UNDETERMINED, OUT, OUT]
    assert certified_states(table, 0.01, Certified.MASS).tolist() == [IN, UNDETERMINED, OUT, UNDETERMINED]


def test_the_threshold_is_given_or_that_of_a_budget() -> None:
    assert threshold(None, None) == pytest.approx(3.6569e-4, rel=1e-4)
    assert threshold(None, 1024) == pytest.approx(-np.log(0.05) / 1024)
    assert threshold(0.01, None) == 0.01
    for given, k, words in ((0.01, 8, "both set"), (None, 2, "not 2")):
        with pytest.raises(OffleashError, match=words):
            threshold(given, k)
