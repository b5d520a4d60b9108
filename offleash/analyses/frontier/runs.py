"""The runs of a frontier: what is named, drawn, blended and counted; a kill at any moment loses one shard.

Below the folder there are `choosing/` and `held_out/`, two sets of problems, with a run folder per point. Blended
models are written to `blends/`, drawn from and removed again. A run folder in place of a model is a point as it is.
"""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import polars as pl

from offleash.analyses.blending.blend import blend_models
from offleash.analyses.frontier.search import Candidate, Family, Grid, Part, blend
from offleash.analyses.sweep.runs import SweepModel, SweepRuns, label_candidates, refuse_other_weights, run_path
from offleash.comparing.align import match
from offleash.comparing.tally import tally
from offleash.data.atomic import write_text_atomically
from offleash.data.identity import differences, refuse_differences, resume_step
from offleash.data.run import Run, problem_set_hash, read_origin
from offleash.data.run_folder import folder_name, is_run, open_run
from offleash.data.shards import scan_shards
from offleash.data.tables import SAMPLES, Note
from offleash.data.tally import Tally
from offleash.drawing.draw import check_draw, check_model
from offleash.drawing.resume import is_empty_draw, with_prompts
from offleash.errors import OffleashError
from offleash.progress import Progress, silent, stage
from offleash.render.numbers import many
from offleash.samplers.registry import Model, fingerprint, model_of
from offleash.samplers.sampler import SamplingParams
from offleash.samplers.seeds import seed_of
from offleash.verifying.cases import before_drawing, problem_cases, refuse_unreadable
from offleash.verifying.judge import Judge
from offleash.verifying.verify import VerifyOptions, open_judge, verify_with

IDENTITY_FILE = "frontier.json"
BLENDABLE = ("hf", "vllm")  # samplers of model folders


@dataclass(frozen=True)
class FrontierSource:
    """The base, the model after RL or a checkpoint: a model to draw from, a run folder, or a run and its model."""

    label: str
    model: Model | None = None  # None: only its samples are known
    run: Path | None = None  # samples that are used as they are

    @property
    def name(self) -> str:
        """As the user named it."""
        return str(self.model if self.run is None else self.run)

    @property
    def folder(self) -> Path | None:
        """The folder of its weights, where it has one that can be blended."""
        if self.model is None or self.model.sampler not in BLENDABLE or self.model.adapter:
            return None
        path = Path(self.model.name).expanduser()
        return path if path.is_dir() else None


