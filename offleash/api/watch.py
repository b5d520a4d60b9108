"""watch: follow a training run by the rollouts that its trainer writes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from offleash.errors import OffleashError
from offleash.options import Data, Flag, Jobs, Opened, Reading, TrustCode, Verifier
from offleash.progress import Progress, silent
from offleash.signatures import verb

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from offleash.results.watching import WatchResult, WatchSession


@verb
def watch(
    folder: Annotated[str | Path, Data("DIR", "The folder in which the trainer writes its rollouts.")],
    *,
    once: Annotated[bool, Flag("Read the rollouts once, print the result and exit.")] = False,
    base: Annotated[
        str | Path | None,
        Flag("Compare with this run, log or file of counts of the same problems: P, E, S, O.", metavar="RUN"),
    ] = None,
    window: Annotated[
        int | None,
        Flag("Training steps per window. Default: enough for at most 20 windows.", metavar="N", least=1),
    ] = None,
    every: Annotated[float, Flag("Seconds between updates.", metavar="SECONDS", least=0.1, most=86_400)] = 5.0,
    page: Annotated[str | Path | None, Flag("Write a page that reloads itself.", metavar="FILE.html")] = None,
    tokenizer: Annotated[
        str | None, Flag("Tokenizer for logs that hold token ids (open-instruct): a path or a hub id.", metavar="NAME")
    ] = None,
    verifier: Verifier = None,
    opened: Opened = False,
    jobs: Jobs = 0,
    trust_code: TrustCode = False,
    reading: Reading = Reading(),
    progress: Progress = silent,
) -> "WatchResult | WatchSession":
    """Follow a training run by its rollout files, without a change to the trainer.

    Reads what TRL, verl, prime-rl, NeMo-RL, SkyRL, open-instruct, ms-swift, AReaL and ART write, as it appears: pass@1
    and pass@G by windows of steps, groups without signal, answer entropy, problems that were solved and no longer are.
    Changes nothing in DIR, and runs until Ctrl-C.

    Examples:
      offleash watch outputs/completions                                    (TRL: log_completions=True)
      offleash watch rollouts --map verdict=acc --page watch.html           (verl: trainer.rollout_data_dir=rollouts)
      offleash watch rollouts --base runs/base --window 20
      offleash watch rollouts --verifier math --once --json

    In Python:
      >>> row = '{"input": "1+1?", "output": "2", "score": 1.0, "step": 1}'
      >>> Path("rollouts").mkdir()
      >>> written = Path("rollouts/1.jsonl").write_text(row)
      >>> ol.watch("rollouts", once=True).to_dict()["counts"]
      {'samples': 1, 'problems': 1, 'duplicates': 0, 'missing': 0}
    """
    from dataclasses import replace

    from offleash.loading.load import load, load_options
    from offleash.options import Judging
    from offleash.results.watching import WatchResult, WatchSession
    from offleash.training.watch.live import Watcher
    from offleash.verifiers.registry import chosen_verifier
    from offleash.verifying.cases import ExtractionOptions
    from offleash.verifying.verify import verify_options

    if page is not None:
        from offleash.render.output import PAGE_SUFFIXES, check_writable

        check_writable(Path(page), PAGE_SUFFIXES, option="--page")
    if reading.filter is not None or reading.rows is not None:
        raise OffleashError("--filter and --rows are for logs of evaluations, not for rollouts. Leave them out.")
    if verifier is None and (opened or jobs or trust_code):
        raise OffleashError("--opened, --jobs and --trust-code need a verifier. Add --verifier NAME.")
    verify = None
    if verifier is not None:
        judging = Judging(jobs=jobs, trust_code=trust_code)
        if chosen_verifier(verifier).own is not None:
            judging = replace(judging, threshold=reading.threshold)  # one option for logs and for the verifier
        verify = verify_options(verifier, judging, ExtractionOptions(opened=opened))
    options = load_options((), reading).options
    if tokenizer is not None:
        options = replace(options, decode=_decoder(tokenizer))
    (base_run,) = load(base, progress=progress) if base is not None else (None,)
    watcher = Watcher(Path(folder), options, reading.log_format, base_run, verify, window, progress)
    if not once:
        return WatchSession(watcher, every, None if page is None else Path(page))
    with watcher:
        result = WatchResult(watcher.look_once())
    if page is not None:
        result.save(page)
    return result


def _decoder(name: str) -> "Callable[[Sequence[int]], str]":
    """From token ids to their text, without the tokens that only mark ends."""
    try:
        from transformers import AutoTokenizer
    except ImportError:
        raise OffleashError("--tokenizer needs transformers: pip install 'offleash[local]'.") from None
    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise OffleashError(
            f"The tokenizer {name!r} cannot be loaded: {str(error).splitlines()[0]} Give a path or a hub id."
        ) from None
    return lambda ids: str(tokenizer.decode(ids, skip_special_tokens=True))
