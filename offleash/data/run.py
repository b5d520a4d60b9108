"""A run: one model on one problem set with one decoding, as tables; and run.json, what is known about it.

The names of the fields of `Origin` and `Budget` are keys of run.json: folders of older versions must open, so a field
is never renamed, and a new one needs a default for files that lack it.
"""

import json
import math
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from hashlib import blake2b
from pathlib import Path

import polars as pl

from offleash.data.atomic import write_text_atomically
from offleash.data.tables import Note
from offleash.errors import OffleashError
from offleash.version import __version__


@dataclass(frozen=True)
class Budget:
    """Samples per problem that a draw was to make; with `until`, a problem stops at its until-th success.

    `k` is None for imported logs: they say how many samples there are, not how many were intended.
    """

    k: int | None = None
    until: int = 0


@dataclass(frozen=True)
class Origin:
    """Who answered a run that offleash drew, and how: all that its samples depend on."""

    model: str  # as the user names it
    about: Mapping[str, object]  # what the sampler says of itself: name, revision, fingerprint of the weights, settings
    decoding: Mapping[str, object]
    seed: int
    key: str  # the hash that the seeds of all problems derive from
    chunks: Mapping[str, float]  # first, growth, largest: request sizes
    thinking: bool  # whether the prompt ends inside a reasoning block, so that samples begin within it
    prompts: str  # hash of all prompts, by problem
    template: str | None  # hash of a fixed prompt after the chat template; None where a server applies it
    prompt: str | None = None  # the user's template of prompts (--prompt); None: each problem's own

    @property
    def chat(self) -> bool:
        """Whether prompts went through a chat template, here or on a server."""
        if self.about.get("raw") is True:
            return False
        return self.template is None or self.template != template_hash(PROBE_QUESTION)

    @property
    def tokenizer(self) -> str:
        """The path or hub name of the model's tokenizer; "" where another program has it."""
        return str(self.about.get("model", "")) if self.about.get("sampler") in ("hf", "vllm") else ""


PROBE_QUESTION = "What is 1 + 1?"  # rendered by every chat template, so that its hash identifies the template


def template_hash(rendered: str) -> str:
    """Hash of PROBE_QUESTION after a chat template, by which templates are told apart."""
    return blake2b(rendered.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


GOLD_GUESSED = "gold_guessed"  # a fact of imported logs: the column of golds, if it may be that of the model's answers


@dataclass(frozen=True, repr=False)
class Run:
    """Problems, and either verdicts of samples or bare counts of them."""

    name: str
    problems: pl.DataFrame  # PROBLEMS, one row per problem
    verdicts: pl.LazyFrame | None  # VERDICTS, one row per sample; None: counts only
    samples: pl.LazyFrame | None = None  # of SAMPLES: problem, index, tokens, finish, and the rest where it is kept
    counts: pl.DataFrame | None = None  # problem, n, c
    verifier: str | None = None
    budget: Budget = field(default_factory=Budget)
    notes: tuple[Note, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)  # model, decoding, source: what is known of who answered
    unverified_hint: str = ""
    scores: dict[str, pl.LazyFrame] = field(default_factory=dict)  # SCORES of its samples, by the name of the model
    positions: dict[str, pl.LazyFrame] = field(default_factory=dict)  # POSITIONS of their tokens, by the same names
    own: str | None = None  # the name of those scores that the model that drew the run made
    draw: str = ""  # the key of the draw that made the samples; runs that share it hold the same samples

    def __repr__(self) -> str:
        kind = "counts" if self.verdicts is None else f"samples, verdicts by {self.verifier or 'its log'}"
        return f"<Run {self.name!r}: {self.problems.height:,} problems, {kind}>"


def problem_set_hash(problems: pl.DataFrame) -> str:
    """Hash of a set of problems, in any order: of their texts where they are known, else of their ids."""
    keys = problems.select(pl.coalesce("hash", "problem")).to_series().sort()
    return blake2b("\n".join(keys.to_list()).encode(), digest_size=12).hexdigest()


# run.json: what is known about a run, written atomically and checked when read.


SCHEMA = 1
CERTIFICATE = "certificate"  # the kind of a folder that holds certificates instead of samples
RUN_FILE = "run.json"


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: object) -> bool:
    return _is_integer(value) or (isinstance(value, float) and math.isfinite(value))


