"""Rounds, chunks and the schedule: every index once, few problems open, and little drawn beyond the m-th success."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offleash.drawing.schedule import Chunks, Schedule, Stage, StoredProblem, chunks_for, holes, overlap

GRIDS = st.builds(
    Chunks, first=st.integers(1, 300), growth=st.floats(1.01, 4), largest=st.integers(1, 300)
)  # more than any run has


@settings(deadline=None)
@given(GRIDS, st.integers(0, 3000), st.integers(0, 3000))
def test_chunks_cover_every_index_once_and_are_never_too_large(grid: Chunks, one: int, other: int) -> None:
    start, end = min(one, other), max(one, other)
    result = grid.between(start, end)
    assert [index for first, size in result for index in range(first, first + size)] == list(range(start, end))
    assert all(size <= grid.largest for _, size in result)


@settings(deadline=None, max_examples=50)
@given(GRIDS, st.lists(st.integers(1, 3000), min_size=1, max_size=3))
def test_chunks_lie_on_one_grid_whatever_the_budgets(grid: Chunks, budgets: list[int]) -> None:
    edges = {first for first, _ in grid.between(0, 4000)} | set(budgets)
    for budget in budgets:
        assert all(first in edges for first, _ in grid.between(0, budget))


def test_rounds_grow_by_a_quarter() -> None:
    grid, ends = chunks_for(5), [0]
    while ends[-1] < 60:
        ends.append(grid.round_end(ends[-1]))
    assert ends == [0, 5, 7, 9, 12, 15, 19, 24, 30, 38, 48, 60]
    assert grid.round_end(37) == 38


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=6), st.integers(0, 80))
def test_holes_are_what_the_spans_do_not_cover(pairs: list[tuple[int, int]], end: int) -> None:
    spans = [(left, left + size) for left, size in pairs]
    covered = {index for left, right in spans for index in range(left, right)}
    missing = [index for left, right in holes(spans, end) for index in range(left, right)]
    assert missing == [index for index in range(end) if index not in covered]
    assert (overlap(spans) is None) == (len(covered) == sum(size for _, size in pairs))


def play(schedule: Schedule, hits: dict[str, np.ndarray], batch_size: int, width: int) -> tuple[dict[str, int], int]:
    """Run a schedule to its end, `width` batches at a time; samples drawn by problem, and the most that were open."""
    drawn: dict[str, int] = defaultdict(int)
    most = 0
    while schedule.unfinished:
        batches = [batch for idle in range(width, 0, -1) if (batch := schedule.take(batch_size, idle))]
        assert batches
        most = max(most, schedule.count(Stage.OPEN))
        for problem, first, size in (chunk for batch in batches for chunk in batch):
            drawn[problem] += size
            schedule.chunk_done(problem, size, int(hits[problem][first : first + size].sum()))
    return drawn, most


def test_a_full_draw_opens_one_problem_after_another() -> None:
    names = [f"p{i}" for i in range(20)]
    schedule = Schedule(names, {}, chunks_for(0), 2048, 0)
    drawn, most = play(schedule, {name: np.zeros(2048) for name in names}, batch_size=1024, width=1)
    assert set(drawn.values()) == {2048}
    assert most == 1


def test_batches_fill_the_sampler_while_there_is_enough_and_are_shared_at_the_end() -> None:
    schedule = Schedule([f"p{i}" for i in range(100)], {}, chunks_for(5), 1000, 5)
    sizes = [sum(size for _, _, size in schedule.take(100, idle)) for idle in (4, 3, 2, 1)]
    assert sizes == [100, 100, 100, 100]
    few = Schedule(["a", "b", "c", "d"], {}, chunks_for(5), 1000, 5)
    assert [sum(size for _, _, size in few.take(100, idle)) for idle in (2, 1)] == [10, 10]


MIXES = {"mostly easy": (2.0, 1.0), "spread": (0.3, 1.0), "mostly out of reach": (0.02, 1.0)}


@pytest.mark.parametrize("mix", MIXES)
def test_stopping_costs_little_more_than_an_oracle(mix: str) -> None:
    rng = np.random.default_rng([4, len(mix)])
    k, until, names = 4096, 5, [f"p{i}" for i in range(300)]
    rate_P = rng.beta(*MIXES[mix], size=len(names))
    hits = {name: rng.random(k) < rate for name, rate in zip(names, rate_P, strict=True)}
    drawn, _ = play(Schedule(names, {}, chunks_for(until), k, until), hits, batch_size=512, width=2)
    oracle = 0
    for name in names:
        place = np.flatnonzero(hits[name])
        stop = int(place[until - 1]) + 1 if place.size >= until else k
        oracle += stop
        assert drawn[name] >= stop
    assert sum(drawn.values()) <= 1.15 * oracle


@settings(deadline=None)
@given(st.integers(1, 400), st.integers(0, 6), st.integers(1, 400), st.integers(0, 2**31))
def test_a_draw_that_was_cut_anywhere_comes_to_the_samples_of_an_uncut_one(
    k: int, until: int, cut: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    hits = {"p": rng.random(k) < rng.choice([0.0, 0.01, 0.05, 0.5])}
    grid = Chunks(first=until, largest=16) if until else Chunks(first=16, growth=2.0, largest=16)
    whole, _ = play(Schedule(["p"], {}, grid, k, until), hits, 64, 1)
    kept: list[tuple[int, int]] = []  # what was on disk at the kill: the first rounds, some chunks of them lost
    schedule = Schedule(["p"], {}, grid, k, until)
    while schedule.unfinished and sum(right - left for left, right in kept) < cut:
        for problem, first, size in schedule.take(64, 1):
            if rng.random() < 0.8:
                kept.append((first, first + size))
            schedule.chunk_done(problem, size, int(hits["p"][first : first + size].sum()))
    on_disk = sum(int(hits["p"][left:right].sum()) for left, right in kept)
    resumed = Schedule(["p"], {"p": StoredProblem(tuple(kept), on_disk)}, grid, k, until)
    more, _ = play(resumed, hits, 64, 1)
    total = more.get("p", 0) + sum(right - left for left, right in kept)
    assert total == whole["p"]


def test_a_problem_whose_request_failed_is_left_with_its_gap() -> None:
    schedule = Schedule(["a", "b"], {}, Chunks(first=4, largest=2), 100, 4)
    batch = schedule.take(8, 1)
    assert [chunk[1:] for chunk in batch if chunk[0] == "a"] == [(0, 2), (2, 2)]
    assert not schedule.failed("a")
    assert schedule.chunk_done("a", 2, 2)  # closed: it is not asked for more
    assert schedule.records["a"].stage is Stage.STUCK
    assert all(chunk[0] == "b" for chunk in schedule.take(1000, 1))
