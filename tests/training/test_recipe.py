"""Recipes: what YAML and overrides come to, and what is refused with the next step."""

from dataclasses import replace
from inspect import signature
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offleash.errors import OffleashError
from offleash.training.methods.registry import METHODS, method
from offleash.training.recipe import (
    Optimizer,
    ProblemSource,
    Recipe,
    Sampling,
    Validation,
    document,
    read_recipe,
    recipe_differences,
    recipe_of,
    write_recipe,
)

LEAST = "model: hf:./base\nproblems: countdown:train\n"
PLAIN = Recipe("hf:./base", ProblemSource("countdown:train"))


def read(tmp_path: Path, text: str, *overrides: str) -> Recipe:
    path = tmp_path / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    return read_recipe(path, overrides)


def refusal(tmp_path: Path, text: str, *overrides: str) -> str:
    with pytest.raises(OffleashError) as caught:
        read(tmp_path, text, *overrides)
    return str(caught.value)


def test_a_model_and_problems_are_a_whole_recipe(tmp_path: Path) -> None:
    assert read(tmp_path, LEAST) == PLAIN


def test_every_key_of_yaml_arrives_where_it_belongs(tmp_path: Path) -> None:
    text = """
model: ./base
problems: {name: countdown:train, size: 512, seed: 3}
method: {name: grpo, kl: 1e-2, clip: .inf}
steps: 12
seed: 5
sampling: {problems: 8, group: 4, temperature: 1, max_tokens: 32}
optimizer: {rate: 1e-4, warmup: 2, decay: 0.1, clip: 0.5, updates: 2, tokens: 4096}
validation: {problems: ./held-out.jsonl, every: 10, samples: 8}
traces: ./traces.jsonl
refill: 2
checkpoint_every: 6
tensorboard: false
"""
    assert read(tmp_path, text) == Recipe(
        model="./base",
        problems=ProblemSource("countdown:train", 512, 3),
        method="grpo",
        options={"kl": 0.01, "clip": float("inf")},
        steps=12,
        seed=5,
        sampling=Sampling(8, 4, 1.0, 32),
        optimizer=Optimizer(1e-4, 2, 0.1, 0.5, 2, 4096),
        validation=Validation(ProblemSource("./held-out.jsonl"), 10, 8),
        traces="./traces.jsonl",
        refill=2,
        checkpoint_every=6,
        tensorboard=False,
    )


def test_a_number_that_yaml_takes_for_text_is_a_number(tmp_path: Path) -> None:
    recipe = read(tmp_path, LEAST + "optimizer: {rate: 1e-4}\nsteps: 1e3\nmethod: {name: grpo, delta: 1e-6}\n")
    assert (recipe.optimizer.rate, recipe.steps, recipe.options) == (1e-4, 1000, {"delta": 1e-6})
    assert isinstance(recipe.steps, int)


def test_overrides_reach_any_depth_and_turn_a_name_into_a_section(tmp_path: Path) -> None:
    overrides = ("optimizer.rate=1e-4", "method.kl=0.3", "problems.size=512", "validation.problems.seed=2")
    recipe = read(tmp_path, LEAST + "method: grpo\nvalidation: {problems: a.jsonl}\n", *overrides)
    assert recipe.optimizer.rate == 1e-4
    assert (recipe.method, recipe.options) == ("grpo", {"kl": 0.3})
    assert recipe.problems == ProblemSource("countdown:train", 512)
    assert recipe.validation.problems == ProblemSource("a.jsonl", None, 2)


def test_the_order_of_overrides_does_not_drop_what_stands_in_a_section(tmp_path: Path) -> None:
    recipe = read(
        tmp_path, LEAST + "method: {name: grpo, clip: 0.5}", "method.kl=0.3", "problems.size=9", "method=grpo"
    )
    assert recipe.options == {"kl": 0.3}  # the clip went with the method that was replaced
    assert recipe.problems.size == 9


def test_of_two_overrides_of_one_name_the_last_one_holds(tmp_path: Path) -> None:
    assert read(tmp_path, LEAST, "steps=5", "steps=7").steps == 7


