"""Runs BigCodeBench 0.2.5 on three tasks of its own schema, two programs each of two models, tested on this machine."""
# mypy: ignore-errors

import json
import os
import sys
from pathlib import Path
from unittest.mock import MagicMock

os.environ["BIGCODEBENCH_OVERRIDE_PATH"] = "problems.jsonl"
# Needed only to draw samples or to test them elsewhere; vllm alone is gigabytes.
for name in ("e2b", "gradio_client", "bigcodebench.generate"):
    sys.modules[name] = MagicMock()

import bigcodebench.eval  # noqa: E402
from bigcodebench.evaluate import evaluate  # noqa: E402

bigcodebench.eval.TIMEOUT_LIMIT = 5.0  # seconds; 240 otherwise

RIGHT = {
    "total": "    return sum(numbers)\n",
    "largest": "    return max(numbers)\n",
    "count": "    return len(numbers)\n",
}
WRONG = dict.fromkeys(RIGHT, "    return None\n")
SLOW = dict.fromkeys(RIGHT, "    while True:\n        pass\n")
SAID = {"base": {"total": "RW", "largest": "WS", "count": "WR"}, "rl": {"total": "RR", "largest": "RW", "count": "WW"}}


def problem(number, name):
    head = f"def {name}(numbers):\n"
    prompt = f'{head}    """Gives the {name} of a list of numbers."""\n'
    expected = {"total": 6, "largest": 3, "count": 3}[name]
    test = (
        "import unittest\nclass TestCases(unittest.TestCase):\n    def test_1(self):\n"
        f"        self.assertEqual({name}([1, 2, 3]), {expected})\n"
    )
    return {
        "task_id": f"BigCodeBench/{number}",
        "complete_prompt": prompt,
        "instruct_prompt": prompt,
        "code_prompt": head,
        "canonical_solution": RIGHT[name],
        "test": test,
        "entry_point": name,
        "doc_struct": "{}",
        "libs": "[]",
    }


if __name__ == "__main__":
    problems = [problem(number, name) for number, name in enumerate(RIGHT)]
    Path("problems.jsonl").write_text("".join(json.dumps(one) + "\n" for one in problems))
    programs = {"R": RIGHT, "W": WRONG, "S": SLOW}
    for model, said in SAID.items():
        samples = [
            {"task_id": one["task_id"], "solution": one["complete_prompt"] + programs[kind][one["entry_point"]]}
            for one in problems
            for kind in said[one["entry_point"]]
        ]
        Path(f"{model}.jsonl").write_text("".join(json.dumps(sample) + "\n" for sample in samples))
        evaluate("complete", "full", samples=f"{model}.jsonl", execution="local", parallel=1, pass_k="1", no_gt=True)
