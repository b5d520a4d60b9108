"""A run: one model on one problem set with one decoding, as tables; and run.json, what is known about it."""

import json
import math
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from hashlib import blake2b
from pathlib import Path

import polars as pl

from offleash.data.tables import Note
from offleash.errors import OffleashError
from offleash.version import __version__


@dataclass(frozen=True)
class Budget:
    """How many samples a problem were asked for; with `until`, a problem stops at its until-th success."""

    k: int | None = None
    until: int = 0


@dataclass(frozen=True)
class Origin:
    """Who answered a run that offleash drew, and how: all that its samples depend on."""

    model: str  # as the user names it
    about: Mapping[str, object]  # the sampler's word on who answers
    decoding: Mapping[str, object]
    seed: int
    key: str  # the hash that the seeds of all problems derive from
    chunks: Mapping[str, float]  # first, growth, largest: the grid of requests
    thinking: bool  # whether what is asked ends inside a reasoning block
    prompts: str  # hash of all prompts, by problem
    template: str | None  # hash of what a fixed prompt becomes; None where a server makes it


@dataclass(frozen=True)
class Run:
    """Problems, and either verdicts of samples or bare counts of them."""

    name: str
    problems: pl.DataFrame  # PROBLEMS, one row a problem
    verdicts: pl.LazyFrame | None  # VERDICTS, one row a sample; None: counts only
    samples: pl.LazyFrame | None = None  # of SAMPLES: problem, index, tokens, finish, and the rest where it is kept
    counts: pl.DataFrame | None = None  # problem, n, c
    verifier: str | None = None
    budget: Budget = field(default_factory=Budget)
    notes: tuple[Note, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)  # model, decoding, source: what is known of who answered
    unverified_hint: str = ""
    scores: dict[str, pl.LazyFrame] = field(default_factory=dict)  # SCORES of its samples, by the name of the model
    positions: dict[str, pl.LazyFrame] = field(default_factory=dict)  # POSITIONS of their tokens, likewise
    own: str | None = None  # the name under which scores of the model that drew the run stand
    draw: str = ""  # the key of the draw that made the samples; runs that share it hold the same samples


def problem_set_hash(problems: pl.DataFrame) -> str:
    """Hash of a set of problems: of their texts where they are known, else of their ids; blind to their order."""
    keys = problems.select(pl.coalesce("hash", "problem")).to_series().sort()
    return blake2b("\n".join(keys.to_list()).encode(), digest_size=12).hexdigest()


# run.json: what is known about a run, written atomically and checked when read.


SCHEMA = 1
CERTIFICATE = "certificate"  # the kind of a folder that holds certificates instead of samples
RUN_FILE = "run.json"
WRITING = ".writing"  # ends the name of a file that is not whole yet


@dataclass(frozen=True)
class FieldType:
    """A kind of value, and how to tell whether one is of it."""

    name: str
    holds: Callable[[object], bool]


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number(value: object) -> bool:
    return _whole(value) or (isinstance(value, float) and math.isfinite(value))


WHOLE = FieldType("a whole number", _whole)
MAYBE = FieldType("a whole number or null", lambda value: value is None or _whole(value))
NUMBER = FieldType("a number", _number)
TEXT = FieldType("a text", lambda value: isinstance(value, str))
TEXTS = FieldType(
    "a list of texts", lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value)
)
TOLD = FieldType("a text or null", lambda value: value is None or isinstance(value, str))
FLAG = FieldType("true or false", lambda value: isinstance(value, bool))

BUDGET = {"k": MAYBE, "until": MAYBE}
DRAW = {"model": TEXT, "seed": WHOLE, "key": TEXT, "thinking": FLAG, "prompts": TEXT, "template": TOLD}
DECODING = {
    **dict.fromkeys(("temperature", "top_p", "min_p"), NUMBER),
    **dict.fromkeys(("top_k", "max_tokens"), WHOLE),
    "stop": TEXTS,
}
CHUNKS = dict.fromkeys(("first", "growth", "largest"), NUMBER)


def write_facts(
    path: Path, name: str, problems: pl.DataFrame, facts: dict[str, str], budget: Budget, origin: Origin | None = None
) -> None:
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
        document["draw"] = asdict(origin)
    _write(path, document)


def rewrite_budget(path: Path, budget: Budget) -> None:
    """The same run with another budget: samples are added, all else stays."""
    _write(path, {**read_facts(path), "budget": {"k": budget.k, "until": budget.until}})


def read_facts(path: Path) -> dict[str, object]:
    """run.json, checked; a run of another schema version is refused."""
    try:
        document = json.loads((path / RUN_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise OffleashError(f"{path} is not a run folder: it has no {RUN_FILE}.") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise OffleashError(f"{path / RUN_FILE} is damaged ({error}); restore it or import the logs again.") from None
    if not isinstance(document, dict) or "schema" not in document:
        raise OffleashError(
            f"{path / RUN_FILE} is damaged: it does not say what a run is; restore it or import the logs again."
        )
    if document["schema"] != SCHEMA:
        raise OffleashError(
            f"{path} was written with schema version {document['schema']!r} and this offleash reads version {SCHEMA}; "
            "use the offleash version named under 'versions' in its run.json, or import the logs again."
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
    section = read_facts(path).get("draw")
    if section is None:
        return None
    names = {one.name for one in fields(Origin)}
    found = section if isinstance(section, dict) else {}
    if not found.keys() >= names or not all(isinstance(found[name], dict) for name in ("about", "decoding", "chunks")):
        raise OffleashError(f"{path / RUN_FILE} is damaged: its section 'draw' lacks what a draw writes; restore it.")
    for place, kinds in (("draw", DRAW), ("draw.decoding", DECODING), ("draw.chunks", CHUNKS)):
        _check(path, place, found if place == "draw" else found[place.removeprefix("draw.")], kinds)
    return Origin(**{name: found[name] for name in names})


def _check(path: Path, place: str, section: object, kinds: Mapping[str, FieldType]) -> None:
    """Refuse a section of a run.json whose values are not of their kind; those that are missing pass."""
    if not isinstance(section, dict):
        raise OffleashError(f"{path / RUN_FILE}: {place} is {section!r} and should be an object; restore it.")
    for name, kind in kinds.items():
        if name in section and not kind.holds(section[name]):
            raise OffleashError(
                f"{path / RUN_FILE}: {place}.{name} is {section[name]!r} and should be {kind.name}; restore it."
            )


def _write(path: Path, document: Mapping[str, object]) -> None:
    temporary = path / f"{RUN_FILE}{WRITING}"
    try:
        temporary.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        temporary.replace(path / RUN_FILE)
    except OSError as error:
        raise OffleashError(f"{path / RUN_FILE} could not be written ({error.strerror}); make room for it.") from None
