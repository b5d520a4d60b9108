"""The update of a step: the loss of the method on the step's groups, its gradient, and the optimizer's step.

For a token with ratio r = pi / pi_old and advantage A every method minimises an average over tokens of

    -min(r A, clip(r, 1 - low, 1 + high) A)  +  kl * k3(pi, reference)        (PPO-clip, as in GRPO, arXiv:2402.03300)

and methods differ in A (methods/), in the ratio (per token, or per sample: GSPO), in the average (`Average`), and in
tokens that are treated separately (`TokenSelection`). A step is computed in parts that fit into memory: each part is
divided by the totals of the whole step, so that gradients of parts add up to the gradient of the step.
"""

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
from offleash.training.rollouts import TrainingGroup, pad_tokens, trace_rows

# The loss of a method over the tokens of samples, in torch: ratios, clips, averages, KL, tokens treated separately.


@dataclass(frozen=True)
class LossInputs:
    """N samples of T tokens: the inputs of their loss. Values after the end of a sample are ignored."""

    new_NT: Tensor  # log-probabilities under the policy that is trained; the only part with a gradient
    old_NT: Tensor  # under the policy that drew them
    advantage_NT: Tensor
    token_mask_NT: Tensor  # whether there is a token
    expert_N: Tensor  # whether the sample is an external trace
    anchored_N: Tensor  # whether its problem is one that the base does not reach
    selected_NT: Tensor  # tokens treated separately, see `select_tokens`
    reference_NT: Tensor | None = None  # log-probabilities under the reference, where a KL is wanted


@dataclass(frozen=True)
class StepTotals:
    """The step that the samples are a part of: gradients of parts add up to that of the whole step."""

    samples: int
    tokens: int
    longest: int  # maximum number of tokens of a sample


def policy_loss(loss: Loss, inputs: LossInputs, totals: StepTotals) -> Tensor:
    """These samples' part of the step's loss.

    Where the loss has an anchor, samples of problems that the base does not reach (`anchored_N`) have no policy
    gradient: only the KL to the base acts on them.
    """
    policy_NT = -_objective(loss, inputs)
    if loss.anchor:
        policy_NT = torch.where(inputs.anchored_N[:, None], torch.zeros_like(policy_NT), policy_NT)
    total_NT = policy_NT + _divergence(loss, inputs)
    return _average_loss(loss.average, total_NT, inputs.token_mask_NT, totals)


def ratios(loss: Loss, inputs: LossInputs) -> Tensor:
    """pi / pi_old of each token; for Ratio.SEQUENCE the geometric mean over the sample (GSPO, arXiv:2507.18071)."""
    log_ratio_NT = torch.where(inputs.token_mask_NT, inputs.new_NT - inputs.old_NT, 0.0)
    if loss.ratio is Ratio.SEQUENCE:
        length_N1 = inputs.token_mask_NT.sum(1, keepdim=True).clamp(min=1)
        log_ratio_NT = (log_ratio_NT.sum(1, keepdim=True) / length_N1).expand_as(log_ratio_NT)
    return log_ratio_NT.exp()


def select_tokens(
    loss: Loss, logprob_NT: Floats, entropy_NT: Floats, advantage_NT: Floats, token_mask_NT: Flags, seed: int
) -> Flags:
    """The tokens of a step that a loss treats separately, chosen among all of the step as they were drawn.

    TOP_ENTROPY: the `share` of highest entropy (arXiv:2506.01939). KL_COV: the `share` of highest covariance. CLIP_COV:
    a random `share` of all tokens among those whose covariance lies in the band (both arXiv:2505.22617).
    """
    if loss.chosen is TokenSelection.NONE or not token_mask_NT.any():
        return np.zeros_like(token_mask_NT)
    if loss.chosen is TokenSelection.TOP_ENTROPY:
        return _top_tokens(entropy_NT, token_mask_NT, loss.share)
    covariance_NT = covariance(logprob_NT, advantage_NT, token_mask_NT)
    if loss.chosen is TokenSelection.KL_COV:
        return _top_tokens(covariance_NT, token_mask_NT, loss.share)
    low, high = loss.band
    candidates = np.flatnonzero(token_mask_NT & (covariance_NT >= low) & (covariance_NT <= high))
    wanted = min(len(candidates), max(1, round(loss.share * token_mask_NT.sum())))
    flags = np.zeros(token_mask_NT.size, np.bool_)
    flags[np.random.default_rng(seed).choice(candidates, wanted, replace=False) if wanted else candidates] = True
    return flags.reshape(token_mask_NT.shape)


