"""Writes trajectories of two runs with ART's own writer: four samples of each problem, from scripted rewards."""
# mypy: ignore-errors

import sys
from pathlib import Path

import art
from art.utils.trajectory_logging import write_trajectory_groups_parquet
from openai.types.chat.chat_completion import ChatCompletionMessage, Choice

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tests.logs.tools.written_after_trainers import RUNS, SHARED, samples

SYSTEM = {"role": "system", "content": "You are a helpful assistant."}


def trajectory(sample):
    message = ChatCompletionMessage(role="assistant", content=sample.text)
    return art.Trajectory(
        messages_and_choices=[
            SYSTEM,
            {"role": "user", "content": sample.prompt},
            Choice(finish_reason="stop", index=0, message=message),
        ],
        reward=sample.correct + 0.2,  # shaped: the metric says what is correct
        metrics={"correct": float(sample.correct)},
        metadata={"answer": sample.gold},
    )


for run, step in RUNS.items():
    drawn = list(samples(run))
    numbers = range(len(SHARED)) if run == "base" else reversed(range(len(SHARED)))  # groups come in any order
    groups = [[trajectory(sample) for sample in drawn if sample.number == number] for number in numbers]
    path = Path(run) / f"{step:04d}.parquet"
    path.parent.mkdir()
    write_trajectory_groups_parquet([art.TrajectoryGroup(group) for group in groups], path)
