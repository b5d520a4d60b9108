"""A world whose truth is known: train in it, draw from it, and see what `compare` makes of it.

python examples/theory_world.py
"""

import numpy as np

from offleash.analyses.theory.dynamics import Dynamics, train
from offleash.analyses.theory.exact import Level, pass_at_k, success_rates, support
from offleash.analyses.theory.policy import shared
from offleash.analyses.theory.world import method_world, simulated_run
from offleash.comparing.compare import compare
from offleash.comparing.question import Question

K = 512


def main() -> None:
    rng = np.random.default_rng(0)
    world = method_world(rng, problems=32, answers=24, correct=3, spread=2.0, popularity=1.0)
    base = shared(world, width=4, rng=rng, similarity=0.5)
    trained = train(base, world, Dynamics("grpo", group=8, rate=0.1, steps=400), rng).final

    exact = {
        name: pass_at_k(success_rates(policy.probability_XY, world.correct_XY), [1, K])
        for name, policy in (("base", base), ("trained", trained))
    }
    table = support(world.base_XY, trained.probability_XY, world.correct_XY, 3 / K, Level.ANSWER)
    before, after = (
        simulated_run(name, world, policy.probability_XY, K, seed)
        for seed, (name, policy) in enumerate((("base", base), ("trained", trained)))
    )
    found = compare(before, after, Question(replicates=1_000))

    for name, side in (("base", "before"), ("trained", "after")):
        for k, true, measured in zip((1, K), exact[name], found.curves[side].value_K[[0, -1]], strict=True):
            print(f"{name:8} pass@{k}: {true:.3f}, measured {measured:.3f}")
    print(f"correct answers above {3 / K:.3g}: {table.P:g} kept, {table.S:g} lost, {table.E:g} new (exact)")
    change = found.change
    print(f"problems seen in {K} samples: {change.P:g} kept, {change.S:g} lost, {change.E:g} new")


if __name__ == "__main__":
    main()
