"""Run folders whose every sample is written down: verdicts of several verifiers, steps, endings, texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from offleash.comparing.flips import Flips
from offleash.comparing.question import question
from offleash.comparing.runs import compare_inputs, flips_of_inputs
from offleash.data.run import Budget
from offleash.data.run_folder import create_run
from offleash.loading.load import LoadOptions


@dataclass(frozen=True)
class Drawn:
    """One sample: the verdict of every verifier, and what else is known of it."""

    verdicts: Mapping[str, str | None]
    step: str | None = "boxed"
    finish: str = "stop"
    answer: str | None = "7"
    text: str = "so it is 7"
    answers: Mapping[str, str] = field(default_factory=dict)  # of single verifiers


def right(step: str | None = "boxed", finish: str = "stop", **other: str) -> Drawn:
    return Drawn({"math@1": "correct", "string@1": "correct"} | other, step, finish)


def wrong(**other: str) -> Drawn:
    return Drawn({"math@1": "wrong", "string@1": "wrong"} | other)


def write_run(path: Path, world: Mapping[str, Sequence[Drawn]], until: int = 0, k: int | None = None) -> Path:
    """A run folder of this world; a verifier whose verdict of a sample is None has no row for it."""
    rows = [(problem, index, one) for problem, drawn in world.items() for index, one in enumerate(drawn)]
    problems = pl.DataFrame({"problem": list(world), "gold": ["7"] * len(world)})
    verifiers = sorted({name for _, _, one in rows for name in one.verdicts})
    with create_run(path, path.name, problems, {}, Budget(k, until)) as run:
        run.write_samples(
            pl.DataFrame(
                [(problem, index, one.text, one.finish) for problem, index, one in rows],
                schema=["problem", "index", "text", "finish"],
                orient="row",
            )
        )
        for name in verifiers:
            told = [
                (problem, index, one.verdicts[name], one.answers.get(name, one.answer), one.step)
                for problem, index, one in rows
                if one.verdicts.get(name) is not None
            ]
            kinds = {"problem": pl.String, "index": pl.UInt32, "verdict": pl.String, "answer": pl.String}
            frame = pl.DataFrame(told, schema=kinds | {"step": pl.String}, orient="row")
            run.write_verdicts(name, frame)
    return path


def flips_of(*paths: Path | str, verifier: str | None = "math", **asked: object) -> Flips:
    """The flips of two runs as the command finds them."""
    words, reading = [str(path) for path in paths], LoadOptions(verdicts=verifier)
    comparisons, _ = compare_inputs(words, reading, question(replicates=100, **asked))  # type: ignore[arg-type]
    return flips_of_inputs(words, comparisons, reading)[-1]


def flips_between(
    folder: Path, before: Mapping[str, Sequence[Drawn]], after: Mapping[str, Sequence[Drawn]], **asked: object
) -> Flips:
    return flips_of(write_run(folder / "base", before), write_run(folder / "rl", after), verifier="math", **asked)


def random_world(problems: int, samples: int, seed: int) -> dict[str, list[Drawn]]:
    """Sparse successes, so that single samples decide, judged by two verifiers that often differ."""
    rng = np.random.default_rng(seed)
    steps, words = ["tag", "boxed", "stated", "last_number"], ["correct", "wrong", "unread", "failed"]

    def one() -> Drawn:
        first = str(rng.choice(words, p=[0.12, 0.7, 0.12, 0.06]))
        second = first if rng.random() < 0.7 else str(rng.choice(words, p=[0.2, 0.7, 0.1, 0.0]))
        finish = "length" if rng.random() < 0.3 else "stop"
        return Drawn({"math@1": first, "string@1": second}, str(rng.choice(steps)), finish, str(rng.integers(3)))

    return {f"p{p:03d}": [one() for _ in range(samples)] for p in range(problems)}
