"""The law of a run, that is the model and decoding it was drawn from, and the stored scores that were made by it.

A law is a distribution over completions: the same weights at another temperature are another law.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from offleash.data.identity import SettingDifference, differences, refuse_differences
from offleash.data.run import Origin, read_origin
from offleash.data.run_folder import folder_name, is_run, refuse_certificate
from offleash.data.scores import read_score_metadata, scored_models, scores_folder
from offleash.errors import OffleashError
from offleash.loading.arguments import parse_argument
from offleash.samplers.chat_template import stored_chat_options
from offleash.samplers.huggingface.loading import settings_of
from offleash.samplers.registry import Model, fingerprint, model_of
from offleash.samplers.sampler import SamplingParams, decoding_of

DECODING_FIELDS = (
    "temperature",
    "top_p",
    "min_p",
    "top_k",
)  # what changes the probability of a given text; lengths do not
SIDES = ("before", "after")
AUTO_DTYPE = "auto"  # dtype: the one that the checkpoint was saved in
UNKNOWN_TOKEN_LIMIT = 1 << 20  # tokens: the token limit of an imported run is not known, and no sample is that long


@dataclass(frozen=True)
class RunModel:
    """A run's model and decoding: what its samples were drawn from, and what texts are scored with."""

    side: str  # before or after
    run: str
    folder: Path
    model: Model
    decoding: SamplingParams
    known: bool  # whether the decoding is; if not, texts are scored under the model's own distribution
    fingerprint: str = ""  # of the weights that drew the run, where they were seen
    given: bool = False  # the user named the model
    now: str = ""  # fingerprint of the weights that the model's name points to now; empty for names on the hub

    @property
    def weights(self) -> str:
        """Fingerprint of the weights that score for this law; empty where it is not known."""
        return self.now if self.given else self.fingerprint or self.now

    def check(self) -> str:
        """A note if the user named other weights than those that drew the run; an error if nobody named them."""
        if not self.fingerprint or not self.now or self.fingerprint == self.now:
            return ""
        if self.given:
            return f"the weight files of {self.model} differ from those of the model that drew {self.run}"
        raise OffleashError(
            f"{self.model} no longer has the weights that drew {self.folder} (fingerprint {self.fingerprint} then, "
            f"{self.now} now). Name the model that drew it with --model-{self.side} hf:PATH."
        )


@dataclass(frozen=True)
class ScoreFolder:
    """A folder of scores in a run folder."""

    name: str
    model: str  # how the model is named in it, or will be


@dataclass(frozen=True)
class ModelOverride:
    """What the user says about a run's model and decoding: for imported runs, or to replace the recorded model."""

    model: str | None = None
    decoding: SamplingParams | None = None
    settings: Mapping[str, str] | None = None
    raw: bool = False


def run_folder(argument: str) -> Path:
    """The one run folder that an argument names; logs are refused with the next step."""
    parsed = parse_argument(argument)
    if len(parsed.paths) > 1 and all(is_run(path) for path in parsed.paths):
        raise OffleashError(
            f"{argument!r} names {len(parsed.paths)} run folders, but likelihood takes one per model. Name one."
        )
    path = parsed.paths[0]
    if not is_run(path):
        raise OffleashError(
            f"{argument!r} is not a run folder, but scores are stored in one. Run offleash import {argument} --texts "
            "-o RUN, then offleash likelihood with RUN."
        )
    refuse_certificate(path)
    return path


def run_model_of(side: str, run: str, folder: Path, override: ModelOverride) -> RunModel:
    """The law of a run folder, from what it records and what the user says."""
    origin = read_origin(folder)
    if override.model is not None:
        # the prompts are those of the run, whatever its model is called now
        chat = stored_chat_options(origin.about if origin is not None else {})
        model = model_of(override.model, override.settings, override.raw, chat)
    elif origin is not None:
        model = _recorded_model(side, folder, origin, override)
    else:
        raise OffleashError(
            f"{folder} was imported and does not record its model. Name it with --model-{side} hf:PATH."
        )
    if model.sampler != "hf":
        raise OffleashError(
            f"{model} cannot score texts: that needs the full distribution of every token, which only hf: provides. "
            f"Name the weights that drew {folder} with --model-{side} hf:PATH."
        )
    decoding = decoding_of(origin.decoding) if origin is not None else override.decoding
    if origin is None and decoding is not None:
        decoding = replace(decoding, max_tokens=UNKNOWN_TOKEN_LIMIT)
    seen = "" if origin is None else str(origin.about.get("fingerprint") or "")
    settings_of(model)  # refuses an unknown setting now, also where the model has nothing to score
    named, weights = override.model is not None, weights_of(model)
    return RunModel(side, run, folder, model, decoding or SamplingParams(), decoding is not None, seen, named, weights)


