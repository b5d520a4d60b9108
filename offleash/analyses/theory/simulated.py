"""Simulated runs: samples of a policy of the theory as a run, so that compare, report and every figure apply to it."""

import numpy as np
import polars as pl

from offleash.analyses.theory.drawing import draw
from offleash.analyses.theory.simulate import problem_names
from offleash.analyses.theory.world import Float, World
from offleash.data.problem import as_problems
from offleash.data.run import Budget, Run
from offleash.data.verdict import Verdict
from offleash.data.verdicts import VERDICTS

VERIFIER = "theory"


def simulated_run(name: str, world: World, probability_XY: Float, samples: int, seed: int = 0) -> Run:
    """A run of `samples` answers a problem from these probabilities; give each run of a comparison its own seed."""
    answer_XN = draw(probability_XY, samples, np.random.default_rng([seed, 0]))
    hit_XN = np.take_along_axis(world.correct_XY, answer_XN, axis=1)
    names, letters = np.array(problem_names(world.problems)), np.array([f"y{y}" for y in range(world.answers)])
    answer = pl.Series(letters[answer_XN.ravel()])
    correct = pl.Series(hit_XN.ravel())
    rows = pl.DataFrame(
        {
            "problem": np.repeat(names, samples),
            "index": np.tile(np.arange(samples, dtype=np.uint32), world.problems),
            "answer": answer,
            "correct": correct,
        }
    )
    verdicts = rows.select(
        pl.col("problem", "index", "answer"),
        verdict=pl.when("correct").then(pl.lit(Verdict.CORRECT.value)).otherwise(pl.lit(Verdict.WRONG.value)),
        solution=pl.when("correct").then("answer"),
        step=pl.lit(None),
        score=pl.col("correct").cast(pl.Float64),
        reason=pl.lit(None),
    ).select(pl.col(column).cast(kind) for column, kind in VERDICTS.items())
    facts = {"model": f"theory: {name}", "source": "simulated"}
    return Run(name, _problems(world), verdicts.lazy(), verifier=VERIFIER, budget=Budget(samples), facts=facts, draw="")


def _problems(world: World) -> pl.DataFrame:
    gold = [", ".join(f"y{y}" for y in np.flatnonzero(row)) for row in world.correct_XY]
    frame = pl.DataFrame({"problem": problem_names(world.problems), "gold": gold}, schema_overrides={"gold": pl.String})
    return as_problems(frame)
