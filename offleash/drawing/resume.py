"""Continuing: a draw begins a run or goes on with one; what would mix two models or two decodings is refused."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from pathlib import Path

import polars as pl

from offleash.data.facts import budget_in, read_facts, read_origin
from offleash.data.folder import RunFolder, is_run, read_problems, refuse_certificate
from offleash.data.problem import as_problems
from offleash.data.run import Budget, Origin
from offleash.drawing.differences import differences, refuse_other_problems, told
from offleash.drawing.rounds import Chunks, chunks_for
from offleash.errors import OffleashError
from offleash.samplers.chat_template import opens_reasoning
from offleash.samplers.sampler import Decoding, Sampler
from offleash.samplers.seeds import seed_of

OTHER_GOLD = "; other gold answers can be judged against with `offleash verify RUN --problems PROBLEMS`"
PROBE = "What is 1 + 1?"  # the prompt by which a template is known


@dataclass(frozen=True)
class Begun:
    """A run that is open for drawing."""

    problems: pl.DataFrame
    origin: Origin
    chunks: Chunks
    budget: Budget  # as it is stored from now on


def begin(run: RunFolder, problems: pl.DataFrame, origin: Origin, budget: Budget) -> Begun:
    """Write a new run's facts, or check that those of the run in the folder are the same."""
    problems = askable(problems)
    if is_run(run.path):
        refuse_certificate(run.path)
    if not is_run(run.path) or is_bare(run.path):
        run.clear()
        model, decoding = origin.model, json.dumps(dict(origin.decoding))
        facts = {"model": model, "tool": "offleash draw", "decoding": decoding}
        run.begin(run.path.resolve().name, problems, facts, budget, origin)
        return Begun(problems, origin, _grid(origin), budget)
    if read_origin(run.path) is not None:
        # before their hashes are compared: it tells which problem
        refuse_other_problems(run.path, read_problems(run.path), problems, "run", "draw", OTHER_GOLD)
    old = refuse_changes(run.path, origin, budget.until)
    was = budget_in(read_facts(run.path))
    now = Budget(max(was.k or 0, budget.k or 0), budget.until)
    if now != was:
        run.raise_budget(now)
    return Begun(read_problems(run.path), old, _grid(old), now)


def is_bare(folder: Path) -> bool:
    """Whether a draw began here and no sample came of it, so that nothing binds the next to its options."""
    return read_origin(folder) is not None and not RunFolder(folder).sample_shards()


def askable(problems: pl.DataFrame) -> pl.DataFrame:
    """Problems that each have an id of their own and a text to ask."""
    frame = as_problems(problems).with_columns(pl.coalesce("prompt", "question").alias("prompt"))
    if not frame.height:
        raise OffleashError("There are no problems to draw samples of; name a benchmark or a file that holds some.")
    twice = frame.filter(pl.col("problem").is_duplicated())
    if twice.height:
        raise OffleashError(f"Two problems have the id {twice['problem'][0]!r}; give each its own.")
    silent = frame.filter(pl.col("prompt").is_null())
    if silent.height:
        raise OffleashError(f"Problem {silent['problem'][0]!r} has no text to ask; give it a question.")
    return frame


def origin_of(
    sampler: Sampler, model: str, decoding: Decoding, seed: int, until: int, problems: pl.DataFrame
) -> Origin:
    """All that the samples of a draw depend on."""
    about = sampler.about
    chunks = chunks_for(until)
    document = _plain(decoding)
    key = seed_of(seed, model, about.revision, about.adapter, json.dumps(document, sort_keys=True), about.raw)
    prompts = askable(problems).sort("problem").select("problem", "prompt").rows()
    asked = sampler.asked(PROBE)
    return Origin(
        model=model,
        about={one.name: _document(getattr(about, one.name)) for one in fields(about)},
        decoding=document,
        seed=seed,
        key=f"{key:016x}",
        chunks={"first": chunks.first, "growth": chunks.growth, "largest": chunks.largest},
        thinking=asked is not None and opens_reasoning(asked),
        prompts=_hash(json.dumps(prompts)),
        template=None if asked is None else _hash(asked),
    )


def refuse_changes(folder: Path, new: Origin, until: int) -> Origin:
    """The origin of the run in a folder; refused where a draw would go on with another."""
    old = read_origin(folder)
    if old is None:
        raise _imported(folder)
    known = budget_in(read_facts(folder))
    pairs = [*differences(old, new)]
    if known.until != until:
        pairs.append(("--until", known.until or "not set", until or "not set"))
    if pairs:
        raise OffleashError(
            f"{folder} was drawn in another way, and a run is one model with one decoding:\n{told(pairs, 'run')}\n"
            "Give what is in the run to go on with it, or draw into another folder with -o."
        )
    return old


def refuse_other_words(folder: Path, model: str, decoding: Decoding, seed: int, until: int) -> None:
    """Refuse early what can be told before a model is loaded."""
    refuse_certificate(folder)
    old = read_origin(folder)
    if old is None:
        raise _imported(folder)
    if is_bare(folder):
        return
    refuse_changes(folder, replace(old, model=model, decoding=_plain(decoding), seed=seed), until)


def problem_seed(key: str, problem: str) -> int:
    """The seed of a problem in a run."""
    return seed_of(key, problem)


def _plain(decoding: Decoding) -> dict[str, object]:
    """A decoding as it is stored: 1 and 1.0 are the same temperature, and must give the same samples."""
    numbers = {"temperature": decoding.temperature, "top_p": decoding.top_p, "min_p": decoding.min_p}
    return {**decoding.document(), **{name: float(value) for name, value in numbers.items()}}


def _grid(origin: Origin) -> Chunks:
    grid = origin.chunks
    return Chunks(first=int(grid["first"]), growth=float(grid["growth"]), largest=int(grid["largest"]))


def _document(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else value


def _imported(folder: Path) -> OffleashError:
    return OffleashError(f"{folder} holds imported samples, and a draw cannot add to them; choose another -o.")


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
