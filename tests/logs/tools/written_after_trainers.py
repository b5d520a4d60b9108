"""Fixtures of trainers that do not run on this kind of machine, with the keys that their code writes.

Two runs, base and rl, with four samples of each problem; how many of them are correct is in the tables below.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

IMAGE = "Which number is in the image?"  # a prompt that many problems of an image task share


class Problem(NamedTuple):
    """A problem, and how many of its four samples are correct in each run."""

    prompt: str
    gold: str
    base: int
    rl: int


PROBLEMS = [
    Problem("What is 2 + 3?", "5", 2, 4),
    Problem("What is 7 - 4?", "3", 0, 1),
    Problem("What is 6 * 7?", "42", 1, 0),
    Problem("What is 9 - 9?", "0", 0, 0),
]
SHARED = [*PROBLEMS, Problem(IMAGE, "12", 3, 4), Problem(IMAGE, "31", 0, 2)]
RUNS = {"base": 0, "rl": 20}  # and their training steps


class Sample(NamedTuple):
    """A sample: the number and the fields of its problem, what it says, and whether that is correct."""

    number: int
    place: int  # within the problem
    prompt: str
    gold: str
    text: str
    correct: bool


def samples(run: str, problems: Iterable[Problem] = SHARED) -> Iterator[Sample]:
    for number, problem in enumerate(problems):
        for place in range(4):
            correct = place < getattr(problem, run)
            answer = problem.gold if correct else f"{place + 60}"
            yield Sample(number, place, problem.prompt, problem.gold, f"It is {answer}.", correct)


def verl(folder: Path) -> None:
    """Written after verl-project/verl 0.9.1: verl/trainer/ppo/ray_trainer.py (_dump_generations, _validate)."""
    for run, step in RUNS.items():
        rows = [
            {
                "input": f"user\n{sample.prompt}\nassistant\n",
                "output": sample.text,
                "gts": {"answer": sample.gold} if sample.number == 5 else sample.gold,
                "score": 1.0 if sample.correct else 0.0,
                "step": step,
                "uid": f"{run}-{sample.number}-{sample.place}",  # of the sample: the default trainer
            }
            for sample in samples(run)
        ]
        _lines(folder / f"rollouts_{run}.jsonl", rows)
        validation = [
            {
                **{key: value for key, value in row.items() if key != "uid"},
                "reward": row["score"],
                "request_id": row["uid"],
                "data_source": "sums",
            }
            for row in rows
        ]
        _lines(folder / f"validation_{run}.jsonl", validation)


def prime_rl(folder: Path) -> None:
    """Written after PrimeIntellect-ai/prime-rl: src/prime_rl/orchestrator/envs.py, and traces of verifiers 0.4.0."""
    for run, step in RUNS.items():
        rows = [_episode(run, step, sample) for sample in samples(run)]
        crashed = {**rows[0], "id": f"{run}-crashed", "ok": False, "errors": [{"type": "TimeoutError"}], "traces": []}
        path = folder / run / "step_1" / "eval"
        _lines(path / "all" / "traces.jsonl", [*rows, crashed])
        if run == "rl":
            _lines(path / "effective" / "traces.jsonl", rows[:8])
    old = []
    for sample in samples("rl"):
        task, trace = _task(sample), _trace("rl", sample)
        old.append({**trace, "task": task, "run": {"type": "train", "step": 1}, "info": {"env_name": "sums"}})
    _lines(folder / "old_traces.jsonl", old)


def _episode(run: str, step: int, sample: Sample) -> dict[str, object]:
    judge = {"id": f"{run}-judge-{sample.number}-{sample.place}", "nodes": [], "rewards": {}, "errors": []}
    return {
        "id": f"{run}-{sample.number}-{sample.place}",
        "env": {"id": "sums"},
        "task": _task(sample),
        "group": {"id": f"{run}-group-{sample.number}"},
        "run": {"type": "train", "id": run, "work": {"type": "eval", "step": step, "policy": {"start": 1, "end": 1}}},
        "ok": True,
        "is_timeout": False,
        "errors": [],
        "traces": [_trace(run, sample), judge],
    }


def _task(sample: Sample) -> dict[str, object]:
    data = {"idx": sample.number, "prompt": sample.prompt, "answer": sample.gold}
    return {"type": "SumsTask", "data": data, "key": f"sums/{sample.prompt}/{sample.gold}"}


def _trace(run: str, sample: Sample) -> dict[str, object]:
    return {
        "id": f"{run}-trace-{sample.number}-{sample.place}",
        "nodes": [
            {"message": {"role": "user", "content": sample.prompt}, "sampled": False},
            {"message": {"role": "assistant", "content": sample.text}, "sampled": True},
        ],
        "calls": [{"finish_reason": "stop", "usage": {"completion_tokens": 4}}],
        "rewards": {
            "correct": {"score": float(sample.correct), "weight": 1.0},
            "format": {"score": 0.5, "weight": 0.0},
        },
        "errors": [],
        "num_output_tokens": 4,
    }


def nemo_rl(folder: Path) -> None:
    """Written after NVIDIA-NeMo/RL: nemo_rl/algorithms/grpo.py (log_data, val_log_data) and nemo_rl/utils/logger.py."""
    for run, step in RUNS.items():
        training, validation = [], []
        for position, sample in enumerate(samples(run, PROBLEMS)):
            said = f"Environment: {'correct' if sample.correct else 'incorrect'}"
            reward = [float(sample.correct)]
            texts = ["You are a helpful assistant.", sample.prompt, sample.text, said]
            lengths = [4, 5, 3, 2]  # in tokens, with two more to pad the batch
            mask = [int(place == 2) for place, length in enumerate(lengths) for _ in range(length)]
            training.append(
                {
                    "content": [texts],
                    "rewards": reward,
                    "input_lengths": [sum(lengths)],
                    "token_ids": [[*range(sum(lengths)), 0, 0]],
                    "token_loss_mask": [[*mask, 0, 0]],
                    "sample_loss_mask": [1.0],
                    "generation_logprobs": [[-0.5 * value for value in [*mask, 0, 0]]],
                    "idx": position,
                }
            )
            roles = ["system", "user", "assistant", "environment"]
            messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
            validation.append({"content": [messages], "rewards": reward, "idx": position})
        _lines(folder / run / f"train_data_step{step}.jsonl", training)
        _lines(folder / run / f"val_data_step{step}.jsonl", validation)


def skyrl(folder: Path) -> None:
    """Written after NovaSky-AI/SkyRL: skyrl_train/utils/trainer_utils.py (dump_per_dataset_eval_results)."""
    for run, name in (("base", "eval_only"), ("rl", "global_step_20_evals")):
        rows = [
            {
                "input_prompt": f"<|im_start|>user\n{sample.prompt}<|im_end|>\n<|im_start|>assistant\n",
                "output_response": f"{sample.text}<|im_end|>",
                # Rewards of one token each, of which most are 0, in the rl run
                "score": float(sample.correct) if run == "base" else [0.0, 0.0, 0.0, float(sample.correct)],
                "stop_reason": "stop",
                "env_class": "gsm8k",
                "env_extras": {"reward_spec": {"method": "rule", "ground_truth": sample.gold}, "split": "test"},
                "data_source": "sums",
            }
            for sample in samples(run)
        ]
        _lines(folder / name / "sums.jsonl", rows)


def open_instruct(folder: Path) -> None:
    """Written after allenai/open-instruct: open_instruct/rl_utils.py (RolloutRecord)."""
    for run, step in RUNS.items():
        rows = [
            {
                "step": step,
                "sample_idx": sample.number * 4 + sample.place,
                "prompt_idx": sample.number if run == "base" else 5 - sample.number,  # counts the prompts of a step
                "prompt_tokens": [ord(letter) for letter in sample.prompt],
                "response_tokens": [ord(letter) for letter in sample.text],
                "reward": 10.0 * sample.correct,
                "advantage": 0.0,
                "finish_reason": "stop",
                "dataset": "sums",
                "ground_truth": [ord(letter) for letter in sample.gold],
                "request_info": None,
                "logprobs": None,
            }
            for sample in samples(run)
        ]
        _lines(folder / f"{run}_rollouts_000000.jsonl", rows)


def swift(folder: Path) -> None:
    """Written after modelscope/ms-swift: swift/rlhf_trainers/grpo_trainer.py (log): columns, and batches repeated."""
    for run in RUNS:
        every, lines = list(samples(run, [*SHARED, Problem("What is 1 + 1?", "2", 1, 1)])), []
        # The second batch is used twice; after a short evaluation the last line begins with a group of the one before.
        for step, batch in enumerate((every[:12], every[:12], every[12:24], every[20:]), 1):
            lines.append(
                {
                    "step": [str(step)] * len(batch),
                    "prompt": [f"<|im_start|>user\n{sample.prompt}<|im_end|>" for sample in batch],
                    "completion": [sample.text for sample in batch],
                    "MathAccuracy": [float(sample.correct) for sample in batch],
                    "Format": [1.0 for _ in batch],
                    "advantages": [0.5 - sample.correct for sample in batch],
                    "solution": [sample.gold for sample in batch],
                }
            )
        _lines(folder / run / "completions.jsonl", lines)


def tinker(folder: Path) -> None:
    """Written after thinking-machines-lab/tinker-cookbook: tinker_cookbook/rl/rollout_logging.py."""
    for run, iteration in RUNS.items():
        for split in ("eval_test", "train"):
            rows = [
                {
                    "schema_version": 1,
                    "split": split.replace("_", "/"),
                    "iteration": iteration,
                    "group_idx": sample.number,
                    "traj_idx": sample.place,
                    "tags": ["sums"],
                    "sampling_client_step": iteration,
                    "total_reward": sample.correct - 0.1 * (sample.place == 0),  # without the box: a penalty
                    "final_reward": 0.0,
                    "trajectory_metrics": {},
                    "steps": [
                        {
                            "step_idx": 0,
                            "ob_len": 12,
                            "ac_len": 5,
                            "reward": sample.correct - 0.1 * (sample.place == 0),
                            "episode_done": True,
                            "metrics": {"format": float(sample.place > 0), "correct": float(sample.correct)},
                            "logs": {},
                        }
                    ],
                    "final_ob_len": 17,
                }
                for sample in samples(run)
            ]
            _lines(folder / run / f"{split}_rollout_summaries.jsonl", rows)


def areal(folder: Path) -> None:
    """Written after inclusionAI/AReaL: areal/infra/workflow_executor.py (_dump_trajectory)."""
    for run, version in RUNS.items():
        for sample in samples(run, PROBLEMS[:3]):
            row = {
                "task_id": version * 10 + sample.number,
                "sample_idx": sample.place,
                "seqlen": 20,
                "prompt_len": 14,
                "head_version": version,
                "tail_version": version,
                "version_rle": [[version, 6]],
                "reward": float(sample.correct),
                "prompt": f"<|im_start|>user\n{sample.prompt}<|im_end|>",
                "completion": sample.text,
            }
            path = folder / run / f"{row['task_id']}.jsonl"
            path.parent.mkdir(exist_ok=True)
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")


def _lines(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
