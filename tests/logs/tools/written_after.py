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


# The same five problems for two models, two samples each: sentences repeat, with other choices and gold answers.
PICKS = [
    ("What is 2 + 3?", "5", ["4", "5"], {"base": ("5", "4"), "rl": ("5", "5")}),
    ("Which is larger?", "3", ["1", "3"], {"base": ("1", "1"), "rl": ("3", "1")}),
    ("Which is larger?", "42", ["41", "42"], {"base": ("42", "41"), "rl": ("41", "41")}),
    ("Which is larger?", "7", ["7", "6"], {"base": ("6", "6"), "rl": ("6", "6")}),
    ("What is 7 - 4?", "3", ["3", "4"], {"base": ("3", "3"), "rl": ("3", "4")}),
]


def nemo_gym(folder: Path) -> None:
    """Written after NVIDIA-NeMo/Gym:nemo_gym/rollout_collection.py, resources_servers/mcqa and math_with_judge."""
    for model in ("base", "rl"):
        rows = [
            {
                "responses_create_params": {
                    "input": [
                        {"role": "system", "content": "Answer briefly.", "type": "message"},
                        {"role": "user", "content": [{"type": "input_text", "text": text}], "type": "message"},
                    ],
                    "temperature": 1.0,
                },
                "response": {
                    "id": f"resp_{number}_{sample}",
                    "model": model,
                    "temperature": 1.0,
                    "incomplete_details": {"reason": "max_output_tokens"} if answer == "1" else None,
                    "output": [
                        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hmm."}]},
                        {
                            "type": "message",
                            "role": "assistant",
                            "content": [{"type": "output_text", "text": f"\\boxed{{{answer}}}", "annotations": []}],
                        },
                    ],
                    "usage": {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13},
                },
                "reward": float(answer == gold),
                "expected_answer": gold,
                "extracted_answer": answer,
                "options": [{"A": choices[0]}, {"B": choices[1]}],
                "_ng_task_index": number,
                "_ng_rollout_index": sample,
                "agent_ref": {"type": "responses_api_agents", "name": "mcqa_simple_agent"},
            }
            for sample in (1, 0)  # written as they end
            for number, (text, gold, choices, said) in enumerate(PICKS)
            for answer in (said[model][sample],)
        ]
        _lines(folder / f"{model}.jsonl", rows)


def helm(folder: Path) -> None:
    """Written after stanford-crfm/helm 0.5.16:src/helm/benchmark/runner.py, adaptation/request_state.py and metrics."""
    for model in ("base", "rl"):
        run = folder / model
        run.mkdir()
        states, stats = [], []
        for number, (text, gold, choices, said) in enumerate(PICKS):
            references = [
                {"output": {"text": choice}, "tags": ["correct"] if choice == gold else []} for choice in choices
            ]
            instance = {"input": {"text": text}, "references": references, "split": "test", "id": f"id{number}"}
            typos = {"name": "typos", "robustness": True, "fairness": False, "computed_on": "perturbed"}
            perturbed = {**instance, "input": {"text": text.replace("a", "aa")}, "perturbation": typos}
            for trial in (0, 1):
                for asked in (instance, perturbed):
                    letter = "AB"[choices.index(said[model][trial])]
                    about = {"train_trial_index": trial} | ({"perturbation": typos} if "perturbation" in asked else {})
                    states.append(
                        {
                            "instance": asked,
                            "train_trial_index": trial,
                            "output_mapping": dict(zip("AB", choices, strict=True)),
                            "request": {"model": f"tiny/{model}", "prompt": f"{text}\nAnswer:", "temperature": 0.7},
                            "result": {
                                "success": True,
                                "embedding": [],
                                "completions": [
                                    {
                                        "text": f" {letter}",
                                        "logprob": -0.5,
                                        "tokens": [{"text": f" {letter}", "logprob": -0.5}],
                                        "finish_reason": {"reason": "stop"},
                                    }
                                ],
                                "cached": False,
                            },
                            "num_train_instances": 0,
                            "prompt_truncated": False,
                        }
                    )
                    correct = float(said[model][trial] == gold and "perturbation" not in asked)
                    for names in ({"num_output_tokens": 1.0}, {"exact_match": correct, "quasi_exact_match": 1.0}):
                        listed = [
                            {"name": {"name": name, "split": "test"}, "count": 1, "sum": value, "mean": value}
                            for name, value in names.items()
                        ]
                        stats.append({"instance_id": f"id{number}", **about, "stats": listed})
        adapter = {
            "method": "multiple_choice_joint",
            "model": f"tiny/{model}",
            "temperature": 0.7,
            "num_outputs": 1,
            "max_tokens": 1,
            "num_train_trials": 2,
        }
        name = f"pick:subject=numbers,method=multiple_choice_joint,model=tiny_{model}"
        _json(run / "scenario_state.json", {"adapter_spec": adapter, "request_states": states})
        _json(run / "per_instance_stats.json", stats)
        _json(run / "run_spec.json", {"name": name, "adapter_spec": adapter})


def opencompass(folder: Path) -> None:
    """Written after open-compass/opencompass 0.5.4:opencompass/tasks/openicl_eval.py and openicl/icl_evaluator."""
    for model in ("base", "rl"):
        for kind in ("predictions", "results"):
            (folder / model / kind / "tiny").mkdir(parents=True)
        drawn = [(pick, pick[3][model][sample]) for sample in (0, 1) for pick in PICKS]  # the dataset, twice
        predictions = {
            str(place): {
                "origin_prompt": [{"role": "HUMAN", "prompt": f"{text}\nA. {choices[0]}\nB. {choices[1]}"}],
                "prediction": f"It is {answer}.",
                "gold": gold,
            }
            for place, ((text, gold, choices, _), answer) in enumerate(drawn)
        }
        # One object per problem with lists over its samples, as with n=2.
        details = [
            {
                "example_abbr": f"pick_{number}",
                "pred": list(said[model]),
                "answer": [gold, gold],
                "correct": [answer == gold for answer in said[model]],
            }
            for number, (_, gold, _, said) in enumerate(PICKS)
        ]
        accuracy = 10.0 * sum(answer == gold for (_, gold, _, _), answer in drawn)
        results = {"accuracy (2 runs average)": accuracy, "details": details}
        _json(folder / model / "predictions/tiny/pick.json", predictions)
        _json(folder / model / "results/tiny/pick.json", results)
        # Before 0.5 details were numbered like the predictions, and held them.
        numbered = {
            str(place): {
                "prompt": text,
                "origin_prediction": f"It is {answer}.",
                "predictions": answer,
                "references": gold,
                "correct": answer == gold,
            }
            for place, ((text, gold, _, _), answer) in enumerate(drawn[: len(PICKS)])
        }
        _json(folder / model / "details.json", {"accuracy": 40.0, "details": {"type": "GEN", **numbered}})


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


def _json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False))


def _lines(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
