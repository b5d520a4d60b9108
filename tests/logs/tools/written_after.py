"""Fixtures of tools that do not run on this kind of machine, with the keys that their code writes."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

SUMS = [("2 + 3", "5"), ("7 - 4", "3"), ("6 * 7", "42")]


def verl(folder: Path) -> None:
    """Written after volcengine/verl:verl/trainer/ppo/ray_trainer.py (_dump_generations)."""
    rows = [
        {
            "input": f"user\nWhat is {sum_}?\nassistant\n",
            "output": f"It is \\boxed{{{answer}}}.",
            "gts": gold,
            "score": 1.0 if answer == gold else -1.0,
            "step": step,
            "acc": answer == gold,
            "pred": answer,
        }
        for step in (10, 20)
        for sum_, gold in SUMS
        for answer in (gold, "7")
    ]
    _lines(folder / "10.jsonl", rows[:6])
    _lines(folder / "steps.jsonl", rows)
    keys = ("input", "output", "score", "step")
    _lines(folder / "plain.jsonl", [{key: row[key] for key in keys} for row in rows[:6]])


def nemo_skills(folder: Path) -> None:
    """Written after NVIDIA/NeMo-Skills:nemo_skills/evaluation/math_grader.py and its metrics."""
    for seed, said in enumerate((("5", "3", None), ("6", "3", "42"))):
        rows = [
            {
                "id": f"sum-{index}",
                "problem": f"What is {sum_}?",
                "expected_answer": gold,
                "generation": f"\\boxed{{{answer}}}" if answer else "I do not know.",
                "num_generated_tokens": 9,
                "finish_reason": "stop",
                "predicted_answer": answer,
                "symbolic_correct": answer == gold,
                "judgement": f"Reasoning: compared.\nJudgement: {'Yes' if answer == gold else 'No'}",
            }
            for index, ((sum_, gold), answer) in enumerate(zip(SUMS, said, strict=True))
        ]
        _lines(folder / f"output-rs{seed}.jsonl", rows)


def qwen_math(folder: Path) -> None:
    """Written after QwenLM/Qwen2.5-Math:evaluation/math_eval.py and LeapLabTHU/limit-of-RLVR of the same name."""
    rows = [
        {
            "idx": index,
            "question": f"What is {sum_}?",
            "gt_cot": f"{sum_} = {gold}",
            "gt": gold,
            "level": 1,
            "solution": gold,
            "answer": gold,
            "code": [f"So \\boxed{{{gold}}}", "Let me think", "So \\boxed{9}"],
            "pred": [gold, "", "9"],
            "report": [None, None, None],
            "finish_reason": ["stop", "length", "stop"],
            "score": [True, False, False],
        }
        for index, (sum_, gold) in enumerate(SUMS)
    ]
    _lines(folder / "test_qwen25-math-cot_-1_seed0_t0.6_s0_e-1.jsonl", rows)


def livecodebench(folder: Path) -> None:
    """Written after LiveCodeBench/LiveCodeBench:lcb_runner/benchmarks/code_generation.py and runner/main.py."""
    outputs = [
        {
            "question_title": f"Sum {index}",
            "question_content": f"Print {sum_}.",
            "platform": "atcoder",
            "question_id": f"tiny_{index}",
            "contest_id": "tiny",
            "contest_date": "2025-01-01T00:00:00",
            "starter_code": "",
            "difficulty": "easy",
            "output_list": [f"```python\nprint({sum_})\n```", "```python\nprint(0)\n```"],
            "code_list": [f"print({sum_})", "print(0)"],
        }
        for index, (sum_, _) in enumerate(SUMS)
    ]
    verdicts = {"graded_list": [True, False], "pass@1": 0.5, "metadata": ["{}", "{}"]}
    graded = [{**output, **verdicts} for output in outputs]
    (folder / "output.json").write_text(json.dumps(outputs, indent=4))
    (folder / "eval_all.json").write_text(json.dumps(graded, indent=4))


def generic(folder: Path) -> None:
    """Tables as people write them by hand."""
    rows = [
        {"question": f"What is {sum_}?", "gold": gold, "response": f"It is {answer}.", "is_correct": answer == gold}
        for sum_, gold in SUMS
        for answer in (gold, "7", "8")
    ]
    _lines(folder / "samples.jsonl", rows)
    lists = [
        {"id": f"sum-{index}", "responses": [gold, "7"], "scores": [1.0, 0.5], "answer": gold}
        for index, (_, gold) in enumerate(SUMS)
    ]
    _lines(folder / "lists.jsonl", lists)
    lines = [f"sum-{index},{sample},{sample % 2}\n" for index in range(3) for sample in range(4)]
    (folder / "verdicts.csv").write_text("problem_id,sample,passed\n" + "".join(lines))


def counts(folder: Path) -> None:
    """Counts as people write them by hand."""
    (folder / "counts.csv").write_text("problem,n,c\nsum-0,64,3\nsum-1,64,0\nsum-2,0,0\n")
    rows = [{"task_id": f"sum-{i}", "num_samples": 8, "num_correct": i, "benchmark": "sums"} for i in range(3)]
    _lines(folder / "counts.jsonl", rows)


def _lines(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
