"""The verb `verify` as the command line and notebooks call it: arguments in, results out."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from offleash.data.folder import read_problems
from offleash.errors import OffleashError
from offleash.loading.arguments import run_folders
from offleash.loading.problem_set import problem_set
from offleash.progress import Progress, silent
from offleash.verifiers.registry import verifier as named
from offleash.verifying.cases import Ladder, refuse_unreadable, subjects_of, told_by
from offleash.verifying.judge import Judge
from offleash.verifying.verify import Verified, Verifying, judge_of, ladder_for, verify_with


def verifying(
    verifier: str | None = None,
    last_number: bool = False,
    opened: bool = False,
    jobs: int = 0,
    trust_code: bool = False,
    cache: bool = True,
    referee: str | None = None,
    referee_model: str | None = None,
    problems: str | None = None,
) -> Verifying:
    """How to verify, from plain words."""
    if verifier is not None:
        named(verifier)
    if jobs < 0:
        raise OffleashError(f"Worker processes are counted from 0 (one a core); found --jobs {jobs}.")
    fuller = problem_set(problems) if problems is not None else None
    options = Verifying(verifier, Ladder(last_number, opened), jobs, trust_code, cache, fuller)
    if referee is None and referee_model is None:
        return options
    if referee is None or referee_model is None:
        raise OffleashError("A referee needs both its server and its model: --referee URL --referee-model NAME.")
    from offleash.samplers.endpoint.chat import Chat
    from offleash.verifiers.model_judge import identity

    return replace(options, ask=Chat(referee, referee_model), asked=identity(referee_model))


def verify_arguments(
    arguments: Sequence[str], options: Verifying, also: Sequence[str] = (), progress: Progress = silent
) -> list[Verified]:
    """Verify run folders, with one set of workers and one memory for all of them and for every verifier."""
    folders = run_folders(arguments)
    ways = [options, *(replace(options, verifier=named(name).name) for name in also)]
    done = []
    with judge_of(options, progress) as judge:
        for way in ways if len(ways) * len(folders) > 1 else ():  # or what one cannot judge would stop it half done
            for folder in folders:
                _refuse_unreadable(judge, folder, way)
        for way in ways:
            done += [verify_with(judge, folder, way, progress) for folder in folders]
    return done


def _refuse_unreadable(judge: Judge, folder: Path, way: Verifying) -> None:
    """Refuse a run with gold answers that a verifier cannot judge against, and name the verifier."""
    problems = read_problems(folder)
    if way.problems is not None:
        problems = told_by(problems, way.problems, str(folder))
    subjects = subjects_of(problems, way.verifier, ladder_for(folder, way.ladder), str(folder))
    try:
        refuse_unreadable(judge, subjects, str(folder))
    except OffleashError as error:
        raise OffleashError(f"{f'By {way.verifier!r}: ' if way.verifier else ''}{error}") from None
