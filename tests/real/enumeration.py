"""Every completion of a tiny model and its probability, by plain forward passes: what samplers must agree with."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

from offleash.samplers.sampler import SamplingParams


@dataclass(frozen=True)
class Completion:
    """Its words without the end, and its log-probability under the model and under a decoding."""

    words: tuple[str, ...]
    raw: float
    sampled: float
    tokens: int  # the end included


def completions(model: Any, tokenizer: Any, prompt_ids: list[int], decoding: SamplingParams) -> dict[str, Completion]:
    """All completions by their words, each once: those that end, and those that are cut at max_tokens."""
    end, size = tokenizer.eos_token_id, len(tokenizer)
    found = {}
    for length in range(decoding.max_tokens + 1):
        bodies = list(product([token for token in range(size) if token != end], repeat=length))
        ids = torch.tensor([[*prompt_ids, *body] for body in bodies])
        with torch.no_grad():
            raw_NTV = torch.log_softmax(model(ids).logits[:, len(prompt_ids) - 1 :].double(), -1).numpy()
        sampled_NTV = _decoded(raw_NTV, decoding)
        cut = length == decoding.max_tokens
        for number, body in enumerate(bodies):
            tokens = [*body] if cut else [*body, end]
            at = (number, range(len(tokens)), tokens)
            words = tuple(tokenizer.convert_ids_to_tokens(body))
            sums = float(raw_NTV[at].sum()), float(sampled_NTV[at].sum())
            found[" ".join(words)] = Completion(words, *sums, tokens=len(tokens))
    return found


def p_value(texts: list[str], expected: dict[str, Completion]) -> float:
    """Chi-square of drawn texts against the probabilities; cells that expect fewer than 5 are one cell."""
    counts = dict.fromkeys(expected, 0)
    for text in texts:
        counts[text] += 1
    mean_C = len(texts) * np.exp([one.sampled for one in expected.values()])
    seen_C = np.array(list(counts.values()))
    assert not seen_C[mean_C == 0].any(), "a completion was drawn that the decoding leaves out"
    few = mean_C < 5
    mean_C, seen_C = np.append(mean_C[~few], mean_C[few].sum()), np.append(seen_C[~few], seen_C[few].sum())
    mean_C, seen_C = mean_C[mean_C > 0], seen_C[mean_C > 0]
    assert np.isclose(mean_C.sum(), len(texts)), "the probabilities do not sum to 1"
    return float(stats.chi2.sf(((seen_C - mean_C) ** 2 / mean_C).sum(), len(mean_C) - 1))


def _decoded(logprob: NDArray[np.float64], decoding: SamplingParams) -> NDArray[np.float64]:
    """Log-probabilities after temperature, then top-k, top-p and min-p."""
    weight = np.exp(logprob / decoding.temperature)
    weight /= weight.sum(-1, keepdims=True)
    order = np.argsort(-weight, axis=-1)
    ranked = np.take_along_axis(weight, order, -1)
    if decoding.top_k:
        ranked[..., decoding.top_k :] = 0
        ranked /= ranked.sum(-1, keepdims=True)
    before = np.cumsum(ranked, -1) - ranked
    ranked[before >= decoding.top_p] = 0
    ranked[ranked < decoding.min_p * ranked[..., :1]] = 0
    ranked /= ranked.sum(-1, keepdims=True)
    np.put_along_axis(weight, order, ranked, -1)
    with np.errstate(divide="ignore"):
        result: NDArray[np.float64] = np.log(weight)
    return result
