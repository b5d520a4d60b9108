"""Distributions: the filters of transformers, exactly; choices by number follow the probabilities."""

import numpy as np
import pytest
import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from offleash.samplers.huggingface.prefix_sampling import distribution
from offleash.samplers.sampler import SamplingParams
from offleash.samplers.seeds import sample_seeds, uniform

DECODINGS = [
    SamplingParams(),
    SamplingParams(temperature=0.6, top_p=0.95),
    SamplingParams(temperature=1.7, top_k=5),
    SamplingParams(temperature=0.8, top_k=12, top_p=0.7, min_p=0.1),
    SamplingParams(min_p=0.3),
    SamplingParams(top_p=0.01),
]


def warped(logits: torch.Tensor, decoding: SamplingParams) -> torch.Tensor:
    """The same by the warpers of transformers."""
    warpers = LogitsProcessorList([TemperatureLogitsWarper(decoding.temperature)])
    if decoding.top_k:
        warpers.append(TopKLogitsWarper(decoding.top_k))
    if decoding.top_p < 1:
        warpers.append(TopPLogitsWarper(decoding.top_p))
    if decoding.min_p:
        warpers.append(MinPLogitsWarper(decoding.min_p))
    scores: torch.Tensor = warpers(torch.zeros(len(logits), 1, dtype=torch.long), logits)
    return scores.log_softmax(-1)


@pytest.mark.parametrize("decoding", DECODINGS, ids=str)
def test_filters_are_those_of_transformers(decoding: SamplingParams) -> None:
    logits = torch.randn(300, 40, generator=torch.Generator().manual_seed(1)) * 3
    actual, expected = distribution(logits, decoding), warped(logits, decoding)
    assert (torch.isinf(actual.sampled_RV) == torch.isinf(expected)).all()
    kept = ~torch.isinf(expected)
    assert torch.allclose(actual.sampled_RV[kept], expected[kept], atol=1e-5)
    assert torch.allclose(actual.raw_RV, logits.log_softmax(-1), atol=1e-5)
    entropy = torch.special.entr(expected.exp()).sum(-1)
    assert torch.allclose(actual.entropy_sampled_R, entropy, atol=1e-4)


def test_temperature_0_takes_the_most_probable_token() -> None:
    logits = torch.randn(50, 40, generator=torch.Generator().manual_seed(2))
    result = distribution(logits, SamplingParams(temperature=0))
    token = result.choose(torch.arange(50), torch.linspace(0, 0.999999, 50, dtype=torch.float64))
    assert (token == logits.argmax(-1)).all()
    assert (result.entropy_sampled_R == 0).all()


def test_choices_follow_the_probabilities_of_their_row_and_never_leave_it() -> None:
    logits = torch.randn(7, 11, generator=torch.Generator().manual_seed(3)) * 2
    logits[:, 10] = -torch.inf
    logits[:, 0] = -torch.inf
    result = distribution(logits, SamplingParams(temperature=0.9, top_k=6))
    N = 70_000
    row = torch.arange(N) % 7
    token = result.choose(row, torch.from_numpy(uniform(sample_seeds(1, 0, N), 0)))
    assert not torch.isinf(result.sampled_RV[row, token]).any()
    for index in range(7):
        count = np.bincount(token[row == index].numpy(), minlength=11)
        chance = result.sampled_RV[index].double().exp().numpy()
        z = (count - chance * count.sum()) / np.sqrt(np.maximum(chance * (1 - chance) * count.sum(), 1))
        assert np.abs(z).max() < 5


def test_numbers_at_the_ends_choose_tokens_that_can_be_chosen() -> None:
    logits = torch.full((4096, 6), -torch.inf)
    logits[:, 2:4] = 0.0
    result = distribution(logits, SamplingParams())
    row = torch.arange(4096)
    assert (result.choose(row, torch.zeros(4096, dtype=torch.float64)) == 2).all()
    assert (result.choose(row, torch.full((4096,), 1 - 2.0**-53, dtype=torch.float64)) == 3).all()
