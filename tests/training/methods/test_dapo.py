"""DAPO and ProRL: the soft overlong penalty worked by hand, and what they ask of loss and schedule."""

import pytest

from offleash.training.method import Average, Loss, MethodSchedule
from offleash.training.methods.grpo import dapo, grpo, prorl
from tests.training.methods.groups import a_group


def test_the_penalty_falls_on_a_line_from_the_soft_zone_to_the_longest_length() -> None:
    # 100 tokens may be used, the last 20 are the soft zone: 80 and fewer are free, 90 cost a half, 100 the whole
    group = a_group([1, 1, 1, 0, 1], lengths=[10, 80, 90, 95, 100], longest=100)
    shaped = a_group([1, 1, 0.5, -0.75, 0])
    assert dapo().advantages(group) == pytest.approx(grpo().advantages(shaped))


def test_without_a_soft_zone_dapo_has_the_advantages_of_grpo() -> None:
    group = a_group([1, 0, 0], lengths=[100, 100, 3], longest=100)
    assert dapo(overlong=0.0).advantages(group) == pytest.approx(grpo().advantages(group))


def test_a_zone_that_is_all_there_is_charges_every_token() -> None:
    group = a_group([1, 1, 1], lengths=[0, 25, 100], longest=100)
    assert dapo(overlong=1.0).advantages(group) == pytest.approx(grpo().advantages(a_group([1, 0.75, 0])))


def test_dapo_clips_higher_averages_over_tokens_and_keeps_mixed_groups() -> None:
    assert dapo().loss == Loss(low=0.2, high=0.28, average=Average.TOKEN)
    assert dapo().schedule == MethodSchedule(mixed_only=True)


def test_prorl_is_dapo_hotter_with_a_wider_clip_a_kl_and_resets() -> None:
    assert prorl().loss == Loss(low=0.2, high=0.4, average=Average.TOKEN, kl=0.001)
    assert prorl().schedule == MethodSchedule(mixed_only=True, temperature=1.2, reset_after=3)
    assert prorl(overlong=0.2).advantages == dapo().advantages
