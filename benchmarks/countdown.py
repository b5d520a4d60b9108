"""Two models of 156k parameters for the benchmarks: one trained on Countdown traces, and the same sharpened by RL.

The base learns from worked traces with wrong attempts and slips, as a web text would have; the sharpened one is trained
on with a policy gradient on its own samples, reward 1 for a correct trace, until its first try is right several times
as often. Both are kept under .envs/models and made again when missing: python benchmarks/countdown.py
"""

import random
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

HOME = Path(__file__).parent.parent / ".envs" / "models"
NUMBERS = [str(number) for number in range(100)]
WORDS = [*NUMBERS, "+", "-", "*", "/", "=", ":", ".", "<end>", "<pad>", "<unk>"]
LENGTH = 16  # tokens of a trace


def applied(left: int, sign: str, right: int) -> int | None:
    """The value of one step, where it stays a number from 0 to 99."""
    if sign == "/" and (right == 0 or left % right):
        return None
    value = {"+": left + right, "-": left - right, "*": left * right, "/": left // max(right, 1)}[sign]
    return value if 0 <= value < 100 else None


def walk(numbers: list[int], rng: random.Random) -> list[tuple[int, str, int, int]]:
    """A random way from the numbers to one value: a chain or a tree of three steps."""
    while True:
        left, steps = list(numbers), []
        while len(left) > 1:
            first, second = rng.sample(range(len(left)), 2)
            sign = rng.choice("+-*/+-")
            value = applied(left[first], sign, left[second])
            if value is None:
                break
            steps.append((left[first], sign, left[second], value))
            left = [number for place, number in enumerate(left) if place not in (first, second)] + [value]
        if len(left) == 1:
            return steps


def problem(rng: random.Random) -> tuple[list[int], list[tuple[int, str, int, int]]]:
    """Four numbers and one way to work with them; its last value is a target that can be reached."""
    numbers = [rng.randint(1, 25) for _ in range(4)]
    return numbers, walk(numbers, rng)


def prompt(numbers: list[int], target: int) -> str:
    return f"{' '.join(map(str, numbers))} = {target} :"


def trace(steps: list[tuple[int, str, int, int]]) -> str:
    return " ".join(f"{a} {sign} {b} = {value}" for a, sign, b, value in steps) + " ."


def is_correct(numbers: list[int], target: int, text: str) -> bool:
    """Whether a trace uses every number once, makes no slip and ends at the target."""
    words = text.split()
    if len(words) != LENGTH or words[-1] != ".":
        return False
    have = sorted(numbers)
    for place in range(0, LENGTH - 1, 5):
        a, sign, b, equals, value = words[place : place + 5]
        if equals != "=" or sign not in "+-*/" or not (a.isdigit() and b.isdigit() and value.isdigit()):
            return False
        for used in (int(a), int(b)):
            if used not in have:
                return False
            have.remove(used)
        if applied(int(a), sign, int(b)) != int(value):
            return False
        have.append(int(value))
    return have == [target]


def lines(rng: random.Random) -> Iterator[tuple[str, str]]:
    """Worked traces: two in five miss their target, one in five has a slip."""
    while True:
        numbers, steps = problem(rng)
        target = steps[-1][3] if rng.random() < 0.6 else rng.randint(0, 99)
        if rng.random() < 0.2:
            place = rng.randrange(3)
            a, sign, b, _ = steps[place]
            value = steps[place][3] + rng.choice([-10, -2, -1, 1, 2, 10])
            steps[place] = (a, sign, b, min(max(value, 0), 99))
        yield prompt(numbers, target), trace(steps)


def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>", pad_token="<pad>", eos_token="<end>")


def batch(pairs: list[tuple[str, str]], words: PreTrainedTokenizerFast) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids, and the labels: prompts are not learned, and all lines have one length."""
    ids = torch.tensor(
        [[*words.encode(question), *words.encode(answer), words.eos_token_id] for question, answer in pairs]
    )
    labels = ids.clone()
    labels[:, : len(pairs[0][0].split())] = -100
    return ids, labels


def pretrained(steps: int = 1800, seed: int = 0) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    words, rng = tokenizer(), random.Random(seed)
    config = LlamaConfig(
        vocab_size=len(WORDS), hidden_size=64, intermediate_size=172, num_hidden_layers=3, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=64, tie_word_embeddings=True,
        bos_token_id=None, eos_token_id=words.eos_token_id, pad_token_id=words.pad_token_id,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    corpus = lines(rng)
    for _ in range(steps):
        ids, labels = batch([next(corpus) for _ in range(256)], words)
        loss = model(ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()
    return model


def sharpened(model: LlamaForCausalLM, steps: int = 150, seed: int = 1) -> LlamaForCausalLM:
    """A policy gradient on the model's own samples: groups of 16, advantage = reward minus the group's mean."""
    words, rng = tokenizer(), random.Random(seed)
    torch.manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for _ in range(steps):
        problems = [(numbers, path[-1][3]) for numbers, path in (problem(rng) for _ in range(64))]
        ids = torch.tensor([words.encode(prompt(*numbers_target)) for numbers_target in problems]).repeat_interleave(
            16, 0
        )
        with torch.no_grad():
            out: torch.Tensor = model.generate(
                ids, do_sample=True, top_k=0, max_new_tokens=LENGTH + 1, attention_mask=ids * 0 + 1
            )
        said = words.batch_decode(out[:, ids.shape[1] :], skip_special_tokens=True)
        reward = torch.tensor([float(is_correct(*problems[place // 16], text)) for place, text in enumerate(said)])
        advantage = (reward.view(64, 16) - reward.view(64, 16).mean(1, keepdim=True)).flatten()
        advantage = advantage / (reward.view(64, 16).std(1) + 1e-4).repeat_interleave(16)
        logits = model(out).logits[:, ids.shape[1] - 1 : -1].log_softmax(-1)
        taken = out[:, ids.shape[1] :]
        kept = (taken != words.pad_token_id).float()
        loss = -(logits.gather(-1, taken[..., None])[..., 0] * kept * advantage[:, None]).sum() / kept.sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
    return model


def made(name: str) -> Path:
    """The folder of one of the two models, made when it is not there."""
    folder = HOME / f"countdown-{name}"
    if not (folder / "config.json").is_file():
        model = pretrained() if name == "base" else sharpened(LlamaForCausalLM.from_pretrained(made("base")))
        model.save_pretrained(folder)
        tokenizer().save_pretrained(folder)
    return folder


def prompts(count: int, seed: int = 2) -> list[tuple[list[int], int]]:
    rng = random.Random(seed)
    return [(numbers, steps[-1][3]) for numbers, steps in (problem(rng) for _ in range(count))]


if __name__ == "__main__":
    for each in ("base", "sharpened"):
        loaded = LlamaForCausalLM.from_pretrained(made(each))
        print(each, made(each), sum(weights.numel() for weights in loaded.parameters()), "parameters")
