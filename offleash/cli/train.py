"""offleash train: RLVR by a recipe."""

from pathlib import Path
from typing import Annotated

import typer

from offleash.cli.needs import needs_local
from offleash.cli.output import AsJson, print_json, progress, say


def train(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="A YAML file: model, problems, method, steps, ...")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Values set by dotted name.")
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option("-o", "--into", metavar="DIR", help="Where the training goes; with its name: runs/RECIPE."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a model of transformers with a method of RLVR, on policy, by a recipe.

    DIR gets the recipe as it was resolved, metrics.jsonl, TensorBoard logs, checkpoints, and the model in Hugging Face
    format under DIR/model. Run it again after an interruption, or with more steps: it goes on from the last checkpoint.

    \b
    Examples:
      offleash lab model countdown -o base
      offleash train examples/recipes/grpo.yaml -o runs/grpo
      offleash train examples/recipes/grpo.yaml method=dapo method.overlong=0 optimizer.rate=1e-4 -o runs/dapo
      offleash train examples/recipes/grpo.yaml method=mixed_policy traces=traces.jsonl steps=40 -o runs/mixed
    """
    needs_local("train")
    from offleash.training.loop import train as run
    from offleash.training.recipe import read_recipe
    from offleash.training.told import trained_document, trained_text

    resolved = read_recipe(recipe, overrides or [])
    folder = into or Path("runs") / recipe.stem
    with progress(as_json) as tell:
        done = run(resolved, folder, tell)
    if as_json:
        print_json(trained_document(done))
    else:
        say(trained_text(done))
