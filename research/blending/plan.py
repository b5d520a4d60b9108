"""What the study of blending does, fixed before any of its results was seen.

A prototype with one to three training seeds suggested the questions (at k = 4,096, on the problems of the demo). This
study has its own problems and seeds.

* **Trainings.** Countdown, the recipe of the demo (GRPO, rate 3e-4, 64 problems x 16 samples, no KL), the shipped base,
  training seeds 0 to 4. The rate is constant, so step 120 of a longer training is the demo's model.
* **Models**, per training seed: checkpoints at 20, 40, 70, 120 (called RL here) and 240 steps; blends of weight .25, .5
  and .75 between base and RL, and between base and the model of 240 steps; RL at temperatures 1.2 and 1.4. Controls:
  the base, and the base drawn again.
* **Problems.** 200 of the split `dev` (seed 0), the same for all training seeds, so that seeds and problems are
  crossed. Confirmation: 200 of the split `test` (seed 23) that none of the demo's seeds 0 to 4 evaluates on.
* **Budget**: k = 1,024 samples per problem, temperature 1. (The prototype's 4,096 would have needed four times the
  processor time; a sample of k = 1,024 of the prototype shows the same order.) After that the paper's decoding,
  temperature 0.6 with top-p 0.95, for all models but the temperatures.
* **Quantities.** pass@1; SRR, the share of the problems reached by the base that a model reaches; pass@1,024.
* **Equal pass@1.** The line of a training seed is base again (weight 0), its blends, and RL (weight 1). Linear
  interpolation along pass@1 gives the line's SRR at any pass@1 between. A contrast is that SRR minus the SRR of the
  other model, averaged over the five seeds:
    1. `stopping`: the line against the checkpoints at 20, 40 and 70 steps, averaged over the three. The main question.
    2. `temperature`: the line against RL at temperatures 1.2 and 1.4, averaged.
    3. `longer`: the line of the 240-step model, at the pass@1 of RL, against RL.
    4. `half`: the blend of weight .5 against RL in SRR. Not at equal pass@1: what is got back; its price is beside it.
    5. `concavity`: pass@1 of the blend .5 minus the mean of those of base and RL.
* **Intervals.** Problems and seeds are resampled independently (pigeonhole bootstrap, Owen 2007, which errs on the wide
  side), 10,000 times; the interval is the estimate +- t(4 degrees of freedom) standard errors, since there are five
  seeds. The five contrasts of a split and decoding are one family, corrected by Holm's method. A contrast is confirmed
  where the split `test` alone shows it too, at 5% within its family.
* **Why.** Along the line: the mean success rate on the problems that the base reaches and RL does not; pass@1 against
  its chord.
* **Order of the work**: split `dev` at temperature 1 (120 steps first, then 240), split `test`, then the paper's
  decoding. Cells that were not run are listed; no statement rests on them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

WORLD = "countdown"
SEEDS = (0, 1, 2, 3, 4)
PROBLEMS, K = 200, 1024
STEPS = 120  # of RL, as in the demo
LONGER = 240
STOPPED = (20, 40, 70)  # steps of early checkpoints
WEIGHTS = (0.25, 0.5, 0.75)
TEMPERATURES = (1.2, 1.4)
SPLITS = {"dev": 0, "test": 23}  # the seed that generates the problems of each
SEEN_SEEDS = (0, 1, 2, 3, 4)  # of the demo, whose problems are left out of `test`
PLAIN, PAPER = "plain", "paper"
BASE, AGAIN = "base", "base-again"


@dataclass(frozen=True)
class Cell:
    """One model at one decoding on one split."""

    split: str
    decoding: str  # plain or paper
    seed: int | None  # of the training; None: the base
    model: str  # base, base-again, step-40, blend-120-0.5, hot-1.2

    def __str__(self) -> str:
        whose = "base" if self.seed is None else f"seed-{self.seed}"
        return f"{self.split}/{self.decoding}/{whose}/{self.model}"


def steps_of(model: str) -> int:
    """Training steps that a model needs."""
    kind, _, rest = model.partition("-")
    return STEPS if kind == "hot" else int(rest.partition("-")[0])


def blend_name(steps: int, weight: float) -> str:
    return f"blend-{steps}-{weight:g}"


def cells() -> Iterator[Cell]:
    """Every cell, in the order of the work."""
    short = [*(f"step-{step}" for step in (*STOPPED, STEPS)), *(blend_name(STEPS, weight) for weight in WEIGHTS)]
    hot = [f"hot-{temperature:g}" for temperature in TEMPERATURES]
    long = [f"step-{LONGER}", *(blend_name(LONGER, weight) for weight in WEIGHTS)]
    for split, decoding in (("dev", PLAIN), ("test", PLAIN), ("dev", PAPER), ("test", PAPER)):
        yield from (Cell(split, decoding, None, model) for model in (BASE, AGAIN))
        groups = [short, [*hot, *long]] if decoding == PLAIN else [[*short, *long]]
        for group in groups:
            yield from (Cell(split, decoding, seed, model) for seed in SEEDS for model in group)
