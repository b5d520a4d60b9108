"""blend: models between two checkpoints, by interpolating their weights."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from offleash.options import Data, Flag
from offleash.progress import Progress, silent
from offleash.signatures import verb

if TYPE_CHECKING:
    from offleash.results.analyses import BlendResult

MODEL = "a folder, hf:PATH, or hf:ORG/NAME in the local cache. NAME=MODEL names it"


@verb
def blend(
    base: Annotated[str | Path, Data("BASE", f"The model before RL: {MODEL}.")],
    rl: Annotated[str | Path, Data("RL", f"The model after RL, or a LoRA adapter on BASE: {MODEL}.")],
    *,
    weights: Annotated[
        float | Sequence[float],
        Flag("Weights of RL in the blends: 0 is BASE, 1 is RL.", metavar="W,W,..."),
    ] = (0.25, 0.5, 0.75),
    out: Annotated[
        str | Path, Flag("Folder for the blends: DIR/0.5; existing ones are kept.", short="-o", metavar="DIR")
    ] = "blends",
    extrapolate: Annotated[bool, Flag("Allow weights outside of [0, 1]: beyond RL, or away from it.")] = False,
    progress: Progress = silent,
) -> "BlendResult":
    """Write models between two checkpoints: base + w (RL - base), tensor by tensor, for each weight w.

    A model between the two may trade some of RL's pass@1 for problems that RL lost. Tensors are interpolated in
    float32 and rounded once to the stored dtype; 0 and 1 copy the models. Models are read in slices and need not fit in
    memory. Of a LoRA adapter lora_B is scaled, and the blend is an adapter again. Each folder has a blend.json of what
    it is made of.

    Examples:
      offleash blend base rl --weights 0.25,0.5,0.75 -o blends
      offleash blend hf:Qwen/Qwen2.5-1.5B ./checkpoints/step200 --weights 0.5
      offleash blend hf:Qwen/Qwen2.5-1.5B ./adapter --weights 0.6 -o blends --json
      offleash study problems.jsonl hf:base hf:rl hf:blends/0.5 -k 1024 -o runs/blend

    In Python:
      >>> base = ol.lab_model("countdown", out="base")
      >>> rl = ol.lab_pretrain("countdown", steps=1, out="rl")
      >>> result = ol.blend("base", "rl", weights=[0.25, 0.5], out="blends")
      >>> [model.model for model in result.models]
      ['hf:blends/0.25', 'hf:blends/0.5']
    """
    from offleash.analyses.blending.blend import write_blends
    from offleash.results.analyses import BlendResult

    chosen = [weights] if isinstance(weights, int | float) else list(weights)
    return BlendResult(write_blends(str(base), str(rl), chosen, Path(out), extrapolate, progress))
