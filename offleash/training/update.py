"""Updates: from the groups of a step to a change of the policy's weights."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from offleash.errors import OffleashError
from offleash.samplers.seeds import seed_of
from offleash.training.loss import Terms, Whole, apart, k3, policy_loss, ratios
from offleash.training.method import Flags, Floats, Method
from offleash.training.policy import Policy
from offleash.training.recipe import Optimizer
from offleash.training.rollouts import Taught, trace_rows, wide
from offleash.training.rows import Rows


@dataclass(frozen=True)
class Batch:
    """The samples of a step with all that their loss needs."""

    rows: Rows
    old_NT: Floats
    advantage_NT: Floats
    apart_NT: Flags
    expert_N: Flags
    anchored_N: Flags
    signal: bool  # whether any sample has an advantage
    whole: Whole  # counts the samples too whose advantage is zero, though they need no forward pass


@dataclass(frozen=True)
class Moved:
    """What a step of the optimizer was."""

    loss: float
    gradient: float  # its norm, before it was cut
    kl: float = 0.0  # to the reference, per token
    clipped: float = 0.0  # share of tokens whose ratio left the clip
    trained: int = 0  # samples that went through the model
    signal: bool = False  # whether there was anything to learn


NOTHING = Moved(0.0, 0.0)
CELLS = 1 << 28  # logits in one forward pass: a gigabyte


def batch_of(groups: Sequence[Taught], method: Method, seed: int) -> Batch:
    """The advantages of all groups, and the samples that have a gradient."""
    reward = np.concatenate([taught.group.reward_G for taught in groups])
    mean, std = float(reward.mean()), float(reward.std())
    groups = [replace(one, group=replace(one.group, batch_mean=mean, batch_std=std)) for one in groups]
    T = max(one.token_GT.shape[1] for one in groups)
    advantage_NT = np.concatenate([wide(_spread(method, taught), T) for taught in groups])
    size = [one.group.size for one in groups]
    rows = Rows(
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
        Whole(len(rows.length_N), int(rows.length_N.sum()), groups[0].group.longest),
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
) -> Moved:
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
        moved = Moved(loss, gradient, kl / tokens, clipped / tokens, len(batch.rows.length_N), batch.signal)
    return moved


def supervise(
    policy: Policy, optimizer: torch.optim.Optimizer, pairs: Sequence[tuple[list[int], str]], options: Optimizer
) -> Moved:
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
    return Moved(loss, step(policy, optimizer, options, loss), trained=len(pairs))


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


def _spread(method: Method, taught: Taught) -> Floats:
    """A group's advantages per token."""
    advantage = method.advantages(taught.group)
    if advantage.ndim == 1:
        advantage = np.broadcast_to(advantage[:, None], taught.group.logprob_GT.shape)
    return np.ascontiguousarray(advantage, dtype=np.float64)


def _some(batch: Batch, samples: np.ndarray) -> Batch:
    """Some samples of a batch; the whole that they are a part of stays."""
    rows = batch.rows.part(samples) if len(samples) else Rows([], samples, batch.rows.token_NT[samples], samples)
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


def _terms(batch: Batch, new_NT: Tensor, reference_NT: Tensor | None) -> Terms:
    def tensor(array: np.ndarray) -> Tensor:
        made = torch.from_numpy(array)
        return made.to(new_NT.device, new_NT.dtype if made.is_floating_point() else made.dtype)

    return Terms(
        new_NT,
        tensor(batch.old_NT),
        tensor(batch.advantage_NT),
        tensor(batch.rows.real_NT),
        tensor(batch.expert_N),
        tensor(batch.anchored_N),
        tensor(batch.apart_NT),
        reference_NT,
    )


def _outside(method: Method, terms: Terms) -> int:
    """Tokens whose ratio is beyond the clip."""
    with torch.no_grad():
        ratio = ratios(method.loss, terms)
        far = (ratio < 1 - method.loss.low) | (ratio > 1 + method.loss.high)
        return int((far & terms.real_NT & ~terms.expert_N[:, None]).sum())


def batch_seed(seed: int, step_: int) -> int:
    """The seed of what is chosen at random among the tokens of a step."""
    return seed_of(seed, step_, "tokens")