@dataclass(frozen=True)
class FrontierRequest:
    """What is to be measured."""

    problems: pl.DataFrame
    base: FrontierSource
    rl: FrontierSource
    checkpoints: tuple[FrontierSource, ...]
    decoding: SamplingParams
    k: int
    floor: float
    weights: tuple[float, ...]
    temperatures: tuple[float, ...]
    refinements: int
    held_out: float  # share of the problems
    seed: int = 0
    prompt: str | None = None  # the template that made the problems' prompts

    def __post_init__(self) -> None:
        for weight in self.weights:
            if not 0 < weight < 1:
                raise OffleashError(
                    f"A blend lies between the models: --weights above 0 and below 1; found {weight:g}."
                )
        sizes = {part: len(names) for part, names in self.split().items()}
        if min(sizes.values()) < 2:
            raise OffleashError(
                f"Of {many(self.problems.height, 'problem')}, {sizes[Part.HELD_OUT]} would be held out. A frontier "
                "needs two or more to choose on and two or more to confirm on: give more problems."
            )

    @property
    def grid(self) -> Grid:
        return Grid(
            Candidate(self.base.label, Family.BASE, 0.0),
            Candidate(self.rl.label, Family.RL, 1.0),
            tuple(Candidate(source.label, Family.CHECKPOINT) for source in self.checkpoints),
            self.weights if self.can_blend else (),
            self.temperatures if self.rl.model is not None else (),
            self.refinements if self.can_blend and self.weights else 0,
        )

    @property
    def can_blend(self) -> bool:
        return self.base.folder is not None and self.rl.folder is not None

    def split(self) -> dict[Part, list[str]]:
        """The ids of the problems of both parts: the same share of every benchmark, in an order by hashes of ids."""
        parts: dict[Part, list[str]] = {part: [] for part in Part}
        names = self.problems.select("problem", pl.col("benchmark").fill_null("")).rows()
        for benchmark in sorted({name for _, name in names}):
            ids = sorted(
                (problem for problem, name in names if name == benchmark),
                key=lambda problem: seed_of(self.seed, "held out", problem),
            )
            size = round(self.held_out * len(ids))
            parts[Part.HELD_OUT] += ids[:size]
            parts[Part.CHOOSING] += ids[size:]
        return parts

    def cost(self) -> "FrontierCost":
        """Samples at most: those of runs that are given are not drawn."""
        grid, sizes = self.grid, {part: len(names) for part, names in self.split().items()}
        drawn = [2 * (self.base.run is None), self.rl.run is None, *(s.run is None for s in self.checkpoints)]
        choosing = sum(drawn) + len(grid.coarse) + grid.refinements
        held_out = sum(drawn[:2]) + 1
        samples = self.k * (sizes[Part.CHOOSING] * choosing + sizes[Part.HELD_OUT] * held_out)
        return FrontierCost(
            sizes[Part.CHOOSING], sizes[Part.HELD_OUT], self.k, choosing, held_out, samples, self.decoding.max_tokens
        )


@dataclass(frozen=True)
class FrontierCost:
    """What a frontier may cost, known before it starts; the fields are the JSON of a dry run."""

    choosing_problems: int
    held_out_problems: int
    k: int
    choosing_points: int  # k samples of each choosing problem; the base counts twice
    held_out_points: int
    samples_at_most: int
    tokens: int  # per sample, at most


def source_of(text: str, default: str, open_model: Callable[[str], Model], taken: Iterable[str] = ()) -> FrontierSource:
    """A model or a run folder as the user names it, NAME=... or not; `default` is its label, '' for its own name."""
    label, path = _split_run_label(text)
    taken = set(taken)
    if path is None:
        model = open_model(text)
        names = label_candidates(model)
        label = model.label or default or next(name for name in names if name not in taken)
        source = FrontierSource(label, model)
    else:
        source = FrontierSource(label or default or folder_name(path.resolve().name), _model_of_run(path), path)
    if source.label in taken:
        raise OffleashError(f"Two points are called {source.label!r}. Give one another name: NAME={text}.")
    return source


def _split_run_label(text: str) -> tuple[str, Path | None]:
    """NAME and PATH of a run folder; no path where a model is named."""
    for label, rest in (("", text), *([tuple(text.split("=", 1))] if "=" in text else [])):
        path = Path(rest).expanduser()
        if path.is_dir() and is_run(path):
            return label, path
    return "", None


def _model_of_run(path: Path) -> Model | None:
    """The model that a run was drawn from, where its weights are still in their folder; None: unknown or changed."""
    origin = read_origin(path)
    if origin is None or origin.about.get("sampler") not in BLENDABLE:
        return None
    model = model_of(origin.model, raw=origin.about.get("raw") is True)
    weights = " ".join(filter(None, map(fingerprint, filter(None, (model.name, model.adapter)))))
    return model if weights and weights == origin.about.get("fingerprint") else None


