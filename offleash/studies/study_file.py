"""A study as a YAML file: models, benchmarks, decodings and budgets, and every option of `offleash study` by its name.

    models: {base: vllm:org/base, rl: vllm:org/rl}
    benchmarks: [aime24, math500]
    decodings: paper
    budgets: {aime24: 8192, math500: 1024}
    until: 5

pydantic checks the four sections; the other keys are options of the flags, with the same checks (signatures.py). Each
benchmark at each decoding is a study of its own, so that a file with one of each gives what the flags give.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import ErrorDetails

from offleash.errors import OffleashError, unknown
from offleash.files.yaml_text import parse_yaml
from offleash.options import PAPER
from offleash.signatures import Declaration, Option, check_value

ENDINGS = (".yaml", ".yml")
STRICT = ConfigDict(extra="forbid")
# keys of `decodings` entries, which are the options of the group of that name
AS_LIST = BeforeValidator(lambda value: list(value) if isinstance(value, list | tuple) else [value])
Name = Annotated[str, Field(pattern=r"\S")]
Budget = Annotated[int, Field(ge=1, strict=True)] | Annotated[str, Field(pattern=f"^{PAPER}$")]


@dataclass(frozen=True, config=STRICT)
class StudyModels:
    """The model before RL, and one or more after it; NAME=MODEL names a run."""

    base: Name
    rl: Annotated[list[Name], Field(min_length=1), AS_LIST]


@dataclass(frozen=True, config=STRICT)
class BenchmarkEntry:
    """A benchmark, a file of problems or generated problems, with what `--size` and the like say of it."""

    name: Name
    size: Annotated[int, Field(ge=1, strict=True)] | None = None
    problem_seed: Annotated[int, Field(ge=0, strict=True)] | None = None
    source: Annotated[Name | None, Field(alias="from")] = None


@dataclass(frozen=True, config=STRICT)
class StudyFile:
    """The sections of a study file; `options` are its other keys, by the keyword of the flag."""

    models: StudyModels
    benchmarks: Annotated[list[BenchmarkEntry], Field(min_length=1)]
    decodings: Annotated[list[dict[str, object]], Field(min_length=1)] = field(default_factory=lambda: [{}])
    budgets: Budget | dict[str, Budget] | None = None
    options: Mapping[str, object] = field(default_factory=dict)

    def budget(self, benchmark: str) -> int | str | None:
        """Samples per problem of a benchmark; None: -k decides."""
        return self.budgets.get(benchmark) if isinstance(self.budgets, Mapping) else self.budgets


SECTIONS = ("models", "benchmarks", "decodings", "budgets")
STUDY_FILE = TypeAdapter(StudyFile)
EXAMPLES = {
    "models": "{base: hf:./base, rl: hf:./rl}",
    "benchmarks": "[aime24, math500]",
    "base": "hf:./base",
    "rl": "hf:./rl",
    "name": "aime24",
}
# What a section takes, for messages about a value of another type.
EXPECTED = {
    "models": "a section with base and rl",
    "models.base": "the name of a model",
    "models.rl": "the name of a model, or a list of them",
    "benchmarks": "names of benchmarks or files, or sections with name, size, problem_seed and from",
    "decodings": "plain, paper, or a section with temperature, top_p, top_k, min_p, max_tokens and stop",
    "budgets": "a number of samples per problem, 'paper', or one of these per benchmark",
}


def is_study_file(name: object) -> bool:
    """Whether what was named is a study file, by its ending."""
    return isinstance(name, str | Path) and str(name).lower().endswith(ENDINGS)


def read_study_file(path: Path, declared: Declaration) -> StudyFile:
    """The study of a YAML file, checked; `declared` has the options of `offleash study`."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise OffleashError(f"There is no study file {path}. Give the path of a YAML file.") from None
    except OSError as error:
        raise OffleashError(f"{path} cannot be read ({error.strerror}). Give the path of a YAML file.") from None
    content = parse_yaml(text, str(path))
    if not isinstance(content, dict):
        raise OffleashError(
            f"{path} contains {repr(content)[:80]}. Write lines of `name: value`, such as `benchmarks: aime24`."
        )
    return study_file_of(content, declared)


