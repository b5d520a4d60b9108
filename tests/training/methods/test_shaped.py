"""Methods that shape the reward or the advantage by more than correctness, on groups worked by hand."""

from collections.abc import Callable

import numpy as np
import pytest

from offleash.training.method import Loss, Method, MethodSchedule, RolloutGroup, TokenSelection
from offleash.training.methods.diversity import diversity, outcome_novelty
from offleash.training.methods.entropy import clip_cov, entropy_advantage, kl_cov, top_entropy
from offleash.training.methods.grpo import grpo
from offleash.training.methods.off_policy import base_anchor, interleaved_sft, mixed_policy
from offleash.training.methods.weighting import focal, unlikeliness
from tests.training.methods.groups import a_group

INF = float("inf")


def test_unlikeliness_takes_most_from_the_most_likely_correct_sample() -> None:
    # log-probabilities -3, -1, -2, -4: ranks 2, 0, 1, 3; r = R (1 - (4 - rank) / 16)
    group = a_group([1, 1, 0, 1], logprobs=[[-1, -2], [-1, 0], [-1, -1], [-2, -2]])
    shaped = a_group([1 - 2 / 16, 1 - 4 / 16, 0, 1 - 1 / 16])
    assert unlikeliness().advantages(group) == pytest.approx(grpo().advantages(shaped))


def test_equally_likely_samples_share_their_ranks() -> None:
    # ranks 1/2, 1/2, 2
    group = a_group([1, 1, 1], logprobs=[[-1], [-1], [-5]])
    shaped = a_group([1 - 0.25 * 2.5 / 3, 1 - 0.25 * 2.5 / 3, 1 - 0.25 / 3])
    assert unlikeliness().advantages(group) == pytest.approx(grpo().advantages(shaped))


def test_unlikeliness_still_moves_a_group_that_is_all_right_towards_its_unlikely_samples() -> None:
    advantage_G = unlikeliness().advantages(a_group([1, 1, 1], logprobs=[[-1], [-9], [-3]]))
    assert advantage_G[0] < 0 < advantage_G[1]


def test_focal_weighs_a_group_by_its_share_of_failures() -> None:
    group = a_group([1, 1, 1, 0])  # a quarter is wrong
    assert focal(gamma=2.0).advantages(group) == pytest.approx(grpo().advantages(group) / 16)
    assert focal(gamma=0.0).advantages(group) == pytest.approx(grpo().advantages(group))


def test_entropy_is_added_up_to_the_half_of_an_advantage() -> None:
    # delta 1/2 makes the advantages of [1, 0] equal to [1/2, -1/2]: at most 1/4 is added, 0.4 H below that
    group = a_group([1, 0], entropies=[[0.0, 0.5, 2.0], [0.25, 1.0, 0.0]], logprobs=[[-1] * 3] * 2, lengths=[3, 2])
    expected = [[0.5, 0.7, 0.75], [-0.4, -0.25, -0.5]]
    assert entropy_advantage(delta=0.5).advantages(group) == pytest.approx(np.array(expected))


def test_entropy_never_turns_the_sign_of_an_advantage() -> None:
    group = a_group([1, 0, 0], entropies=[[50.0], [50.0], [0.0]])
    advantage_GT = entropy_advantage().advantages(group)
    assert (np.sign(advantage_GT[:, 0]) == [1, -1, -1]).all()


def test_an_answer_never_given_before_has_the_whole_bonus_and_an_old_one_less() -> None:
    # bonuses: new 1, given 4 times 1/2, given 16 times 1/4, unread 0; their mean is 7/16
    group = a_group([0, 0, 0, 0], answers=["new", "old", "older", ""], seen={"old": 4, "older": 16, "": 1})
    expected = 0.5 * (np.array([1, 1 / 2, 1 / 4, 0]) - 7 / 16)
    assert outcome_novelty(b=0.5).advantages(group) == pytest.approx(expected)


def test_the_bonus_is_added_to_the_advantages_of_grpo() -> None:
    group = a_group([1, 0], answers=["4", "5"], seen={"4": 4})
    expected = grpo().advantages(group) + 0.2 * np.array([-1 / 4, 1 / 4])
    assert outcome_novelty().advantages(group) == pytest.approx(expected)


