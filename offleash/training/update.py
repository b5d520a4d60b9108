"""The update of a step: the loss of the method on the step's groups, its gradient, and the optimizer's step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from offleash.errors import OffleashError
from offleash.samplers.seeds import seed_of
from offleash.training.method import Average, Flags, Floats, Loss, Method, Ratio, TokenBatch, TokenSelection
from offleash.training.policy import Policy
from offleash.training.recipe import Optimizer
from offleash.training.rollouts import TrainingGroup, trace_rows, wide

# The loss of a method over the tokens of samples, in torch: ratios, clips, averages, KL, tokens treated separately.


@dataclass(frozen=True)
class LossInputs:
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
class StepTotals:
    """The step that the samples are a part of: gradients of parts add up to that of the whole."""

    samples: int
    tokens: int
    longest: int  # tokens that a sample may have


def policy_loss(loss: Loss, terms: LossInputs, whole: StepTotals) -> Tensor:
    """The part of the step's loss that these samples bring."""
    policy_NT = -_objective(loss, terms)
    if loss.anchor:
        policy_NT = torch.where(terms.anchored_N[:, None], torch.zeros_like(policy_NT), policy_NT)
    total_NT = policy_NT + _divergence(loss, terms)
    return _averaged(loss.average, total_NT, terms.real_NT, whole)


def ratios(loss: Loss, terms: LossInputs) -> Tensor:
    """How much more likely each token, or the sample that it belongs to, is than when it was drawn."""
    change_NT = torch.where(terms.real_NT, terms.new_NT - terms.old_NT, 0.0)
    if loss.ratio is Ratio.SEQUENCE:
        length_N1 = terms.real_NT.sum(1, keepdim=True).clamp(min=1)
        change_NT = (change_NT.sum(1, keepdim=True) / length_N1).expand_as(change_NT)
    return change_NT.exp()


def apart(loss: Loss, logprob_NT: Floats, entropy_NT: Floats, advantage_NT: Floats, real_NT: Flags, seed: int) -> Flags:
    """The tokens of a step that a loss treats apart, chosen among all of them as they were drawn."""
    if loss.chosen is TokenSelection.NONE or not real_NT.any():
        return np.zeros_like(real_NT)
    if loss.chosen is TokenSelection.TOP_ENTROPY:
        return _top(entropy_NT, real_NT, loss.share)
    covariance_NT = covariance(logprob_NT, advantage_NT, real_NT)
    if loss.chosen is TokenSelection.KL_COV:
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


def _objective(loss: Loss, terms: LossInputs) -> Tensor:
    """What is to grow, per token: ratio times advantage, clipped where growing further would pay."""
    ratio_NT = ratios(loss, terms)
    clipped_NT = ratio_NT.clamp(1 - loss.low, 1 + loss.high)
    objective_NT = torch.minimum(ratio_NT * terms.advantage_NT, clipped_NT * terms.advantage_NT)
    if loss.shaping:
        chance_NT = torch.where(terms.real_NT, terms.new_NT, 0.0).exp()
        shaped_NT = chance_NT / (chance_NT + loss.shaping) * terms.advantage_NT
        objective_NT = torch.where(terms.expert_N[:, None], shaped_NT, objective_NT)
    if loss.chosen is TokenSelection.TOP_ENTROPY:
        return torch.where(terms.apart_NT, objective_NT, 0.0)
    if loss.chosen is TokenSelection.CLIP_COV:
        return torch.where(terms.apart_NT, objective_NT.detach(), objective_NT)
    return objective_NT


def _divergence(loss: Loss, terms: LossInputs) -> Tensor:
    """KL penalties per token: to the reference, to the base where it is an anchor, to the policy before."""
    total_NT = torch.zeros_like(terms.new_NT)
    if loss.kl or loss.anchor:
        assert terms.reference_NT is not None
        weight_N = torch.where(terms.anchored_N, loss.anchor, loss.kl) if loss.anchor else loss.kl
        weight = weight_N[:, None] if isinstance(weight_N, Tensor) else weight_N
        total_NT = total_NT + weight * k3(terms.new_NT, terms.reference_NT, terms.real_NT)
    if loss.chosen is TokenSelection.KL_COV:
        change_NT = k3(terms.new_NT, terms.old_NT, terms.real_NT)
        total_NT = total_NT + loss.penalty * torch.where(terms.apart_NT, change_NT, 0.0)
    return total_NT


