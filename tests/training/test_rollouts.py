"""Groups: every problem in turn, groups without a difference dropped and drawn anew, traces and memories joined."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from offleash.problems.countdown import generate
from offleash.training.method import MethodSchedule
from offleash.training.policy import frozen_copy, open_policy
from offleash.training.rollouts import TrainingProblem, pad_tokens, rewards_for, trace_rows
from tests.training.classroom import BASE, Classroom


@pytest.fixture(scope="module")
def room() -> Iterator[Classroom]:
    problems = generate("train", 10, 1)
    with rewards_for(problems, "train") as rewards:
        yield Classroom(open_policy(str(BASE)), problems, rewards)


def test_every_problem_comes_once_in_every_pass(room: Classroom) -> None:
    collecting = room.collector(MethodSchedule(), groups=4, size=2)
    asked = [rollout.problem.name for step in range(10) for rollout in collecting.step(room.policy, step).groups]
    passes = [asked[start : start + 10] for start in range(0, 40, 10)]
    assert all(set(item) == set(room.problems["problem"]) for item in passes)
    assert len({tuple(item) for item in passes}) == 4


def test_more_groups_than_problems_ask_some_twice_with_other_samples(room: Classroom) -> None:
    rollouts = room.collector(MethodSchedule(), groups=25, size=3).step(room.policy, 0)
    times = Counter(rollout.problem.name for rollout in rollouts.groups)
    assert sorted(times.values()) == [2] * 5 + [3] * 5
    assert len({rollout.group.answer_G for rollout in rollouts.groups}) > 10


def test_a_step_is_the_same_again_and_another_step_differs(room: Classroom) -> None:
    first, again = (room.collector(MethodSchedule()).step(room.policy, 3) for _ in range(2))
    other = room.collector(MethodSchedule()).step(room.policy, 4)
    assert [t.token_GT.tolist() for t in first.groups] == [t.token_GT.tolist() for t in again.groups]
    assert [t.token_GT.tolist() for t in first.groups] != [t.token_GT.tolist() for t in other.groups]


def test_rewards_and_answers_are_those_of_the_verifier(room: Classroom) -> None:
    rollouts = room.collector(MethodSchedule(), groups=10, size=40).step(room.policy, 0)
    assert rollouts.samples == 400 == rollouts.verdicts.total()
    assert rollouts.reward == np.mean([rollout.group.reward_G for rollout in rollouts.groups]) > 0
    for rollout in rollouts.groups:
        texts = [
            room.policy.loaded.tokenizer.decode(tokens[:length].tolist(), skip_special_tokens=True)
            for tokens, length in zip(rollout.token_GT, rollout.group.length_G, strict=True)
        ]
        judged = room.judged(rollout.problem.name, texts)
        read = rollout.group.length_G < 18  # what is cut may be unread
        assert (np.array(judged.rewards)[read] == rollout.group.reward_G[read]).all()
        assert rollout.token_GT.shape[1] == rollout.group.length_G.max()


def test_groups_without_a_difference_are_dropped_and_others_drawn_up_to_the_limit(room: Classroom) -> None:
    usual = room.collector(MethodSchedule(), groups=10, size=8).step(room.policy, 0)
    mixed = [0 < rollout.group.reward_G.sum() < 8 for rollout in usual.groups]
    assert not all(mixed)
    for refill in (1, 2, 5):
        rollouts = room.collector(MethodSchedule(mixed_only=True), groups=10, size=8, refill=refill).step(
            room.policy, 0
        )
        assert all(0 < rollout.group.reward_G.sum() < 8 for rollout in rollouts.groups)
        assert rollouts.samples <= refill * 80
        assert rollouts.samples == refill * 80 or len(rollouts.groups) == 10
        assert rollouts.dropped + len(rollouts.groups) <= rollouts.samples / 8
        if refill == 1:
            assert len(rollouts.groups) == sum(mixed)
            assert rollouts.dropped == 10 - sum(mixed)
    assert len(rollouts.groups) == 10


def test_where_every_group_is_dropped_the_lesson_is_empty(room: Classroom) -> None:
    collecting = room.collector(MethodSchedule(mixed_only=True), groups=3, size=2, refill=2)
    impossible = replace(collecting, decoding=replace(collecting.decoding, max_tokens=2))
    rollouts = impossible.step(room.policy, 0)
    assert not rollouts.groups
    assert (rollouts.dropped, rollouts.samples, rollouts.truncated, rollouts.reward) == (6, 12, 12, 0.0)


def test_traces_join_each_group_with_the_policys_own_log_probabilities(room: Classroom) -> None:
    collecting = room.collector(MethodSchedule(experts=2), groups=6, size=4)
    for rollout in collecting.step(room.policy, 0).groups:
        group, many = rollout.group, min(2, len(rollout.problem.traces))
        assert group.expert_G.tolist() == [False] * 4 + [True] * many
        assert group.reward_G[4:].tolist() == [1.0] * many
        assert len({tuple(tokens) for tokens in rollout.token_GT[4:].tolist()}) == many
        for row in range(4, 4 + many):
            tokens = rollout.token_GT[row, : group.length_G[row]].tolist()
            text = room.policy.loaded.tokenizer.decode(tokens[:-1])
            assert text in rollout.problem.traces
            assert tokens == room.policy.answer(text)
            rows = trace_rows(room.policy, [(rollout.problem.prompt, text)])
            with torch.no_grad():
                expected = room.policy.logprobs(rows, 1.0)[0].numpy()
            np.testing.assert_allclose(group.logprob_GT[row, : len(tokens)], expected, atol=1e-4)
            assert not group.logprob_GT[row, len(tokens) :].any()


def test_an_experts_answer_is_written_like_the_same_answer_of_a_sample(room: Classroom) -> None:
    for rollout in room.collector(MethodSchedule(experts=3), groups=10, size=2).step(room.policy, 0).groups:
        experts = [
            answer for answer, expert in zip(rollout.group.answer_G, rollout.group.expert_G, strict=True) if expert
        ]
        assert list(room.judged(rollout.problem.name, experts).answers) == experts


def test_a_problem_without_traces_keeps_its_group_as_it_is(room: Classroom) -> None:
    collecting = replace(room.collector(MethodSchedule(experts=2)), problems=room.collector(MethodSchedule()).problems)
    assert not any(rollout.group.expert_G.any() for rollout in collecting.step(room.policy, 0).groups)


def test_the_greedy_sample_is_judged_where_it_is_wanted(room: Classroom) -> None:
    rollouts = room.collector(MethodSchedule(greedy=True), groups=10, size=2).step(room.policy, 0)
    decoding = replace(room.collector(MethodSchedule()).decoding, temperature=0.0)
    for rollout in rollouts.groups:
        drawn = room.policy.draw([rollout.problem.prompt], 1, [1], decoding)
        assert rollout.group.greedy == room.judged(rollout.problem.name, drawn.texts).rewards[0]
    assert all(t.group.greedy == 0 for t in room.collector(MethodSchedule(), groups=10).step(room.policy, 0).groups)


def test_problems_that_the_base_solves_are_reached_and_its_weights_are_asked_not_the_policys(room: Classroom) -> None:
    base, silent = frozen_copy(room.policy), frozen_copy(room.policy)
    with torch.no_grad():
        for weights in silent.loaded.model.parameters():
            weights.zero_()  # solves nothing
    reached = {}
    for name, asked in (("base", base), ("silent", silent)):
        collecting = replace(room.collector(MethodSchedule(base_samples=64), groups=10, size=2), base=asked)
        reached[name] = [rollout.group.reached for rollout in collecting.step(room.policy, 0).groups]
    assert 5 <= sum(reached["base"]) <= 10
    assert not any(reached["silent"])
    assert all(t.group.reached for t in room.collector(MethodSchedule(), groups=10).step(room.policy, 0).groups)


def test_answers_are_remembered_only_where_it_is_wanted(room: Classroom) -> None:
    forgetful = room.collector(MethodSchedule(), groups=10)
    for step in range(2):
        assert not any(rollout.group.seen for rollout in forgetful.step(room.policy, step).groups)
    assert not forgetful.seen

    collecting = room.collector(MethodSchedule(memory=True), groups=10)
    first = {t.problem.name: t.group for t in collecting.step(room.policy, 0).groups}
    assert not any(group.seen for group in first.values())
    for problem, group in first.items():
        assert collecting.seen[problem] == Counter(answer for answer in group.answer_G if answer)
    second = {t.problem.name: t.group for t in collecting.step(room.policy, 1).groups}
    for problem, group in second.items():
        assert group.seen == Counter(answer for answer in first[problem].answer_G if answer)
    total = sum(len([a for a in g.answer_G if a]) for g in (*first.values(), *second.values()))
    assert sum(sum(item.values()) for item in collecting.seen.values()) == total


def test_traces_of_several_lengths_become_rows_with_their_ends(room: Classroom) -> None:
    problem = TrainingProblem("p", room.policy.tokens("1 2 3 4 = 10 :"))
    rows = trace_rows(room.policy, [(problem.prompt, "1 + 2 = 3"), (problem.prompt, "1 + 2 = 3 , 3 + 3 = 6")])
    assert rows.length_N.tolist() == [6, 12]
    assert rows.token_NT[0, 5] == room.policy.loaded.ends[0]
    assert not rows.token_NT[0, 6:].any()


def test_an_array_is_widened_with_zeros() -> None:
    assert pad_tokens(np.ones((2, 1)), 3).tolist() == [[1, 0, 0]] * 2
