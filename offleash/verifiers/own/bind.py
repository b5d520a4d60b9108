"""A user's own verifier as the rest of offleash sees it: a `Verifier`, and the arguments that a problem gives it.

FILE.py:NAME is loaded in a worker, never here: an import may hang or crash. The worker returns the parameters of the
function, by which its interface is recognised, and the hash of its source, which is the verifier's version. Arguments
are bound to parameters here, before the first sample, so that a missing column is an error and not a thousand failures.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

from offleash.data.verdict import Verdict
from offleash.errors import OffleashError
from offleash.plugins import is_reference
from offleash.verifiers.own.decide import GIVEN_BY_TRL, OFFLEASH, TRL, VERL
from offleash.verifiers.verifier import Case, Isolation, OwnFunction, Verifier

MODULE = "offleash.verifiers.own.decide"
PREFIX = "own-"  # before a function's name in that of its verdicts: a function may be called `math`
STEPS = ("tag", "boxed", "hashes", "expression", "stated", "concluded", "formula")  # of `extracted`: those of `math`
SECONDS = 10.0  # of processor time per sample
SECONDS_TO_LOAD = 60.0  # of processor time: a function may import torch
SECONDS_FOR_TOKENIZER = 30.0  # more for functions of token ids: the first sample loads transformers and a tokenizer
MEMORY = 16 << 30  # bytes of address space: torch alone maps several gigabytes
GOLD_NAMES = ("gold", "solution", "answer", "ground_truth")  # what data sets and rewards call the gold answer


# From a reference to a verifier.

# by reference and working directory, with the state of the files: notebooks change both
_descriptions: dict[tuple[str, str], tuple[Verifier, dict[str, tuple[int, int]]]] = {}


def own_verifier(reference: str, name: str = "") -> Verifier:
    """The verifier of FILE.py:NAME or MODULE:NAME.

    Args:
        reference: where the function is.
        name: what its verdicts are stored under; "" for the function's name behind `own-`.
    """
    if not is_reference(reference):
        raise OffleashError(
            f"A verifier of your own is FILE.py:NAME or MODULE:NAME, where NAME is a function; found {reference!r}."
        )
    place = (reference, str(Path.cwd()))
    known = _descriptions.get(place)
    if known is not None and known[1] == _states(known[1]):
        return replace(known[0], name=name or known[0].name)
    verifier, files = _load_verifier(reference)
    _descriptions[place] = (verifier, _states(files))
    return replace(verifier, name=name or verifier.name)


def _load_verifier(reference: str) -> tuple[Verifier, list[str]]:
    """Load the function in a worker; the verifier and the files that it was made from."""
    from offleash.verifiers.sandbox.pool import Pool

    verifier = Verifier(
        name=PREFIX + reference.rpartition(":")[2],
        revision="0",
        steps=STEPS,
        module=MODULE,
        isolation=Isolation.WORKER,
        seconds=SECONDS_TO_LOAD,
        memory=MEMORY,
        own=OwnFunction(reference, OFFLEASH, (), folder=_package_folder(reference)),
    )
    assert verifier.own is not None
    case = Case("", details={"reference": reference, "folder": verifier.own.folder})
    with Pool(1) as pool:
        ((_, judgement),) = pool.judge(verifier, [case])
    if judgement.verdict is not Verdict.CORRECT or judgement.solution is None:
        raise OffleashError(
            f"The verifier {reference} could not be loaded: {judgement.reason or 'it gave no reason'}. "
            "Correct it, or see docs/verifying.md for what a verifier may look like."
        )
    description = json.loads(judgement.solution)
    own_function = OwnFunction(
        reference,
        description["interface"],
        tuple(description["required"]),
        tuple(description["optional"]),
        description["any_keyword"],
        folder=verifier.own.folder,
    )
    # every worker loads the function with its first sample, which has to have the time for it
    seconds = SECONDS + round(3 * judgement.seconds)
    return replace(verifier, revision=description["revision"], seconds=seconds, own=own_function), description["files"]


def _package_folder(reference: str) -> str:
    """Where the package of MODULE:NAME is; editable installs have finders of their own, which a worker has not."""
    where = reference.rpartition(":")[0]
    try:
        spec = None if where.endswith(".py") else find_spec(where.partition(".")[0])
    except (ImportError, ValueError):
        return ""
    if spec is None:
        return ""
    locations = list(spec.submodule_search_locations or ()) or [spec.origin or ""]
    return str(Path(locations[0]).parent) if Path(locations[0]).is_absolute() else ""


def _states(files: Iterable[str]) -> dict[str, tuple[int, int]]:
    states = {}
    for file in files:
        try:
            state = Path(file).stat()
            states[file] = (state.st_mtime_ns, state.st_size)
        except OSError:
            states[file] = (0, 0)
    return states


# How samples of one run are given to the function.


@dataclass(frozen=True)
class CallOptions:
    """How a user's function is called and its results are read, beyond what the function itself says."""

    threshold: float = 1.0
    completions: str | None = None  # "messages" or "text"; None: as the run was drawn
    chat: bool = False  # the run was drawn with a chat template
    tokenizer: str = ""  # of the model that drew the run, where it is known
    not_yet_drawn: bool = False  # the run is still to be drawn: whether it will have a tokenizer is not known

    def of(self, verifier: Verifier) -> Verifier:
        """The verifier under these options; those that change verdicts are part of its name."""
        own = verifier.own
        if own is None:
            return verifier
        suffix = "" if self.threshold == 1 else f".threshold{self.threshold:g}"
        messages = self.chat if self.completions is None else self.completions == "messages"
        if own.interface == TRL and messages != self.chat:
            suffix += f".{self.completions}"
        takes_ids = "completion_ids" in (*own.required, *own.optional)
        if "completion_ids" in own.required and not self.tokenizer and not self.not_yet_drawn:
            raise OffleashError(
                f"{own.reference} takes completion_ids, the token ids of samples, but this run has no tokenizer: only "
                "those of hf: and vllm: models have one. Let it read the completions instead."
            )
        return replace(
            verifier,
            name=verifier.name + suffix,
            seconds=verifier.seconds + (SECONDS_FOR_TOKENIZER if takes_ids else 0.0),
            own=replace(
                own, threshold=self.threshold, messages=messages, tokenizer=self.tokenizer if takes_ids else ""
            ),
        )


