"""TRL (Hugging Face): `completions_STEP.parquet` of GRPOTrainer and RLOOTrainer with log_completions=True.

Columns: `step`, `prompt`, `completion`, `advantage`, and one column per reward function, called after it. Traps:

* There is no id: a problem is known by its prompt, chat template included, so both runs need the same template.
* Rewards may be of format or length. Which of them says "correct" is guessed from its name, or asked for.
* Each file is of one step or of a few: samples of different steps come from different weights.
"""

import re
from pathlib import Path

import polars as pl

from offleash.data.tables import Note
from offleash.errors import OffleashError
from offleash.files.columns import require_column
from offleash.files.detect import Container, Head
from offleash.files.tabular import damage
from offleash.logs.format import Format, Log, Options
from offleash.logs.frames import check_maps, check_split
from offleash.logs.generic import parquet_frames

KEYS = {"step", "prompt", "completion", "advantage"}
# Names of rewards that judge the answer: accuracy_reward, is_correct, exact_match, ...
CORRECTNESS_NAME = re.compile(r"acc|correct|exact|match|verif|solve|pass", re.IGNORECASE)


def recognise(head: Head) -> bool:
    """`advantage` beside step, prompt and completion is written by nothing else."""
    return head.container is Container.PARQUET and set(head.columns) >= KEYS


def read(path: Path, head: Head, options: Options) -> Log:
    """Whole columns at a time, as generic tables are read: a training run leaves millions of rows."""
    check_maps("trl", options, ("verdict",))
    check_split(head, options)
    reward = _reward(head, options)
    log = Log("trl", f"TRL reward {reward}", iter(()))
    chosen = {"question": "prompt", "text": "completion", "verdict": reward}
    log.frames = parquet_frames(log, head, options, chosen)
    log.notes += [Note(f"{path.name}: the verdict is the reward {reward}."), *_steps(path, options)]
    return log


def _reward(head: Head, options: Options) -> str:
    """The reward that says whether a sample is correct: the only one, or the only one named so."""
    if "verdict" in options.columns:
        return require_column(options.columns["verdict"], head.columns, head.path, "--map verdict")
    with damage(head.path):
        schema = pl.scan_parquet(head.path, glob=False).collect_schema()
    rewards = [name for name, kind in schema.items() if name not in KEYS and (kind.is_numeric() or kind == pl.Boolean)]
    candidates = [name for name in rewards if CORRECTNESS_NAME.search(name)]
    for names in (rewards, candidates):
        if len(names) == 1:
            return names[0]
    raise OffleashError(
        f"{head.path} has the reward columns {', '.join(rewards) or '(none)'}; which of them says that a sample is "
        f"correct? Name it with --map verdict=NAME{f', for example --map verdict={rewards[0]}' if rewards else ''}."
    )


def _steps(path: Path, options: Options) -> list[Note]:
    """Samples of several steps come from different weights."""
    if options.split_by == "step":
        return []
    with damage(path):
        steps = pl.scan_parquet(path, glob=False).select(pl.col("step").unique().sort()).collect()["step"].to_list()
    if len(steps) < 2:
        return [Note(f"{path.name}: samples of training step {steps[0]}.")]
    what = f"samples of {len(steps)} training steps, {steps[0]} to {steps[-1]}, are drawn from different weights"
    return [Note(f"{path.name}: {what}; --split-by step keeps them apart.")]


FORMAT = Format("trl", "TRL GRPO completions (log_completions=True)", recognise, read, ("completions_00010.parquet",))
