"""Starting or resuming a run: refuses to mix two models, decodings or problem sets, and reads what is stored.

Certificates and sweeps use the same checks, and fsck the same spans of sample indices.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from pathlib import Path

import polars as pl

from offleash.data.identity import differences, origin_differences, problem_differences, refuse_differences, resume_step
from offleash.data.run import PROBE_QUESTION, Budget, Origin, budget_in, read_facts, read_origin, template_hash
from offleash.data.run_folder import RunFolder, is_run, read_problems, refuse_certificate
from offleash.data.shards import READ_ERRORS, check_schema, damaged_shard_error
from offleash.data.tables import SAMPLES, TRUNCATED, as_problems
from offleash.data.verdict import Verdict
from offleash.drawing.schedule import Chunks, Span, StoredProblem, chunks_for, overlap
from offleash.errors import OffleashError
from offleash.samplers.chat_template import opens_reasoning
from offleash.samplers.registry import Model
from offleash.samplers.sampler import About, Sampler, SamplingParams
from offleash.samplers.seeds import seed_of

REVERIFY_HINT = "If only gold answers changed, no new samples are needed: offleash verify RUN --problems PROBLEMS."


@dataclass(frozen=True)
class OpenRun:
    """A run that is open for drawing."""

    problems: pl.DataFrame
    origin: Origin
    chunks: Chunks
    budget: Budget  # as it is stored from now on


def open_for_drawing(run: RunFolder, problems: pl.DataFrame, origin: Origin, budget: Budget) -> OpenRun:
    """Start a run in a claimed folder, or check that the run in it is this one and raise its budget.

    A run never shrinks: a smaller k than stored leaves the budget as it is, and there is nothing to draw.
    """
    problems = with_prompts(problems)
    if is_run(run.path):
        refuse_certificate(run.path)
    if not is_run(run.path) or is_empty_draw(run.path):
        run.clear()
        model, decoding = origin.model, json.dumps(dict(origin.decoding))
        facts = {"model": model, "tool": "offleash draw", "decoding": decoding}
        requested_options = {name: origin.about.get(name) for name in ("system", "chat_kwargs")} | {
            "prompt": origin.prompt
        }
        if any(value is not None for value in requested_options.values()):  # a comparison says where prompts differ
            facts["prompting"] = json.dumps(
                {name: value for name, value in requested_options.items() if value is not None}
            )
        run.begin(run.path.resolve().name, problems, facts, budget, origin)
        return OpenRun(problems, origin, _grid(origin), budget)
    if read_origin(run.path) is not None:
        # before the hashes of their prompts are compared: this names the problem
        differing = problem_differences(read_problems(run.path), problems)
        refuse_differences(run.path, "samples", differing, f"{resume_step('draw')} {REVERIFY_HINT}")
    stored_origin = refuse_changes(run.path, origin, budget.until)
    stored_budget = budget_in(read_facts(run.path))
    now = Budget(max(stored_budget.k or 0, budget.k or 0), budget.until)
    if now != stored_budget:
        run.raise_budget(now)
    return OpenRun(read_problems(run.path), stored_origin, _grid(stored_origin), now)


def is_empty_draw(folder: Path) -> bool:
    """Whether a draw began here and made no sample: then the next one may have other options."""
    return read_origin(folder) is not None and not RunFolder(folder).sample_shards()


def with_prompts(problems: pl.DataFrame) -> pl.DataFrame:
    """Problems with a prompt each (the question where there is no other), and ids that are unique."""
    frame = as_problems(problems).with_columns(pl.coalesce("prompt", "question").alias("prompt"))
    if not frame.height:
        raise OffleashError("There are no problems to draw from. Give a benchmark or a file of problems.")
    duplicated = frame.filter(pl.col("problem").is_duplicated())
    if duplicated.height:
        raise OffleashError(f"Two problems have the id {duplicated['problem'][0]!r}. Give each its own id.")
    without_prompt = frame.filter(pl.col("prompt").is_null())
    if without_prompt.height:
        raise OffleashError(f"Problem {without_prompt['problem'][0]!r} has no prompt. Give it a question.")
    return frame


def origin_of(
    sampler: Sampler,
    model: str,
    decoding: SamplingParams,
    seed: int,
    until: int,
    problems: pl.DataFrame,
    prompt: str | None = None,
) -> Origin:
    """All that the samples of a draw depend on; `prompt` is the template that made the problems' prompts.

    The key is a hash of what decides the samples (seed, model, decoding), and the seed of each sample is a hash of it,
    the problem and the index: so samples do not depend on what else is drawn, in which order, or how often a run was
    resumed. Changing what is hashed here would change the samples of every seed.
    """
    about = sampler.about
    chunks = chunks_for(until)
    document = stored_decoding(decoding)
    # What was added to the chat is hashed only where it was given: runs of older versions keep their samples.
    added = {"prompt": prompt, "system": about.system, "chat_kwargs": _as_json(about.chat_kwargs)}
    prompt_options = [] if all(value is None for value in added.values()) else [json.dumps(added, sort_keys=True)]
    key = seed_of(
        seed, model, about.revision, about.adapter, json.dumps(document, sort_keys=True), about.raw, *prompt_options
    )
    prompts = with_prompts(problems).sort("problem").select("problem", "prompt").rows()
    rendered = sampler.rendered_prompt(PROBE_QUESTION)
    return Origin(
        model=model,
        about=stored_about(about),
        decoding=document,
        seed=seed,
        key=f"{key:016x}",
        chunks={"first": chunks.first, "growth": chunks.growth, "largest": chunks.largest},
        thinking=rendered is not None and opens_reasoning(rendered),
        prompts=_hash(json.dumps(prompts)),
        template=None if rendered is None else template_hash(rendered),
        prompt=prompt,
    )


def stored_about(about: About) -> dict[str, object]:
    """What a sampler says of itself, as it is stored; what was not given (None) is left out."""
    values = {attribute.name: getattr(about, attribute.name) for attribute in fields(about)}
    return {name: _as_json(value) for name, value in values.items() if value is not None}


def refuse_changes(folder: Path, new: Origin, until: int) -> Origin:
    """The stored origin of a run; refused where it differs from that of the command, or where there is none."""
    stored_origin = read_origin(folder)
    if stored_origin is None:
        raise _imported_run_error(folder)
    known = budget_in(read_facts(folder))
    differing = [*origin_differences(stored_origin, new), *differences({"--until": known.until}, {"--until": until})]
    refuse_differences(folder, "samples", differing, resume_step("draw"))
    return stored_origin


def refuse_other_options(
    folder: Path, model: Model, decoding: SamplingParams, seed: int, until: int, prompt: str | None = None
) -> None:
    """Refuse a folder by the options alone: before a model is loaded, which may take minutes."""
    refuse_certificate(folder)
    stored_origin = read_origin(folder)
    if stored_origin is None:
        raise _imported_run_error(folder)
    if is_empty_draw(folder):
        return
    refuse_changes(folder, with_options(stored_origin, model, decoding, seed, prompt), until)


def with_options(old: Origin, model: Model, decoding: SamplingParams, seed: int, prompt: str | None = None) -> Origin:
    """A stored origin with the options of a command in it: what differs from the stored one is refused."""
    known = {name: value for name, value in old.about.items() if name not in ("system", "chat_kwargs")}
    about = {**known, **model.chat.to_document}
    return replace(old, model=str(model), about=about, decoding=stored_decoding(decoding), seed=seed, prompt=prompt)


def problem_seed(key: str, problem: str) -> int:
    """The seed of a problem in a run, from which those of its samples follow."""
    return seed_of(key, problem)


def stored_decoding(decoding: SamplingParams) -> dict[str, object]:
    """A decoding as it is stored: 1 and 1.0 are the same temperature, and must give the same samples."""
    numbers = {"temperature": decoding.temperature, "top_p": decoding.top_p, "min_p": decoding.min_p}
    return {**decoding.document(), **{name: float(value) for name, value in numbers.items()}}


def _grid(origin: Origin) -> Chunks:
    """The grid that a run was started with: a later version may have another default, and must not use it here."""
    grid = origin.chunks
    return Chunks(first=int(grid["first"]), growth=float(grid["growth"]), largest=int(grid["largest"]))


def _as_json(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else value


def _imported_run_error(folder: Path) -> OffleashError:
    return OffleashError(f"{folder} holds imported samples, which a draw cannot add to. Choose another folder with -o.")


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


# Which samples a run folder has, and how many of them are correct, read shard by shard to bound memory.


@dataclass(frozen=True)
class StoredSamples:
    """The samples of a run before a draw adds to them."""

    problems: dict[str, StoredProblem]
    samples: int
    tokens: int
    truncated: int


def read_stored_samples(run: RunFolder, verifier: str | None) -> StoredSamples:
    """The samples that a run has, as spans of indices; with a verifier also how many are correct.

    A sample that is there twice is refused: every count would be wrong from here on.
    """
    spans: dict[str, list[Span]] = defaultdict(list)
    hits: dict[str, int] = defaultdict(int)
    samples = tokens = truncated = 0
    for shard in run.sample_shards():
        keys = _read_shard(shard)
        for problem, left, right in spans_of(keys):
            spans[problem].append((left, right))
        samples += keys.height
        tokens += int(keys["tokens"].sum())
        truncated += int((keys["finish"] == TRUNCATED).sum())
        verdicts = run.verdicts_of_shard(verifier, shard.name) if verifier is not None else None
        if verdicts is not None:
            correct = verdicts.filter(pl.col("verdict") == Verdict.CORRECT.value)
            for problem, count in correct.group_by("problem").len().iter_rows():
                hits[problem] += count
    for problem, parts in spans.items():
        if (overlapping := overlap(parts)) is not None:
            raise OffleashError(
                f"{run.path} holds sample {overlapping[0]} of problem {problem!r} twice. Run: offleash fsck {run.path}"
            )
    problems = {problem: StoredProblem(tuple(sorted(parts)), hits[problem]) for problem, parts in spans.items()}
    return StoredSamples(problems, samples, tokens, truncated)


def drop_orphans(run: RunFolder) -> None:
    """Remove verdicts on shards of samples that are gone: other samples will have those names."""
    run.forget_shards()
    present_shards = {shard.name for shard in run.sample_shards()}
    for shard in run.verdict_shards():
        if shard.name not in present_shards:
            shard.unlink()


def spans_of(keys: pl.DataFrame) -> Iterable[tuple[str, int, int]]:
    """Runs of neighbouring indices (problem, first, end) in a table of (problem, index)."""
    sorted_keys = keys.select("problem", pl.col("index").cast(pl.Int64)).sort("problem", "index")
    shift = (pl.col("index") - pl.int_range(pl.len(), dtype=pl.Int64).over("problem")).alias("shift")
    spans = sorted_keys.group_by("problem", shift).agg(left=pl.col("index").min(), right=pl.col("index").max() + 1)
    return spans.select("problem", "left", "right").sort("problem", "left").iter_rows()


def _read_shard(shard: Path) -> pl.DataFrame:
    check_schema(shard, SAMPLES)
    try:
        return pl.read_parquet(shard, columns=["problem", "index", "tokens", "finish"])
    except READ_ERRORS as error:
        raise damaged_shard_error(shard, error) from None
