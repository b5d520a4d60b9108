"""Runs vf-eval of verifiers on three problems, four rollouts each, against the scripted server."""
# mypy: ignore-errors

import os
import subprocess
import sys
from pathlib import Path

TASKSET = """
import verifiers.v1 as vf

class TinySumsData(vf.TaskData):
    answer: str

class TinySumsTask(vf.Task[TinySumsData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        return float(self.data.answer in trace.last_reply)

class TinySumsConfig(vf.TasksetConfig):
    num_tasks: int = 3

class TinySumsTaskset(vf.Taskset[TinySumsTask, TinySumsConfig]):
    def load(self):
        sums = [("2 + 3", "5"), ("7 - 4", "3"), ("6 * 7", "42")]
        data = [TinySumsData(id=f"sum-{i}", prompt=f"What is {q}?", answer=a) for i, (q, a) in enumerate(sums)]
        return [TinySumsTask(one, self.config.task) for one in data]

__all__ = ["TinySumsTaskset"]
"""

Path("tiny_sums.py").write_text(TASKSET)
command = (
    f"tiny_sums -m scripted -r 4 -c 1 --no-push --no-rich --client.base-url {sys.argv[1]} --client.api-key-var NO_KEY "
    "--env.agent.harness.id null --env.agent.runtime.type subprocess --sampling.temperature 0.7 -o out"
)
environment = {**os.environ, "PYTHONPATH": ".", "NO_KEY": "none"}
subprocess.run([Path(sys.executable).with_name("vf-eval"), *command.split()], check=True, env=environment)
