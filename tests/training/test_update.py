"""Updates: the gradient is that of the loss on all samples, however they are cut, and what is not finite is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from offleash.errors import OffleashError
from offleash.training.method import Floats, Method, RolloutGroup
from offleash.training.methods.registry import method
from offleash.training.policy import Policy, frozen_copy, open_policy
from offleash.training.recipe import Optimizer
from offleash.training.rollouts import TrainingGroup
from offleash.training.update import LossInputs, StepTotals, batch_of, batch_seed, policy_loss, supervise, update
from tests.samplers.huggingface.tiny import tiny_model
from tests.training.classroom import random_groups

SIZES = (4, 5, 6, 6)
OPTIONS = Optimizer(rate=0.1, clip=1e9)


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    return open_policy(str(tiny_model(tmp_path)))


def sgd(policy: Policy, rate: float = 0.1) -> torch.optim.Optimizer:
    return torch.optim.SGD(policy.loaded.model.parameters(), lr=rate)


def weights_of(policy: Policy) -> list[torch.Tensor]:
    return [weights.detach().clone() for weights in policy.loaded.model.parameters()]


def plain_logprobs(policy: Policy, training: TrainingGroup, row: int, temperature: float) -> torch.Tensor:
    """Of one sample's tokens, by one forward pass of the model itself."""
    prompt, tokens = training.problem.prompt, training.token_GT[row, : training.group.length_G[row]].tolist()
    logits = policy.loaded.model(input_ids=torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1 : -1]
    return torch.log_softmax(logits / temperature, -1)[range(len(tokens)), tokens]


def loss_by_hand(
    policy: Policy, groups: list[TrainingGroup], made: Method, temperature: float, reference: Policy | None = None
) -> torch.Tensor:
    """The loss of a step, one sample at a time, all samples of all groups."""
    reward = np.concatenate([training.group.reward_G for training in groups])
    whole = StepTotals(len(reward), int(sum(t.group.length_G.sum() for t in groups)), groups[0].group.longest)
    total = torch.zeros(())
    for item in (policy, *([reference] if reference else [])):
        item.loaded.model.set_attn_implementation("eager")
    for training in groups:
        group = replace(training.group, batch_mean=float(reward.mean()), batch_std=float(reward.std()))
        advantage = made.advantages(group)
        for row in range(group.size):
            new = plain_logprobs(policy, training, row, temperature)[None]
            mine = advantage[row : row + 1] if advantage.ndim == 2 else np.full((1, new.shape[1]), advantage[row])
            terms = LossInputs(
                new,
                torch.from_numpy(group.logprob_GT[row : row + 1, : new.shape[1]]).float(),
                torch.from_numpy(mine[:, : new.shape[1]]).float(),
                torch.ones_like(new, dtype=torch.bool),
                torch.from_numpy(group.expert_G[row : row + 1]),
                torch.tensor([not group.reached]),
                torch.zeros_like(new, dtype=torch.bool),
                plain_logprobs(reference, training, row, temperature)[None].detach() if reference else None,
            )
            total = total + policy_loss(made.loss, terms, whole)
    return total


NAMES = ("dr_grpo", "dapo", "reinforce_pp", "gspo", "rloo", "nsr", "w_reinforce", "entropy_advantage")


@pytest.mark.parametrize(("name", "tokens"), [("grpo", 1), ("grpo", 10_000), *((name, 40) for name in NAMES)])
def test_the_step_is_that_of_the_loss_of_all_samples_by_hand(policy: Policy, name: str, tokens: int) -> None:
    groups, made = random_groups(policy, SIZES, 1.2), method(name)
    policy.loaded.model.zero_grad()
    expected = loss_by_hand(policy, groups, made, 1.2)
    expected.backward()
    gradient = [w.grad.clone() if w.grad is not None else None for w in policy.loaded.model.parameters()]
    before = weights_of(policy)
    moved = update(policy, sgd(policy), batch_of(groups, made, 0), made, replace(OPTIONS, tokens=tokens), 1.2)
    assert moved.loss == pytest.approx(expected.item(), abs=1e-5)
    for item, grad, now in zip(before, gradient, policy.loaded.model.parameters(), strict=True):
        assert grad is not None
        torch.testing.assert_close((item - now) / 0.1, grad, rtol=1e-3, atol=2e-5)
    total = torch.cat([grad.ravel() for grad in gradient if grad is not None]).norm().item()
    assert moved.gradient == pytest.approx(total, rel=1e-3)


def test_samples_without_an_advantage_are_not_read(policy: Policy) -> None:
    groups, made = random_groups(policy, SIZES), method("grpo")
    batch = batch_of(groups, made, 0)
    assert len(batch.rows.length_N) == 12  # the groups all wrong and all right are left out
    assert batch.totals.samples == sum(SIZES)
    assert batch.totals.tokens == sum(training.group.length_G.sum() for training in groups)
    assert update(policy, sgd(policy), batch, made, OPTIONS, 1.0).trained == 12
    before = weights_of(policy)
    nothing = update(policy, sgd(policy), batch_of(groups[:2], made, 0), made, OPTIONS, 1.0)
    assert (nothing.trained, nothing.loss, nothing.gradient) == (0, 0.0, 0.0)
    assert all(torch.equal(a, b) for a, b in zip(before, weights_of(policy), strict=True))


