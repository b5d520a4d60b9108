"""SAMPLERS by the prefix of a model's name (hf:, vllm:, endpoint:, scripted:), and how such names are parsed.

A name may have a label before it, NAME=MODEL, and an existing folder without a prefix is hf:.

Also the fingerprint of a model's folder, so that a run is never resumed with other weights at the same path.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from offleash.credentials import public_url, refuse_credentials, server_address
from offleash.errors import OffleashError, unknown
from offleash.plugins import find_plugin, plugin_names
from offleash.samplers.chat_template import NO_OPTIONS, ChatOptions
from offleash.samplers.sampler import Sampler

# prefix: module with a function open_sampler(model: Model) -> Sampler
SAMPLERS: dict[str, str] = {
    "hf": "offleash.samplers.huggingface.sampler",
    "vllm": "offleash.samplers.vllm.sampler",
    "endpoint": "offleash.samplers.endpoint.sampler",
    "scripted": "offleash.samplers.scripted",
}

ENTRY_POINTS = "offleash.samplers"
# A sampler of the user's own: FILE.py:NAME or MODULE:NAME, and behind it the model, as behind a prefix.
OWN_SAMPLER_PATTERN = re.compile(r"((?:.+?\.py|[A-Za-z_][\w.]*):[A-Za-z_]\w*)(?::(.*))?", re.DOTALL)

EXTRAS = {"hf": "pip install 'offleash[local]'"}  # what a sampler needs beyond the package


@dataclass(frozen=True)
class Model:
    """A model as the user names it: hf:PATH@REVISION+ADAPTER, endpoint:URL#MODEL, ..."""

    sampler: str
    name: str  # path, name on the hub, or address
    revision: str = ""
    adapter: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)  # --set NAME=VALUE: options of the engine
    raw: bool = False  # give prompts as they stand, without the model's chat template
    chat: ChatOptions = NO_OPTIONS  # system message and variables of the chat template
    label: str = ""  # NAME of NAME=MODEL: what its runs are called; no part of what it is

    def __str__(self) -> str:
        revision, adapter = (f"@{self.revision}" if self.revision else ""), (f"+{self.adapter}" if self.adapter else "")
        return f"{self.sampler}:{self.name}{revision}{adapter}"


def model_of(
    text: str, settings: Mapping[str, str] | None = None, raw: bool = False, chat: ChatOptions = NO_OPTIONS
) -> Model:
    """Parse a model's name, with the options that it is loaded with.

    >>> model_of("hf:org/model@v2+./adapter").adapter
    './adapter'
    >>> model_of("rl=hf:org/model").label
    'rl'
    """
    if not isinstance(text, str):
        raise OffleashError(f"A model must be a string such as hf:PATH; found a {type(text).__name__}.")
    label, text = split_label(text)
    if text.partition(":")[0] not in SAMPLERS and Path(_split_model_path(text)[0]).expanduser().is_dir():
        text = f"hf:{text}"
    return replace(_parse_model(text, dict(settings or {})), raw=raw, chat=chat, label=label)


LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")  # names a folder: never '.' or '..', never with a slash
LABELLED_MODEL_PATTERN = re.compile(rf"(.*?)=((?:{'|'.join(SAMPLERS)}):.*)", re.DOTALL)


def split_label(text: str) -> tuple[str, str]:
    """A label and a model from NAME=MODEL; no label where none is named."""
    # A path may contain "=", so what exists, or starts with a sampler, is a model without a label.
    if text.partition(":")[0] in SAMPLERS or Path(text).exists():
        return "", text
    match = LABELLED_MODEL_PATTERN.fullmatch(text)
    if match:
        refuse_label(match[1], match[2])
        return match[1], match[2]
    label, equals, model = text.partition("=")  # a folder, or the sampler is misspelt: refused with the model
    return (label, model) if equals and model and LABEL.fullmatch(label) else ("", text)


def refuse_label(label: str, model: str) -> None:
    """Refuse a label that cannot be the name of a folder."""
    if not LABEL.fullmatch(label):
        raise OffleashError(
            "The name of a model becomes a folder name: letters A to Z, digits and _.+-, starting with a "
            f"letter, a digit or _; found {label!r}. For example: base={model}."
        )


