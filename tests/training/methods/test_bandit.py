"""Methods at work on an exact softmax policy: where the gradients of advantages and loss together lead."""

from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np
import pytest
import torch
from torch import Tensor

from offleash.training.method import Average, Method
from offleash.training.methods.baselines import remax, rloo
from offleash.training.methods.grpo import dr_grpo, grpo
from offleash.training.methods.off_policy import mixed_policy
from offleash.training.methods.pass_at_k import pass_at_k, pkpo
from offleash.training.methods.weighting import nsr
from offleash.training.update import LossInputs, StepTotals, policy_loss, select_tokens
from tests.training.methods.groups import a_group

Trace = tuple[int, ...]


def traced(logits_TV: Tensor, traces: Sequence[Trace]) -> Tensor:
    """Log-probabilities of the tokens of traces; 0 behind their end."""
    logprob_TV, longest = logits_TV.log_softmax(-1), max(map(len, traces))
    rows = [torch.stack([logprob_TV[t, token] for t, token in enumerate(trace)]) for trace in traces]
    return torch.stack([torch.nn.functional.pad(row, (0, longest - len(row))) for row in rows])


def slope(
    method: Method,
    logits_TV: Tensor,
    traces: Sequence[Trace],
    rewards: Sequence[float],
    *,
    greedy: float = 0.0,
    experts: Sequence[bool] | None = None,
    drew_TV: Tensor | None = None,
    reference_TV: Tensor | None = None,
) -> Tensor:
    """The gradient of the loss that a group brings."""
    logits_TV = logits_TV.detach().requires_grad_()
    new_NT = traced(logits_TV, traces)
    old_NT = (new_NT if drew_TV is None else traced(drew_TV, traces)).detach()
    lengths = [len(trace) for trace in traces]
    group = a_group(
        rewards, logprobs=old_NT.tolist(), lengths=lengths, longest=len(logits_TV), greedy=greedy, experts=experts
    )
    advantage_NT = torch.from_numpy(np.broadcast_to(method.advantages(group)[:, None], new_NT.shape).copy())
    token_mask_NT = torch.arange(new_NT.shape[1])[None] < torch.tensor(lengths)[:, None]
    numbers = old_NT.numpy(), 0 * old_NT.numpy(), advantage_NT.numpy(), token_mask_NT.numpy()
    terms = LossInputs(
        new_NT=new_NT,
        old_NT=old_NT,
        advantage_NT=advantage_NT,
        token_mask_NT=token_mask_NT,
        expert_N=torch.from_numpy(group.expert_G),
        anchored_N=torch.zeros(group.size, dtype=torch.bool),
        selected_NT=torch.from_numpy(select_tokens(method.loss, *numbers, seed=0)),
        reference_NT=None if reference_TV is None else traced(reference_TV, traces).detach(),
    )
    whole = StepTotals(samples=group.size, tokens=sum(lengths), longest=len(logits_TV))
    (gradient_TV,) = torch.autograd.grad(policy_loss(method.loss, terms, whole), logits_TV)
    return gradient_TV


def expected_slope(
    method: Method,
    logits_TV: Tensor,
    worth: dict[Trace, float],
    size: int,
    greedy: float = 0.0,
    reference_TV: Tensor | None = None,
) -> Tensor:
    """The mean gradient over all groups that the policy may draw, each as often as it is drawn."""
    chance = {trace: traced(logits_TV, [trace]).sum().exp().item() for trace in worth}
    assert sum(chance.values()) == pytest.approx(1)
    total_TV = torch.zeros_like(logits_TV)
    for traces in product(worth, repeat=size):
        rewards = [worth[trace] for trace in traces]
        gradient_TV = slope(method, logits_TV, traces, rewards, greedy=greedy, reference_TV=reference_TV)
        total_TV += prod(chance[trace] for trace in traces) * gradient_TV
    return total_TV


def arms(*chances: float) -> Tensor:
    return torch.tensor([chances], dtype=torch.float64).log()


def worth_of(logits_TV: Tensor, worth: dict[Trace, float]) -> Tensor:
    return torch.stack([traced(logits_TV, [trace]).sum().exp() * reward for trace, reward in worth.items()]).sum()


