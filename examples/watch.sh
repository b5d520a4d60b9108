#!/usr/bin/env bash
# Watch a training run by its rollout files. Here a script plays the trainer: 40 steps of verl dumps in which pass@1 rises
# while some problems that were solved now and then are lost. For a training run of yours, give the folder in which it writes.
#
#   TRL        GRPOConfig(log_completions=True, output_dir="outputs")    offleash watch outputs/completions
#   verl       trainer.rollout_data_dir=rollouts                         offleash watch rollouts
#
# Run it from the root of the repository: bash examples/watch.sh
set -euo pipefail
folder=${1:-runs/watch}
rm -rf "$folder"

python - "$folder/rollouts" <<'PYTHON'
import json
import sys
from pathlib import Path

import numpy as np

rng = np.random.default_rng(0)
problems, group, steps = 24, 8, 40
rate = rng.beta(0.6, 1.4, problems)
folder = Path(sys.argv[1])
folder.mkdir(parents=True)
for step in range(1, steps + 1):
    # what is solved often is solved more often; what is solved in up to three of ten samples is lost by and by
    odds = rate / (1 - rate) * np.where(rate > 0.3, 1 + step / 5, 1 / (1 + (step / 15) ** 6))
    rows = [
        {
            "input": f"user\nWhat is problem {problem}?\nassistant\n",
            "output": f"I think so. The answer is \\boxed{{{42 if right else rng.integers(40)}}}",
            "gts": "42",
            "score": float(right),
            "step": step,
        }
        for problem in range(problems)
        for right in rng.random(group) < odds[problem] / (1 + odds[problem])
    ]
    (folder / f"{step}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
PYTHON

# a table in the terminal, and a page that can be opened in a browser
offleash watch "$folder/rollouts" --once --window 5 --page "$folder/watch.html"

# the same for programs
offleash watch "$folder/rollouts" --once --window 5 --json > "$folder/watch.json"

# without --once it follows the training run until Ctrl-C, and rewrites the page after every step:
#   offleash watch runs/watch/rollouts --page runs/watch/watch.html