# What a value must be, by the name of its type. A check by hand, not pydantic: whoever opens a run folder would pay for
# its import (`python -X importtime -c "import pydantic"`), and these fifteen fields would not become shorter by it.
FIELD_TYPES: dict[str, Callable[[object], bool]] = {
    "an integer": _is_integer,
    "an integer or null": lambda value: value is None or _is_integer(value),
    "a number": _is_number,
    "a string": lambda value: isinstance(value, str),
    "a string or null": lambda value: value is None or isinstance(value, str),
    "a list of strings": lambda value: isinstance(value, list) and all(isinstance(text, str) for text in value),
    "true or false": lambda value: isinstance(value, bool),
}
BUDGET = dict.fromkeys(("k", "until"), "an integer or null")
DRAW_FIELDS = {
    **dict.fromkeys(("model", "key", "prompts"), "a string"),
    "seed": "an integer",
    "thinking": "true or false",
    **dict.fromkeys(("template", "prompt"), "a string or null"),
}
DECODING = {
    **dict.fromkeys(("temperature", "top_p", "min_p"), "a number"),
    **dict.fromkeys(("top_k", "max_tokens"), "an integer"),
    "stop": "a list of strings",
}
CHUNKS = dict.fromkeys(("first", "growth", "largest"), "a number")
NESTED_SECTIONS = {"decoding": DECODING, "chunks": CHUNKS}  # sections of `draw`


def write_facts(
    path: Path, name: str, problems: pl.DataFrame, facts: dict[str, str], budget: Budget, origin: Origin | None = None
) -> None:
    """Write run.json: facts are texts for people, `origin` is what a draw compares before it resumes."""
    document: dict[str, object] = {
        "schema": SCHEMA,
        "name": name,
        "problems": problems.height,
        "problem_set": problem_set_hash(problems),
        "budget": {"k": budget.k, "until": budget.until},
        "facts": facts,
        "versions": {"offleash": __version__, "polars": pl.__version__, "python": platform.python_version()},
    }
    if origin is not None:
        document["draw"] = origin_document(origin)
    _write(path, document)


OPTIONAL = ("prompt",)  # fields of `Origin` that are stored only where they were given


def origin_document(origin: Origin) -> dict[str, object]:
    """The section 'draw' of a run.json."""
    return {name: value for name, value in asdict(origin).items() if name not in OPTIONAL or value is not None}


def rewrite_budget(path: Path, budget: Budget) -> None:
    """Write run.json again with another budget, and with everything else as it was, also keys of newer versions."""
    _write(path, {**read_facts(path), "budget": {"k": budget.k, "until": budget.until}})


def read_facts(path: Path) -> dict[str, object]:
    """run.json, checked; a run of another schema version is refused."""
    try:
        document = json.loads((path / RUN_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise OffleashError(f"{path} is not a run folder: it has no {RUN_FILE}.") from None
    except (ValueError, UnicodeDecodeError, RecursionError) as error:  # RecursionError: nested too deeply
        raise OffleashError(f"{path / RUN_FILE} is damaged ({error}). Restore it or import the logs again.") from None
    if not isinstance(document, dict) or "schema" not in document:
        raise OffleashError(
            f"{path / RUN_FILE} is damaged: it has no schema version. Restore it or import the logs again."
        )
    if document["schema"] != SCHEMA:
        raise OffleashError(
            f"{path} was written with schema version {document['schema']!r}, but this offleash reads version {SCHEMA}. "
            "Use the offleash version named under 'versions' in its run.json, or import the logs again."
        )
    _check(path, "budget", document.get("budget") or {}, BUDGET)
    return dict(document)


def budget_in(document: Mapping[str, object]) -> Budget:
    """The budget that a run.json names."""
    budget = document.get("budget")
    known = budget if isinstance(budget, dict) else {}
    return Budget(known.get("k"), known.get("until") or 0)


def read_origin(path: Path) -> Origin | None:
    """Who answered a run that offleash drew; None for one that was imported."""
    return origin_in(read_facts(path), path)


def origin_in(document: Mapping[str, object], path: Path) -> Origin | None:
    """The section 'draw' of a run.json, checked; None where there is none, since the run was imported."""
    section = document.get("draw")
    if section is None:
        return None
    names = [field.name for field in fields(Origin)]
    known = section if isinstance(section, dict) else {}
    if not known.keys() >= set(names) - set(OPTIONAL) or not all(
        isinstance(known[name], dict) for name in ("about", *NESTED_SECTIONS)
    ):
        raise OffleashError(f"{path / RUN_FILE} is damaged: settings are missing from its section 'draw'. Restore it.")
    _check(path, "draw", known, DRAW_FIELDS)
    for name, types in NESTED_SECTIONS.items():
        _check(path, f"draw.{name}", known[name], types)
    return Origin(**{name: known[name] for name in names if name in known})


def _check(path: Path, key: str, section: object, types: Mapping[str, str]) -> None:
    """Refuse a section of a run.json with a value of another type; fields that are missing pass."""
    if not isinstance(section, dict):
        raise OffleashError(f"{path / RUN_FILE}: {key} should be an object; found {section!r}. Restore it.")
    for name, expected in types.items():
        if name in section and not FIELD_TYPES[expected](section[name]):
            raise OffleashError(
                f"{path / RUN_FILE}: {key}.{name} should be {expected}; found {section[name]!r}. Restore it."
            )


def _write(path: Path, document: Mapping[str, object]) -> None:
    try:
        write_text_atomically(path / RUN_FILE, json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise OffleashError(
            f"{path / RUN_FILE} could not be written ({error.strerror}). Check disk space and permissions."
        ) from None
