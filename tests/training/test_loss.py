"""The loss against finite differences, against formulas by hand, and against what must not matter."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import exp, log

import numpy as np
import pytest
import torch
from torch import Tensor

from offleash.training.method import Average, Loss, Ratio, TokenSelection
from offleash.training.update import LossInputs, StepTotals, k3, policy_loss, select_tokens

N, T, V, WIDTH = 6, 4, 5, 3
INF = float("inf")
VARIANTS = {
    "grpo": Loss(),
    "narrow clips": Loss(low=0.05, high=0.1),
    "no clip": Loss(low=INF, high=INF),
    "sequence": Loss(low=0.03, high=0.05, ratio=Ratio.SEQUENCE),
    "tokens": Loss(average=Average.TOKEN),
    "constant": Loss(average=Average.CONSTANT),
    "sequence over tokens": Loss(ratio=Ratio.SEQUENCE, average=Average.TOKEN),
    "kl": Loss(kl=0.3),
    "kl over tokens": Loss(kl=0.3, average=Average.TOKEN),
    "shaping": Loss(shaping=0.1),
    "shaping and kl": Loss(shaping=0.1, kl=0.2, average=Average.CONSTANT),
    "anchor": Loss(anchor=0.4),
    "anchor and kl": Loss(anchor=0.4, kl=0.1),
    "top entropy": Loss(chosen=TokenSelection.TOP_ENTROPY, share=0.4),
    "kl_cov": Loss(low=INF, high=INF, chosen=TokenSelection.KL_COV, share=0.3, penalty=1.0),
}


class Net:
    """A two-layer softmax policy of fixed inputs, its parameters one flat vector."""

    def __init__(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.input_NTW = torch.randn(N, T, WIDTH, generator=generator, dtype=torch.float64)
        self.token_NT1 = torch.randint(V, (N, T, 1), generator=generator)
        self.weights = torch.randn(WIDTH * 4 + 4 * V, generator=generator, dtype=torch.float64) / 2
        self.noise = torch.randn(len(self.weights), generator=generator, dtype=torch.float64)

    def logprobs(self, weights: Tensor) -> Tensor:
        first, second = weights[: WIDTH * 4].reshape(WIDTH, 4), weights[WIDTH * 4 :].reshape(4, V)
        return (torch.tanh(self.input_NTW @ first) @ second).log_softmax(-1).gather(-1, self.token_NT1).squeeze(-1)


NET = Net(seed=11)
REAL_NT = torch.arange(T)[None] < torch.tensor([4, 1, 3, 2, 4, 3])[:, None]
WHOLE = StepTotals(samples=N, tokens=int(REAL_NT.sum()), longest=7)


def some_terms(loss: Loss) -> LossInputs:
    """All kinds of rows at once: both signs, samples of all lengths, two experts, two anchored, stale policies."""
    advantage_NT = torch.tensor([1.5, -0.7, 0.4, -1.2, 0.9, -0.3], dtype=torch.float64)[:, None].repeat(1, T)
    advantage_NT = advantage_NT + torch.linspace(-0.1, 0.1, T, dtype=torch.float64)
    old_NT = NET.logprobs(NET.weights + 0.25 * NET.noise)
    entropy_NT = np.random.default_rng(5).random((N, T))
    chosen_NT = select_tokens(loss, old_NT.numpy(), entropy_NT, advantage_NT.numpy(), REAL_NT.numpy(), seed=1)
    return LossInputs(
        new_NT=NET.logprobs(NET.weights),
        old_NT=old_NT,
        advantage_NT=advantage_NT,
        token_mask_NT=REAL_NT,
        expert_N=torch.tensor([False, True, False, False, True, False]),
        anchored_N=torch.tensor([False, False, True, False, False, True]),
        selected_NT=torch.from_numpy(chosen_NT),
        reference_NT=NET.logprobs(NET.weights - 0.4 * NET.noise),
    )


def gradient(value: Callable[[Tensor], Tensor]) -> Tensor:
    weights = NET.weights.clone().requires_grad_()
    (slope,) = torch.autograd.grad(value(weights), weights)
    return slope


def differences(value: Callable[[Tensor], Tensor], step: float = 1e-6) -> Tensor:
    moves = torch.eye(len(NET.weights), dtype=torch.float64) * step
    slopes = [(value(NET.weights + move) - value(NET.weights - move)) / (2 * step) for move in moves]
    return torch.stack(slopes)


@pytest.mark.parametrize("loss", VARIANTS.values(), ids=VARIANTS)
def test_the_gradient_is_that_of_finite_differences(loss: Loss) -> None:
    terms = some_terms(loss)

    def value(weights: Tensor) -> Tensor:
        return policy_loss(loss, replace(terms, new_NT=NET.logprobs(weights)), WHOLE)

    slope = gradient(value)
    assert slope.abs().max() > 1e-3
    assert slope.numpy() == pytest.approx(differences(value).numpy(), abs=1e-8)


def test_the_samples_of_these_tests_are_clipped_on_both_sides() -> None:
    terms = some_terms(Loss())
    up_NT, ratio_NT = terms.advantage_NT > 0, (terms.new_NT - terms.old_NT).exp()
    for loss in (VARIANTS["grpo"], VARIANTS["narrow clips"]):
        assert (REAL_NT & up_NT & (ratio_NT > 1 + loss.high)).any()
        assert (REAL_NT & ~up_NT & (ratio_NT < 1 - loss.low)).any()
        assert ((ratio_NT - 1 - loss.high).abs() > 1e-4).all()  # no kink where a difference is taken
        assert ((ratio_NT - 1 + loss.low).abs() > 1e-4).all()


def test_tokens_left_out_by_clip_cov_count_in_the_value_and_not_in_the_gradient() -> None:
    loss = Loss(low=INF, high=INF, chosen=TokenSelection.CLIP_COV, share=0.3, band=(0.0, 5.0))
    terms = some_terms(loss)
    assert 1 < terms.selected_NT.sum() < REAL_NT.sum()
    without = replace(terms, advantage_NT=torch.where(terms.selected_NT, 0.0, terms.advantage_NT))
    plain = replace(loss, chosen=TokenSelection.NONE)
    slope = gradient(lambda weights: policy_loss(loss, replace(terms, new_NT=NET.logprobs(weights)), WHOLE))
    expected = differences(lambda weights: policy_loss(plain, replace(without, new_NT=NET.logprobs(weights)), WHOLE))
    assert slope.numpy() == pytest.approx(expected.numpy(), abs=1e-8)
    assert policy_loss(loss, terms, WHOLE) == pytest.approx(policy_loss(plain, terms, WHOLE).item())


@pytest.mark.parametrize("loss", VARIANTS.values(), ids=VARIANTS)
def test_parts_of_a_step_add_up_to_the_whole(loss: Loss) -> None:
    terms = some_terms(loss)

    def part(rows: slice, weights: Tensor) -> Tensor:
        moved = replace(terms, new_NT=NET.logprobs(weights))
        return policy_loss(loss, LossInputs(**{name: value[rows] for name, value in vars(moved).items()}), WHOLE)

    whole = gradient(partial(part, slice(None)))
    parts = [gradient(partial(part, rows)) for rows in (slice(2), slice(2, 5), slice(5, N))]
    assert torch.stack(parts).sum(0).numpy() == pytest.approx(whole.numpy(), abs=1e-12)


@pytest.mark.parametrize("loss", VARIANTS.values(), ids=VARIANTS)
def test_what_stands_behind_the_end_never_matters(loss: Loss) -> None:
    terms = some_terms(loss)
    filled = LossInputs(
        new_NT=terms.new_NT,
        old_NT=torch.where(REAL_NT, terms.old_NT, 123.0),
        advantage_NT=torch.where(REAL_NT, terms.advantage_NT, -1e6),
        token_mask_NT=REAL_NT,
        expert_N=terms.expert_N,
        anchored_N=terms.anchored_N,
        selected_NT=terms.selected_NT | ~REAL_NT,
        reference_NT=None if terms.reference_NT is None else torch.where(REAL_NT, terms.reference_NT, -456.0),
    )

    def value(given: LossInputs, noise: float, weights: Tensor) -> Tensor:
        new_NT = NET.logprobs(weights)
        return policy_loss(loss, replace(given, new_NT=torch.where(REAL_NT, new_NT, new_NT * noise)), WHOLE)

    assert value(filled, 99.0, NET.weights) == value(terms, 1.0, NET.weights)
    assert torch.equal(gradient(partial(value, filled, 99.0)), gradient(partial(value, terms, 1.0)))


def test_fresh_samples_of_grpo_have_the_gradient_of_reinforce() -> None:
    terms = replace(some_terms(Loss()), old_NT=NET.logprobs(NET.weights))

    def reinforce(weights: Tensor) -> Tensor:
        score_N = (torch.where(REAL_NT, terms.advantage_NT, 0.0) * NET.logprobs(weights)).sum(1)
        return -(score_N / REAL_NT.sum(1)).mean()

    slope = gradient(lambda weights: policy_loss(Loss(), replace(terms, new_NT=NET.logprobs(weights)), WHOLE))
    assert slope.numpy() == pytest.approx(gradient(reinforce).numpy(), abs=1e-12)


def one_row(new: list[float], old: list[float], advantage: float, **more: Tensor) -> LossInputs:
    new_NT = torch.tensor([new], dtype=torch.float64, requires_grad=True)
    flags_NT = torch.zeros(new_NT.shape, dtype=torch.bool)
    return replace(
        LossInputs(
            new_NT=new_NT,
            old_NT=torch.tensor([old], dtype=torch.float64),
            advantage_NT=torch.full(new_NT.shape, advantage, dtype=torch.float64),
            token_mask_NT=~flags_NT,
            expert_N=torch.tensor([False]),
            anchored_N=torch.tensor([False]),
            selected_NT=flags_NT,
        ),
        **more,
    )


def value_and_slope(loss: Loss, terms: LossInputs) -> tuple[float, list[float]]:
    value = policy_loss(loss, terms, StepTotals(samples=1, tokens=terms.new_NT.shape[1], longest=10))
    (slope,) = torch.autograd.grad(value, terms.new_NT)
    return value.item(), slope[0].tolist()


@pytest.mark.parametrize(
    ("ratio", "advantage", "stopped"),
    [
        (1.5, 1.0, True),  # grown enough
        (0.5, 1.0, False),  # should have grown and shrank: pulled back
        (1.5, -1.0, False),  # should have shrunk and grew: pulled back
        (0.5, -1.0, True),  # shrunk enough
        (1.25, 1.0, False),  # the upper clip is wider
        (1.1, 1.0, False),
        (0.9, -1.0, False),
    ],
)
def test_the_clip_stops_only_what_has_gone_far_enough(ratio: float, advantage: float, stopped: bool) -> None:
    loss = Loss(low=0.2, high=0.3)
    value, (slope,) = value_and_slope(loss, one_row([log(ratio) - 2], [-2.0], advantage))
    held = min(max(ratio, 0.8), 1.3) if stopped else ratio
    assert value == pytest.approx(-held * advantage)
    assert slope == pytest.approx(0.0 if stopped else -ratio * advantage)


def test_the_ratio_of_a_sequence_is_the_geometric_mean_and_is_clipped_as_one() -> None:
    # the tokens changed by e^0.3 and e^-0.1, the sample by e^0.1: its clip at 1.2 holds neither token
    terms = one_row([-0.7, -1.1], [-1.0, -1.0], 2.0)
    value, slope = value_and_slope(Loss(ratio=Ratio.SEQUENCE), terms)
    assert value == pytest.approx(-2 * exp(0.1))
    assert slope == pytest.approx([-exp(0.1), -exp(0.1)])  # d/dnew_t of -2 exp(mean change) = -2 exp(0.1) / 2
    assert value_and_slope(Loss(ratio=Ratio.SEQUENCE, high=0.1), terms)[1] == [0.0, 0.0]
    assert value_and_slope(Loss(), terms)[1] == pytest.approx([0.0, -exp(-0.1)])


def test_tokens_of_an_expert_are_shaped_and_never_clipped() -> None:
    terms = one_row([log(0.3)], [log(0.001)], 2.0, expert_N=torch.tensor([True]))
    value, (slope,) = value_and_slope(Loss(shaping=0.1), terms)
    assert value == pytest.approx(-2 * 0.3 / 0.4)
    assert slope == pytest.approx(-2 * 0.3 * 0.1 / 0.4**2)  # d/dlog p of p / (p + g) = p g / (p + g)^2


def test_on_an_anchored_problem_only_the_kl_to_the_base_is_left() -> None:
    base = {"anchored_N": torch.tensor([True]), "reference_NT": torch.tensor([[log(0.2)]], dtype=torch.float64)}
    value, (slope,) = value_and_slope(Loss(anchor=0.5, kl=0.1), one_row([log(0.4)], [log(0.4)], 3.0, **base))
    assert value == pytest.approx(0.5 * (0.5 - log(0.5) - 1))
    assert slope == pytest.approx(0.5 * (1 - 0.5))
    free = {**base, "anchored_N": torch.tensor([False])}
    assert value_and_slope(Loss(anchor=0.5, kl=0.1), one_row([log(0.4)], [log(0.4)], 3.0, **free))[0] == pytest.approx(
        -3 + 0.1 * (0.5 - log(0.5) - 1)
    )


def test_kl_cov_has_no_gradient_of_its_own_while_the_policy_is_the_one_that_drew() -> None:
    flags = {"selected_NT": torch.tensor([[True]])}
    loss = Loss(low=INF, high=INF, chosen=TokenSelection.KL_COV, penalty=1.0)
    assert value_and_slope(loss, one_row([-1.0], [-1.0], 2.0, **flags))[1] == pytest.approx([-2.0])
    moved = value_and_slope(loss, one_row([-0.5], [-1.0], 2.0, **flags))[1]
    assert moved == pytest.approx([-2 * exp(0.5) + 1 - exp(-0.5)])
    assert value_and_slope(loss, one_row([-0.5], [-1.0], 2.0))[1] == pytest.approx([-2 * exp(0.5)])  # not chosen


def test_terms_of_tokens_are_averaged_in_three_ways() -> None:
    # fresh samples of 4, 1, 3, 2, 4 and 3 tokens, 17 in all, of at most 7: each token's term is its advantage
    terms = replace(some_terms(Loss()), old_NT=NET.logprobs(NET.weights))
    sum_N = (terms.advantage_NT * REAL_NT).sum(1)
    expected = {
        Average.SAMPLE: -(sum_N / torch.tensor([4, 1, 3, 2, 4, 3])).sum() / 6,
        Average.TOKEN: -sum_N.sum() / 17,
        Average.CONSTANT: -sum_N.sum() / 42,
    }
    for average, value in expected.items():
        assert policy_loss(Loss(average=average), terms, WHOLE) == pytest.approx(value.item())


def test_only_the_tokens_of_the_highest_entropy_are_learnt() -> None:
    terms = one_row([-1.0, -1.0], [-1.0, -1.0], 2.0, selected_NT=torch.tensor([[False, True]]))
    assert value_and_slope(Loss(chosen=TokenSelection.TOP_ENTROPY), terms) == (-1.0, [0.0, -1.0])


def exact_policies() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    new_V, other_V = torch.randn(2, 6, generator=generator, dtype=torch.float64).log_softmax(-1)
    return new_V, other_V


def test_k3_is_never_negative_and_its_mean_is_the_kl() -> None:
    new_V, other_V = exact_policies()
    estimate_V = k3(new_V, other_V, torch.ones(6, dtype=torch.bool))
    assert (estimate_V >= 0).all()
    assert (new_V.exp() * estimate_V).sum() == pytest.approx((new_V.exp() * (new_V - other_V)).sum().item())
    assert (k3(new_V, new_V, torch.ones(6, dtype=torch.bool)) == 0).all()


def test_the_mean_gradient_of_k3_is_that_of_the_kl_the_other_way_round() -> None:
    # samples are constants to the loss: E_new[(1 - other/new) grad log new] = -sum other grad log new
    new_V, other_V = exact_policies()
    logits_V = new_V.clone().requires_grad_()
    drawn_V = logits_V.log_softmax(-1)
    mean = (new_V.exp() * k3(drawn_V, other_V, torch.ones(6, dtype=torch.bool))).sum()
    (slope,) = torch.autograd.grad(mean, logits_V, retain_graph=True)
    (expected,) = torch.autograd.grad((other_V.exp() * (other_V - drawn_V)).sum(), logits_V)
    assert slope.numpy() == pytest.approx(expected.numpy())