@dataclass
class FrontierRuns:
    """The runs of a frontier, drawn and judged as far as they are missing; made by `open_frontier`."""

    folder: Path
    request: FrontierRequest
    verifying: VerifyOptions
    judge: Judge
    progress: Progress = silent
    new: int = 0  # samples drawn now
    missing: int = 0  # samples that could not be drawn
    notes: dict[str, Note] = field(default_factory=dict)
    _runs: dict[tuple[str, Part], Run] = field(default_factory=dict)
    _drawing: dict[tuple[Part, int, int], SweepRuns] = field(default_factory=dict)

    def measure(self, candidates: Sequence[Candidate], part: Part) -> Tally:
        """Counts of the candidates on a part of the problems, drawn where samples are missing."""
        for number, candidate in enumerate(candidates, 1):
            if (candidate.label, part) not in self._runs:
                label = f"{part.replace('_', '-')} problems, {number} of {len(candidates)}: {candidate.label}"
                self._runs[candidate.label, part] = self._run(candidate, part, label)
        runs = [self._runs[candidate.label, part] for candidate in candidates]
        _refuse_different_verifiers(runs)
        self.progress("counting")
        aligned = tally(runs, self.request.k)
        for note in aligned.notes:
            self.notes.setdefault(note.text, note)
        enough_P = aligned.tally.drawn_PR[:, 0] >= 2 * self.request.k
        if not enough_P.all():
            text = f"problems with fewer than {2 * self.request.k:,} samples of the base were left out"
            self.notes[text] = Note(text, int((~enough_P).sum()), left_out=True)
        return aligned.tally.rows(enough_P)

    def make_first_blend(self) -> None:
        """Make the first blend before anything is drawn: models that cannot be blended are refused at once."""
        if self.request.grid.weights:
            self._make_blend(blend(self.request.grid.weights[0]), Part.CHOOSING)

    def close(self) -> None:
        for runs in self._drawing.values():
            runs.close()

    def _run(self, candidate: Candidate, part: Part, label: str) -> Run:
        source = self._source(candidate)
        if source is not None and source.run is not None and candidate.temperature is None:
            return self._given(source, part)
        decoding = self.request.decoding
        if candidate.temperature is not None:
            decoding = replace(decoding, temperature=candidate.temperature)
        if source is None:
            return self._blend(candidate, part, label)
        assert source.model is not None, "checked before: what has no run has a model"
        k = 2 * self.request.k if candidate.family is Family.BASE else self.request.k
        return self._draw(SweepModel(source.label, source.model), decoding, part, k, label, candidate.label)

    def _source(self, candidate: Candidate) -> FrontierSource | None:
        """Who answers: None for a blend."""
        if candidate.family is Family.BLEND:
            return None
        request = self.request
        if candidate.family in (Family.RL, Family.TEMPERATURE):
            return request.rl
        return next(source for source in (request.base, *request.checkpoints) if source.label == candidate.label)

    def _draw(self, member: SweepModel, decoding: SamplingParams, part: Part, k: int, label: str, name: str) -> Run:
        runs = self._runs_of(part, k, self._seed(member))
        for others in self._drawing.values():  # one model in memory at a time
            if others is not runs:
                others.close()
        new, missing = runs.new, runs.missing
        run = runs.run(member, decoding, name, label)
        self.new += runs.new - new
        self.missing += runs.missing - missing
        return run

    def _runs_of(self, part: Part, k: int, seed: int) -> SweepRuns:
        if (part, k, seed) not in self._drawing:
            problems = self.request.problems.filter(pl.col("problem").is_in(self.request.split()[part]))
            settings = (problems, k, seed, self.verifying, self.judge, self.progress, self.request.prompt)
            self._drawing[part, k, seed] = SweepRuns(self.folder / part.value, *settings, verb="frontier")
        return self._drawing[part, k, seed]

    def _seed(self, member: SweepModel) -> int:
        """Samples hash the model, so one seed serves all; only a model that is named twice needs another."""
        earlier = [self.request.base, self.request.rl, *self.request.checkpoints]
        labels = [source.label for source in earlier if str(source.model) == str(member.model)]
        if member.label not in labels[1:]:
            return self.request.seed
        return seed_of(self.request.seed, member.label) >> 1  # 63 bits: JSON is signed

    def _blend(self, candidate: Candidate, part: Part, label: str) -> Run:
        """A blend drawn and judged; its model is made for that and removed after it, since models are large."""
        member, run = self._make_blend(candidate, part)
        path = Path(member.model.name)
        if not path.exists():  # all is drawn; another verifier may still have to judge it
            judged = verify_with(self.judge, run, self.verifying, stage(self.progress, label))
            return open_run(run, candidate.label, judged.verifier)
        opened = self._draw(member, self.request.decoding, part, self.request.k, label, candidate.label)
        self.close()
        shutil.rmtree(path)
        return opened

    def _make_blend(self, candidate: Candidate, part: Part) -> tuple[SweepModel, Path]:
        """The model of a blend, made where its run lacks samples, and the folder of that run."""
        request, weight, model = self.request, candidate.weight, self.request.rl.model
        base, rl = request.base.folder, request.rl.folder
        assert weight is not None
        assert model is not None
        assert base is not None
        assert rl is not None
        path = self.folder / "blends" / f"{weight:g}"
        member = SweepModel(f"blend-{weight:g}", replace(model, name=str(path), label=""))
        run = run_path(self.folder / part.value, member.label, request.decoding)
        if not path.exists() and not _is_drawn(run, len(request.split()[part]), request.k):
            blend_models(base, rl, weight, path, stage(self.progress, f"making {candidate.label}"))
        return member, run

    def _given(self, source: FrontierSource, part: Part) -> Run:
        """The run of a folder, with the problems of a part."""
        assert source.run is not None
        run, own = _matched(source, self.request.problems)
        names = own.filter(pl.col("problem").is_in(self.request.split()[part]))["own"]
        return replace(run, problems=run.problems.filter(pl.col("problem").is_in(names.implode())))