def test_an_override_can_take_a_value_away_and_give_what_the_file_lacks(tmp_path: Path) -> None:
    assert read(tmp_path, LEAST + "traces: a.jsonl", "traces=null").traces is None
    assert read(tmp_path, "", "model=hf:./base", "problems=countdown:train") == PLAIN


def test_a_section_whose_lines_are_commented_out_has_its_defaults(tmp_path: Path) -> None:
    assert read(tmp_path, LEAST + "optimizer:\n#  rate: 1e-4\nmethod:\n") == PLAIN


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("optimiser: {rate: 1e-4}", ["'optimiser'", "'optimizer'"]),
        ("optimizer: {rat: 1e-4}", ["'optimizer.rat'", "'optimizer.rate'"]),
        ("validation: {problems: {name: a.jsonl, sizes: 3}}", ["'validation.problems.sizes'", "problems.size'"]),
        ("group: 8", ["'group'", "'sampling.group'"]),  # the right word in the wrong place
        ("optimizer: {temperature: 1}", ["'optimizer.temperature'", "'sampling.temperature'"]),
        ("7: 8", ["'7'"]),
        ("options: {kl: 0.1}", ["method: {name: grpo, kl: 0.01}"]),
        ("method: grop", ["'grop'", "'grpo'"]),
        ("method: {name: grpo, klip: 0.1}", ["'klip'", "'clip'"]),
        ("method: {name: grpo, kl: strong}", ["kl of the method grpo", "'strong'"]),
        ("method: {name: grpo, kl: .nan}", ["kl of the method grpo", "nan"]),
        ("method: 5", ["method must be text", "5"]),
        ("steps: 0", ["steps must be a whole number, 1 or more", "found 0"]),
        ("steps: 2.5", ["steps must be a whole number", "2.5"]),
        ("steps: true", ["steps must be a whole number", "True"]),
        ("seed: -1", ["seed must be a whole number, 0 or more", "-1"]),
        ("sampling: {group: 1}", ["sampling.group must be a whole number, 2 or more", "found 1"]),
        ("sampling: {problems: 0}", ["sampling.problems", "found 0"]),
        ("sampling: {temperature: 0}", ["sampling.temperature must be a number above 0", "found 0"]),
        ("sampling: {max_tokens: 0}", ["sampling.max_tokens"]),
        ("sampling: 5", ["sampling must be a section with problems, group", "found 5"]),
        ("sampling: fast", ["sampling must be a section", "'fast'"]),
        ("optimizer: {rate: 0}", ["optimizer.rate must be a number above 0"]),
        ("optimizer: {rate: fast}", ["optimizer.rate must be a number", "'fast'"]),
        ("optimizer: {rate: .inf}", ["optimizer.rate", "inf"]),
        ("optimizer: {rate: .nan}", ["optimizer.rate", "nan"]),
        ("optimizer: {rate: [1]}", ["optimizer.rate", "[1]"]),
        ("optimizer: {rate:}", ["optimizer.rate", "found nothing"]),
        ("optimizer: {clip: 0}", ["optimizer.clip"]),
        ("optimizer: {updates: 0}", ["optimizer.updates"]),
        ("optimizer: {decay: -1}", ["optimizer.decay must be a number, 0 or more"]),
        ("validation: {every: -1}", ["validation.every must be a whole number, 0 or more"]),
        ("validation: {problems: {size: 3}}", ["no validation.problems.name", "`name: countdown:train`"]),
        ("refill: 0", ["refill"]),
        ("tensorboard: 1", ["tensorboard must be true or false", "found 1"]),
        ("traces: 24", ["traces must be text", "24", "quotes"]),
        ("steps: 1\nsteps: 2", ["'steps' twice", "line 4"]),
        ("steps: [1", ["not YAML", "line 4"]),
        ("steps: 2024-13-40", ["not YAML", "month"]),
        ("steps: " + "[" * 2000, ["not YAML"]),
        ("- 5", ["not YAML", "line 3"]),
    ],
)
def test_a_bad_line_is_refused_with_what_was_found_and_what_is_wanted(
    tmp_path: Path, text: str, said: list[str]
) -> None:
    message = refusal(tmp_path, LEAST + text + "\n")
    for words in said:
        assert words in message, message


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("steps", ["'steps'", "optimizer.rate=1e-4"]),
        ("=5", ["'=5'", "NAME=VALUE"]),
        ("optimizer..rate=5", ["NAME=VALUE"]),
        ("optimizr.rate=5", ["'optimizr'", "'optimizer'"]),
        ("steps=[5", ["'steps=[5'", "not YAML"]),
        ("refill.most=5", ["refill must be a whole number", "'most'"]),
        ("steps.most=5", ["steps is 3", "steps.most"]),
        ("model=", ["model must be text", "nothing"]),
        ("model=24", ["model must be text", "24", "quotes"]),
    ],
)
def test_a_bad_override_is_refused(tmp_path: Path, override: str, said: list[str]) -> None:
    message = refusal(tmp_path, LEAST + "steps: 3\n", override)
    for words in said:
        assert words in message, message


