"""The loss of a method over the tokens of samples, in torch: ratios, clips, averages, KL, tokens treated apart."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from offleash.training.method import Average, Chosen, Flags, Floats, Loss, Ratio


@dataclass(frozen=True)
class Terms:
    """N samples of T tokens: what their loss is made of. Behind the end of a sample everything is ignored."""

    new_NT: Tensor  # log-probabilities under the policy that is trained; the only part with a gradient
    old_NT: Tensor  # under the policy that drew them
    advantage_NT: Tensor
    real_NT: Tensor  # whether there is a token
    expert_N: Tensor  # whether the sample came from outside
    anchored_N: Tensor  # whether its problem is one that the base does not reach
    apart_NT: Tensor  # tokens treated apart, see `apart`
    reference_NT: Tensor | None = None  # log-probabilities under the reference, where a KL is wanted


@dataclass(frozen=True)
class Whole:
    """The step that the samples are a part of: gradients of parts add up to that of the whole."""

    samples: int
    tokens: int
    longest: int  # tokens that a sample may have


def policy_loss(loss: Loss, terms: Terms, whole: Whole) -> Tensor:
    """The part of the step's loss that these samples bring."""
    policy_NT = -_objective(loss, terms)
    if loss.anchor:
        policy_NT = torch.where(terms.anchored_N[:, None], torch.zeros_like(policy_NT), policy_NT)
    total_NT = policy_NT + _divergence(loss, terms)
    return _averaged(loss.average, total_NT, terms.real_NT, whole)


def ratios(loss: Loss, terms: Terms) -> Tensor:
    """How much more likely each token, or the sample that it belongs to, is than when it was drawn."""
    change_NT = torch.where(terms.real_NT, terms.new_NT - terms.old_NT, 0.0)
    if loss.ratio is Ratio.SEQUENCE:
        length_N1 = terms.real_NT.sum(1, keepdim=True).clamp(min=1)
        change_NT = (change_NT.sum(1, keepdim=True) / length_N1).expand_as(change_NT)
    return change_NT.exp()


def apart(loss: Loss, logprob_NT: Floats, entropy_NT: Floats, advantage_NT: Floats, real_NT: Flags, seed: int) -> Flags:
    """The tokens of a step that a loss treats apart, chosen among all of them as they were drawn."""
    if loss.chosen is Chosen.NONE or not real_NT.any():
        return np.zeros_like(real_NT)
    if loss.chosen is Chosen.TOP_ENTROPY:
        return _top(entropy_NT, real_NT, loss.share)
    covariance_NT = covariance(logprob_NT, advantage_NT, real_NT)
    if loss.chosen is Chosen.KL_COV:
        return _top(covariance_NT, real_NT, loss.share)
    low, high = loss.band
    places = np.flatnonzero(real_NT & (covariance_NT >= low) & (covariance_NT <= high))
    wanted = min(len(places), max(1, round(loss.share * real_NT.sum())))
    flags = np.zeros(real_NT.size, np.bool_)
    flags[np.random.default_rng(seed).choice(places, wanted, replace=False) if wanted else places] = True
    return flags.reshape(real_NT.shape)


def covariance(logprob_NT: Floats, advantage_NT: Floats, real_NT: Flags) -> Floats:
    """What each token brings to the covariance of log-probability and advantage (Cui et al., arXiv:2505.22617)."""
    logprob_NT = logprob_NT - logprob_NT[real_NT].mean()
    product_NT: Floats = logprob_NT * (advantage_NT - advantage_NT[real_NT].mean())
    return product_NT


def _top(value_NT: Floats, real_NT: Flags, share: float) -> Flags:
    """The given share of the tokens, those with the highest values."""
    wanted = max(1, round(share * int(real_NT.sum())))
    value = np.where(real_NT, value_NT, -np.inf).ravel()
    flags = np.zeros(value.size, np.bool_)
    flags[np.argsort(-value, kind="stable")[:wanted]] = True
    return flags.reshape(real_NT.shape) & real_NT


def _objective(loss: Loss, terms: Terms) -> Tensor:
    """What is to grow, per token: ratio times advantage, clipped where growing further would pay."""
    ratio_NT = ratios(loss, terms)
    clipped_NT = ratio_NT.clamp(1 - loss.low, 1 + loss.high)
    objective_NT = torch.minimum(ratio_NT * terms.advantage_NT, clipped_NT * terms.advantage_NT)
    if loss.shaping:
        chance_NT = torch.where(terms.real_NT, terms.new_NT, 0.0).exp()
        shaped_NT = chance_NT / (chance_NT + loss.shaping) * terms.advantage_NT
        objective_NT = torch.where(terms.expert_N[:, None], shaped_NT, objective_NT)
    if loss.chosen is Chosen.TOP_ENTROPY:
        return torch.where(terms.apart_NT, objective_NT, 0.0)
    if loss.chosen is Chosen.CLIP_COV:
        return torch.where(terms.apart_NT, objective_NT.detach(), objective_NT)
    return objective_NT


def _divergence(loss: Loss, terms: Terms) -> Tensor:
    """KL penalties per token: to the reference, to the base where it is an anchor, to the policy before."""
    total_NT = torch.zeros_like(terms.new_NT)
    if loss.kl or loss.anchor:
        assert terms.reference_NT is not None
        weight_N = torch.where(terms.anchored_N, loss.anchor, loss.kl) if loss.anchor else loss.kl
        weight = weight_N[:, None] if isinstance(weight_N, Tensor) else weight_N
        total_NT = total_NT + weight * k3(terms.new_NT, terms.reference_NT, terms.real_NT)
    if loss.chosen is Chosen.KL_COV:
        change_NT = k3(terms.new_NT, terms.old_NT, terms.real_NT)
        total_NT = total_NT + loss.penalty * torch.where(terms.apart_NT, change_NT, 0.0)
    return total_NT


def k3(new_NT: Tensor, other_NT: Tensor, real_NT: Tensor) -> Tensor:
    """An estimate of KL(new || other) that is never negative: o/n - 1 - log(o/n), for tokens that `new` drew."""
    change_NT = torch.where(real_NT, other_NT - new_NT, 0.0)
    return change_NT.exp() - change_NT - 1


def _averaged(average: Average, total_NT: Tensor, real_NT: Tensor, whole: Whole) -> Tensor:
    total_NT = torch.where(real_NT, total_NT, 0.0)
    if average is Average.TOKEN:
        return total_NT.sum() / whole.tokens
    if average is Average.CONSTANT:
        return total_NT.sum() / (whole.samples * whole.longest)
    return (total_NT.sum(1) / real_NT.sum(1).clamp(min=1)).sum() / whole.samples