def _is_drawn(folder: Path, problems: int, k: int) -> bool:
    """Whether a run has k samples of every problem, so that its model is no longer needed."""
    if not is_run(folder) or is_empty_draw(folder):
        return False
    held = scan_shards(folder / "samples", SAMPLES).group_by("problem").agg(pl.len()).collect()
    return held.height == problems and int(held["len"].to_numpy().min()) >= k


def _matched(source: FrontierSource, problems: pl.DataFrame) -> tuple[Run, pl.DataFrame]:
    """A run folder, and which of its problems is which of those requested; all of them must be in it."""
    assert source.run is not None
    run = open_run(source.run, source.label)
    requested = Run("the problems", with_prompts(problems), None, counts=pl.DataFrame())
    own = match([requested, run]).own[1]
    absent = sorted(set(problems["problem"]) - set(own["problem"]))
    if absent:
        raise OffleashError(
            f"{source.run} lacks {many(len(absent), 'problem')} of {problems.height}, first {absent[0]!r}. "
            "Draw it on the same problems, or give the problems that all runs have."
        )
    return run, own


def _refuse_different_verifiers(runs: Sequence[Run]) -> None:
    names = {run.verifier: run for run in reversed(runs)}
    if len(names) > 1:
        (first, run), (second, other), *_ = names.items()
        raise OffleashError(
            f"{run.name!r} was judged by {first or 'nobody'} and {other.name!r} by {second or 'nobody'}. Judge both by "
            "the same: offleash verify RUN --verifier NAME."
        )


# Checks before the first sample, and the identity of the folder.


@contextmanager
def open_frontier(
    request: FrontierRequest, folder: Path, verifying: VerifyOptions, progress: Progress = silent
) -> Iterator[FrontierRuns]:
    """The runs with their verifier workers, which are closed at the end with the last model."""
    with ExitStack() as stack:
        judge = stack.enter_context(open_judge(verifying, progress))
        runs = FrontierRuns(folder, request, verifying, judge, progress)
        stack.callback(runs.close)
        check_frontier(request, folder, progress)
        options, where = verifying, "this frontier"
        read = before_drawing(options.extraction)
        refuse_unreadable(judge, problem_cases(with_prompts(request.problems), options.verifier, read, where), where)
        yield runs


