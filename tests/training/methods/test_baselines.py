"""Methods that differ in what a reward is compared with, on groups worked by hand."""

from collections.abc import Callable

import pytest

from offleash.training.method import Average, Loss, Method, MethodSchedule, Ratio
from offleash.training.methods.baselines import reinforce_pp, remax, rloo
from offleash.training.methods.grpo import dr_grpo, grpo, gspo
from offleash.training.methods.weighting import nsr, w_reinforce
from tests.training.methods.groups import a_group

ONE_OF_FOUR = a_group([1, 0, 0, 0])  # mean 1/4, spread sqrt(3)/4


def test_grpo_divides_the_distance_from_the_mean_by_the_spread() -> None:
    root = 3**0.5
    assert grpo(delta=1e-12).advantages(ONE_OF_FOUR) == pytest.approx([root, -1 / root, -1 / root, -1 / root])
    assert grpo(delta=3**0.5 / 4).advantages(ONE_OF_FOUR) == pytest.approx([root / 2] + 3 * [-1 / root / 2])


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_a_group_of_equal_rewards_has_nothing_to_say_to_grpo_rloo_and_dr_grpo(reward: float) -> None:
    group = a_group([reward] * 5)
    for method in (grpo(), rloo(), dr_grpo()):
        assert method.advantages(group).tolist() == [0.0] * 5


def test_rloo_compares_a_sample_with_the_mean_of_the_others() -> None:
    assert rloo().advantages(ONE_OF_FOUR) == pytest.approx([1, -1 / 3, -1 / 3, -1 / 3])
    assert rloo().advantages(a_group([1, 1, 0])) == pytest.approx([1 / 2, 1 / 2, -1])
    assert rloo().advantages(a_group([1])).tolist() == [0.0]


def test_rloo_is_dr_grpo_stretched_by_n_over_n_less_one() -> None:
    group = a_group([1, 0, 1, 1, 0])
    assert rloo().advantages(group) == pytest.approx(dr_grpo().advantages(group) * 5 / 4)


def test_dr_grpo_subtracts_the_mean_and_no_more() -> None:
    assert dr_grpo().advantages(ONE_OF_FOUR) == pytest.approx([3 / 4, -1 / 4, -1 / 4, -1 / 4])
    assert dr_grpo().loss == Loss(average=Average.CONSTANT)


def test_reinforce_pp_compares_with_the_batch_so_that_a_group_all_wrong_is_pushed_down() -> None:
    group = a_group([0, 0, 0], batch=(0.2, 0.4))
    assert reinforce_pp(delta=1e-12).advantages(group) == pytest.approx([-0.5] * 3)
    group = a_group([1, 0], batch=(0.2, 0.4))
    assert reinforce_pp(delta=1e-12).advantages(group) == pytest.approx([2.0, -0.5])


def test_a_batch_of_equal_rewards_has_nothing_to_say_to_reinforce_pp() -> None:
    assert reinforce_pp().advantages(a_group([1, 1], batch=(1.0, 0.0))).tolist() == [0.0, 0.0]


def test_remax_compares_with_the_greedy_sample_and_asks_for_it() -> None:
    assert remax().advantages(a_group([1, 0], greedy=1.0)).tolist() == [0.0, -1.0]
    assert remax().advantages(a_group([1, 0], greedy=0.0)).tolist() == [1.0, 0.0]
    assert remax().schedule == MethodSchedule(greedy=True)


def test_nsr_pushes_only_wrong_samples_and_w_reinforce_lifts_correct_ones_a_tenth_as_much() -> None:
    group = a_group([1, 0, 1, 0])
    assert nsr().advantages(group).tolist() == [0, -1, 0, -1]
    assert w_reinforce().advantages(group) == pytest.approx([0.1, -1, 0.1, -1])
    assert w_reinforce(weight=1.0).advantages(group).tolist() == [1, -1, 1, -1]
    assert w_reinforce(weight=0.0) == nsr()


def test_gspo_is_grpo_with_the_ratio_and_the_clips_of_whole_samples() -> None:
    assert gspo().advantages == grpo().advantages
    assert gspo().loss == Loss(low=3e-4, high=4e-4, ratio=Ratio.SEQUENCE, average=Average.SAMPLE)


@pytest.mark.parametrize("make", [grpo, rloo, reinforce_pp, remax, dr_grpo, nsr, w_reinforce])
def test_permuting_the_samples_permutes_their_advantages(make: Callable[[], Method]) -> None:
    rewards, order = [1, 0, 0, 1, 0], [3, 0, 4, 1, 2]
    plain, shuffled = (
        make().advantages(a_group(r, greedy=0.3, batch=(0.4, 0.5))) for r in (rewards, [rewards[i] for i in order])
    )
    assert shuffled == pytest.approx(plain[order])
