"""Runs EvalPlus on two problems of its own schema, three programs each; some pass only the base tests."""
# mypy: ignore-errors

import json
import os
from pathlib import Path

os.environ["HUMANEVAL_OVERRIDE_PATH"] = "problems.jsonl"

from evalplus.evaluate import evaluate

PROGRAMS = {
    "add": ["    return a + b\n", "    return a - b\n", "    return abs(a) + abs(b)\n"],
    "larger": ["    return max(a, b)\n", "    return b\n", "    return max(a, b, 0)\n"],
}


def problem(number, name):
    return {
        "task_id": f"HumanEval/{number}",
        "prompt": f'def {name}(a, b):\n    """Gives the {name} of two numbers."""\n',
        "canonical_solution": PROGRAMS[name][0],
        "entry_point": name,
        "base_input": [[1, 2], [5, 3]],
        "plus_input": [[-1, 1], [-5, -7]],
        "atol": 0,
        "contract": "",
        "test": "",
    }


if __name__ == "__main__":
    problems = [problem(number, name) for number, name in enumerate(PROGRAMS)]
    samples = [
        {"task_id": one["task_id"], "solution": one["prompt"] + program}
        for one in problems
        for program in PROGRAMS[one["entry_point"]]
    ]
    Path("problems.jsonl").write_text("".join(json.dumps(one) + "\n" for one in problems))
    Path("samples.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    evaluate("humaneval", samples="samples.jsonl", parallel=1)