@pytest.mark.parametrize("rewards", list(product([0, 1], repeat=4)))
def test_pass_at_1_pushes_as_grpo_does_up_to_a_positive_scale(rewards: tuple[int, ...]) -> None:
    traces = [(1 - right,) for right in rewards]  # the first of two arms is right
    ours, theirs = (slope(m, arms(0.3, 0.7), traces, rewards).flatten() for m in (pass_at_k(k=1), grpo(delta=0.1)))
    if len(set(rewards)) == 1:
        assert not ours.any()
        assert not theirs.any()
        return
    scale = (ours @ theirs / (theirs @ theirs)).item()
    assert scale > 0
    assert ours.numpy() == pytest.approx((scale * theirs).numpy(), abs=1e-12)


@pytest.mark.parametrize("chance", [1e-6, 0.1, 0.5, 0.9, 1 - 1e-6])
def test_nsr_never_raises_a_wrong_action_that_was_sampled(chance: float) -> None:
    drew_TV = arms(1 - chance, chance)  # the second of two arms is wrong
    for rewards, rate in product(product([0, 1], repeat=3), [0.01, 1.0, 100.0]):
        traces = [(1 - right,) for right in rewards]
        logits_TV, before = drew_TV, chance
        for _ in range(4):  # updates of the same samples, so that the clip has its say too
            logits_TV = logits_TV - rate * slope(nsr(), logits_TV, traces, rewards, drew_TV=drew_TV)
            after = logits_TV.softmax(-1)[0, 1].item()
            assert after <= before * (1 + 1e-12)
            before = after
        assert before < chance or 0 not in rewards


def test_nsr_lowers_the_joint_chance_of_the_wrong_actions_it_saw_among_many() -> None:
    rng, logits_TV = np.random.default_rng(4), arms(0.1, 0.2, 0.3, 0.4)
    for _ in range(20):
        drawn = rng.choice(4, size=6, p=[0.1, 0.2, 0.3, 0.4])
        wrong = [(int(arm),) for arm in drawn if arm]
        moved_TV = logits_TV - 0.1 * slope(nsr(), logits_TV, [(int(a),) for a in drawn], (drawn == 0).tolist())
        gain = (traced(moved_TV, wrong) - traced(logits_TV, wrong)).sum()
        assert gain <= 1e-12


def test_mixed_policy_finds_a_trace_of_a_billionth_that_grpo_never_does() -> None:
    uniform_TV = torch.zeros(9, 10, dtype=torch.float64)  # nine tokens, each one of ten: 1e-9 a trace
    trace = (3, 1, 4, 1, 5, 9, 2, 6, 5)
    chances = {}
    for name, method in (("grpo", grpo()), ("mixed_policy", mixed_policy())):
        logits_TV, rng = uniform_TV, np.random.default_rng(7)
        for _ in range(100):
            chance_TV = logits_TV.softmax(-1).numpy()
            drawn = [tuple(int(rng.choice(10, p=row)) for row in chance_TV) for _ in range(7)]
            experts = method.schedule.experts
            traces = drawn + [trace] * experts
            rewards = [float(drew == trace) for drew in traces]
            is_expert = [False] * len(drawn) + [True] * experts
            logits_TV = logits_TV - 20.0 * slope(method, logits_TV, traces, rewards, experts=is_expert)
        chances[name] = traced(logits_TV, [trace]).sum().exp().item()
    assert chances["grpo"] == pytest.approx(1e-9)
    assert chances["mixed_policy"] > 0.5