def covariance(logprob_NT: Floats, advantage_NT: Floats, token_mask_NT: Flags) -> Floats:
    """Each token's term in the covariance of log-probability and advantage (Cui et al., arXiv:2505.22617)."""
    logprob_NT = logprob_NT - logprob_NT[token_mask_NT].mean()
    product_NT: Floats = logprob_NT * (advantage_NT - advantage_NT[token_mask_NT].mean())
    return product_NT


def _top_tokens(value_NT: Floats, token_mask_NT: Flags, share: float) -> Flags:
    """The given share of the tokens with the highest values."""
    wanted = max(1, round(share * int(token_mask_NT.sum())))
    value = np.where(token_mask_NT, value_NT, -np.inf).ravel()
    flags = np.zeros(value.size, np.bool_)
    flags[np.argsort(-value, kind="stable")[:wanted]] = True
    return flags.reshape(token_mask_NT.shape) & token_mask_NT


def _objective(loss: Loss, inputs: LossInputs) -> Tensor:
    """The objective per token: ratio times advantage, clipped on the side where a larger change would increase it."""
    ratio_NT = ratios(loss, inputs)
    clipped_NT = ratio_NT.clamp(1 - loss.low, 1 + loss.high)
    objective_NT = torch.minimum(ratio_NT * inputs.advantage_NT, clipped_NT * inputs.advantage_NT)
    if loss.shaping:
        # Tokens of external traces: pi / (pi + gamma) in place of the ratio, not clipped (LUFFY, arXiv:2504.14945).
        probability_NT = torch.where(inputs.token_mask_NT, inputs.new_NT, 0.0).exp()
        shaped_NT = probability_NT / (probability_NT + loss.shaping) * inputs.advantage_NT
        objective_NT = torch.where(inputs.expert_N[:, None], shaped_NT, objective_NT)
    if loss.chosen is TokenSelection.TOP_ENTROPY:
        return torch.where(inputs.selected_NT, objective_NT, 0.0)
    if loss.chosen is TokenSelection.CLIP_COV:
        # detached: these tokens stay in the loss and its average, but have no gradient
        return torch.where(inputs.selected_NT, objective_NT.detach(), objective_NT)
    return objective_NT


def _divergence(loss: Loss, inputs: LossInputs) -> Tensor:
    """KL penalties per token: to the reference, to the base where it is an anchor, to the policy before."""
    total_NT = torch.zeros_like(inputs.new_NT)
    if loss.kl or loss.anchor:
        assert inputs.reference_NT is not None
        weight_N = torch.where(inputs.anchored_N, loss.anchor, loss.kl) if loss.anchor else loss.kl
        weight = weight_N[:, None] if isinstance(weight_N, Tensor) else weight_N
        total_NT = total_NT + weight * k3(inputs.new_NT, inputs.reference_NT, inputs.token_mask_NT)
    if loss.chosen is TokenSelection.KL_COV:
        kl_NT = k3(inputs.new_NT, inputs.old_NT, inputs.token_mask_NT)
        total_NT = total_NT + loss.penalty * torch.where(inputs.selected_NT, kl_NT, 0.0)
    return total_NT


def k3(new_NT: Tensor, other_NT: Tensor, token_mask_NT: Tensor) -> Tensor:
    """The k3 estimator of KL(new || other): o/n - 1 - log(o/n), never negative, unbiased for tokens that `new` drew."""
    log_ratio_NT = torch.where(token_mask_NT, other_NT - new_NT, 0.0)
    return log_ratio_NT.exp() - log_ratio_NT - 1


def _average_loss(average: Average, total_NT: Tensor, token_mask_NT: Tensor, totals: StepTotals) -> Tensor:
    """One number, divided by the totals of the step and not of the part: see the top of this file.

    TOKEN weighs every token alike (DAPO); SAMPLE every sample, so that tokens of long samples count less (GRPO);
    CONSTANT divides by a number that does not depend on the samples, which removes that bias (Dr. GRPO).
    """
    total_NT = torch.where(token_mask_NT, total_NT, 0.0)
    if average is Average.TOKEN:
        return total_NT.sum() / totals.tokens
    if average is Average.CONSTANT:
        return total_NT.sum() / (totals.samples * totals.longest)
    return (total_NT.sum(1) / token_mask_NT.sum(1).clamp(min=1)).sum() / totals.samples


