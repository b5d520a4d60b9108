"""A base that the user gives to the monitor: a run folder drawn and judged as the training's own draws are, or counts.

A base that was drawn otherwise is refused: the comparison would be of decodings, prompts or verifiers, not of models.
"""

from pathlib import Path

import polars as pl

from offleash.data.run import PROBE_QUESTION, Run, read_origin, template_hash
from offleash.data.run_folder import is_run
from offleash.errors import OffleashError
from offleash.loading.load import load
from offleash.training.probe import ProbeEngine
from offleash.training.rewards import log

PROMPT = pl.coalesce("prompt", "question").alias("prompt")


def accepted_base(given: object, engine: ProbeEngine, verdicts: str, k: int) -> Run:
    """The base as a run.

    Args:
        given: a run folder, or a table or file of counts.
        engine: what draws the evaluations.
        verdicts: the name that the evaluations' verdicts are stored under.
        k: samples per problem of an evaluation; the base needs twice as many.
    """
    (run,) = load(given)  # type: ignore[arg-type]
    if run.verdicts is None:
        log.warning("The base is bare counts: whether they were drawn as this trainer draws cannot be checked.")
    elif isinstance(given, str | Path) and is_run(Path(given)):
        _refuse_origin(Path(given), run, engine, verdicts)
    else:
        raise OffleashError(f"base= must be a run folder or a table of counts; found {given}.")
    _refuse_problems(run, engine)
    fewest = _fewest_samples(run)
    if fewest < 2 * k:
        raise OffleashError(
            f"The base has {fewest} samples per problem, but k = {k} needs 2k = {2 * k}. Draw more, or use a smaller k."
        )
    return run


def _refuse_origin(folder: Path, run: Run, engine: ProbeEngine, verdicts: str) -> None:
    """Refuse what was drawn or judged otherwise, as far as a run folder says how it was."""
    origin, ours = read_origin(folder), engine.origin("base")
    if origin is None:
        raise OffleashError(f"{folder} does not say how it was drawn. Leave out base=, or give bare counts.")
    for name, value in ours.decoding.items():
        if origin.decoding.get(name) != value:
            raise OffleashError(
                f"{folder} was drawn with {name} {origin.decoding.get(name)}, but the trainer draws with {value}. "
                "Draw the base as the trainer does, or leave out base=."
            )
    if origin.template != template_hash(engine.rendered(PROBE_QUESTION)):
        raise OffleashError(f"{folder} was drawn with a different chat template from the trainer's. Leave out base=.")
    by_monitor = origin.about.get("sampler") == "trl"
    if by_monitor and origin.prompts != ours.prompts:
        raise OffleashError(f"{folder} was drawn with different prompts from the probe set's. Leave out base=.")
    further = {name: ours.about.get(name) for name in ("repetition_penalty", "generation_kwargs")}
    if not by_monitor and engine.probe.has_further_messages:
        further["messages"] = "several per prompt"
    for name, value in further.items():
        if origin.about.get(name) != value:
            raise OffleashError(
                f"The trainer draws with {name} {value}, but {folder} was drawn with {origin.about.get(name)}. "
                "Leave out base=."
            )
    if run.budget.until:
        raise OffleashError(
            f"{folder} stops each problem at success {run.budget.until}, but the alarm needs the same number "
            "of samples for every problem. Draw it without --until."
        )
    if run.verifier != verdicts:
        raise OffleashError(
            f"{folder} was judged by {run.verifier}, but this monitor judges with {verdicts}. "
            f"Run offleash verify {folder} with the same verifier."
        )


def _refuse_problems(run: Run, engine: ProbeEngine) -> None:
    """Refuse a base that lacks a problem of the probe set, or was asked it in other words."""
    theirs = {key: prompt for *keys, prompt in run.problems.select("hash", "problem", PROMPT).rows() for key in keys}
    for key, name, prompt in engine.probe.problems.select("hash", "problem", PROMPT).rows():
        if key not in theirs and name not in theirs:
            raise OffleashError(f"The base lacks problem {name!r} of the probe set. Draw it on the same problems.")
        base_prompt = theirs[key] if key in theirs else theirs[name]
        if run.verdicts is not None and base_prompt != prompt:
            raise OffleashError(
                f"The base was drawn with a different prompt for problem {name!r}: {base_prompt[:80]!r}. "
                "Draw it with the prompts of the probe set."
            )


def _fewest_samples(run: Run) -> int:
    """Judged samples of the problem that has fewest."""
    if run.counts is not None:
        return min(run.counts["n"].to_list(), default=0)
    assert run.verdicts is not None, "a run has verdicts or counts"
    counts = run.verdicts.drop_nulls("verdict").group_by("problem").len().collect()["len"].to_list()
    return min(counts, default=0) if len(counts) == run.problems.height else 0