@dataclass(frozen=True)
class OwnProblem:
    """What a problem can give a function: the fields of the table, and the other columns of the user's file."""

    id: str
    gold: str | None
    question: str
    prompt: str
    benchmark: str | None = None
    details: Mapping[str, object] = field(default_factory=dict)
    columns: Mapping[str, object] = field(default_factory=dict)

    def values(self, interface: str) -> dict[str, object]:
        """Everything by the name that a parameter may have.

        A column of the file comes before a field of ours, but never before the gold answer: rewards and data sets call
        that by four names, and one of them may be a column of whole solutions, or of a model's answers.
        """
        fields: dict[str, object] = {"question": self.question, "id": self.id, "benchmark": self.benchmark}
        fields |= {"data_source": self.benchmark or "", "details": dict(self.details), "extra_info": {}}
        fields |= self.details
        fields["problem"] = self.question
        values = {**fields, **self.columns, **dict.fromkeys(GOLD_NAMES, self.gold)}
        if interface == TRL:
            return values | {"prompts": self.prompt, "prompt": self.prompt}
        if interface == OFFLEASH:
            whole: dict[str, object] = {
                "id": self.id,
                "question": self.question,
                "gold": self.gold,
                "prompt": self.prompt,
            }
            whole |= {"benchmark": self.benchmark, "details": dict(self.details), "columns": dict(self.columns)}
            return values | {"prompt": self.prompt, "problem": whole}
        reward = self.columns.get("reward_model")
        if isinstance(reward, Mapping) and isinstance(reward.get("ground_truth"), list | dict):
            values["ground_truth"] = reward["ground_truth"]  # verl's own, where it is more than a text
        return values


def arguments(own: OwnFunction, problem: OwnProblem) -> dict[str, object]:
    """The arguments that a problem gives a function, by parameter; a parameter that nothing gives is an error."""
    values = problem.values(own.interface)
    provided_names = {VERL: ("solution_str",), TRL: GIVEN_BY_TRL, OFFLEASH: ("text", "extracted")}[own.interface]
    for name in own.required:
        if name not in values and name not in provided_names:
            raise _missing(own, name, problem, [*values, *provided_names])
    if own.accepts_any_keyword and own.interface != VERL:  # verl's **kwargs are of its configuration, not of the data
        return {name: value for name, value in values.items() if name not in provided_names or name == "prompts"}
    # a parameter with a default keeps it, unless its trainer would give it: TRL gives every column, verl extra_info
    optional = own.optional if own.interface == TRL else [name for name in own.optional if name in PROVIDED_NAMES]
    needed_names = [*own.required, *optional]
    return {name: values[name] for name in needed_names if name in values}


PROVIDED_NAMES = (*GOLD_NAMES, "problem", "question", "prompt", "data_source", "extra_info")


def _missing(own: OwnFunction, name: str, problem: OwnProblem, known: list[str]) -> OffleashError:
    close_matches = get_close_matches(name, known, n=1)
    columns = ", ".join(sorted(problem.columns)) or "none"
    return OffleashError(
        f"{own.reference} takes {name!r}, but problem {problem.id!r} has no such column."
        + (f" Did you mean {close_matches[0]!r}?" if close_matches else "")
        + " Add it to the problems, or give the parameter a default."
        + f" Columns besides question and gold: {columns}."
    )


def case_details(own: OwnFunction, problem: OwnProblem) -> tuple[dict[str, object], bytes]:
    """The details of all cases of a problem, and a hash of them: all that verdicts depend on beside the sample."""
    details: dict[str, object] = {
        "reference": own.reference,
        "folder": own.folder,
        "interface": own.interface,
        "messages": own.messages,
        "threshold": own.threshold,
        "tokenizer": own.tokenizer,
        "arguments": arguments(own, problem),
    }
    hashed = json.dumps({**details, "reference": "", "folder": ""}, sort_keys=True, default=str)
    return details, blake2b(hashed.encode("utf-8", "surrogatepass"), digest_size=16).digest()
