"""Runs an environment of verifiers 0.1 on three problems, four rollouts each, against the scripted server."""
# mypy: ignore-errors

import asyncio
import os
import sys
from pathlib import Path

import verifiers as vf
from datasets import Dataset

os.environ["NO_KEY"] = "none"


def correct(completion, answer, **unused):
    return float(answer in completion[-1]["content"])


sums = [("2 + 3", "5"), ("7 - 4", "3"), ("6 * 7", "42")]
problems = Dataset.from_list([{"question": f"What is {sum_}?", "answer": gold} for sum_, gold in sums])
environment = vf.SingleTurnEnv(eval_dataset=problems, rubric=vf.Rubric(funcs=[correct]), env_id="tiny_sums")
client = vf.ClientConfig(api_base_url=sys.argv[1], api_key_var="NO_KEY")
evaluation = environment.evaluate(
    client,
    "scripted",
    sampling_args={"temperature": 0.7},
    num_examples=3,
    rollouts_per_example=4,
    max_concurrent=1,
    results_path=Path("out"),
    save_results=True,
)
asyncio.run(evaluation)
