"""The trainer as a notebook calls it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from offleash.training.loop import Trained
from offleash.training.loop import train as train_by
from offleash.training.recipe import read_recipe, recipe_of
from offleash.training.recipe_yaml import set_by_name


def train(recipe: str | Path | Mapping[str, object], into: str | Path, overrides: Sequence[str] = ()) -> Trained:
    """Train by a recipe, a YAML file or its content, into a folder; what stands there already is gone on with."""
    read = (
        recipe_of(set_by_name(recipe, overrides))
        if isinstance(recipe, Mapping)
        else read_recipe(Path(recipe), overrides)
    )
    return train_by(read, Path(into))