def k3(new_NT: Tensor, other_NT: Tensor, real_NT: Tensor) -> Tensor:
    """An estimate of KL(new || other) that is never negative: o/n - 1 - log(o/n), for tokens that `new` drew."""
    change_NT = torch.where(real_NT, other_NT - new_NT, 0.0)
    return change_NT.exp() - change_NT - 1


def _averaged(average: Average, total_NT: Tensor, real_NT: Tensor, whole: StepTotals) -> Tensor:
    total_NT = torch.where(real_NT, total_NT, 0.0)
    if average is Average.TOKEN:
        return total_NT.sum() / whole.tokens
    if average is Average.CONSTANT:
        return total_NT.sum() / (whole.samples * whole.longest)
    return (total_NT.sum(1) / real_NT.sum(1).clamp(min=1)).sum() / whole.samples


# The step: a batch from the groups, its gradient in parts, and the optimizer.


@dataclass(frozen=True)
class Batch:
    """The samples of a step with all that their loss needs."""

    rows: TokenBatch
    old_NT: Floats
    advantage_NT: Floats
    apart_NT: Flags
    expert_N: Flags
    anchored_N: Flags
    signal: bool  # whether any sample has an advantage
    whole: StepTotals  # counts the samples too whose advantage is zero, though they need no forward pass


@dataclass(frozen=True)
class UpdateStats:
    """What a step of the optimizer was."""

    loss: float
    gradient: float  # its norm, before it was cut
    kl: float = 0.0  # to the reference, per token
    clipped: float = 0.0  # share of tokens whose ratio left the clip
    trained: int = 0  # samples that went through the model
    signal: bool = False  # whether there was anything to learn


NOTHING = UpdateStats(0.0, 0.0)
CELLS = 1 << 28  # logits in one forward pass: a gigabyte


def batch_of(groups: Sequence[TrainingGroup], method: Method, seed: int) -> Batch:
    """The advantages of all groups, and the samples that have a gradient."""
    reward = np.concatenate([taught.group.reward_G for taught in groups])
    mean, std = float(reward.mean()), float(reward.std())
    groups = [replace(one, group=replace(one.group, batch_mean=mean, batch_std=std)) for one in groups]
    T = max(one.token_GT.shape[1] for one in groups)
    advantage_NT = np.concatenate([wide(_spread(method, taught), T) for taught in groups])
    size = [one.group.size for one in groups]
    rows = TokenBatch(
        [one.pupil.prompt for one in groups],
        np.repeat(np.arange(len(groups)), size),
        np.concatenate([wide(one.token_GT, T) for one in groups]),
        np.concatenate([one.group.length_G for one in groups]),
    )
    logprob_NT = np.concatenate([wide(one.group.logprob_GT, T) for one in groups])
    entropy_NT = np.concatenate([wide(one.group.entropy_GT, T) for one in groups])
    real_NT, loss = rows.real_NT, method.loss
    batch = Batch(
        rows,
        logprob_NT,
        advantage_NT,
        apart(loss, logprob_NT, entropy_NT, advantage_NT, real_NT, seed),
        np.concatenate([one.group.expert_G for one in groups]),
        np.repeat([not one.group.reached for one in groups], size),
        bool(np.where(real_NT, advantage_NT, 0).any()),
        StepTotals(len(rows.length_N), int(rows.length_N.sum()), groups[0].group.longest),
    )
    if loss.kl or loss.anchor:
        return batch
    pulled_NT = (np.where(real_NT, advantage_NT, 0) != 0) | (batch.apart_NT & bool(loss.penalty))
    return _some(batch, np.flatnonzero(pulled_NT.any(1)))


