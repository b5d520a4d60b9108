"""Whether a run folder of a sweep holds samples of the very model that is asked for, told without loading it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from offleash.data.facts import read_origin
from offleash.data.folder import is_run
from offleash.drawing.resume import is_bare, refuse_changes
from offleash.samplers.fingerprint import fingerprint
from offleash.samplers.models import Model

HEAVY = ("hf", "vllm")  # samplers that load weights: not done where nothing is missing


def refuse_other_weights(folder: Path, model: Model) -> bool:
    """Refuse a folder with samples of other weights, settings or prompts, in the words of `draw`.

    True where the folder's model is known to be this one; False where only loading it tells, or there is no run.
    """
    if model.sampler not in HEAVY or not is_run(folder):
        return False
    old = read_origin(folder)
    if old is None or is_bare(folder):
        return False
    now, weights = kept_settings(model), filter(None, map(fingerprint, filter(None, (model.name, model.adapter))))
    about = {**old.about, "fingerprint": " ".join(weights), "raw": model.raw}
    refuse_changes(folder, replace(old, about=about if now is None else {**about, "settings": dict(now)}), 0)
    return now is not None


def kept_settings(model: Model) -> Mapping[str, str] | None:
    """Settings that change samples, as a run of this model keeps them; None where only the loaded model tells."""
    if model.sampler == "vllm":
        from offleash.samplers.vllm.sampler import OURS, PLACE

        return {name: text for name, text in model.settings.items() if name not in OURS | PLACE}
    named = model.settings.get("dtype", "auto")
    dtype = _usual_dtype(model) if named == "auto" else named
    return None if dtype is None else {"dtype": dtype}


def _usual_dtype(model: Model) -> str | None:
    """What dtype=auto comes to: that of the weights, but 32 bits on a CPU."""
    device = model.settings.get("device", "auto")
    if device == "auto":
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        return "float32"
    try:
        config = json.loads((Path(model.name).expanduser() / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    found = config.get("dtype") or config.get("torch_dtype") if isinstance(config, dict) else None
    return found if isinstance(found, str) else None
