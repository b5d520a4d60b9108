"""The runs of a sweep: the grid of decodings, a label for every model, and a run folder per model and decoding.

What a folder already holds is kept; samples of another model are refused. One model is in memory at a time.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from offleash.data.identity import problem_differences, refuse_differences, resume_step
from offleash.data.run import Run, read_origin
from offleash.data.run_folder import folder_name, is_run, open_run, read_problems
from offleash.data.shards import scan_shards
from offleash.data.tables import SAMPLES
from offleash.drawing.draw import DrawRequest, DrawSummary, budget, check_draw, check_model, draw
from offleash.drawing.resume import is_empty_draw, refuse_changes, with_prompts
from offleash.errors import OffleashError
from offleash.progress import Progress, stage
from offleash.samplers.registry import Model, fingerprint, open_sampler, refuse_label
from offleash.samplers.sampler import Sampler, SamplingParams
from offleash.verifying.cases import before_drawing, problem_cases, refuse_unreadable
from offleash.verifying.judge import Judge
from offleash.verifying.verify import VerifyOptions, open_judge, verify_with

DEFAULT_TEMPERATURES = (
    0.6,
    0.8,
    1.0,
    1.2,
)  # temperatures where none is named: around the paper's 0.6 and the plain 1.0


def numbers(text: str, option: str) -> tuple[float, ...]:
    """Comma-separated numbers, in their order, each once."""
    values: dict[float, None] = {}
    for part in text.split(","):
        try:
            values[float(part)] = None
        except ValueError:
            raise OffleashError(
                f"{option} takes comma-separated numbers, for example {option} 0.6,1.0; found {part!r} in "
                f"{option} {text}."
            ) from None
    return tuple(values)


def grid(
    decoding: SamplingParams, temperatures: Sequence[float], top_ps: Sequence[float]
) -> tuple[SamplingParams, ...]:
    """The decodings of a sweep in the order given: every temperature at the first top-p, then at the next."""
    pairs = ((temperature, top_p) for top_p in top_ps for temperature in temperatures)
    return tuple(replace(decoding, temperature=temperature, top_p=top_p) for temperature, top_p in pairs)


def decoding_label(decoding: SamplingParams) -> str:
    """What of a decoding varies in a sweep, in words."""
    share = f", top-p {decoding.top_p:g}" if decoding.top_p < 1 else ""
    return f"temperature {decoding.temperature:g}{share}"


def run_path(folder: Path, label: str, decoding: SamplingParams) -> Path:
    """The run folder of a model at a decoding: what else a decoding holds is the same throughout a sweep."""
    return folder / label / f"t{decoding.temperature:.10g}-p{decoding.top_p:.10g}"


def labels(models: Sequence[tuple[str, Model]], folder: Path) -> tuple[str, ...]:
    """A label for every model: the one that its runs in the folder already have, so that a sweep can be resumed.

    Else the one given, or the last part of its path that no other model has: two models may both be called `model`.
    """
    texts = [str(model) for _, model in models]
    if len(set(texts)) < len(texts):
        raise OffleashError(
            f"Both models are {texts[0]}; a sweep compares two different ones. To see what chance alone does, give one "
            "model twice to `offleash study`."
        )
    existing_labels = _existing_labels(folder)
    taken: dict[str, str] = {label: model for model, label in existing_labels.items() if model not in texts}
    chosen = []
    for (given, model), text in zip(models, texts, strict=True):
        if given:
            refuse_label(given, text)
        others = [_parts(other) for _, other in models if other is not model]
        known = existing_labels.get(text)
        label = known if known and given in ("", known) else given or _free_label(model, others, taken, text)
        if taken.setdefault(label, text) != text:
            raise OffleashError(f"{folder / label} belongs to {taken[label]}; give {text} another name: NAME={text}.")
        chosen.append(label)
    return tuple(chosen)


def _free_label(model: Model, others: Sequence[list[str]], taken: dict[str, str], text: str) -> str:
    """The first name that is neither taken nor that of another model here."""
    clashing_names = {names[0] for names in others if names}
    return next(
        name for name in label_candidates(model) if name not in clashing_names and taken.get(name, text) == text
    )


def label_candidates(model: Model) -> Iterator[str]:
    """Names for a model without a label, the best first: parts of its path from the end, then numbered ones."""
    parts = _parts(model)
    yield from parts
    number = 2
    while True:
        yield f"{parts[0] if parts else 'model'}-{number}"
        number += 1


def _parts(model: Model) -> list[str]:
    """The parts of a model's name from the end, as folders may be called; a revision or an adapter comes first."""
    name = f"{model.name}@{model.revision}" if model.revision else model.name
    name = (model.adapter or name).removesuffix(".json")
    return [folder_name(part) for part in reversed(re.split(r"[/\\#]", name.rstrip("/\\"))) if part.strip(". ")]


