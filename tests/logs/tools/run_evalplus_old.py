"""Runs EvalPlus 0.2.0, whose results are lists per task, on the programs of two models; some pass base tests alone."""
# mypy: ignore-errors

import json
import os
from argparse import Namespace
from pathlib import Path

os.environ |= {"HUMANEVAL_OVERRIDE_PATH": "problems.jsonl", "XDG_CACHE_HOME": "cache"}
Path("cache/evalplus").mkdir(parents=True, exist_ok=True)  # this version writes there without making it

from evalplus.evaluate import evaluate  # noqa: E402

RIGHT = {
    "add": "    return a + b\n",
    "larger": "    return max(a, b)\n",
    "smaller": "    return min(a, b)\n",
    "first": "    return a\n",
}
PLAUSIBLE = {
    "add": "    return abs(a) + abs(b)\n",
    "larger": "    return max(a, b, 0)\n",
    "smaller": "    return min(a, b, 9)\n",
    "first": "    return abs(a)\n",
}
WRONG = dict.fromkeys(RIGHT, "    return None\n")
SAID = {
    "base": {"add": "RPW", "larger": "WRP", "smaller": "WWP", "first": "WWW"},
    "rl": {"add": "RRR", "larger": "PPW", "smaller": "RWW", "first": "PWW"},
}


def problem(number, name):
    return {
        "task_id": f"HumanEval/{number}",
        "prompt": f'def {name}(a, b):\n    """Gives the {name} of two numbers."""\n',
        "canonical_solution": RIGHT[name],
        "entry_point": name,
        "base_input": [[1, 2], [5, 3]],
        "plus_input": [[-1, 1], [-5, -7], [20, 30]],
        "atol": 0,
        "contract": "",
        "test": "",
    }


if __name__ == "__main__":
    problems = [problem(number, name) for number, name in enumerate(RIGHT)]
    Path("problems.jsonl").write_text("".join(json.dumps(one) + "\n" for one in problems))
    programs = {"R": RIGHT, "P": PLAUSIBLE, "W": WRONG}
    for model, said in SAID.items():
        samples = [
            {"task_id": one["task_id"], "solution": one["prompt"] + programs[kind][one["entry_point"]]}
            for one in problems
            for kind in said[one["entry_point"]]
        ]
        Path(f"{model}.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
        options = {"base_only": False, "test_details": False, "min_time_limit": 0.2, "gt_time_limit_factor": 4.0}
        options |= {"i_just_wanna_run": False, "mini": False, "parallel": 1}
        evaluate(Namespace(dataset="humaneval", samples=f"{model}.jsonl", **options))
