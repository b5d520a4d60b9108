"""From logits to the distribution that is drawn from: temperature, top-k, top-p and min-p, and what is kept of both."""

from dataclasses import dataclass

import torch
from torch import Tensor

from offleash.errors import OffleashError
from offleash.samplers.sampler import Decoding

HEAD = 1024  # tokens that are sorted for top-p at first: a whole vocabulary takes long
LAST = 1.0 - 2.0**-40  # the largest number by which a token is chosen: it stays below 1 when a row's number is added


@dataclass(frozen=True)
class Distribution:
    """What R prefixes may go on with: log-probabilities over V tokens, raw and as drawn from, and their entropies."""

    raw_RV: Tensor
    sampled_RV: Tensor  # -inf where the decoding leaves a token out
    entropy_raw_R: Tensor
    entropy_sampled_R: Tensor

    def choose(self, row_N: Tensor, uniform_N: Tensor) -> Tensor:
        """For each of N samples the token in whose part of [0, 1) its number falls, on the row it stands on."""
        R, V = self.sampled_RV.shape
        edge_RV = self.sampled_RV.exp().double().cumsum_(-1)
        if not torch.isfinite(edge_RV[:, -1]).all():
            raise OffleashError(
                "The model gives probabilities that are no numbers (NaN): its weights are damaged, or its precision is "
                "too small for them. Try --set dtype=float32."
            )
        edge_RV /= edge_RV[:, -1:].clone()
        edge_RV += torch.arange(R, dtype=torch.float64, device=edge_RV.device)[:, None]  # one sorted line of all rows
        place_N = torch.searchsorted(edge_RV.view(-1), uniform_N.clamp_max(LAST) + row_N, right=True)
        return place_N - row_N * V


def distribution(logits_RV: Tensor, decoding: Decoding) -> Distribution:
    """The distribution of the next token, in the order of Hugging Face: temperature, top-k, top-p, min-p."""
    raw_RV = torch.log_softmax(logits_RV.float(), -1)
    entropy_R = _entropy(raw_RV)
    if decoding.plain:
        return Distribution(raw_RV, raw_RV, entropy_R, entropy_R)
    sampled_RV = torch.log_softmax(_kept(raw_RV, decoding), -1)
    return Distribution(raw_RV, sampled_RV, entropy_R, _entropy(sampled_RV))


def _entropy(log_RV: Tensor) -> Tensor:
    entropy_R: Tensor = -(log_RV.exp() * log_RV.clamp_min(-1e30)).sum(-1)  # 0 log 0 is 0
    return entropy_R


def _kept(raw_RV: Tensor, decoding: Decoding) -> Tensor:
    """Scaled log-weights, -inf where a token is left out; the most probable token always stays."""
    if decoding.temperature == 0:
        best_R = raw_RV.argmax(-1, keepdim=True)
        return torch.full_like(raw_RV, -torch.inf).scatter_(-1, best_R, 0.0)
    scaled_RV = raw_RV / decoding.temperature
    if 0 < decoding.top_k < scaled_RV.shape[-1]:
        least_R = scaled_RV.topk(decoding.top_k, -1).values[:, -1:]
        scaled_RV = scaled_RV.masked_fill(scaled_RV < least_R, -torch.inf)
    if decoding.top_p < 1:
        chance_RV = torch.softmax(scaled_RV, -1)
        scaled_RV = scaled_RV.masked_fill(chance_RV < _least_kept(chance_RV, decoding.top_p), -torch.inf)
    if decoding.min_p > 0:
        chance_RV = torch.softmax(scaled_RV, -1)
        floor_R = decoding.min_p * chance_RV.max(-1, keepdim=True).values
        scaled_RV = scaled_RV.masked_fill(chance_RV < floor_R, -torch.inf)
    return scaled_RV


def _least_kept(chance_RV: Tensor, top_p: float) -> Tensor:
    """The probability of the last token that top-p keeps: all that are more probable have less than top_p together.

    Tokens that are exactly as probable stay too: which of them a sort puts first is chance.
    """
    most = min(HEAD, chance_RV.shape[-1])
    head_RH = chance_RV.topk(most, -1).values
    before_RH = head_RH.double().cumsum(-1) - head_RH
    if most < chance_RV.shape[-1] and bool((before_RH[:, -1] < top_p).any()):  # a flat distribution: sort all of it
        head_RH = chance_RV.sort(dim=-1, descending=True).values
        before_RH = head_RH.double().cumsum(-1) - head_RH
    return head_RH.masked_fill(before_RH >= top_p, 2.0).min(-1, keepdim=True).values