def _existing_labels(folder: Path) -> dict[str, str]:
    """Models that have runs in the folder already, and their labels."""
    labels: dict[str, str] = {}
    for run in sorted(folder.glob("*/t*-p*")) if folder.is_dir() else []:
        origin = read_origin(run) if is_run(run) else None
        if origin is not None:
            labels.setdefault(origin.model, run.parent.name)
    return labels


# The runs themselves: models at decodings, drawn and judged where samples or verdicts are missing.


@dataclass(frozen=True)
class SweepModel:
    """A model under its label."""

    label: str
    model: Model


@dataclass
class SweepRuns:
    """Runs of members at decodings, below one folder; made by `open_runs`."""

    folder: Path
    problems: pl.DataFrame
    k: int | str
    seed: int
    verifying: VerifyOptions
    judge: Judge
    progress: Progress
    prompt: str | None = None  # the template that made the prompts
    verb: str = "sweep"  # that a refusal names
    new: int = 0  # samples drawn
    missing: int = 0  # samples that could not be drawn
    reasons: dict[str, int] = field(default_factory=dict)
    _open: tuple[str, Sampler] | None = None

    @property
    def budget(self) -> int:
        return budget(self.k, self.problems)

    def check(self, members: Sequence[SweepModel], decodings: Sequence[SamplingParams]) -> None:
        """Refuse before the first sample what is wrong with any folder, model, problem or verifier."""
        if self.folder.is_file() or is_run(self.folder):
            kind = "a file" if self.folder.is_file() else "a run"
            raise OffleashError(f"{self.folder} is {kind}. A sweep is a folder of runs; choose another with -o.")
        # All of them before the first model is loaded: what is wrong with the last run must not show after hours.
        for member in members:
            for decoding in decodings:
                self._draw_request(member, decoding)
            check_model(member.model)
            for decoding in decodings:
                refuse_other_weights(run_path(self.folder, member.label, decoding), member.model)
        options, where = self.verifying, "this sweep"
        cases = problem_cases(with_prompts(self.problems), options.verifier, before_drawing(options.extraction), where)
        refuse_unreadable(self.judge, cases, where)

    def run(self, member: SweepModel, decoding: SamplingParams, name: str, label: str) -> Run:
        """A member at a decoding as a run: drawn to k and judged, as far as that is missing."""
        folder = run_path(self.folder, member.label, decoding)
        drawing = self._draw_request(member, decoding)

        self.progress(label)
        progress = stage(self.progress, label)
        if not self._complete(folder, member.model):
            sampler = self.sampler(member.model)
            self._count(draw(folder, self.problems, sampler, decoding, drawing, self.verifying, progress))
        judged = verify_with(self.judge, folder, self.verifying, progress)
        return open_run(folder, name, judged.verifier)

    def sampler(self, model: Model) -> Sampler:
        """The model, loaded; the one before it is freed."""
        if self._open is not None and self._open[0] == str(model):
            return self._open[1]
        self.close()
        self.progress(f"loading {model}")
        self._open = str(model), open_sampler(model)
        return self._open[1]

    def close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _draw_request(self, member: SweepModel, decoding: SamplingParams) -> DrawRequest:
        folder = run_path(self.folder, member.label, decoding)
        return check_draw(folder, self.problems, member.model, decoding, self.k, 0, self.seed, self.prompt)

    def _complete(self, folder: Path, model: Model) -> bool:
        """Whether a folder holds k samples of every problem from this very model: then the model need not be loaded."""
        if not refuse_other_weights(folder, model):
            return False  # it is loaded, and `draw` refuses what differs
        differing = problem_differences(read_problems(folder), with_prompts(self.problems))
        refuse_differences(folder, "samples", differing, resume_step(self.verb))
        stored_counts = scan_shards(folder / "samples", SAMPLES).group_by("problem").agg(pl.len()).collect()
        return (
            stored_counts.height == self.problems.height and int(stored_counts["len"].to_numpy().min()) >= self.budget
        )

    def _count(self, drawn: DrawSummary) -> None:
        if not drawn.samples:
            why = "; ".join(drawn.reasons) or "no sample was requested"
            raise OffleashError(f"{drawn.folder}: no sample could be drawn: {why}.")
        self.new += drawn.new
        self.missing += drawn.missing
        for reason, count in drawn.reasons.items():
            self.reasons[reason] = self.reasons.get(reason, 0) + count


