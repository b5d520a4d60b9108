"""Runs vf-eval of verifiers 0.1.5 on five problems, two rollouts each, twice, against the scripted server.

This version wrote `id`, numbered as if the rollouts of a problem followed each other, which they do not.
"""
# mypy: ignore-errors

import os
import shutil
import sys
from pathlib import Path
from types import ModuleType

import verifiers as vf
from datasets import Dataset
from verifiers.scripts.eval import eval_environment

os.environ["NO_KEY"] = "none"
PROBLEMS = [
    ("What is 2 + 3?", "5", []),
    ("Which is larger?", "3", ["1", "3"]),
    ("Which is larger?", "42", ["41", "42"]),
    ("Which is larger?", "41", ["40", "41"]),
    ("What is 7 - 4?", "3", []),
]


def correct(completion, answer, **unused):
    return float(answer in completion[-1]["content"])


def load_environment():
    rows = [{"question": text, "answer": gold, "info": {"choices": choices}} for text, gold, choices in PROBLEMS]
    return vf.SingleTurnEnv(eval_dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[correct]))


sys.modules["tiny_sums"] = ModuleType("tiny_sums")
sys.modules["tiny_sums"].load_environment = load_environment
for name in ("base", "rl"):
    eval_environment(
        env="tiny_sums",
        env_args={},
        env_dir_path="environments",
        endpoints_path="endpoints.py",
        model=name,
        api_key_var="NO_KEY",
        api_base_url=sys.argv[1],
        num_examples=5,
        rollouts_per_example=2,
        max_concurrent=1,
        max_tokens=16,
        temperature=0.7,
        sampling_args=None,
        verbose=False,
        save_dataset=True,
        save_to_hf_hub=False,
        hf_hub_dataset_name="",
        extra_headers={},
    )
    (results,) = Path("outputs").rglob("results.jsonl")
    shutil.move(results, f"{name}.jsonl")
