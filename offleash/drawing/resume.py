"""Starting or resuming a run: refuses to mix two models, decodings or problem sets, and finds what is there.

Certificates and sweeps use the same checks, and fsck the same spans of sample indices.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from hashlib import blake2b
from pathlib import Path

import polars as pl

from offleash.data.run import Budget, Origin, budget_in, read_facts, read_origin
from offleash.data.run_folder import RunFolder, is_run, read_problems, refuse_certificate
from offleash.data.shards import DAMAGE, check_schema, damaged
from offleash.data.tables import PROBLEMS, SAMPLES, TRUNCATED, as_problems
from offleash.data.verdict import Verdict
from offleash.drawing.schedule import Chunks, Span, StoredProblem, chunks_for, overlap
from offleash.errors import OffleashError
from offleash.samplers.chat_template import opens_reasoning
from offleash.samplers.sampler import Sampler, SamplingParams
from offleash.samplers.seeds import seed_of

OTHER_GOLD = "; other gold answers can be judged against with `offleash verify RUN --problems PROBLEMS`"
PROBE = "What is 1 + 1?"  # the prompt by which a template is known


@dataclass(frozen=True)
class OpenRun:
    """A run that is open for drawing."""

    problems: pl.DataFrame
    origin: Origin
    chunks: Chunks
    budget: Budget  # as it is stored from now on


def open_for_drawing(run: RunFolder, problems: pl.DataFrame, origin: Origin, budget: Budget) -> OpenRun:
    """Write a new run's facts, or check that those of the run in the folder are the same."""
    problems = with_prompts(problems)
    if is_run(run.path):
        refuse_certificate(run.path)
    if not is_run(run.path) or is_empty_draw(run.path):
        run.clear()
        model, decoding = origin.model, json.dumps(dict(origin.decoding))
        facts = {"model": model, "tool": "offleash draw", "decoding": decoding}
        run.begin(run.path.resolve().name, problems, facts, budget, origin)
        return OpenRun(problems, origin, _grid(origin), budget)
    if read_origin(run.path) is not None:
        # before their hashes are compared: it tells which problem
        refuse_other_problems(run.path, read_problems(run.path), problems, "run", "draw", OTHER_GOLD)
    old = refuse_changes(run.path, origin, budget.until)
    was = budget_in(read_facts(run.path))
    now = Budget(max(was.k or 0, budget.k or 0), budget.until)
    if now != was:
        run.raise_budget(now)
    return OpenRun(read_problems(run.path), old, _grid(old), now)


def is_empty_draw(folder: Path) -> bool:
    """Whether a draw began here and no sample came of it, so that nothing binds the next to its options."""
    return read_origin(folder) is not None and not RunFolder(folder).sample_shards()