def test_what_must_be_there_is_asked_for_with_an_example(tmp_path: Path) -> None:
    assert "`model: hf:./base`" in refusal(tmp_path, "problems: a.jsonl")
    assert "`problems: countdown:train`" in refusal(tmp_path, "model: hf:./base")
    assert "`model: hf:./base`" in refusal(tmp_path, "")


def test_a_file_that_is_no_recipe_is_named(tmp_path: Path) -> None:
    with pytest.raises(OffleashError, match=r"no recipe .*none\.yaml"):
        read_recipe(tmp_path / "none.yaml")
    with pytest.raises(OffleashError, match="cannot be read"):
        read_recipe(tmp_path)
    assert "lines of `name: value`" in refusal(tmp_path, "- a\n- b\n")
    assert "'hello'" in refusal(tmp_path, "hello")
    binary = tmp_path / "model.yaml"
    binary.write_bytes(b"\x80\x00\xff weights")
    with pytest.raises(OffleashError, match="not YAML"):
        read_recipe(binary)


positive = st.floats(min_value=1e-12, max_value=1e12)
count = st.integers(1, 10**9)
names = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1) | st.sampled_from(
    ["1e-4", "24", "yes", "null", "a: b", "#x", "2024-01-01", "~", "<<"]
)
asked = st.builds(ProblemSource, names, st.none() | count, st.integers(0, 2**40))
recipes = st.builds(
    Recipe,
    model=names,
    problems=asked,
    options=st.fixed_dictionaries({}, optional={"clip": positive | st.just(float("inf")), "kl": positive}),
    steps=count,
    seed=st.integers(0, 2**40),
    sampling=st.builds(Sampling, count, st.integers(2, 100), positive, count),
    optimizer=st.builds(Optimizer, positive, st.integers(0, 9), st.floats(0, 1), positive, count, count),
    validation=st.builds(Validation, st.none() | asked, st.integers(0, 9), count),
    traces=st.none() | names,
    refill=count,
    checkpoint_every=count,
    tensorboard=st.booleans(),
    keep=st.sampled_from([None, "all", "last 3", [0, 1]]),
)


@given(recipes)
def test_a_document_gives_the_same_recipe_back(recipe: Recipe) -> None:
    assert recipe_of(document(recipe)) == recipe


@given(recipes)
def test_what_is_written_is_read_as_the_same_training(tmp_path_factory: pytest.TempPathFactory, recipe: Recipe) -> None:
    path = tmp_path_factory.mktemp("run") / "recipe.yaml"
    write_recipe(recipe, path)
    result = read_recipe(path)
    assert recipe_differences(recipe, result) == []
    assert replace(result, options=recipe.options) == recipe
    assert {**result.options, **recipe.options} == result.options


def test_the_recipe_that_is_written_leaves_no_default_to_guess(tmp_path: Path) -> None:
    write_recipe(PLAIN, tmp_path / "run" / "recipe.yaml")
    text = (tmp_path / "run" / "recipe.yaml").read_text(encoding="utf-8")
    for key in ("rate", "group", "refill", "tensorboard", "samples", "clip", "kl", "delta"):
        assert f"{key}: " in text
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["recipe.yaml"]


