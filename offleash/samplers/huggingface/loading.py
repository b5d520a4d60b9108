"""Load a model and its tokenizer from a folder or the hub; the settings of the `hf:` sampler.

A folder without weights in Hugging Face format is refused with the command that converts what it holds.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offleash.errors import OffleashError, unknown
from offleash.samplers.registry import Model

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, ProcessorMixin

# name: default. Options of the hf: sampler, as --set gives them
SETTINGS: dict[str, str] = {
    "device": "auto",  # cuda where there is one, else cpu
    "dtype": "auto",  # as the weights are stored; float32 on a CPU
    "memory": "2",  # GB for keys and values of samples in work, and the same once more for prefixes that are kept
    "rows": "2048",  # in one forward pass
    "merge": "on",  # one forward pass for samples that share a prefix
    "engine": "auto",  # shared: the fast one; generate: that of transformers; auto: the fast one where it is exact
    "trust_remote_code": "no",
}
DTYPES = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class LoadedModel:
    """A model and its tokenizer in memory."""

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"
    processor: "ProcessorMixin | None"  # of a model that sees images
    ends: tuple[int, ...]  # tokens that end a sample
    context: int | None  # tokens it can read, prompt and sample together; None: no limit is known
    versions: dict[str, str]


def settings_of(model: Model) -> dict[str, str]:
    """The settings of the sampler, checked by name."""
    for name in model.settings:
        if name not in SETTINGS:
            raise unknown("setting for hf:", name, SETTINGS)
    settings = {**SETTINGS, **model.settings}
    choices = {
        "dtype": DTYPES,
        "merge": ("on", "off"),
        "engine": ("auto", "shared", "generate"),
        "trust_remote_code": ("yes", "no"),
    }
    for name, allowed in choices.items():
        if settings[name] not in allowed:
            raise unknown(f"--set {name}= value", settings[name], allowed)
    for name, minimum in (("memory", 0.0), ("rows", 1.0)):
        try:
            valid = minimum <= float(settings[name]) < 1e9 and float(settings[name]) > 0
        except ValueError:
            valid = False
        if not valid:
            raise OffleashError(f"--set {name}= takes a number above 0; found {settings[name]!r}.")
    return settings


def load(model: Model, settings: Mapping[str, str]) -> LoadedModel:
    """The model and its tokenizer in memory; an OffleashError with the next step where they cannot be."""
    check_folder(model.name)
    transformers: Any = import_module("transformers")  # its own types say too little
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    revision = model.revision or None
    trust_code = settings["trust_remote_code"] == "yes"
    try:
        config = transformers.AutoConfig.from_pretrained(model.name, revision=revision, trust_remote_code=trust_code)
        takes_images = type(config) in transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
        kind = transformers.AutoModelForImageTextToText if takes_images else transformers.AutoModelForCausalLM
        device = _device(settings["device"])
        network = kind.from_pretrained(
            model.name, revision=revision, dtype=_dtype(settings["dtype"], device), trust_remote_code=trust_code
        )
        processor = transformers.AutoProcessor.from_pretrained(model.name, revision=revision) if takes_images else None
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            model.name, revision=revision, trust_remote_code=trust_code
        )
        if model.adapter:
            network = _merge_adapter(network, model.adapter)
        network = network.to(device).eval()
        ends = _end_token_ids(network, tokenizer)
        # after the ends are read: penalties, suppressed tokens and minimum lengths of the model's file would act
        # inside `generate` and change the distribution
        network.generation_config = transformers.GenerationConfig()
    except MemoryError:
        raise OffleashError(
            f"{model} cannot be loaded: there is not enough memory for it. Close other programs, or use a "
            "smaller model or --set dtype=bfloat16."
        ) from None
    except Exception as error:  # transformers, tokenizers and safetensors raise of all kinds on files that are damaged
        raise OffleashError(f"{model} cannot be loaded: {_first_line(error)}") from None
    names = ["torch", "transformers", *(["peft"] if model.adapter else [])]
    return LoadedModel(
        network,
        tokenizer,
        processor,
        ends,
        getattr(config.get_text_config(), "max_position_embeddings", None),
        {name: version(name) for name in names},
    )


def check_folder(name: str) -> None:
    """Refuse a path that holds no model, with the command that converts what it holds; a name on the hub passes."""
    path = Path(name).expanduser()
    if "/" not in name and not path.exists():  # not on the hub either: there a name is org/name
        raise OffleashError(
            f"{name!r} is neither a folder here nor a name on the hub (org/name). {_creation_hint(name, path)}"
        )
    looks_local = name.startswith((".", "/", "~")) or name.count("/") > 1 or path.exists()
    if not looks_local:
        return
    if path.is_file():
        raise OffleashError(f"{name} is a file, not a folder. Give a folder with config.json, or a name on the hub.")
    if not path.is_dir():
        raise OffleashError(f"{name} is not a folder. {_creation_hint(name, path)}")
    if (path / "config.json").is_file() and any(path.glob("*.safetensors*")):
        return
    raise OffleashError(f"{name} has no model that can be loaded{_conversion(path)}")


def _creation_hint(name: str, path: Path) -> str:
    """The next step for a folder that does not exist: a similar one, or the command that makes it."""
    if (similar := similar_folder(path)) is not None:
        return f"Did you mean hf:{similar}?"
    if path.name == "model" and (path.parent / "recipe.yaml").is_file():
        return f"Finish the training run that writes it: offleash train {path.parent / 'recipe.yaml'} -o {path.parent}."
    return f"Name one that exists, or make a small one: offleash lab model countdown -o {name}."


def similar_folder(path: Path) -> Path | None:
    """The folder beside a path whose name differs by a typing error."""
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.is_dir()]
    except OSError:
        return None
    matches = get_close_matches(path.name, names, n=1)
    return path.with_name(matches[0]) if matches else None


def _conversion(path: Path) -> str:
    """What a folder without weights in Hugging Face format holds, and how to convert it."""
    names = {entry.name for entry in path.iterdir()}
    if "adapter_config.json" in names:
        text = (path / "adapter_config.json").read_text(encoding="utf-8", errors="replace")
        try:
            base = json.loads(text).get("base_model_name_or_path") or "BASE"
        except (ValueError, AttributeError, RecursionError):
            base = "BASE"
        return f": it is a PEFT adapter. Put its base model before it: hf:{base}+{path}"
    if any(name.startswith("model_world_size_") for name in names):
        return (
            ": it is a sharded verl checkpoint. Merge it first: python -m verl.model_merger merge --backend fsdp "
            f"--local_dir {path} --target_dir {path}-merged"
        )
    if "actor" in names:
        return f": it is a verl checkpoint that contains its actor. Use {path / 'actor'}."
    if "zero_to_fp32.py" in names or any(name.startswith("global_step") for name in names):
        return f": it is a DeepSpeed checkpoint. Merge it first: python {path}/zero_to_fp32.py {path} {path}-merged"
    if any(name.endswith(".distcp") for name in names) or "pytorch_model_fsdp_0" in names:
        fsdp_folder = path / "pytorch_model_fsdp_0" if "pytorch_model_fsdp_0" in names else path
        return (
            f": it is a sharded FSDP checkpoint. Merge it first: accelerate merge-weights {fsdp_folder} {path}-merged"
        )
    steps = sorted((name for name in names if name.startswith("checkpoint-")), key=lambda name: (len(name), name))
    if steps:
        return f": it holds checkpoints of a training run. Name one of them, for example {path / steps[-1]}."
    if "pytorch_model.bin" in names:
        return ": its weights are pickled, which can run code. Save them as safetensors with save_pretrained first."
    return f": it has no {'weights (*.safetensors)' if 'config.json' in names else 'config.json'}."


def _merge_adapter(network: "PreTrainedModel", adapter: str) -> "PreTrainedModel":
    """The model with a PEFT adapter merged into its weights: one matrix product per layer instead of three."""
    try:
        from peft import PeftModel
    except ImportError:
        raise OffleashError("An adapter (+PATH) needs peft, which is not installed. Run pip install peft.") from None
    merged: PreTrainedModel = PeftModel.from_pretrained(network, adapter).merge_and_unload()
    return merged


def _end_token_ids(network: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> tuple[int, ...]:
    """Tokens that end a sample. The generation config comes first: chat models list there the end of a turn beside the
    end of a text, and the tokenizer knows one of them only."""
    ends = getattr(network.generation_config, "eos_token_id", None)
    if ends is None:
        ends = tokenizer.eos_token_id
    return tuple(ends) if isinstance(ends, list) else () if ends is None else (int(ends),)


def _device(name: str) -> "torch.device":
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):
        raise OffleashError(f"Device {name!r} is not available. Leave out --set device=, or use cpu.") from None
    return device


def _dtype(name: str, device: "torch.device") -> "torch.dtype | str":
    import torch

    if name == "auto" and device.type == "cpu":
        return torch.float32  # half precision is several times slower on most CPUs
    return name if name == "auto" else {"float32": torch.float32, "bfloat16": torch.bfloat16}.get(name, torch.float16)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