def with_prompts(problems: pl.DataFrame) -> pl.DataFrame:
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
    sampler: Sampler, model: str, decoding: SamplingParams, seed: int, until: int, problems: pl.DataFrame
) -> Origin:
    """All that the samples of a draw depend on."""
    about = sampler.about
    chunks = chunks_for(until)
    document = _plain(decoding)
    key = seed_of(seed, model, about.revision, about.adapter, json.dumps(document, sort_keys=True), about.raw)
    prompts = with_prompts(problems).sort("problem").select("problem", "prompt").rows()
    rendered = sampler.asked(PROBE)
    return Origin(
        model=model,
        about={attribute.name: _document(getattr(about, attribute.name)) for attribute in fields(about)},
        decoding=document,
        seed=seed,
        key=f"{key:016x}",
        chunks={"first": chunks.first, "growth": chunks.growth, "largest": chunks.largest},
        thinking=rendered is not None and opens_reasoning(rendered),
        prompts=_hash(json.dumps(prompts)),
        template=None if rendered is None else _hash(rendered),
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


def refuse_other_options(folder: Path, model: str, decoding: SamplingParams, seed: int, until: int) -> None:
    """Refuse early what can be told before a model is loaded."""
    refuse_certificate(folder)
    old = read_origin(folder)
    if old is None:
        raise _imported(folder)
    if is_empty_draw(folder):
        return
    refuse_changes(folder, replace(old, model=model, decoding=_plain(decoding), seed=seed), until)


def problem_seed(key: str, problem: str) -> int:
    """The seed of a problem in a run."""
    return seed_of(key, problem)


def _plain(decoding: SamplingParams) -> dict[str, object]:
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


# What differs between a folder and a command that would resume it: model, decoding, prompts, problems.


Difference = tuple[str, object, object]  # of what, in the folder, now
SHOWN = 160  # characters of a value in a message
FREE = {"versions", "model"}  # of who answers: versions may change, the model is compared by its full name


def differences(old: Origin, new: Origin) -> Iterator[Difference]:
    """Everything that would change who answers, or how."""
    yield from changed("", {"model": old.model, "seed": old.seed}, {"model": new.model, "seed": new.seed})
    yield from changed("decoding: ", old.decoding, new.decoding)
    was, now = ({name: value for name, value in one.about.items() if name not in FREE} for one in (old, new))
    yield from changed("model: ", was, now)
    named = (("chat template (hash)", "template"), ("reasoning opened by the prompt", "thinking"))
    for words, name in (*named, ("prompts (hash)", "prompts")):
        yield from changed("", {words: asdict(old)[name]}, {words: asdict(new)[name]})


def changed(prefix: str, old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[Difference]:
    for name in dict.fromkeys([*old, *new]):
        if old.get(name) != new.get(name):
            yield prefix + name, old.get(name), new.get(name)


def told(pairs: Iterable[Difference], where: str) -> str:
    """Differences, one a line."""
    return "\n".join(f"  {name}: {shown(was)} in the {where}, {shown(now)} now" for name, was, now in pairs)


def refuse_other_problems(
    folder: Path, old: pl.DataFrame, new: pl.DataFrame, where: str, verb: str, more: str = ""
) -> None:
    """Refuse problems that are not those of the folder; `more` is a way out where the text is the same."""
    old, new = old.sort("problem"), new.sort("problem")
    step = f"Give the same problems to go on, or {verb} into another folder with -o"
    strangers = sorted(set(old["problem"]) ^ set(new["problem"]))
    if strangers:
        raise OffleashError(
            f"{folder} holds {old.height} problems and this command asks {new.height}; {strangers[0]!r} is in one of "
            f"them only. {step}."
        )
    for column in [name for name in PROBLEMS if name not in ("problem", "hash")]:  # the hash is the question's
        for problem, was, now in zip(old["problem"], old[column].to_list(), new[column].to_list(), strict=True):
            if was != now:
                raise OffleashError(
                    f"{folder}: problem {problem!r} has another {column} now: {shown(was)} in the {where}, "
                    f"{shown(now)} now. {step}{more}."
                )


def shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
    return text if len(text) <= SHOWN else f"{text[: SHOWN // 2]} … {text[-SHOWN // 2 :]}"


# What a run folder holds: which samples, and how many were correct, read shard by shard.


@dataclass(frozen=True)
class StoredSamples:
    """The samples of a run before a draw adds to them."""

    problems: dict[str, StoredProblem]
    samples: int
    tokens: int
    truncated: int


def read_stored_samples(run: RunFolder, verifier: str | None) -> StoredSamples:
    """What a run holds; with a verifier also its successes."""
    spans: dict[str, list[Span]] = defaultdict(list)
    hits: dict[str, int] = defaultdict(int)
    samples = tokens = truncated = 0
    for shard in run.sample_shards():
        keys = _read(shard)
        for problem, left, right in spans_of(keys):
            spans[problem].append((left, right))
        samples += keys.height
        tokens += int(keys["tokens"].sum())
        truncated += int((keys["finish"] == TRUNCATED).sum())
        verdicts = run.verdicts_on(verifier, shard.name) if verifier is not None else None
        if verdicts is not None:
            correct = verdicts.filter(pl.col("verdict") == Verdict.CORRECT.value)
            for problem, count in correct.group_by("problem").len().iter_rows():
                hits[problem] += count
    for problem, parts in spans.items():
        if (twice := overlap(parts)) is not None:
            raise OffleashError(
                f"{run.path} holds sample {twice[0]} of problem {problem!r} twice; see: offleash fsck {run.path}"
            )
    problems = {problem: StoredProblem(tuple(sorted(parts)), hits[problem]) for problem, parts in spans.items()}
    return StoredSamples(problems, samples, tokens, truncated)


def drop_orphans(run: RunFolder) -> None:
    """Remove verdicts on shards of samples that are gone: what is drawn again is judged again."""
    run.forget_shards()
    there = {shard.name for shard in run.sample_shards()}
    for shard in run.verdict_shards():
        if shard.name not in there:
            shard.unlink()


def spans_of(keys: pl.DataFrame) -> Iterable[tuple[str, int, int]]:
    """Runs of neighbouring indices (problem, first, end) in a table of (problem, index)."""
    ordered = keys.select("problem", pl.col("index").cast(pl.Int64)).sort("problem", "index")
    shift = (pl.col("index") - pl.int_range(pl.len(), dtype=pl.Int64).over("problem")).alias("shift")
    spans = ordered.group_by("problem", shift).agg(left=pl.col("index").min(), right=pl.col("index").max() + 1)
    return spans.select("problem", "left", "right").sort("problem", "left").iter_rows()


def _read(shard: Path) -> pl.DataFrame:
    check_schema(shard, SAMPLES)
    try:
        return pl.read_parquet(shard, columns=["problem", "index", "tokens", "finish"])
    except DAMAGE as error:
        raise damaged(shard, error) from None