def study_file_of(document: Mapping[object, object], declared: Declaration) -> StudyFile:
    """The study that a document describes."""
    options = _options_by_key(declared)
    values: dict[str, object] = {}
    for key, value in document.items():
        if key in SECTIONS:
            continue
        if not isinstance(key, str) or key not in options:
            raise unknown("study file key", str(key), [*SECTIONS, *options])
        values[options[key].keyword] = _checked(key, options[key], value)
    decodings = [_decoding(entry, options) for entry in _entries(document.get("decodings", {}))]
    benchmarks = [
        {"name": entry} if isinstance(entry, str) else entry for entry in _entries(document.get("benchmarks"))
    ]
    sections = {"models": document.get("models"), "benchmarks": benchmarks, "decodings": decodings}
    known = {name: value for name, value in sections.items() if name == "decodings" or name in document}
    try:
        study = STUDY_FILE.validate_python({**known, "budgets": document.get("budgets"), "options": values})
    except ValidationError as error:
        raise _validation_error(error.errors()) from None
    names = [entry.name for entry in study.benchmarks]
    for name in study.budgets if isinstance(study.budgets, Mapping) else ():
        if name not in names:
            raise unknown("benchmark in this study", name, names)
    return study


def _options_by_key(declared: Declaration) -> dict[str, Option]:
    """The options of the flags, by the name that they have in a file: that of the flag, with _ for -."""
    return {option.name.lstrip("-").replace("-", "_"): option for option in declared.options.values()}


def _checked(key: str, option: Option, value: object) -> object:
    try:
        return check_value(option, value)
    except OffleashError as error:
        raise OffleashError(str(error).replace(option.name, key)) from None


def _entries(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else [] if value is None else [value]


def _decoding(entry: object, options: Mapping[str, Option]) -> dict[str, object]:
    """A decoding by name or as a section, as the keywords of `Decoding`."""
    values = {"decoding": entry} if isinstance(entry, str) else entry
    if not isinstance(values, Mapping):
        raise OffleashError(f"decodings must be {EXPECTED['decodings']}; found {entry!r:.80}.")
    known = {key: option for key, option in options.items() if option.group == "decoding"}
    for key in values:
        if key not in known:
            raise unknown("decodings key", str(key), known)
    return {known[key].keyword: _checked(f"decodings.{key}", known[key], value) for key, value in values.items()}


def _validation_error(errors: Sequence[ErrorDetails]) -> OffleashError:
    """pydantic's errors in our form: a misspelt key first, because it explains a missing one."""
    unknown_key_errors = ("unexpected_keyword_argument", "invalid_key")
    error = min(errors, key=lambda error: error["type"] not in unknown_key_errors)
    place = [str(part) for part in error["loc"] if isinstance(part, str)]
    *sections, key = place or ["models"]
    if error["type"] in unknown_key_errors:
        keys = ("base", "rl") if sections[:1] == ["models"] else ("name", "size", "problem_seed", "from")
        return unknown(f"{'.'.join(sections)} key", key, keys)
    if error["type"] in ("missing", "missing_argument"):
        location_text = f" under {'.'.join(sections)}" if sections else ""
        return OffleashError(
            f"The study has no {key}{location_text}. Add a line, for example `{key}: {EXAMPLES.get(key, '')}`."
        )
    name = next((".".join(place[:end]) for end in (2, 1) if ".".join(place[:end]) in EXPECTED), place[0])
    value = "nothing" if error["input"] is None else repr(error["input"])[:80]
    return OffleashError(f"{name} must be {EXPECTED.get(name, error['msg'])}; found {value}.")
