"""The study of early warning: which signal announces a loss of support, how early, and how often for nothing.

What is done and how it is judged is fixed in `plan`, written before any result. Two processes share the trainings; both
can be killed and run again. `assess` reads what they stored and computes the results.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from offleash.lab.background import BackgroundCall, BackgroundCalls
from offleash.lab.registry import WORLDS
from offleash.lab.world import LabWorld
from offleash.progress import Progress, silent
from research.early_warning.assess import assess
from research.early_warning.follow import LOOKS, follow, prepare
from research.early_warning.plan import BASE, Job, Plan, jobs_of, named_jobs, read_plan, write_plan
from research.early_warning.report import WarningStudy

WORLD = "countdown"


def study_warning(plan: Plan, folder: Path, progress: Progress = silent) -> WarningStudy:
    """Do all trainings, looks and draws that are missing, then assess them."""
    import torch

    started, threads, world = time.monotonic(), torch.get_num_threads(), WORLDS[WORLD]
    write_plan(plan, folder)
    prepare(world, plan, folder)
    jobs = [job for job in jobs_of(plan) if not _done(plan, folder, job)]
    # Alternating, so that both halves have bases, free and held trainings.
    mine, other = jobs[::2], jobs[1::2]
    torch.set_num_threads(1)  # the other core does the other half
    try:
        with BackgroundCalls(_calls(folder, other), folder / "other.log") as lane:
            _all(world, plan, folder, mine, progress)
            lane.wait(
                lambda: progress(f"{_looked(folder):,} of {_wanted(plan):,} looks; waiting for the other process")
            )
    finally:
        torch.set_num_threads(threads)
    return assess(plan, folder, time.monotonic() - started, progress)


def study_part(folder: str | Path, *names: str, progress: Progress = silent) -> None:
    """Do some trainings of a study, by their names (grpo-0): what the second process runs."""
    import torch

    place = Path(folder)
    plan = read_plan(place)
    jobs = named_jobs(plan, names)
    torch.set_num_threads(1)
    _all(WORLDS[WORLD], plan, place, jobs, progress)


def _all(world: LabWorld, plan: Plan, folder: Path, jobs: Sequence[Job], progress: Progress) -> None:
    for job in jobs:
        follow(
            world, plan, folder, job, lambda text: progress(f"{_looked(folder):,} of {_wanted(plan):,} looks; {text}")
        )


def _calls(folder: Path, jobs: Sequence[Job]) -> list[BackgroundCall]:
    return [BackgroundCall("study_part", (str(folder), *map(str, jobs)), module=__name__)] if jobs else []


def _wanted(plan: Plan) -> int:
    return sum(_looks_of(plan, job) for job in jobs_of(plan))


def _looks_of(plan: Plan, job: Job) -> int:
    return 2 if job.recipe == BASE else plan.looks


def _done(plan: Plan, folder: Path, job: Job) -> bool:
    return _looked(folder, str(job)) >= _looks_of(plan, job)


def _looked(folder: Path, job: str = "*") -> int:
    return sum(1 for _ in (folder / LOOKS).glob(f"{job}/[!.]*.npz"))