@pytest.mark.parametrize("kl", [0.5, 2.0, 10.0])
def test_a_kl_holds_the_policy_where_its_pull_meets_that_of_the_reward(kl: float) -> None:
    # two arms, right with p, under the reference with q = 0.2; G = 2 centred rewards pull with p (1-p) / 2,
    # the KL holds with kl (p - q): their meeting point is a root of p^2 - (1 - 2 kl) p - 2 kl q = 0
    reference_TV = logits_TV = arms(0.2, 0.8)
    worth: dict[Trace, float] = {(0,): 1.0, (1,): 0.0}
    for _ in range(150):
        logits_TV = logits_TV - expected_slope(dr_grpo(kl=kl), logits_TV, worth, 2, reference_TV=reference_TV) / kl
    half = (1 - 2 * kl) / 2
    meeting = half + (half**2 + 2 * kl * 0.2) ** 0.5
    assert logits_TV.softmax(-1)[0, 0].item() == pytest.approx(meeting, abs=1e-3)


def test_without_a_kl_the_policy_leaves_the_reference_for_good() -> None:
    logits_TV = arms(0.2, 0.8)
    for _ in range(150):
        logits_TV = logits_TV - 2 * expected_slope(dr_grpo(), logits_TV, {(0,): 1.0, (1,): 0.0}, 2)
    assert logits_TV.softmax(-1)[0, 0] > 0.98


@pytest.mark.parametrize(
    ("method", "greedy"), [(rloo(), 0.0), (remax(), 0.0), (remax(), 1.0), (pkpo(k=1), 0.0)], ids=str
)
def test_the_mean_gradient_is_that_of_the_mean_reward_whatever_the_lengths(method: Method, greedy: float) -> None:
    logits_TV = torch.tensor([[0.3, -0.2], [-0.4, 0.9]], dtype=torch.float64)  # token 0 ends a trace
    worth: dict[Trace, float] = {(0,): 0.0, (1, 0): 1.0, (1, 1): 0.0}
    wanted_TV = logits_TV.clone().requires_grad_()
    (gradient_TV,) = torch.autograd.grad(worth_of(wanted_TV, worth), wanted_TV)
    found_TV = expected_slope(method, logits_TV, worth, 2, greedy)
    # the loss is to fall, and is divided by the two tokens that a trace may have
    assert found_TV.numpy() == pytest.approx(-gradient_TV.numpy() / 2, abs=1e-12)


def test_a_mean_over_each_samples_tokens_bends_the_gradient_towards_short_samples() -> None:
    logits_TV = torch.tensor([[0.3, -0.2], [-0.4, 0.9]], dtype=torch.float64)
    worth: dict[Trace, float] = {(0,): 0.0, (1, 0): 1.0, (1, 1): 0.0}
    assert grpo().loss.average is Average.SAMPLE
    sampled_TV = expected_slope(Method(rloo().advantages, grpo().loss), logits_TV, worth, 2)
    summed_TV = expected_slope(rloo(), logits_TV, worth, 2)
    cosine = torch.nn.functional.cosine_similarity(sampled_TV.flatten(), summed_TV.flatten(), dim=0)
    assert 0 < cosine < 0.99


@pytest.mark.parametrize(("k", "equal"), [(2, False), (3, False), (2, True)])
def test_the_mean_gradient_of_pkpo_is_that_of_pass_at_k(k: int, equal: bool) -> None:
    logits_TV = arms(0.15, 0.6, 0.25)
    worth: dict[Trace, float] = {(0,): 1.0, (1,): 0.0, (2,): 0.0}
    wanted_TV = logits_TV.clone().requires_grad_()
    (gradient_TV,) = torch.autograd.grad(1 - (1 - worth_of(wanted_TV, worth)) ** k, wanted_TV)
    found_TV = expected_slope(pkpo(k=k, equal=equal), logits_TV, worth, 3)
    assert found_TV.numpy() == pytest.approx(-gradient_TV.numpy(), abs=1e-12)


def test_remax_leaves_a_policy_alone_whose_samples_do_as_well_as_its_greedy_one() -> None:
    logits_TV = arms(0.9, 0.1)
    assert not slope(remax(), logits_TV, [(0,), (0,)], [1, 1], greedy=1.0).any()
    assert not slope(remax(), logits_TV, [(1,), (1,)], [0, 0], greedy=0.0).any()
    moved_TV = logits_TV - slope(remax(), logits_TV, [(0,), (1,)], [1, 0], greedy=1.0)
    assert moved_TV.softmax(-1)[0, 0] > 0.9
