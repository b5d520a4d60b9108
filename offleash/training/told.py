"""What a training came to, for people and programs."""

import math

from offleash.render.numbers import duration
from offleash.training.loop import Trained


def trained_text(one: Trained) -> str:
    """A few lines: how far it got, its last step, and what to do with the model."""
    resumed = f", {one.resumed:,} of them before" if one.resumed else ""
    shown = ("reward", "entropy/token", "validation/pass@1")
    last = ", ".join(f"{name} {one.metrics[name]:.3f}" for name in shown if name in one.metrics)
    lines = [
        f"{one.steps:,} steps{resumed}, {duration(one.seconds)}{f'; the last one: {last}' if last else ''}.",
        f"  The model is {one.model}, the metrics of every step are in {one.folder / 'metrics.jsonl'}.",
        f"  What it kept, lost and found: offleash study PROBLEMS BASE hf:{one.model} -k 1024 -o DIR",
    ]
    return "\n".join(lines + ([f"  {one.note}"] if one.note else []))


def trained_document(one: Trained) -> dict[str, object]:
    """A training as JSON."""
    return {
        "schema": 1,
        "folder": str(one.folder),
        "model": str(one.model),
        "steps": one.steps,
        "resumed": one.resumed,
        "seconds": round(one.seconds, 3),
        "metrics": {name: value if math.isfinite(value) else None for name, value in one.metrics.items()},
        "note": one.note,
    }
