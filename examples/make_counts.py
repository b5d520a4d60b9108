"""Write the counts of a simulated base and RL model: sharpened where the base was good, narrowed where it was weak.

python examples/make_counts.py examples/counts
"""

import csv
import sys
from pathlib import Path

import numpy as np

PROBLEMS, SAMPLES = 200, 1024


def main(folder: Path) -> None:
    rng = np.random.default_rng(2507)
    base_P = rng.beta(0.25, 1.6, PROBLEMS)
    sharpened_P = np.clip(3 * base_P, 0, 0.97)
    narrowed_P = np.where(rng.random(PROBLEMS) < 0.6, 0.0, base_P)
    rl_P = np.where(base_P > 0.02, sharpened_P, narrowed_P)
    rl_P[rng.choice(PROBLEMS, 3, replace=False)] = 0.02  # and a little that is new
    folder.mkdir(parents=True, exist_ok=True)
    for name, rate_P in (("base", base_P), ("rl", rl_P)):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["problem", "benchmark", "n", "c"])
            for number, correct in enumerate(rng.binomial(SAMPLES, rate_P)):
                rows.writerow([f"p{number:03d}", "easy" if number % 2 else "hard", SAMPLES, int(correct)])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
