"""Runs lighteval on three problems with a scripted model, once with one sample a problem and once with four."""
# mypy: ignore-errors

import json
import sys
from pathlib import Path

import huggingface_hub
import lighteval
from datasets import Dataset

SUMS = [("2 + 3", "5"), ("7 - 4", "3"), ("6 * 7", "42")]
TASKS = """
from lighteval.metrics.metrics import Metrics
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc

def prompt(line, task_name=None):
    return Doc(task_name=task_name, query=line["question"], choices=[line["answer"]], gold_index=0)

def config(name, metric):
    return LightevalTaskConfig(
        name=name, prompt_function=prompt, hf_repo="./data", hf_subset="default", hf_avail_splits=["test"],
        evaluation_splits=["test"], few_shots_split=None, few_shots_select=None, generation_size=16,
        metrics=[metric], stop_sequence=["\\n"],
    )

many = Metrics.pass_at_k_math(sample_params={"k": 1, "n": 4})
TASKS_TABLE = [config("tiny_one", Metrics.exact_match), config("tiny_many", many)]
"""
MODEL = """
from lighteval.models.abstract_model import LightevalModel
from lighteval.models.model_output import ModelResponse
from lighteval.utils.cache_management import SampleCache

TEXTS, TOKENS = ["5", "3", "41", "it is 42"], [[1], [2], [3, 4], [5, 6, 7]]

class Scripted(LightevalModel):
    tokenizer, add_special_tokens, max_length = None, False, 64

    def __init__(self, config):
        self.config, self._cache = config, SampleCache(config)

    def greedy_until(self, docs):
        counts = [max(1, doc.num_samples) for doc in docs]
        return [
            ModelResponse(input=doc.query, text=TEXTS[:count], input_tokens=[1, 2], output_tokens=TOKENS[:count])
            for doc, count in zip(docs, counts)
        ]

    def loglikelihood(self, docs):
        return []

    def loglikelihood_rolling(self, docs):
        return []
"""


def run():
    # importing the task list asks the hub for judge models and downloads item parameters; neither is used here
    huggingface_hub.HfApi.list_models = lambda self, **asked: [asked]
    (Path(lighteval.__file__).parent / "tasks/tasks/tinyBenchmarks.pkl").touch()
    from lighteval.__main__ import app

    Path("data").mkdir()
    rows = [{"question": f"What is {sum_}?", "answer": gold} for sum_, gold in SUMS]
    Path("data/test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("tasks.py").write_text(TASKS)
    Path("model.py").write_text(MODEL)
    asked = "custom tiny model.py tiny_one|0,tiny_many|0 --custom-tasks tasks.py --save-details --output-dir out"
    sys.argv = ["lighteval", *asked.split()]
    app(standalone_mode=False)


def old():
    """Written after huggingface/lighteval:src/lighteval/logging/info_loggers.py as of version 0.8."""
    rows = [
        {
            "example": f"What is {sum_}?",
            "instruction": "",
            "full_prompt": f"<|user|>What is {sum_}?<|assistant|>",
            "num_effective_few_shots": 0,
            "num_asked_few_shots": 0,
            "predictions": [text],
            "input_tokens": [[1, 2]],
            "cont_tokens": [[3, 4]],
            "truncated": [0],
            "padded": [0],
            "gold": [gold],
            "pred_logits": [],
            "choices": [],
            "gold_index": [],
            "metrics": {"extractive_match": float(gold in text)},
            "specifics": None,
        }
        for (sum_, gold), text in zip(SUMS, ["5", "It is 4.", "42"], strict=True)
    ]
    Dataset.from_list(rows).to_parquet("old.parquet")
    for name, greedy, drawn in (("base", ["4", "3", "42"], ["5", "6", "7", "5"]), ("rl", ["5", "4", "42"], ["5"] * 4)):
        kinds = [two_kinds(row, text, drawn) for row, text in zip(rows, greedy, strict=True)]
        # all rows of one kind of metric, then all of the other, as pipeline.py went through them
        Dataset.from_list([pair[0] for pair in kinds] + [pair[1] for pair in kinds]).to_parquet(
            f"two_kinds_{name}.parquet"
        )


def two_kinds(row, text, drawn):
    """A document as logged for a metric of four samples and for one of a single sample. Both have the fields of all."""
    gold = row["gold"][0]
    sampled = {"extractive_match": None, "math_pass@1:4_samples": sum(gold in said for said in drawn) / 4}
    single = {"extractive_match": float(gold in text), "math_pass@1:4_samples": None}
    return (
        {**row, "predictions": drawn, "cont_tokens": [[3, 4]] * 4, "metrics": sampled},
        {**row, "predictions": [text], "metrics": single},
    )


old()
run()