def _parse_model(text: str, settings: dict[str, str]) -> Model:
    """A model's name without its label."""
    prefix, colon, location = text.partition(":")
    if prefix == "endpoint":
        server_address(location.partition("#")[0])
    refuse_credentials(location if colon and prefix in SAMPLERS else text, settings)
    if prefix not in SAMPLERS and (own_sampler := _own_sampler(text)) is not None:
        prefix, location = own_sampler
    elif not colon or prefix not in SAMPLERS:
        if prefix in ("http", "https"):
            raise OffleashError(f"{public_url(text)!r} is an address. Write endpoint:{public_url(text)}.")
        known = [f"{name}:" for name in (*SAMPLERS, *plugin_names(ENTRY_POINTS))]
        raise (
            unknown("sampler", f"{prefix}:" if colon else text, known)
            if colon
            else OffleashError(
                f"{text!r} does not name an engine. Write hf:{text} or vllm:{text}; known: {', '.join(known)}."
            )
        )
    if not location:
        raise OffleashError(
            f"{text!r} does not name a model. Write {prefix}:PATH, for example {prefix}:./checkpoints/rl."
        )
    if prefix in ("hf", "vllm"):
        name, revision, adapter = _split_model_path(location)
        return Model(prefix, name, revision, adapter, settings)
    return Model(prefix, location, settings=settings)


def _own_sampler(text: str) -> tuple[str, str] | None:
    """The sampler and the model of a name like coin.py:open_sampler:0.25, or of a plugin's; None: it is neither."""
    match = OWN_SAMPLER_PATTERN.fullmatch(text)
    if match is not None:
        where = match[1].rpartition(":")[0]
        # a module must exist: vlm:http://host is a typo, not the function `http` of a module
        if where.endswith(".py") or (match[2] is not None and find_spec(where.partition(".")[0]) is not None):
            return match[1], match[2] or ""
    prefix, colon, location = text.partition(":")
    return (prefix, location) if colon and prefix in plugin_names(ENTRY_POINTS) else None


def open_sampler(model: Model) -> Sampler:
    """The sampler of a model, ready to draw."""
    if model.sampler not in SAMPLERS:
        return _open_own_sampler(model)
    try:
        module = import_module(SAMPLERS[model.sampler])
    except ImportError as error:
        raise OffleashError(
            f"{model.sampler}: needs a package that is not installed ({error}). "
            f"Run {EXTRAS.get(model.sampler, 'pip install')}."
        ) from None
    sampler: Sampler = module.open_sampler(model)
    return sampler


def _open_own_sampler(model: Model) -> Sampler:
    """A sampler of an installed package or of the user's own, in this process; checked for the protocol's members."""
    function = find_plugin(ENTRY_POINTS, model.sampler, "sampler")
    if function is None:
        raise unknown("sampler", model.sampler, [*SAMPLERS, *plugin_names(ENTRY_POINTS)])
    if not callable(function):
        raise OffleashError(
            f"The sampler {model.sampler} is a {type(function).__name__}. Name a function open_sampler(model)."
        )
    sampler = function(model)
    members = ("about", "concurrency", "batch_size", "forwarded", "rendered_prompt", "sample", "forget", "close")
    missing = [name for name in members if not hasattr(sampler, name)]
    if missing:
        raise OffleashError(
            f"The sampler {model.sampler} returned a {type(sampler).__name__} without {', '.join(missing)}. "
            "See docs/extending.md for what a sampler has."
        )
    opened_sampler: Sampler = sampler
    return opened_sampler


def _split_model_path(text: str) -> tuple[str, str, str]:
    """Name, revision and adapter; a path that exists may itself hold '@' and '+'."""
    if Path(text).exists():
        return text, "", ""
    head, plus, adapter = text.partition("+")
    if plus and not adapter:
        raise OffleashError(f"{text!r} ends in '+'. Write PATH+ADAPTER with the folder or hub name of a PEFT adapter.")
    if Path(head).exists():
        return head, "", adapter
    match = re.fullmatch(r"(.+)@([^@/]+)", head)
    return (match[1], match[2], adapter) if match else (head, "", adapter)


# Blocks of a file of weights that are hashed, and bytes of each: 1 MB per file. Training changes every weight, so a
# sample of them is enough to distinguish checkpoints, and hashing a model of 100 GB takes seconds.
HASHED_BLOCKS, BLOCK_BYTES = 64, 1 << 14
WEIGHTS = (".safetensors", ".bin", ".gguf")
HASHED_SUFFIXES = (".json", ".jinja", ".model", ".txt", *WEIGHTS)


def fingerprint(folder: str) -> str:
    """Hash of a folder's model files: small ones whole, weights by evenly spaced blocks. '' for a name on the hub."""
    path = Path(folder).expanduser()
    if not path.is_dir():
        return ""
    digest = blake2b(digest_size=12)
    for file in sorted(entry for entry in path.iterdir() if entry.suffix in HASHED_SUFFIXES and entry.is_file()):
        size = file.stat().st_size
        digest.update(f"{file.name} {size} ".encode())
        with file.open("rb") as content:
            if file.suffix not in WEIGHTS or size <= HASHED_BLOCKS * BLOCK_BYTES:
                digest.update(content.read())
                continue
            for block in range(HASHED_BLOCKS):
                content.seek((size - BLOCK_BYTES) * block // (HASHED_BLOCKS - 1))
                digest.update(content.read(BLOCK_BYTES))
    return digest.hexdigest()