def test_several_updates_are_so_many_single_ones_on_the_same_samples(policy: Policy) -> None:
    groups, made = random_groups(policy, SIZES), method("grpo")
    start, batch = weights_of(policy), batch_of(groups, made, 0)
    adam = torch.optim.AdamW(policy.loaded.model.parameters(), lr=0.05)
    moved = update(policy, adam, batch, made, replace(OPTIONS, updates=3), 1.0)
    together = weights_of(policy)
    with torch.no_grad():
        for weights, first in zip(policy.loaded.model.parameters(), start, strict=True):
            weights.copy_(first)
    adam = torch.optim.AdamW(policy.loaded.model.parameters(), lr=0.05)
    for _ in range(3):
        last = update(policy, adam, batch, made, OPTIONS, 1.0)
    for item, other in zip(together, weights_of(policy), strict=True):
        torch.testing.assert_close(item, other, rtol=0, atol=1e-6)
    assert moved.loss == pytest.approx(last.loss, abs=1e-6)
    assert moved.clipped == last.clipped > 0


def test_the_kl_to_the_reference_is_in_the_loss_and_all_samples_count(policy: Policy) -> None:
    reference, made = frozen_copy(policy), method("grpo", {"kl": 0.3})
    with torch.no_grad():
        for weights in policy.loaded.model.parameters():
            weights.mul_(1.05)
    groups = random_groups(policy, SIZES)
    policy.loaded.model.zero_grad()
    expected = loss_by_hand(policy, groups, made, 1.0, reference)
    expected.backward()
    gradient = [w.grad.clone() if w.grad is not None else None for w in policy.loaded.model.parameters()]
    before, held = weights_of(policy), weights_of(reference)
    moved = update(policy, sgd(policy), batch_of(groups, made, 0), made, OPTIONS, 1.0, reference)
    assert moved.trained == sum(SIZES)
    assert moved.kl > 0
    assert moved.loss == pytest.approx(expected.item(), abs=1e-4)
    for item, grad, now in zip(before, gradient, policy.loaded.model.parameters(), strict=True):
        assert grad is not None
        torch.testing.assert_close((item - now) / 0.1, grad, rtol=1e-2, atol=1e-4)
    assert all(torch.equal(a, b) for a, b in zip(held, weights_of(reference), strict=True))


def test_a_policy_at_its_reference_has_no_kl(policy: Policy) -> None:
    groups, made = random_groups(policy, SIZES), method("grpo", {"kl": 0.3})
    moved = update(policy, sgd(policy), batch_of(groups, made, 0), made, OPTIONS, 1.0, frozen_copy(policy))
    assert moved.kl == pytest.approx(0, abs=1e-6)
    assert moved.clipped == 0


def test_the_penalty_on_chosen_tokens_holds_for_samples_without_an_advantage_too(policy: Policy) -> None:
    """With several updates: tokens of a group that is all right have a covariance with the others' advantages."""
    made = method("kl_cov", {"share": 1.0, "penalty": 1.0})
    groups = random_groups(policy, SIZES)
    batch = batch_of(groups, made, 0)
    chosen = batch.selected_NT & batch.rows.token_mask_NT
    assert chosen.sum() == batch.totals.tokens  # every token of the step was chosen


def test_a_loss_that_is_no_number_leaves_the_weights_untouched(policy: Policy) -> None:
    groups, made = random_groups(policy, SIZES), method("grpo")
    batch, before = batch_of(groups, made, 0), weights_of(policy)
    batch.advantage_NT[0, 0] = np.nan
    with pytest.raises(OffleashError, match="The loss is nan"):
        update(policy, sgd(policy), batch, made, OPTIONS, 1.0)
    assert all(torch.equal(a, b) for a, b in zip(before, weights_of(policy), strict=True))


def test_a_large_gradient_is_cut(policy: Policy) -> None:
    groups, made, before = random_groups(policy, SIZES), method("grpo"), weights_of(policy)
    moved = update(policy, sgd(policy), batch_of(groups, made, 0), made, replace(OPTIONS, clip=0.01), 1.0)
    assert moved.gradient > 0.01
    step = torch.cat([(a - b).ravel() for a, b in zip(before, weights_of(policy), strict=True)]).norm().item()
    assert step == pytest.approx(0.1 * 0.01, rel=1e-2)


def test_supervised_steps_make_traces_more_likely(policy: Policy) -> None:
    pairs = [([0, 1], "c d"), ([2], "a b c a")]
    first = supervise(policy, sgd(policy), pairs, OPTIONS)
    tokens, expected = 0, 0.0
    for prompt, text in pairs:
        answer = policy.answer(text)
        policy.loaded.model.set_attn_implementation("eager")
        with torch.no_grad():
            logits = policy.loaded.model(input_ids=torch.tensor([[*prompt, *answer]])).logits[0, len(prompt) - 1 : -1]
        expected -= torch.log_softmax(logits, -1)[range(len(answer)), answer].sum().item()
        tokens += len(answer)
    assert expected / tokens < first.loss
    for _ in range(5):
        last = supervise(policy, sgd(policy), pairs, replace(OPTIONS, tokens=1))
    assert last.loss < expected / tokens
    assert last.trained == 2


def test_rewards_of_the_whole_step_reach_the_advantages(policy: Policy) -> None:
    seen: list[tuple[float, float]] = []

    def advantages(group: RolloutGroup) -> Floats:
        seen.append((group.batch_mean, group.batch_std))
        return group.reward_G

    groups = random_groups(policy, SIZES)
    batch_of(groups, Method(advantages), 0)
    reward = np.concatenate([training.group.reward_G for training in groups])
    assert seen == [(reward.mean(), reward.std())] * len(SIZES)


def test_the_seed_of_a_step_is_its_own() -> None:
    assert len({batch_seed(seed, step) for seed in range(5) for step in range(5)}) == 25
