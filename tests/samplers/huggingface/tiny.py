"""Tiny random models in Hugging Face format, made on the spot, and their exact distribution by enumeration."""

from collections.abc import Mapping
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

WORDS = ("a", "b", "c", "d", "<end>", "<pad>", "<unk>")
END = WORDS.index("<end>")

# Families whose attention differs: heads that share keys, windows, capped scores, none of rotary positions.
FAMILIES: Mapping[str, Mapping[str, object]] = {
    "llama": {"num_key_value_heads": 2},
    "qwen2": {"num_key_value_heads": 2},
    "qwen3": {"num_key_value_heads": 1, "head_dim": 16},
    "mistral": {"num_key_value_heads": 2, "sliding_window": 5},
    "gemma2": {"num_key_value_heads": 2, "head_dim": 16, "sliding_window": 5, "query_pre_attn_scalar": 16},
    "gemma3_text": {"num_key_value_heads": 2, "head_dim": 16, "sliding_window": 5, "query_pre_attn_scalar": 16},
    "phi3": {"num_key_value_heads": 2, "original_max_position_embeddings": 64},
    "olmo2": {"num_key_value_heads": 2},
    "granite": {"num_key_value_heads": 2},
    "smollm3": {"num_key_value_heads": 2},
    "gpt2": {},
    "gpt_neox": {},
    "opt": {"word_embed_proj_dim": 32, "ffn_dim": 48},
    "bloom": {},
}


def tokenizer(words: tuple[str, ...] = WORDS) -> PreTrainedTokenizerFast:
    """One token a word."""
    made = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", pad_token="<pad>", eos_token="<end>")


def tiny_model(
    folder: Path, family: str = "llama", seed: int = 0, words: tuple[str, ...] = WORDS, layers: int = 2
) -> Path:
    """A model of random weights, large enough for its distribution to be uneven; its folder."""
    torch.manual_seed(seed)
    usual = {
        "vocab_size": len(words),
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "max_position_embeddings": 64,
        "bos_token_id": None,
        "eos_token_id": words.index("<end>"),
        "pad_token_id": words.index("<pad>"),
    }
    config = AutoConfig.for_model(family, **{**usual, **FAMILIES.get(family, {})})
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for weights in model.parameters():
            if weights.dim() > 1:
                weights.normal_(0, 0.35)
    model.save_pretrained(folder)
    tokenizer(words).save_pretrained(folder)
    return folder


def next_logits(model: torch.nn.Module, tokens: list[int]) -> torch.Tensor:
    """The model's own logits after some tokens, by a plain forward pass."""
    with torch.inference_mode():
        logits: torch.Tensor = model(input_ids=torch.tensor([tokens])).logits[0, -1]
    return logits.float()