def test_within_a_batch_the_bonus_is_the_share_that_answered_otherwise() -> None:
    # bonuses: 1/2, 1/2, 3/4, and 0 for the unread one; their mean is 7/16
    group = a_group([0, 0, 0, 0], answers=["a", "a", "b", ""])
    expected = np.array([1 / 2, 1 / 2, 3 / 4, 0]) - 7 / 16
    assert outcome_novelty(b=1.0, batch=True).advantages(group) == pytest.approx(expected)


def test_diversity_pays_a_correct_answer_by_how_few_gave_it() -> None:
    # n = 5: three alike earn (5-3)/4 = 1/2 each, one alone 1; the mean is 1/2
    group = a_group([1, 1, 1, 1, 0], answers=["a", "a", "a", "b", "c"])
    assert diversity().advantages(group) == pytest.approx([0, 0, 0, 1 / 2, -1 / 2])


def test_when_all_answers_are_alike_a_tenth_is_left_and_nothing_is_learnt() -> None:
    assert diversity().advantages(a_group([1, 1, 1], answers=["a"] * 3)) == pytest.approx([0, 0, 0])
    group = a_group([1, 1, 0], answers=["a", "a", "a"])  # a verdict may differ within a form, the floor shows
    assert diversity().advantages(group) == pytest.approx(np.array([0.1, 0.1, 0]) - 0.2 / 3)
    assert diversity().advantages(a_group([1], answers=["a"])).tolist() == [0.0]


def test_an_expert_lifts_the_mean_of_a_group_that_is_all_wrong() -> None:
    group = a_group([0, 0, 0, 1], experts=[False, False, False, True])
    root = 3**0.5
    expected = [-1 / root, -1 / root, -1 / root, root]
    assert mixed_policy(delta=1e-12).advantages(group) == pytest.approx(expected)
    assert mixed_policy().loss == Loss(shaping=0.1)
    assert mixed_policy().schedule == MethodSchedule(experts=1)


def test_base_anchor_learns_only_what_the_base_reaches() -> None:
    assert base_anchor().advantages(a_group([1, 0], reached=False)).tolist() == [0.0, 0.0]
    reached = a_group([1, 0])
    assert base_anchor().advantages(reached) == pytest.approx(grpo().advantages(reached))
    assert base_anchor().loss == Loss(anchor=0.1)
    assert base_anchor().schedule == MethodSchedule(base_samples=64)


def test_methods_that_treat_tokens_apart_have_the_advantages_of_grpo() -> None:
    assert kl_cov().loss == Loss(low=INF, high=INF, chosen=TokenSelection.KL_COV, share=2e-3, penalty=1.0)
    assert clip_cov().loss == Loss(low=INF, high=INF, chosen=TokenSelection.CLIP_COV, share=2e-4, band=(1.0, 5.0))
    assert top_entropy().loss == Loss(chosen=TokenSelection.TOP_ENTROPY, share=0.2)
    for method in (kl_cov(), clip_cov(), top_entropy()):
        assert method.advantages == grpo().advantages


def test_interleaved_sft_is_grpo_with_supervised_steps() -> None:
    assert interleaved_sft(sft_every=8, sft_steps=2).schedule == MethodSchedule(sft_every=8, sft_steps=2)
    assert (interleaved_sft().advantages, interleaved_sft().loss) == (grpo().advantages, grpo().loss)


@pytest.mark.parametrize(
    "make", [unlikeliness, focal, entropy_advantage, outcome_novelty, diversity, mixed_policy, base_anchor]
)
def test_permuting_the_samples_permutes_their_advantages(make: Callable[[], Method]) -> None:
    def drawn(order: list[int]) -> RolloutGroup:
        return a_group(
            np.array([1, 0, 0, 1, 1])[order].tolist(),
            logprobs=np.array([[-1], [-2], [-2], [-3], [-1]])[order].tolist(),
            entropies=np.array([[0.1], [0.2], [0.3], [0.4], [5.0]])[order].tolist(),
            answers=np.array(["a", "b", "c", "b", ""])[order].tolist(),
            seen={"a": 9},
        )

    order = [3, 0, 4, 1, 2]
    plain, shuffled = make().advantages(drawn([0, 1, 2, 3, 4])), make().advantages(drawn(order))
    assert shuffled == pytest.approx(plain[order])
