"""The duplicate detector: honest models pass at any size; copies, reused seeds and impossible repeats are stopped."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from offleash.drawing import duplicates
from offleash.drawing.duplicates import Duplicates
from offleash.errors import OffleashError
from offleash.samplers.sampler import FINISHED, Request, Sample, SamplingParams

Draw = Callable[[np.random.Generator, int], list[tuple[str, float]]]  # so many texts with their log-probabilities


@dataclass(frozen=True)
class Law:
    """Texts of a model with their chances."""

    chance: tuple[float, ...]

    def __call__(self, rng: np.random.Generator, size: int) -> list[tuple[str, float]]:
        law = np.array(self.chance)
        return [(f"text {i}", float(np.log(law[i]))) for i in rng.choice(len(law), size, p=law)]


def long_texts(rng: np.random.Generator, size: int) -> list[tuple[str, float]]:
    return [(f"{number} and so on", -43.7) for number in rng.integers(2**63, size=size)]


def reasoning(rng: np.random.Generator, size: int) -> list[tuple[str, float]]:
    """Texts of some hundred tokens."""
    return [(f"{number} and so on", -180.0 - 40 * rng.random()) for number in rng.integers(2**63, size=size)]


ONE = Law((1.0,))
MODE = Law((0.3, *[0.001] * 700))
SHORT = Law((0.5, 0.25, 0.125, *[0.001] * 125))
THREE = Law((0.5, 0.3, 0.2))
NEARLY = Law((0.9, 0.1))
HONEST: dict[str, Draw] = {"one answer": ONE, "mode of 30%": MODE, "short answers": SHORT, "long texts": long_texts}
HONEST |= {"three answers": THREE, "nearly one answer": NEARLY}


def request(problem: int, first: int, size: int) -> Request:
    return Request(f"p{problem}", "Question?", first, size, 7)


def samples(drawn: Sequence[tuple[str, float]], first: int = 0, known: bool = True) -> list[Sample]:
    return [
        Sample(first + i, text, 9, FINISHED, 1, logprob_sampled=log if known else None)
        for i, (text, log) in enumerate(drawn)
    ]


def honest(draw: Draw) -> Draw:
    return draw


def copies(draw: Draw) -> Draw:
    return lambda rng, size: draw(rng, 1) * size


def reused(draw: Draw) -> Draw:
    return lambda rng, size: draw(np.random.default_rng(1), size)


def requests_until_stopped(
    draw: Draw, size: int, known: bool, problems: int = 10, rounds: int = 12, watch: Duplicates | None = None
) -> int | None:
    """How many requests a run of this model goes on, round by round; None: to its end."""
    rng, watch = np.random.default_rng([size, known]), watch or Duplicates(SamplingParams(), "endpoint:here")
    for number in range(rounds * problems):
        turn, problem = divmod(number, problems)
        try:
            watch.add(request(problem, turn * size, size), samples(draw(rng, size), turn * size, known))
        except OffleashError:
            return number + 1
    return None


@pytest.mark.parametrize("known", [True, False], ids=["probabilities", "texts alone"])
@pytest.mark.parametrize("size", [1, 2, 5, 64])
@pytest.mark.parametrize("draw", HONEST.values(), ids=HONEST)
def test_honest_models_pass(draw: Draw, size: int, known: bool) -> None:
    assert requests_until_stopped(draw, size, known, problems=20) is None


@pytest.mark.parametrize("draw", HONEST.values(), ids=HONEST)
def test_sixteen_thousand_samples_of_a_problem_pass(draw: Draw) -> None:
    assert requests_until_stopped(draw, 256, True, problems=1, rounds=64) is None


def test_thousands_of_problems_pass() -> None:
    assert requests_until_stopped(THREE, 4, True, problems=3000, rounds=1) is None


@pytest.mark.parametrize("draw", [MODE, SHORT, long_texts], ids=["mode of 30%", "short answers", "long texts"])
@pytest.mark.parametrize("known", [True, False], ids=["probabilities", "texts alone"])
@pytest.mark.parametrize("fault", [copies, reused])
def test_copies_and_reused_seeds_are_stopped_within_a_handful_of_requests(
    draw: Draw, known: bool, fault: Callable[[Draw], Draw]
) -> None:
    for size, most in ((2, 200), (5, 30), (16, 12), (64, 4), (256, 2)):
        stopped = requests_until_stopped(fault(draw), size, known, problems=1, rounds=200)
        assert stopped is not None, size
        assert stopped <= most, (size, stopped)


def test_a_single_request_of_copies_is_stopped_where_probabilities_are_known() -> None:
    assert requests_until_stopped(copies(MODE), 64, True, problems=1, rounds=1) == 1
    assert requests_until_stopped(copies(reasoning), 4, True, problems=1, rounds=1) == 1
    assert (
        requests_until_stopped(copies(reasoning), 2, True, problems=5, rounds=1) == 3
    )  # one pair might be an accident


def test_copies_of_a_likely_text_are_stopped_by_one_request_or_by_several_problems_together() -> None:
    half = Law((0.5, 0.5))
    assert requests_until_stopped(copies(half), 64, True, problems=4, rounds=1) == 1
    for draw, size, most in ((half, 16, 5), (half, 4, 25), (NEARLY, 64, 12)):
        stopped = requests_until_stopped(copies(draw), size, True, problems=40, rounds=1)
        assert stopped is not None, (size, draw)
        assert 1 < stopped <= most, (size, stopped)


def test_copies_that_begin_late_are_stopped_too() -> None:
    watch = Duplicates(SamplingParams(), "endpoint:here")
    assert requests_until_stopped(THREE, 16, True, problems=300, rounds=1, watch=watch) is None
    stopped = requests_until_stopped(copies(THREE), 16, True, problems=20, rounds=1, watch=watch)
    assert stopped is not None
    assert stopped <= 8


def test_one_request_a_problem_without_probabilities_is_let_pass_and_doubted() -> None:
    watch = Duplicates(SamplingParams(), "endpoint:here")
    assert requests_until_stopped(copies(MODE), 64, False, problems=30, rounds=1, watch=watch) is None
    assert watch.doubt is not None
    assert "30 requests" in watch.doubt
    assert "without log-probabilities" in watch.doubt
    assert "if you draw from a server, try --set n=1" in watch.doubt
    fine = Duplicates(SamplingParams(), "endpoint:here")
    requests_until_stopped(MODE, 64, False, problems=30, rounds=1, watch=fine)
    assert fine.doubt is None


def test_a_model_that_is_certain_of_its_one_answer_is_not_doubted() -> None:
    watch = Duplicates(SamplingParams(), "transformers:here")
    assert requests_until_stopped(ONE, 64, True, problems=30, rounds=1, watch=watch) is None
    assert watch.doubt is None


def test_the_same_text_for_every_request_is_stopped_by_its_probability() -> None:
    """A server that ignores the temperature: texts agree within and across requests, and only probabilities tell."""
    always: Draw = lambda rng, size: [("the likeliest text", -60.0 + 0.02 * rng.random())] * size  # noqa: E731
    assert requests_until_stopped(always, 8, True) is not None
    assert requests_until_stopped(always, 8, False) is None
    assert requests_until_stopped(always, 1, True, problems=2, rounds=20) is not None


def test_greedy_drawing_repeats_by_design() -> None:
    for decoding in (SamplingParams(temperature=0), SamplingParams(top_k=1)):
        watch = Duplicates(decoding, "endpoint:here")
        assert requests_until_stopped(copies(long_texts), 256, True, watch=watch) is None
        assert watch.doubt is None


def test_the_message_says_what_was_found_what_it_means_and_what_to_do() -> None:
    watch = Duplicates(SamplingParams(), "endpoint:here")
    with pytest.raises(OffleashError) as told:
        watch.add(request(3, 0, 64), samples(copies(long_texts)(np.random.default_rng(0), 64)))
    for part in ("endpoint:here", "'p3'", "64 identical samples of 64", "1e-", "seed", "--set n=1", "stays"):
        assert part in str(told.value)
    watch = Duplicates(SamplingParams(), "endpoint:here")
    tails: Draw = lambda rng, size: [("tails", float(np.log(0.5)))] * size  # noqa: E731
    assert requests_until_stopped(tails, 16, True, problems=9, rounds=1, watch=watch) is not None
    with pytest.raises(OffleashError, match="16 of the 16 samples of one request") as told:
        watch.add(request(9, 0, 16), samples(tails(np.random.default_rng(0), 16)))
    for part in ("endpoint:here", "is below 1e-", "--set n=1", "log-probabilities are not those"):
        assert part in str(told.value)
    rng = np.random.default_rng(0)
    for fault, what in ((copies, "32 of the 32 samples"), (reused, "32 of 32 samples")):
        watch = Duplicates(SamplingParams(), "endpoint:here")
        watch.add(request(3, 0, 32), samples(fault(MODE)(rng, 32), known=False))
        with pytest.raises(OffleashError, match=what) as told:
            watch.add(request(3, 32, 32), samples(fault(long_texts if fault is copies else MODE)(rng, 32), 32, False))
        for part in ("'p3'", "is below 1e-", "copies", "--set n=1", "stays"):
            assert part in str(told.value)


def test_the_probability_under_another_law_than_the_one_drawn_from_is_not_used() -> None:
    """At temperature 0.2 a text can come often whose own probability is small."""
    drawn = [Sample(i, "likely when cold", 9, FINISHED, 1, logprob_raw=-90.0) for i in range(64)]
    Duplicates(SamplingParams(temperature=0.2), "endpoint:here").add(request(0, 0, 64), drawn)
    with pytest.raises(OffleashError, match="64 identical"):
        Duplicates(SamplingParams(), "endpoint:here").add(request(0, 0, 64), drawn)


def test_one_text_from_many_token_sequences_is_no_repeat() -> None:
    """Tokens that become no text: every sample reads the same, and each has a log-probability of its own."""

    def silent(rng: np.random.Generator, size: int) -> list[tuple[str, float]]:
        return [("", -88.0 + 0.6 * rng.normal()) for _ in range(size)]

    for size in (1, 5, 256):
        assert requests_until_stopped(silent, size, True, problems=100 if size < 9 else 3) is None


def test_copies_are_found_though_their_log_probabilities_carry_noise() -> None:
    def noisy(rng: np.random.Generator, size: int) -> list[tuple[str, float]]:
        return [("the likeliest text", -300 + 0.05 * rng.normal()) for _ in range(size)]

    assert requests_until_stopped(noisy, 32, True, problems=1, rounds=1) == 1


def test_requests_are_compared_in_index_order_whatever_the_order_of_arrival() -> None:
    rng = np.random.default_rng(2)
    drawn = [SHORT(rng, 8) for _ in range(16)]

    def evidence(order: Sequence[int]) -> tuple[float, float]:
        watch = Duplicates(SamplingParams(), "endpoint:here")
        for i in order:
            watch.add(request(0, 8 * i, 8), samples(drawn[i], 8 * i))
        return watch._within_evidence.log, watch._across_evidence.log

    swapped = [i ^ 1 for i in range(16)]
    assert evidence(swapped) == evidence(range(16))
    assert evidence([3, 1, 2, 0, *range(4, 16)]) == evidence(range(16))


def test_memory_is_bounded_and_the_quietest_problem_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "MAX_REMEMBERED_TEXTS", 1000)
    watch, rng = Duplicates(SamplingParams(), "endpoint:here"), np.random.default_rng(0)
    for number in range(200):
        watch.add(request(number % 40, 64 * (number // 40), 64), samples(long_texts(rng, 64), 64 * (number // 40)))
        assert watch.remembered_bytes <= 1000
    assert list(watch._problems)[-1] == "p39"
    assert watch.remembered_bytes == sum(problem.size for problem in watch._problems.values())


def test_unknown_and_impossible_log_probabilities_are_not_used() -> None:
    watch = Duplicates(SamplingParams(), "endpoint:here")
    logs = (None, float("nan"), float("-inf"), -80.0)
    drawn = [Sample(i, "same", None, FINISHED, 1, logprob_sampled=logs[i % 4]) for i in range(64)]
    watch.add(request(0, 0, 64), drawn)
    watch.add(request(0, 64, 0), [])