@contextmanager
def open_runs(
    folder: Path,
    problems: pl.DataFrame,
    k: int | str,
    seed: int,
    verifying: VerifyOptions,
    progress: Progress,
    prompt: str | None = None,
) -> Iterator[SweepRuns]:
    """The runs with their verifier workers, which are closed at the end with the last model."""
    with ExitStack() as stack:
        judge = stack.enter_context(open_judge(verifying, progress))
        runs = SweepRuns(folder, problems, k, seed, verifying, judge, progress, prompt)
        stack.callback(runs.close)
        yield runs


# Whether a run folder holds samples of exactly the model that was named, decided without loading it.


SAMPLERS_WITH_WEIGHTS = ("hf", "vllm")  # samplers that load weights: not done where nothing is missing


def refuse_other_weights(folder: Path, model: Model) -> bool:
    """Refuse a folder with samples of other weights, settings or prompts, with the message of `draw`.

    True where the folder's model is known to be this one; False where only loading it can decide, or there is no run.
    """
    if model.sampler not in SAMPLERS_WITH_WEIGHTS or not is_run(folder):
        return False
    old = read_origin(folder)
    if old is None or is_empty_draw(folder):
        return False
    now, weights = stored_settings(model), filter(None, map(fingerprint, filter(None, (model.name, model.adapter))))
    about = {**old.about, "fingerprint": " ".join(weights), "raw": model.raw}
    refuse_changes(folder, replace(old, about=about if now is None else {**about, "settings": dict(now)}), 0)
    return now is not None


def stored_settings(model: Model) -> Mapping[str, str] | None:
    """Settings that change samples, as a run of this model stores them; None where only the loaded model knows them."""
    if model.sampler == "vllm":
        from offleash.samplers.vllm.sampler import OWN_SETTINGS, PLACEMENT_OPTIONS

        return {name: text for name, text in model.settings.items() if name not in OWN_SETTINGS | PLACEMENT_OPTIONS}
    named = model.settings.get("dtype", "auto")
    dtype = _usual_dtype(model) if named == "auto" else named
    return None if dtype is None else {"dtype": dtype}


def _usual_dtype(model: Model) -> str | None:
    """What dtype=auto comes to: that of the weights, but 32 bits on a CPU."""
    device = model.settings.get("device", "auto")
    if device == "auto":
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu":
        return "float32"
    try:
        config = json.loads((Path(model.name).expanduser() / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    dtype = config.get("dtype") or config.get("torch_dtype") if isinstance(config, dict) else None
    return dtype if isinstance(dtype, str) else None
