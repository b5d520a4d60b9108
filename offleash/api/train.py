"""train: train a transformers model with an RLVR method, from a recipe."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from offleash.errors import OffleashError
from offleash.options import Data, Flag
from offleash.progress import Progress, silent
from offleash.signatures import verb

if TYPE_CHECKING:
    from offleash.results.analyses import TrainResult


def require_local_extra(verb_name: str) -> None:
    """Refuse a verb that trains if the libraries for it are not installed."""
    missing = [name for name in ("torch", "transformers", "yaml") if find_spec(name) is None]
    if missing:
        raise OffleashError(
            f"offleash {verb_name} needs {missing[0]}, which is not installed: pip install 'offleash[local]'."
        )


@verb
def train(
    recipe: Annotated[
        "str | Path | Mapping[str, object]", Data("RECIPE", "A YAML file: model, problems, method, steps, ...")
    ],
    *overrides: Annotated[str, Data("[KEY=VALUE]...", "Override values of the recipe by dotted name.")],
    out: Annotated[
        str | Path | None,
        Flag("Output folder; an existing training run is resumed. Default: runs/RECIPE.", short="-o", metavar="DIR"),
    ] = None,
    progress: Progress = silent,
) -> "TrainResult":
    """Train a transformers model with an RLVR method, on-policy, from a recipe.

    DIR gets the resolved recipe, metrics.jsonl, TensorBoard logs, checkpoints, and the model in Hugging Face
    format under DIR/model. Run it again after an interruption, or with more steps: it resumes from the last checkpoint.

    Examples:
      offleash lab model countdown -o base
      offleash train examples/recipes/grpo.yaml -o runs/grpo
      offleash train examples/recipes/grpo.yaml method=dapo method.overlong=0 optimizer.rate=1e-4 -o runs/dapo
      offleash train examples/recipes/grpo.yaml method=mixed_policy traces=traces.jsonl steps=40 -o runs/mixed

    In Python:
      >>> base = ol.lab_model("countdown", out="base")
      >>> result = ol.train("examples/recipes/grpo.yaml", "steps=1", "sampling.problems=2", "problems.size=8",
      ...                   out="runs/grpo")
      >>> result.steps, result.model.name
      (1, 'model')
    """
    require_local_extra("train")
    from offleash.results.analyses import TrainResult
    from offleash.training.loop import train as run_training
    from offleash.training.recipe import read_recipe, recipe_of, set_by_name

    if isinstance(recipe, Mapping):
        if out is None:
            raise OffleashError("A recipe that is not a file has no default output folder. Give out=DIR.")
        read, folder = recipe_of(set_by_name(recipe, overrides)), Path(out)
    else:
        path = Path(recipe)
        read, folder = read_recipe(path, overrides), Path(out) if out is not None else Path("runs") / path.stem
    return TrainResult(run_training(read, folder, progress))
