"""Frontier: what first-try accuracy costs in reach, between a base and a model after RL, and the point to use.

`frontier` draws what the search asks for; retention.py has the statistics, search.py the rule and its confirmation.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from shlex import join

from offleash.analyses.frontier.runs import FrontierRequest, open_frontier, write_identity
from offleash.analyses.frontier.search import Family, FrontierPoint, Search, search
from offleash.data.tables import Note
from offleash.progress import Progress, silent
from offleash.verifying.verify import VerifyOptions


@dataclass(frozen=True)
class Frontier:
    """The points of a frontier, the recommended one and its confirmation."""

    folder: Path
    base: str  # labels
    rl: str
    k: int
    floor: float
    search: Search
    command: str | None  # makes the recommended model
    can_blend: bool
    notes: tuple[Note, ...]
    new: int  # samples drawn now
    missing: int  # samples that could not be drawn
    seconds: float


def frontier(
    request: FrontierRequest, folder: Path, verifying: VerifyOptions | None = None, progress: Progress = silent
) -> Frontier:
    """Draw, judge and count every point that the search asks for; after a kill the same call resumes.

    Args:
        request: problems, models or runs, decoding, k and floor.
        folder: gets one run folder per point; what is there already is kept.
        verifying: verifier, extraction and workers.
        progress: called with what is being drawn.

    Returns:
        Every point with intervals, differences at equal pass@1, the recommended point and its confirmation.
    """
    started = time.monotonic()
    with open_frontier(request, folder, verifying or VerifyOptions(), progress) as runs:
        write_identity(folder, request)
        runs.make_first_blend()
        result = search(request.grid, runs.measure, request.k, request.floor)
    return Frontier(
        folder,
        request.base.label,
        request.rl.label,
        request.k,
        request.floor,
        result,
        None if result.recommended is None else command_for(result.recommended, request),
        request.can_blend,
        tuple(runs.notes.values()),
        runs.new,
        runs.missing,
        time.monotonic() - started,
    )


def command_for(point: FrontierPoint, request: FrontierRequest) -> str:
    """The command that makes the recommended model, or draws from it."""
    if point.family is Family.BLEND:
        folders = [str(request.base.folder), str(request.rl.folder)]
        return join(["offleash", "blend", *folders, "--weights", f"{point.weight:g}", "-o", "blends"])
    source = next((candidate for candidate in request.checkpoints if candidate.label == point.label), request.rl)
    name = source.name if source.model is None else str(source.model)
    words = ["offleash", "draw", "PROBLEMS", name, "-k", str(request.k)]
    if point.temperature is not None:
        words += ["--temperature", f"{point.temperature:g}"]
    return join([*words, "-o", "RUN"])