def check_frontier(request: FrontierRequest, folder: Path, progress: Progress = silent, engines: bool = True) -> None:
    """Refuse before the first sample what cannot work: the folder, a model, a run folder that does not fit."""
    if folder.is_file() or is_run(folder):
        kind = "a file" if folder.is_file() else "a run"
        raise OffleashError(f"{folder} is {kind}. A frontier is a folder of runs; choose another with -o.")
    stored = _stored_identity(folder)
    if stored is not None:
        refuse_differences(folder, "a frontier", differences(stored, _identity(request)), resume_step("measure"))
    for source in (request.base, request.rl, *request.checkpoints):
        progress(f"checking {source.label}")
        if source.run is not None:
            _check_run(source, request)
        elif source.model is not None:
            check_model(source.model, engines)
            for part in Part:
                path = run_path(folder / part.value, source.label, request.decoding)
                refuse_other_weights(path, source.model)
    model = request.rl.model or request.base.model
    if model is not None:
        for temperature in (request.decoding.temperature, *request.grid.temperatures):
            decoding = replace(request.decoding, temperature=temperature)
            check_draw(
                folder / "new", request.problems, model, decoding, 2 * request.k, 0, request.seed, request.prompt
            )


def write_identity(folder: Path, request: FrontierRequest) -> None:
    """Note what the folder is for: runs of blends are only comparable with those of the same two models."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_text_atomically(folder / IDENTITY_FILE, json.dumps(_identity(request), indent=2) + "\n")
    except OSError as error:
        raise OffleashError(f"{folder} cannot be written ({error.strerror}). Choose another with -o.") from None


def _identity(request: FrontierRequest) -> dict[str, object]:
    def described(source: FrontierSource) -> dict[str, object]:
        weights = "" if source.model is None else fingerprint(source.model.name)
        return {"model": None if source.model is None else str(source.model), "fingerprint": weights}

    decoding = asdict(request.decoding)
    return {
        "base": described(request.base),
        "rl": described(request.rl),
        "decoding": {**decoding, "stop": list(request.decoding.stop)},
        "problem set (hash)": problem_set_hash(with_prompts(request.problems)),
        "held_out": request.held_out,
        "seed": request.seed,
        "prompt template": request.prompt,
    }


def _stored_identity(folder: Path) -> Mapping[str, object] | None:
    try:
        document = json.loads((folder / IDENTITY_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise OffleashError(f"{folder / IDENTITY_FILE} cannot be read ({error}). Choose another folder.") from None
    return document if isinstance(document, dict) else {}


def _check_run(source: FrontierSource, request: FrontierRequest) -> None:
    """Refuse a run folder with another decoding, other problems, too few samples, or records that stopped early."""
    assert source.run is not None
    path, origin = source.run, read_origin(source.run)
    if origin is not None:
        decoding = {**asdict(request.decoding), "stop": list(request.decoding.stop)}
        refuse_differences(
            path, "samples", differences(origin.decoding, decoding, "decoding."), "Draw it again, or use its decoding."
        )
    run, own = _matched(source, request.problems)
    if run.budget.until:
        raise OffleashError(
            f"{path} was drawn with --until {run.budget.until}, but a frontier needs every sample. Draw it without."
        )
    least = 2 * request.k if source is request.base else request.k
    counts = tally([replace(run, problems=run.problems.filter(pl.col("problem").is_in(own["own"].implode())))]).tally
    fewest = int(counts.drawn_PR.min(initial=least))
    if fewest < least or len(counts) < request.problems.height:
        fewest = fewest if len(counts) == request.problems.height else 0
        reason = " (twice k, since the base is drawn again)" if source is request.base else ""
        largest = fewest // 2 if source is request.base else fewest
        step = f"Use -k {largest}, or draw more." if largest else "Draw more: offleash draw."
        raise OffleashError(
            f"{path} has {fewest:,} judged samples of some problem, but -k {request.k} needs {least:,}{reason}. {step}"
        )