def weights_of(model: Model) -> str:
    """The fingerprint of a model's folders, as the sampler records it; empty for names on the hub."""
    return " ".join(filter(None, map(fingerprint, filter(None, (model.name, model.adapter)))))


def scores_under(folder: Path, run_model: RunModel) -> ScoreFolder:
    """Where the scores of a run under a law are stored, or will be; never those of another model or decoding.

    Scores count as the law's own by the fingerprint of the weights, or by the name of the model. Scores under that name
    made with other weights, another dtype or other prompts are refused: they would be taken for those of the law.
    """
    model_text, requested_decoding = (
        str(run_model.model),
        {name: run_model.decoding.document()[name] for name in DECODING_FIELDS},
    )
    existing_names = scored_models(folder)
    refusals: list[tuple[Path, list[SettingDifference]]] = []  # raised only if no other name holds scores by this law
    for name in existing_names:
        stored = read_score_metadata(folder, name) or {}
        about = stored.get("about")
        known = about if isinstance(about, Mapping) else {}
        same_weights = known.get("fingerprint") == run_model.weights != ""
        if stored.get("decoding") != requested_decoding or not (stored.get("model") == model_text or same_weights):
            continue
        differing = score_differences(run_model, known)
        if not differing:
            return ScoreFolder(name, str(stored["model"]))
        if stored.get("model") == model_text:
            refusals.append((scores_folder(folder, name), differing))
    for refused_folder, differing in refusals:
        refuse_other_scores(refused_folder, run_model, differing)
    plain = folder_name(model_text)
    return ScoreFolder(
        plain
        if plain not in existing_names
        else f"{plain}-{'-'.join(f'{number:g}' for number in _numbers(requested_decoding))}",
        model_text,
    )


def _recorded_model(side: str, folder: Path, origin: Origin, override: ModelOverride) -> Model:
    """The model that a run records as its origin, as it would be loaded to score: vLLM's weights by `hf:`."""
    try:
        model = model_of(origin.model)
    except OffleashError as error:
        raise OffleashError(f"{folder}: {error} Name the model with --model-{side} hf:PATH.") from None
    about = origin.about.get("settings")
    dtype = {"dtype": str(about["dtype"])} if isinstance(about, Mapping) and "dtype" in about else {}
    settings = {**(dtype if model.sampler == "hf" else {}), **(override.settings or {})}
    raw = override.raw or bool(origin.about.get("raw"))
    return replace(
        model,
        sampler="hf" if model.sampler == "vllm" else model.sampler,
        settings=settings,
        raw=raw,
        chat=stored_chat_options(origin.about),
    )


def score_differences(run_model: RunModel, about: Mapping[str, object]) -> list[SettingDifference]:
    """What differs between the model that made stored scores and the law's model as it would be loaded now.

    Weights whose fingerprint is not known, and a dtype that is left to the loader, are not compared.
    """
    fingerprint, settings = str(about.get("fingerprint") or ""), about.get("settings")
    stored_dtype = settings.get("dtype") if isinstance(settings, Mapping) else None
    dtype = run_model.model.settings.get("dtype", AUTO_DTYPE)
    stored = {"fingerprint": fingerprint, "raw": bool(about.get("raw")), "dtype": stored_dtype}
    stored |= {name: about.get(name) for name in ("system", "chat_kwargs")}
    requested = {
        "fingerprint": run_model.weights or fingerprint,
        "raw": run_model.model.raw,
        "dtype": stored_dtype if stored_dtype is None or dtype == AUTO_DTYPE else dtype,
        **run_model.model.chat.to_document,
    }
    return differences(stored, requested)


def refuse_other_scores(folder: Path, run_model: RunModel, differing: Sequence[SettingDifference]) -> None:
    """Refuse scores under the model's own name that another model made, or the same one loaded differently."""
    step = f"Delete it to score again, or name the model that made them (--model-{run_model.side}, --set, --raw)."
    refuse_differences(folder, f"scores under the name {run_model.model},", differing, step)


def _numbers(decoded: Mapping[str, object]) -> list[float]:
    return [float(str(value)) for value in decoded.values()]
