"""Trains a random model of one layer with TRL's GRPO: one reward, two rewards, and batches used for two steps."""
# mypy: ignore-errors

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig, GRPOTrainer

LETTERS = ["<pad>", "<eos>", *" 0123456789+-=?abcdefghijklmnopqrstuvwxyzW"]


def accuracy_reward(completions, answer, **unused):
    return [float(gold in text) for text, gold in zip(completions, answer, strict=True)]


def length_reward(completions, **unused):
    return [len(text) / 10 for text in completions]


def logged_accuracy(completions, answer, log_extra, **unused):
    log_extra("answer", list(answer))
    return accuracy_reward(completions, answer)


def tokenizer():
    raw = Tokenizer(models.WordLevel({letter: i for i, letter in enumerate(LETTERS)}, unk_token="<pad>"))
    raw.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    raw.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="<eos>", padding_side="left")


def model():
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "head_dim": 16}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    ids = {"pad_token_id": 0, "eos_token_id": 1}
    config = Qwen3Config(vocab_size=len(LETTERS), max_position_embeddings=64, **shape, **heads, **ids)
    return Qwen3ForCausalLM(config)


SUMS = [{"prompt": f"What is {a}+{b}?", "answer": str(a + b)} for a in range(2) for b in range(4)]
DIGITS = [{"prompt": "which digit?", "answer": str(digit)} for digit in range(4)]  # as in a task about images


def train(folder, rewards, problems=SUMS, seed=0, **options):
    torch.manual_seed(seed)
    data = Dataset.from_list(problems)
    config = GRPOConfig(
        output_dir=folder,
        use_cpu=True,
        bf16=False,
        report_to=[],
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=8,
        logging_steps=1,
        log_completions=True,
        save_strategy="no",
        seed=seed,
        temperature=1.0,
        **{"max_steps": 2, **options},
    )
    trainer = GRPOTrainer(
        model=model(), reward_funcs=rewards, args=config, train_dataset=data, processing_class=tokenizer()
    )
    trainer.train()


train("one", [accuracy_reward])
train("two", [accuracy_reward, length_reward])
# Eight problems in batches of four, each batch logged at two steps: the files of steps 1 and 2 hold the same samples.
for seed, name in enumerate(("reused_base", "reused_rl")):
    train(name, [logged_accuracy], SUMS[:4] + DIGITS, seed, max_steps=3, steps_per_generation=2)