# The step: a batch from the groups, its gradient in parts, and the optimizer.


@dataclass(frozen=True)
class Batch:
    """The samples of a step with everything that their loss needs."""

    rows: TokenBatch
    old_NT: Floats
    advantage_NT: Floats
    selected_NT: Flags
    expert_N: Flags
    anchored_N: Flags
    signal: bool  # whether any sample has an advantage
    totals: StepTotals  # counts the samples too whose advantage is zero, though they need no forward pass


@dataclass(frozen=True)
class UpdateStats:
    """Numbers of an optimizer step, for the metrics."""

    loss: float
    gradient: float  # its norm before clipping
    kl: float = 0.0  # to the reference, per token
    clipped: float = 0.0  # share of tokens whose ratio is outside of the clip
    trained: int = 0  # samples that went through the model
    signal: bool = False  # whether there was anything to learn


NO_UPDATE = UpdateStats(0.0, 0.0)
LOGITS_PER_PASS = 1 << 28  # logits in one forward pass: a gigabyte of float32


def batch_of(groups: Sequence[TrainingGroup], method: Method, seed: int) -> Batch:
    """The samples of all groups that have a gradient, with their advantages.

    Samples whose advantage is 0 are left out (they need no forward pass) unless a KL acts on them; `totals` counts them
    all the same, because the average is over the whole step.
    """
    reward = np.concatenate([rollout.group.reward_G for rollout in groups])
    mean, std = float(reward.mean()), float(reward.std())
    groups = [replace(rollout, group=replace(rollout.group, batch_mean=mean, batch_std=std)) for rollout in groups]
    T = max(rollout.token_GT.shape[1] for rollout in groups)
    advantage_NT = np.concatenate([pad_tokens(_advantages(method, rollout), T) for rollout in groups])
    size = [rollout.group.size for rollout in groups]
    rows = TokenBatch(
        [rollout.problem.prompt for rollout in groups],
        np.repeat(np.arange(len(groups)), size),
        np.concatenate([pad_tokens(rollout.token_GT, T) for rollout in groups]),
        np.concatenate([rollout.group.length_G for rollout in groups]),
    )
    logprob_NT = np.concatenate([pad_tokens(rollout.group.logprob_GT, T) for rollout in groups])
    entropy_NT = np.concatenate([pad_tokens(rollout.group.entropy_GT, T) for rollout in groups])
    token_mask_NT, loss = rows.token_mask_NT, method.loss
    batch = Batch(
        rows,
        logprob_NT,
        advantage_NT,
        select_tokens(loss, logprob_NT, entropy_NT, advantage_NT, token_mask_NT, seed),
        np.concatenate([rollout.group.expert_G for rollout in groups]),
        np.repeat([not rollout.group.reached for rollout in groups], size),
        bool(np.where(token_mask_NT, advantage_NT, 0).any()),
        StepTotals(len(rows.length_N), int(rows.length_N.sum()), groups[0].group.longest),
    )
    if loss.kl or loss.anchor:
        return batch
    has_gradient_NT = (np.where(token_mask_NT, advantage_NT, 0) != 0) | (batch.selected_NT & bool(loss.penalty))
    return _batch_part(batch, np.flatnonzero(has_gradient_NT.any(1)))


def update(
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    method: Method,
    options: Optimizer,
    temperature: float,
    reference: Policy | None = None,
) -> UpdateStats:
    """Update the weights on the loss, `updates` times on the same samples.

    `old` log-probabilities stay those of the draw, so from the second update on ratios differ from 1 and clips act.
    """
    if not len(batch.rows.length_N):
        return NO_UPDATE
    parts = [_batch_part(batch, samples) for samples in batch.rows.parts(_tokens_per_pass(policy, options))]
    with torch.no_grad():
        references = [reference.logprobs(part.rows, temperature) if reference else None for part in parts]
    stats = NO_UPDATE
    for _ in range(options.updates):
        optimizer.zero_grad(set_to_none=True)
        loss, kl, clipped, tokens = 0.0, 0.0, 0, 0
        for part, reference_NT in zip(parts, references, strict=True):
            inputs = _loss_inputs(part, policy.logprobs(part.rows, temperature), reference_NT)
            value = policy_loss(method.loss, inputs, batch.totals)
            value.backward()
            loss += value.item()
            kl += (
                k3(inputs.new_NT, reference_NT, inputs.token_mask_NT).sum().item() if reference_NT is not None else 0.0
            )
            clipped += _clipped_tokens(method, inputs)
            tokens += int(part.rows.length_N.sum())
        gradient = step(policy, optimizer, options, loss)
        stats = UpdateStats(loss, gradient, kl / tokens, clipped / tokens, len(batch.rows.length_N), batch.signal)
    return stats