STORED = """\
model: hf:base
problems:
  name: countdown:train
  size: 4096
  seed: 0
method:
  name: grpo
  clip: 0.2
  kl: 0.0
  delta: 0.0001
steps: 120
seed: 0
sampling:
  problems: 64
  group: 16
  temperature: 1.0
  max_tokens: 18
optimizer:
  rate: 0.0003
  warmup: 0
  decay: 0.0
  clip: 1.0
  updates: 1
  tokens: 32768
validation:
  problems: null
  every: 0
  samples: 16
traces: null
refill: 4
checkpoint_every: 10
tensorboard: true
"""


def test_the_stored_form_of_the_example_never_changes(tmp_path: Path) -> None:
    """A training started by an earlier version is resumed only if its recipe.yaml still reads as the same recipe."""
    write_recipe(read_recipe(Path("examples/recipes/grpo.yaml")), tmp_path / "recipe.yaml")
    assert (tmp_path / "recipe.yaml").read_text(encoding="utf-8") == STORED


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_written_with_its_options_and_read_again(tmp_path: Path, name: str) -> None:
    write_recipe(replace(PLAIN, method=name), tmp_path / "recipe.yaml")
    result = read_recipe(tmp_path / "recipe.yaml")
    assert method(name, result.options) == method(name)
    assert recipe_differences(replace(PLAIN, method=name), result) == []
    assert set(result.options) == set(signature(METHODS[name]).parameters)


def test_another_method_is_a_difference_and_its_options_go_without_saying() -> None:
    assert [name for name, *_ in recipe_differences(PLAIN, replace(PLAIN, method="dapo"))] == ["method"]


def test_a_training_that_goes_on_may_be_longer_but_no_other_one() -> None:
    longer = replace(
        PLAIN, steps=500, checkpoint_every=3, tensorboard=False, validation=Validation(ProblemSource("a.jsonl"), 5)
    )
    assert recipe_differences(PLAIN, longer) == []
    other = replace(
        PLAIN,
        model="hf:./other",
        problems=ProblemSource("countdown:train", 9),
        options={"kl": 0.5, "clip": 0.2},  # the clip is the default: no difference
        optimizer=Optimizer(rate=1.0),
        traces="a.jsonl",
    )
    changed = [name for name, *_ in recipe_differences(PLAIN, other)]
    assert sorted(changed) == ["method.kl", "model", "optimizer.rate", "problems.size", "traces"]
    assert changed == [name for name, *_ in recipe_differences(other, PLAIN)]


@pytest.mark.parametrize(
    ("text", "last", "steps"), [("all", None, ()), ("last 3", 3, ()), ("[40, 0, 20]", 2, (0, 20, 40)), (None, 2, ())]
)
def test_keep_says_which_checkpoints_stay_and_may_change_on_resume(
    tmp_path: Path, text: str | None, last: int | None, steps: tuple[int, ...]
) -> None:
    plain = "model: hf:base\nproblems: countdown:train\n"
    recipe = read(tmp_path, plain + (f"keep: {text}\n" if text else ""))
    assert (recipe.keep_last, recipe.keep_steps) == (last, steps)
    assert recipe_differences(read(tmp_path, plain), recipe) == []
    write_recipe(recipe, tmp_path / "stored.yaml")
    assert ("keep:" in (tmp_path / "stored.yaml").read_text()) == bool(text), "older recipes keep their stored form"
    assert read_recipe(tmp_path / "stored.yaml").keep_steps == steps


@pytest.mark.parametrize("text", ["first", "last", "last 0", "[]", "[1.5]", "[-1]", "3", "{}"])
def test_a_rule_for_checkpoints_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    said = refusal(tmp_path, f"model: hf:base\nproblems: countdown:train\nkeep: {text}")
    assert "keep must be all, last N, or a list of steps" in said


def test_a_recipe_names_a_verifier_of_ones_own_and_its_threshold(tmp_path: Path) -> None:
    recipe = read(tmp_path, LEAST, "verifier=rewards.py:compute_score", "threshold=5e-1")
    assert (recipe.verifier, recipe.threshold) == ("rewards.py:compute_score", 0.5)
    assert "threshold" in refusal(tmp_path, LEAST, "threshold=high")
