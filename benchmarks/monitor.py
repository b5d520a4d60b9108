"""Inside TRL: our verifier as a reward against TRL's accuracy_reward, and the support monitor's share of training time.

python benchmarks/monitor.py [--small] [outputs.jsonl]

The file is JSONL with problem_id, problem, completion and gold; without one, the outputs of the shared data folder
beside the project are used, else completions written here. Both rewards get eight groups per call, as a trainer calls
them; both are warm before the clock starts, and the fastest of REPEATS passes counts. Time is processor time, of our
workers too, so that other programs on the machine do not matter. Groups of 64 draw
the completions of a problem again, with replacement; in a second pass each is made a different text, as a model's long
texts are.

The share is of GRPO on the lab's model: k = 64 samples of 24 problems every 10 steps of 32 groups of 16. It depends on
the sizes alone: samples drawn by the monitor over samples drawn by the trainer, here 1,536 per 5,120.
"""

import json
import logging
import math
import os
import random
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

import offleash as ol
from offleash.lab.pretrain import base_of
from offleash.options import Judging
from offleash.training.trl import reward

SHARED = Path(__file__).parents[1].parent / "shared" / "data" / "outputs" / "qwen25math.math100x8.jsonl"
GROUPS = 8  # per call
REPEATS = 3
Row = tuple[str, str, str]  # problem, completion, gold
WARM = [("x+1", "1+x"), ("28", "\\sqrt{34} + 3\\sqrt{10}"), ("\\frac{1}{2}", "\\sin x"), ("(1,2)", "[1,3]")]


def main() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    logging.disable(logging.CRITICAL)
    named = [Path(word) for word in sys.argv[1:] if not word.startswith("--")]
    file = named[0] if named else SHARED
    rows = read(file) if file.exists() else written()
    print(f"{len(rows):,} completions of {file.name if file.exists() else 'problems written here'}")
    ratios = [rewards(rows, "groups of 8", 8)]
    if "--small" not in sys.argv:
        drawn = resampled(rows, 64)
        ratios.append(rewards(drawn, "groups of 64 by resampling", 64))
        apart = [(problem, f"Try {n}. {text}", gold) for n, (problem, text, gold) in enumerate(drawn)]
        ratios.append(rewards(apart, "groups of 64, no two texts alike", 64))
    ratios.append(share(steps=10 if "--small" in sys.argv else 30))
    print("\n".join(ratios))


def share(steps: int) -> str:
    """The time that evaluations take, without the base's draw, over the time of the whole training."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    problems = ol.problem_set("countdown:train", selection=ol.ProblemSelection(size=256)).frame
    data = Dataset.from_list(problems.select("prompt", "verifier", "details").to_dicts())
    with tempfile.TemporaryDirectory() as out, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = GRPOConfig(
            output_dir=out,
            max_steps=steps,
            num_generations=16,
            per_device_train_batch_size=512,
            max_completion_length=18,
            learning_rate=1e-4,
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            use_cpu=True,
            bf16=False,
        )
        model, score = str(base_of("countdown")), reward("countdown")
        trainer = GRPOTrainer(model=model, reward_funcs=score, train_dataset=data, args=config)
        probe = ol.problem_set("countdown:dev", selection=ol.ProblemSelection(size=24)).frame
        monitor = ol.SupportMonitor(trainer, probe=probe, k=64, every=10, max_share=None)
        trainer.add_callback(monitor)
        trainer.train()
        spent = sum(evaluation.seconds for evaluation in monitor.state.evaluations)
        total = json.loads((monitor.out / "monitor.json").read_text("utf-8"))["seconds"]
    print(f"{steps} steps: {total:.1f} s, of which {spent:.1f} s in {len(monitor.state.evaluations)} evaluations")
    return f"ratio monitor's share of training time: {spent / total:.2f}"


def rewards(rows: list[Row], kind: str, size: int) -> str:
    """Time both on the same calls, and count where they differ."""
    from trl.rewards import accuracy_reward

    seconds = {"offleash": math.inf, "accuracy_reward": math.inf}
    values: dict[str, list[float | None]] = {}
    for _ in range(REPEATS):  # in turns: the machine may be busy for a while
        # a new one each time: it remembers answers
        ours: Callable[..., Any] = reward("math", judging=Judging(jobs=1, cache=False))
        for name, function in (("offleash", ours), ("accuracy_reward", accuracy_reward)):
            call(function, [("warm", f"\\boxed{{{answer}}}", gold) for gold, answer in WARM])
            started, values[name] = processor_seconds(), []
            for start in range(0, len(rows), GROUPS * size):
                values[name] += call(function, rows[start : start + GROUPS * size])
            seconds[name] = min(seconds[name], processor_seconds() - started)
    differing = sum(mine != theirs for mine, theirs in zip(values["offleash"], values["accuracy_reward"], strict=True))
    print(f"{kind}, {len(rows):,} samples: " + ", ".join(f"{name} {spent:.2f} s" for name, spent in seconds.items()))
    print(f"  {differing} rewards differ")
    return f"ratio rewards per second, {kind}: {seconds['accuracy_reward'] / seconds['offleash']:.1f}"


def processor_seconds() -> float:
    """Of this process and of all that it started."""
    process = psutil.Process()
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):  # it ended meanwhile
            spent = each.cpu_times()
            total += spent.user + spent.system + spent.children_user + spent.children_system
    return total


def call(function: Callable[..., Any], rows: list[Row]) -> list[float | None]:
    """One call, as a trainer makes it."""
    values: list[float | None] = function(
        prompts=[[{"role": "user", "content": problem}] for problem, _, _ in rows],
        completions=[[{"role": "assistant", "content": text}] for _, text, _ in rows],
        solution=[f"${gold}$" for _, _, gold in rows],
    )
    return values


def read(file: Path) -> list[Row]:
    """Problem, completion and gold of every line."""
    lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return [(line["problem"], line["completion"], line["gold"]) for line in lines]


def written() -> list[Row]:
    """Completions with an answer in a box, some right and some wrong, that only algebra can decide."""
    golds = [f"\\frac{{{n}}}{{{n + 3}}}x + {n}" for n in range(40)]
    return [
        (f"Problem {n}", f"Thus it is $\\boxed{{{n + (sample % 3 == 2)} + x\\frac{{{n}}}{{{n + 3}}}}}$.", gold)
        for n, gold in enumerate(golds)
        for sample in range(8)
    ]


def resampled(rows: list[Row], size: int) -> list[Row]:
    """Groups of `size`: the completions of each problem drawn again."""
    by_problem: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_problem[row[0]].append(row)
    rng = random.Random(0)
    return [rng.choice(group) for group in by_problem.values() for _ in range(size)]


if __name__ == "__main__":
    main()