def update(
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    method: Method,
    options: Optimizer,
    temperature: float,
    reference: Policy | None = None,
) -> UpdateStats:
    """Move the weights along the gradient of the loss, `updates` times on the same samples."""
    if not len(batch.rows.length_N):
        return NOTHING
    parts = [_some(batch, samples) for samples in batch.rows.parts(_room(policy, options))]
    with torch.no_grad():
        references = [reference.logprobs(one.rows, temperature) if reference else None for one in parts]
    moved = NOTHING
    for _ in range(options.updates):
        optimizer.zero_grad(set_to_none=True)
        loss, kl, clipped, tokens = 0.0, 0.0, 0, 0
        for one, known in zip(parts, references, strict=True):
            terms = _terms(one, policy.logprobs(one.rows, temperature), known)
            value = policy_loss(method.loss, terms, batch.whole)
            value.backward()
            loss += value.item()
            kl += k3(terms.new_NT, known, terms.real_NT).sum().item() if known is not None else 0.0
            clipped += _outside(method, terms)
            tokens += int(one.rows.length_N.sum())
        gradient = step(policy, optimizer, options, loss)
        moved = UpdateStats(loss, gradient, kl / tokens, clipped / tokens, len(batch.rows.length_N), batch.signal)
    return moved


def supervise(
    policy: Policy, optimizer: torch.optim.Optimizer, pairs: Sequence[tuple[list[int], str]], options: Optimizer
) -> UpdateStats:
    """One supervised step on traces behind their prompts: the mean log-probability of their tokens grows."""
    rows = trace_rows(policy, pairs)
    tokens, loss = int(rows.length_N.sum()), 0.0
    optimizer.zero_grad(set_to_none=True)
    for samples in rows.parts(_room(policy, options)):
        part = rows.part(samples)
        real = torch.from_numpy(part.real_NT)
        new = policy.logprobs(part, 1.0)
        value = -torch.where(real.to(new.device), new, 0.0).sum() / tokens
        value.backward()
        loss += value.item()
    return UpdateStats(loss, step(policy, optimizer, options, loss), trained=len(pairs))


def step(policy: Policy, optimizer: torch.optim.Optimizer, options: Optimizer, loss: float) -> float:
    """Cut the gradient and take the optimizer's step; refused, the weights untouched, where it is not finite."""
    gradient = float(torch.nn.utils.clip_grad_norm_(policy.loaded.model.parameters(), options.clip))
    if not np.isfinite(loss) or not np.isfinite(gradient):
        raise OffleashError(
            f"The loss is {loss:g}, the norm of its gradient {gradient:g} (NaN or infinite): the training went astray."
        )
    optimizer.step()
    return gradient


def _room(policy: Policy, options: Optimizer) -> int:
    """Tokens in one forward pass: as many as wanted, and fewer where the vocabulary is large."""
    vocabulary = int(policy.loaded.model.config.get_text_config().vocab_size)
    return max(1, min(options.tokens, CELLS // vocabulary))


def _spread(method: Method, taught: TrainingGroup) -> Floats:
    """A group's advantages per token."""
    advantage = method.advantages(taught.group)
    if advantage.ndim == 1:
        advantage = np.broadcast_to(advantage[:, None], taught.group.logprob_GT.shape)
    return np.ascontiguousarray(advantage, dtype=np.float64)


def _some(batch: Batch, samples: np.ndarray) -> Batch:
    """Some samples of a batch; the whole that they are a part of stays."""
    rows = batch.rows.part(samples) if len(samples) else TokenBatch([], samples, batch.rows.token_NT[samples], samples)
    return Batch(
        rows,
        batch.old_NT[samples],
        batch.advantage_NT[samples],
        batch.apart_NT[samples],
        batch.expert_N[samples],
        batch.anchored_N[samples],
        batch.signal,
        batch.whole,
    )


def _terms(batch: Batch, new_NT: Tensor, reference_NT: Tensor | None) -> LossInputs:
    def tensor(array: np.ndarray) -> Tensor:
        made = torch.from_numpy(array)
        return made.to(new_NT.device, new_NT.dtype if made.is_floating_point() else made.dtype)

    return LossInputs(
        new_NT,
        tensor(batch.old_NT),
        tensor(batch.advantage_NT),
        tensor(batch.rows.real_NT),
        tensor(batch.expert_N),
        tensor(batch.anchored_N),
        tensor(batch.apart_NT),
        reference_NT,
    )


def _outside(method: Method, terms: LossInputs) -> int:
    """Tokens whose ratio is beyond the clip."""
    with torch.no_grad():
        ratio = ratios(method.loss, terms)
        far = (ratio < 1 - method.loss.low) | (ratio > 1 + method.loss.high)
        return int((far & terms.real_NT & ~terms.expert_N[:, None]).sum())


def batch_seed(seed: int, step_: int) -> int:
    """The seed of what is chosen at random among the tokens of a step."""
    return seed_of(seed, step_, "tokens")
