"""What top-p cuts off: the completions that stay are exactly those that an expansion with that top-p finds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from offleash.analyses.certificates.certify import Certification, certify
from offleash.analyses.certificates.nucleus import cut_certificates
from offleash.data.certificates import open_certificate
from offleash.errors import OffleashError
from offleash.samplers.exact_support import expander_of
from offleash.samplers.huggingface.sampler import HuggingFace, open_sampler
from offleash.samplers.registry import model_of
from offleash.samplers.sampler import Request, SamplingParams
from offleash.verifying.verify import VerifyOptions
from tests.analyses.certificates.certified_world import BOXES, problems
from tests.samplers.huggingface.tiny import tiny_model

WAY = SamplingParams(max_tokens=3)
QUIET = VerifyOptions(jobs=1, cache=False)
ALL = 1e-9  # nothing of note is less probable
SOME = (0.5, 0.8, 0.95)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"), words=BOXES)


@pytest.fixture(scope="module")
def sampler(model: Path) -> HuggingFace:
    return open_sampler(model_of(f"hf:{model}"))


def certified(
    folder: Path, model: Path, sampler: HuggingFace, way: SamplingParams = WAY, epsilon: float = ALL
) -> Certification:
    return certify(folder, problems(), sampler, f"hf:{model}", way, epsilon, QUIET)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, model: Path, sampler: HuggingFace) -> Path:
    folder = tmp_path_factory.mktemp("certificates") / "whole"
    certified(folder, model, sampler)
    return folder


def correct(folder: Path) -> pl.DataFrame:
    """Correct completions of a certificate."""
    return open_certificate(folder).completions.filter(pl.col("verdict") == "correct").collect()


def expanded(folder: Path, sampler: HuggingFace, way: SamplingParams) -> tuple[list[int], list[float]]:
    """Those of them that an expansion under a decoding finds, of each problem, and their chance together."""
    keys = {
        (problem, key, finish) for problem, key, finish in correct(folder).select("problem", "key", "finish").rows()
    }
    many, chance = [], []
    for problem, prompt in zip(problems()["problem"], problems()["question"], strict=True):
        found = expander_of(sampler).expand(Request(problem, prompt, 0, 1, 0), way, ALL).completions
        kept = [one for one in found if (problem, " ".join(map(str, one.tokens)), one.finish) in keys]
        many.append(len(kept))
        chance.append(sum(np.exp(one.logprob_sampled) for one in kept))
    return many, chance


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_what_stays_is_what_an_expansion_with_that_top_p_finds(
    whole: Path, sampler: HuggingFace, temperature: float
) -> None:
    (found,) = cut_certificates([whole], SOME, None if temperature == 1 else temperature)
    for cut in found.cuts:
        many, chance = expanded(whole, sampler, replace(WAY, temperature=temperature, top_p=cut.top_p))
        assert cut.kept_P.tolist() == many
        assert cut.chance_P == pytest.approx(chance, abs=1e-5)
    assert 0 < found.cuts[0].kept_P.sum() < found.cuts[-1].kept_P.sum() < found.completions_P.sum()


def test_the_mass_removed_is_that_of_the_completions_that_went(whole: Path) -> None:
    (found,) = cut_certificates([whole], (*SOME, 1.0))
    exact = correct(whole).group_by("problem").agg(pl.len(), pl.col("p").sum()).sort("problem")
    assert found.correct_P == pytest.approx(exact["p"].to_numpy(), abs=1e-9)
    assert found.completions_P.tolist() == exact["len"].to_list()
    removed = np.stack([cut.removed_P for cut in found.cuts])
    assert (np.diff(removed, axis=0) <= 1e-12).all()  # a larger top-p removes no more
    assert (removed[-1] == 0).all()
    assert (removed <= found.correct_P + 1e-12).all()
    low, high = found.bounds(found.cuts[0])
    assert low == pytest.approx(removed[0].mean())
    assert high == pytest.approx(low, abs=1e-4)
    first = found.cuts[0]
    assert first.share.value == pytest.approx(removed[0].sum() / found.correct_P.sum())
    assert np.isnan(first.share.interval.low)  # four problems do not show how others differ
    assert found.lost_all(first) == int((first.kept_P == 0).sum())


def test_another_temperature_gives_what_a_certificate_of_that_temperature_gives(
    tmp_path: Path, whole: Path, model: Path, sampler: HuggingFace
) -> None:
    certified(tmp_path / "cool", model, sampler, replace(WAY, temperature=0.6))
    (there,), (own,) = cut_certificates([whole], SOME, 0.6), cut_certificates([tmp_path / "cool"], SOME)
    assert there.correct_P == pytest.approx(own.correct_P, abs=1e-5)
    assert there.unexplored_P == pytest.approx(own.unexplored_P, abs=1e-4)
    for one, other in zip(there.cuts, own.cuts, strict=True):
        assert one.removed_P == pytest.approx(other.removed_P, abs=1e-5)


def test_completions_that_stop_texts_or_the_limit_ended_are_read_as_they_ended(
    tmp_path: Path, model: Path, sampler: HuggingFace
) -> None:
    certified(tmp_path / "cert", model, sampler, replace(WAY, stop=("b",)))
    (found,) = cut_certificates([tmp_path / "cert"], (0.8, 1.0))
    assert found.cuts[1].chance_P == pytest.approx(found.correct_P, abs=1e-5)
    many, _ = expanded(tmp_path / "cert", sampler, replace(WAY, stop=("b",), top_p=0.8))
    assert found.cuts[0].kept_P.tolist() == many


def test_what_was_not_explored_widens_the_bounds(
    tmp_path: Path, model: Path, sampler: HuggingFace, whole: Path
) -> None:
    certified(tmp_path / "coarse", model, sampler, epsilon=4e-3)
    coarse, fine = cut_certificates([tmp_path / "coarse", whole], (0.8,))
    (low, high), (exact, _) = coarse.bounds(coarse.cuts[0]), fine.bounds(fine.cuts[0])
    assert low <= exact <= high
    assert high - low == pytest.approx(coarse.unexplored_P.mean())
    assert high - low > 0.01


def test_what_cannot_be_cut_is_refused_with_the_reason(
    tmp_path: Path, whole: Path, model: Path, sampler: HuggingFace
) -> None:
    certified(tmp_path / "nucleus", model, sampler, replace(WAY, top_p=0.9), epsilon=0.01)
    with pytest.raises(OffleashError, match=r"was certified with top-p 0.9, so what that top-p cut off is not in it"):
        cut_certificates([whole, tmp_path / "nucleus"], (0.8,))
    with pytest.raises(OffleashError, match=r"is not a certificate\. Make one with `offleash certify"):
        cut_certificates([tmp_path / "nowhere"], (0.8,))
    with pytest.raises(OffleashError, match=r"top_p must be above 0 and at most 1; found 1.2"):
        cut_certificates([whole], (0.8, 1.2))
    with pytest.raises(OffleashError, match="At temperature 0"):
        cut_certificates([whole], (0.8,), 0.0)
    with pytest.raises(OffleashError, match="gives only samples"):
        cut_certificates([whole], (0.8,), model=model_of("vllm:org/name"))
    other = tiny_model(tmp_path / "other", words=BOXES, seed=3)
    with pytest.raises(OffleashError, match=r"differs from the one in .* the weights or the precision differ"):
        cut_certificates([whole], (0.8,), model=model_of(f"hf:{other}"))
    certified(tmp_path / "empty", model, sampler, epsilon=0.9)  # above which nothing is: nothing to check weights by
    with pytest.raises(OffleashError, match=r"different weights\), and the certificate has no completion"):
        cut_certificates([tmp_path / "empty"], (0.8,), model=model_of(f"hf:{other}"))
    assert cut_certificates([tmp_path / "empty"], (0.8,))[0].completions_P.sum() == 0
    stranger = tiny_model(tmp_path / "stranger", seed=3)
    with pytest.raises(OffleashError, match="a different vocabulary"):
        cut_certificates([whole], (0.8,), model=model_of(f"hf:{stranger}"))