def supervise(
    policy: Policy, optimizer: torch.optim.Optimizer, pairs: Sequence[tuple[list[int], str]], options: Optimizer
) -> UpdateStats:
    """One supervised step on (prompt, trace) pairs: the mean negative log-likelihood over their tokens."""
    rows = trace_rows(policy, pairs)
    tokens, loss = int(rows.length_N.sum()), 0.0
    optimizer.zero_grad(set_to_none=True)
    for samples in rows.parts(_tokens_per_pass(policy, options)):
        part = rows.part(samples)
        token_mask = torch.from_numpy(part.token_mask_NT)
        new = policy.logprobs(part, 1.0)
        value = -torch.where(token_mask.to(new.device), new, 0.0).sum() / tokens
        value.backward()
        loss += value.item()
    return UpdateStats(loss, step(policy, optimizer, options, loss), trained=len(pairs))


def step(policy: Policy, optimizer: torch.optim.Optimizer, options: Optimizer, loss: float) -> float:
    """Clip the gradient and take an optimizer step; refused before the weights change if it is not finite."""
    gradient = float(torch.nn.utils.clip_grad_norm_(policy.loaded.model.parameters(), options.clip))
    if not np.isfinite(loss) or not np.isfinite(gradient):
        raise OffleashError(
            f"The loss is {loss:g} and its gradient norm {gradient:g} (NaN or infinite): training diverged."
        )
    optimizer.step()
    return gradient


def _tokens_per_pass(policy: Policy, options: Optimizer) -> int:
    """Tokens in one forward pass: as the recipe says, or fewer if the vocabulary is large."""
    vocabulary = int(policy.loaded.model.config.get_text_config().vocab_size)
    return max(1, min(options.tokens, LOGITS_PER_PASS // vocabulary))


def _advantages(method: Method, rollout: TrainingGroup) -> Floats:
    """A group's advantages per token."""
    advantage = method.advantages(rollout.group)
    if advantage.ndim == 1:
        advantage = np.broadcast_to(advantage[:, None], rollout.group.logprob_GT.shape)
    return np.ascontiguousarray(advantage, dtype=np.float64)


def _batch_part(batch: Batch, samples: np.ndarray) -> Batch:
    """Some samples of a batch; the totals stay those of the step."""
    rows = batch.rows.part(samples) if len(samples) else TokenBatch([], samples, batch.rows.token_NT[samples], samples)
    return Batch(
        rows,
        batch.old_NT[samples],
        batch.advantage_NT[samples],
        batch.selected_NT[samples],
        batch.expert_N[samples],
        batch.anchored_N[samples],
        batch.signal,
        batch.totals,
    )


def _loss_inputs(batch: Batch, new_NT: Tensor, reference_NT: Tensor | None) -> LossInputs:
    def tensor(array: np.ndarray) -> Tensor:
        array_tensor = torch.from_numpy(array)
        return array_tensor.to(new_NT.device, new_NT.dtype if array_tensor.is_floating_point() else array_tensor.dtype)

    return LossInputs(
        new_NT,
        tensor(batch.old_NT),
        tensor(batch.advantage_NT),
        tensor(batch.rows.token_mask_NT),
        tensor(batch.expert_N),
        tensor(batch.anchored_N),
        tensor(batch.selected_NT),
        reference_NT,
    )


def _clipped_tokens(method: Method, inputs: LossInputs) -> int:
    """How many of the policy's own tokens have a ratio outside of the clip."""
    with torch.no_grad():
        ratio = ratios(method.loss, inputs)
        is_clipped = (ratio < 1 - method.loss.low) | (ratio > 1 + method.loss.high)
        return int((is_clipped & inputs.token_mask_NT & ~inputs.expert_N[:, None]).sum())


def batch_seed(seed: int, step_: int) -> int:
    """The seed for choosing tokens of a step at random."""
    return seed_of(seed, step_, "tokens")
