"""The registry of methods: names, options, what is refused, and that no two methods are the same."""

from inspect import signature
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from offleash.errors import OffleashError
from offleash.training import methods
from offleash.training.methods.registry import METHODS, method
from tests.training.methods.groups import a_group

NAMES = sorted(METHODS)


def test_no_two_methods_are_equal_in_all_three_parts() -> None:
    made = {name: method(name) for name in NAMES}
    assert not [(a, b) for a, b in combinations(NAMES, 2) if made[a] == made[b]]


def test_every_method_made_twice_is_the_same() -> None:
    assert all(method(name) == method(name) for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_method_is_called_as_its_function_in_a_file_of_its_family(name: str) -> None:
    assert METHODS[name].__name__ == name
    assert METHODS[name].__module__.rpartition(".")[0] == methods.__name__


def test_every_file_is_a_family_of_methods_or_the_registry() -> None:
    families = {made.__module__.rpartition(".")[2] for made in METHODS.values()}
    assert {path.stem for path in Path(methods.__path__[0]).glob("*.py")} - families == {"__init__", "registry"}


@pytest.mark.parametrize("name", NAMES)
def test_a_method_cites_its_paper(name: str) -> None:
    assert "arXiv:2" in (METHODS[name].__doc__ or "").splitlines()[0]


@pytest.mark.parametrize("name", NAMES)
def test_every_option_has_a_default_that_is_a_number_or_a_flag(name: str) -> None:
    assert {type(option.default) for option in signature(METHODS[name]).parameters.values()} <= {float, int, bool}


@pytest.mark.parametrize("name", NAMES)
def test_advantages_are_finite_one_a_sample_or_one_a_token_and_leave_the_group_alone(name: str) -> None:
    for rewards in ([1, 0, 0, 1, 0], [0] * 5, [1] * 5):
        group = a_group(rewards, logprobs=[[-1, -2]] * 5, entropies=[[0.3, 0.4]] * 5, lengths=[2] * 5)
        before = group.reward_G.copy()
        advantage = method(name).advantages(group)
        assert advantage.shape in {(5,), (5, 2)}
        assert advantage.dtype == np.float64
        assert np.isfinite(advantage).all()
        assert (group.reward_G == before).all()


@pytest.mark.parametrize(("wrong", "near"), [("gropo", "grpo"), ("pass@k", "pass_at_k"), ("daps", "dapo")])
def test_an_unknown_method_is_answered_with_the_nearest(wrong: str, near: str) -> None:
    with pytest.raises(OffleashError, match=f"no method {wrong!r}. Did you mean {near!r}"):
        method(wrong)


def test_an_unknown_option_is_answered_with_the_nearest() -> None:
    with pytest.raises(OffleashError, match=r"no grpo option 'clpi'. Did you mean 'clip'"):
        method("grpo", {"clpi": 0.1})


@pytest.mark.parametrize(
    ("name", "options", "kind"),
    [
        ("grpo", {"clip": "0.2"}, "a number"),
        ("grpo", {"clip": None}, "a number"),
        ("grpo", {"kl": True}, "a number"),
        ("pass_at_k", {"k": 2.5}, "a whole number"),
        ("pass_at_k", {"k": True}, "a whole number"),
        ("pkpo", {"equal": 1}, "true or false"),
        ("outcome_novelty", {"batch": "yes"}, "true or false"),
    ],
)
def test_an_option_of_the_wrong_kind_is_refused_with_what_it_should_be(
    name: str, options: dict[str, object], kind: str
) -> None:
    (value,) = options.values()
    with pytest.raises(OffleashError, match=f"must be {kind} .*found {value!r}"):
        method(name, options)


def test_a_whole_number_will_do_where_a_number_is_wanted() -> None:
    assert method("w_reinforce", {"weight": 1}) == method("w_reinforce", {"weight": 1.0})


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        *((name, "clip", 0.0) for name in NAMES if "clip" in signature(METHODS[name]).parameters),
        *((name, "kl", -0.1) for name in NAMES if "kl" in signature(METHODS[name]).parameters),
        *((name, "delta", 0.0) for name in NAMES if "delta" in signature(METHODS[name]).parameters),
        ("grpo", "clip", float("nan")),
        ("grpo", "kl", float("inf")),
        ("dapo", "low", 0.0),
        ("dapo", "high", -1.0),
        ("dapo", "overlong", 1.5),
        ("prorl", "temperature", 0.0),
        ("prorl", "reset_after", -1),
        ("gspo", "low", 0.0),
        ("gspo", "high", 0.0),
        ("w_reinforce", "weight", -0.1),
        ("pass_at_k", "k", 0),
        ("pkpo", "k", 0),
        ("unlikeliness", "b", 1.1),
        ("focal", "gamma", -1.0),
        ("kl_cov", "share", 0.0),
        ("kl_cov", "penalty", -1.0),
        ("clip_cov", "share", 1.5),
        ("clip_cov", "low", 6.0),
        ("entropy_advantage", "alpha", -0.1),
        ("entropy_advantage", "kappa", 1.0),
        ("top_entropy", "share", 0.0),
        ("outcome_novelty", "b", -1.0),
        ("diversity", "least", -0.1),
        ("mixed_policy", "experts", 0),
        ("mixed_policy", "shaping", 0.0),
        ("interleaved_sft", "sft_every", 0),
        ("interleaved_sft", "sft_steps", 0),
        ("base_anchor", "anchor", 0.0),
        ("base_anchor", "base_samples", 0),
    ],
)
def test_an_option_out_of_range_is_refused_with_the_value_found(name: str, option: str, value: float) -> None:
    with pytest.raises(OffleashError, match=rf"{option}\b.*{value}"):
        method(name, {option: value})


def test_every_option_that_is_a_number_has_a_range() -> None:
    for name in NAMES:
        for option, parameter in signature(METHODS[name]).parameters.items():
            if isinstance(parameter.default, float):
                with pytest.raises(OffleashError):
                    method(name, {option: float("nan")})
