"""Groups: every problem in turn, groups without a difference dropped and drawn anew, traces and memories joined."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from offleash.problems.countdown import generate
from offleash.training.method import MethodSchedule
from offleash.training.policy import frozen, open_policy
from offleash.training.rollouts import TrainingProblem, rewards_for, trace_rows, wide
from tests.training.classroom import BASE, Classroom


@pytest.fixture(scope="module")
def room() -> Iterator[Classroom]:
    problems = generate("train", 10, 1)
    with rewards_for(problems, "train") as rewards:
        yield Classroom(open_policy(str(BASE)), problems, rewards)


def test_every_problem_comes_once_in_every_pass(room: Classroom) -> None:
    collecting = room.collecting(MethodSchedule(), problems=4, size=2)
    asked = [taught.pupil.problem for step in range(10) for taught in collecting.step(room.policy, step).groups]
    passes = [asked[start : start + 10] for start in range(0, 40, 10)]
    assert all(set(one) == set(room.problems["problem"]) for one in passes)
    assert len({tuple(one) for one in passes}) == 4


def test_more_groups_than_problems_ask_some_twice_with_other_samples(room: Classroom) -> None:
    lesson = room.collecting(MethodSchedule(), problems=25, size=3).step(room.policy, 0)
    times = Counter(taught.pupil.problem for taught in lesson.groups)
    assert sorted(times.values()) == [2] * 5 + [3] * 5
    assert len({taught.group.answer_G for taught in lesson.groups}) > 10


def test_a_step_is_the_same_again_and_another_step_differs(room: Classroom) -> None:
    one, again = (room.collecting(MethodSchedule()).step(room.policy, 3) for _ in range(2))
    other = room.collecting(MethodSchedule()).step(room.policy, 4)
    assert [t.token_GT.tolist() for t in one.groups] == [t.token_GT.tolist() for t in again.groups]
    assert [t.token_GT.tolist() for t in one.groups] != [t.token_GT.tolist() for t in other.groups]


def test_rewards_and_answers_are_those_of_the_verifier(room: Classroom) -> None:
    lesson = room.collecting(MethodSchedule(), problems=10, size=40).step(room.policy, 0)
    assert lesson.samples == 400 == lesson.verdicts.total()
    assert lesson.reward == np.mean([taught.group.reward_G for taught in lesson.groups]) > 0
    for taught in lesson.groups:
        texts = [
            room.policy.loaded.tokenizer.decode(tokens[:length].tolist(), skip_special_tokens=True)
            for tokens, length in zip(taught.token_GT, taught.group.length_G, strict=True)
        ]
        judged = room.judged(taught.pupil.problem, texts)
        read = taught.group.length_G < 18  # what is cut may be unread
        assert (np.array(judged.rewards)[read] == taught.group.reward_G[read]).all()
        assert taught.token_GT.shape[1] == taught.group.length_G.max()


def test_groups_without_a_difference_are_dropped_and_others_drawn_up_to_the_limit(room: Classroom) -> None:
    usual = room.collecting(MethodSchedule(), problems=10, size=8).step(room.policy, 0)
    mixed = [0 < taught.group.reward_G.sum() < 8 for taught in usual.groups]
    assert not all(mixed)
    for refill in (1, 2, 5):
        lesson = room.collecting(MethodSchedule(mixed_only=True), problems=10, size=8, refill=refill).step(
            room.policy, 0
        )
        assert all(0 < taught.group.reward_G.sum() < 8 for taught in lesson.groups)
        assert lesson.samples <= refill * 80
        assert lesson.samples == refill * 80 or len(lesson.groups) == 10
        assert lesson.dropped + len(lesson.groups) <= lesson.samples / 8
        if refill == 1:
            assert len(lesson.groups) == sum(mixed)
            assert lesson.dropped == 10 - sum(mixed)
    assert len(lesson.groups) == 10


def test_where_every_group_is_dropped_the_lesson_is_empty(room: Classroom) -> None:
    collecting = room.collecting(MethodSchedule(mixed_only=True), problems=3, size=2, refill=2)
    impossible = replace(collecting, decoding=replace(collecting.decoding, max_tokens=2))
    lesson = impossible.step(room.policy, 0)
    assert not lesson.groups
    assert (lesson.dropped, lesson.samples, lesson.truncated, lesson.reward) == (6, 12, 12, 0.0)


def test_traces_join_each_group_with_the_policys_own_log_probabilities(room: Classroom) -> None:
    collecting = room.collecting(MethodSchedule(experts=2), problems=6, size=4)
    for taught in collecting.step(room.policy, 0).groups:
        group, many = taught.group, min(2, len(taught.pupil.traces))
        assert group.expert_G.tolist() == [False] * 4 + [True] * many
        assert group.reward_G[4:].tolist() == [1.0] * many
        assert len({tuple(tokens) for tokens in taught.token_GT[4:].tolist()}) == many
        for row in range(4, 4 + many):
            tokens = taught.token_GT[row, : group.length_G[row]].tolist()
            text = room.policy.loaded.tokenizer.decode(tokens[:-1])
            assert text in taught.pupil.traces
            assert tokens == room.policy.answer(text)
            rows = trace_rows(room.policy, [(taught.pupil.prompt, text)])
            with torch.no_grad():
                expected = room.policy.logprobs(rows, 1.0)[0].numpy()
            np.testing.assert_allclose(group.logprob_GT[row, : len(tokens)], expected, atol=1e-4)
            assert not group.logprob_GT[row, len(tokens) :].any()


def test_an_experts_answer_is_written_like_the_same_answer_of_a_sample(room: Classroom) -> None:
    for taught in room.collecting(MethodSchedule(experts=3), problems=10, size=2).step(room.policy, 0).groups:
        experts = [
            answer for answer, expert in zip(taught.group.answer_G, taught.group.expert_G, strict=True) if expert
        ]
        assert list(room.judged(taught.pupil.problem, experts).answers) == experts


def test_a_problem_without_traces_keeps_its_group_as_it_is(room: Classroom) -> None:
    collecting = replace(room.collecting(MethodSchedule(experts=2)), pupils=room.collecting(MethodSchedule()).pupils)
    assert not any(taught.group.expert_G.any() for taught in collecting.step(room.policy, 0).groups)


def test_the_greedy_sample_is_judged_where_it_is_wanted(room: Classroom) -> None:
    lesson = room.collecting(MethodSchedule(greedy=True), problems=10, size=2).step(room.policy, 0)
    decoding = replace(room.collecting(MethodSchedule()).decoding, temperature=0.0)
    for taught in lesson.groups:
        drawn = room.policy.draw([taught.pupil.prompt], 1, [1], decoding)
        assert taught.group.greedy == room.judged(taught.pupil.problem, drawn.texts).rewards[0]
    assert all(t.group.greedy == 0 for t in room.collecting(MethodSchedule(), problems=10).step(room.policy, 0).groups)


def test_problems_that_the_base_solves_are_reached_and_its_weights_are_asked_not_the_policys(room: Classroom) -> None:
    base, silent = frozen(room.policy), frozen(room.policy)
    with torch.no_grad():
        for weights in silent.loaded.model.parameters():
            weights.zero_()  # solves nothing
    reached = {}
    for name, asked in (("base", base), ("silent", silent)):
        collecting = replace(room.collecting(MethodSchedule(base_samples=64), problems=10, size=2), base=asked)
        reached[name] = [taught.group.reached for taught in collecting.step(room.policy, 0).groups]
    assert 5 <= sum(reached["base"]) <= 10
    assert not any(reached["silent"])
    assert all(t.group.reached for t in room.collecting(MethodSchedule(), problems=10).step(room.policy, 0).groups)


def test_answers_are_remembered_only_where_it_is_wanted(room: Classroom) -> None:
    forgetful = room.collecting(MethodSchedule(), problems=10)
    for step in range(2):
        assert not any(taught.group.seen for taught in forgetful.step(room.policy, step).groups)
    assert not forgetful.seen

    collecting = room.collecting(MethodSchedule(memory=True), problems=10)
    first = {t.pupil.problem: t.group for t in collecting.step(room.policy, 0).groups}
    assert not any(group.seen for group in first.values())
    for problem, group in first.items():
        assert collecting.seen[problem] == Counter(answer for answer in group.answer_G if answer)
    second = {t.pupil.problem: t.group for t in collecting.step(room.policy, 1).groups}
    for problem, group in second.items():
        assert group.seen == Counter(answer for answer in first[problem].answer_G if answer)
    total = sum(len([a for a in g.answer_G if a]) for g in (*first.values(), *second.values()))
    assert sum(sum(one.values()) for one in collecting.seen.values()) == total


def test_traces_of_several_lengths_become_rows_with_their_ends(room: Classroom) -> None:
    pupil = TrainingProblem("p", room.policy.tokens("1 2 3 4 = 10 :"))
    rows = trace_rows(room.policy, [(pupil.prompt, "1 + 2 = 3"), (pupil.prompt, "1 + 2 = 3 , 3 + 3 = 6")])
    assert rows.length_N.tolist() == [6, 12]
    assert rows.token_NT[0, 5] == room.policy.loaded.ends[0]
    assert not rows.token_NT[0, 6:].any()


def test_an_array_is_widened_with_zeros() -> None:
    assert wide(np.ones((2, 1)), 3).tolist() == [[1, 0, 0]] * 2
