"""What to do after a comparison, as commands that can be pasted: each only where it applies.

More samples where too few were drawn, the samples that decide a class where verdicts are doubtful, and another decoding
where pass@k fell and offleash knows the models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import quote

from offleash.comparing.compare import Comparison
from offleash.comparing.headline import Finding, headline
from offleash.comparing.sentences import NOTABLE_SHARE
from offleash.data.run_folder import is_run
from offleash.errors import OffleashError
from offleash.loading.arguments import parse_argument

MATCH_K = 256  # samples per problem and decoding of a suggested sweep: a first look


@dataclass(frozen=True)
class NextStep:
    """One thing to do next."""

    text: str
    command: str


def next_steps(comparison: Comparison, arguments: Mapping[str, str], flags: Sequence[str] = ()) -> list[NextStep]:
    """What is worth doing after this comparison.

    Args:
        comparison: the comparison.
        arguments: how the user named each run on the command line; a run without one was given in memory, and the
            commands that need it are left out.
        flags: options that say how the runs are read, which the commands need too.
    """
    named = [arguments.get(run.name) for run in (comparison.before, comparison.after)]
    if named[0] is None or named[1] is None:
        return []
    before, after = (quote(argument) for argument in (named[0], named[1]))
    reading = "".join(f" {quote(word)}" for word in flags)
    finding = headline(comparison).finding
    steps = []
    if finding in (Finding.TOO_FEW_SAMPLES, Finding.NO_CHANGE):
        text = "How many samples are needed to detect a loss?"
        steps.append(NextStep(text, f"offleash plan samples {before}{reading}"))
    if _has_doubtful_verdicts(comparison):
        text = "Which classes depend on doubtful verdicts?"
        steps.append(NextStep(text, f"offleash compare {before} {after}{reading} --flips"))
    if finding in (Finding.SHRANK, Finding.MOVED):
        text = "Does matching the token entropy recover the lost problems?"
        if (command := _match(named[0], named[1])) is not None:
            steps.append(NextStep(text, command))
    return steps


def _has_doubtful_verdicts(comparison: Comparison) -> bool:
    """Whether many samples are unread or failed, or losses and gains rest on single successes, and there are texts."""
    if comparison.before.verdicts is None or comparison.after.verdicts is None or comparison.question.drop_unread:
        return False
    tally = comparison.counted.tally
    undecided = (tally.unread_PR + tally.failed_PR).sum(axis=0) / tally.drawn_PR.sum(axis=0).clip(1)
    return bool((undecided >= NOTABLE_SHARE).any()) or any(by.weak for by in comparison.evidence.strength.values())


def _match(before: str, after: str) -> str | None:
    """The sweep that matches the entropy of both models, where both runs were drawn by offleash."""
    from offleash.data.run import read_origin

    origins = []
    paths = [parse_argument(argument).paths for argument in (before, after)]
    for several in paths:
        if len(several) != 1 or not is_run(several[0]):
            return None
        try:
            origin = read_origin(several[0])
        except OffleashError:  # a damaged run.json was refused before, or will be
            return None
        if origin is None or not origin.model.startswith(("hf:", "vllm:")):
            return None
        origins.append(origin)
    if origins[0].model == origins[1].model:
        return None
    folder = paths[0][0]
    pair = " ".join(f"{name}={quote(origin.model)}" for name, origin in zip(("base", "rl"), origins, strict=True))
    limits = f"-k {MATCH_K} --max-tokens {origins[0].decoding['max_tokens']}"
    problems, folder_text = quote(str(folder / "problems.parquet")), quote(str(folder.parent / "match"))
    return f"offleash sweep {problems} {pair} --match {limits} -o {folder_text}"
