"""Pretraining: a model learns the corpus, the same for the same seed, and is saved as any other model."""

import random
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from offleash.errors import OffleashError
from offleash.lab.countdown import COUNTDOWN, lines, tokenizer
from offleash.lab.pretrain import IGNORED_LABEL, _batch, pretrain, save
from offleash.lab.world import Pretraining, Shape

SMALL = replace(COUNTDOWN, shape=Shape(width=16, layers=1, heads=1, inner=32))
SHORT = Pretraining(steps=30, lines=32, rate=1e-2)


def test_the_loss_falls_and_the_same_seed_gives_the_same_weights() -> None:
    told: list[str] = []
    first, again = pretrain(SMALL, SHORT, told.append), pretrain(SMALL, SHORT)
    losses = [float(line.rsplit(" ", 1)[1]) for line in told]
    assert len(losses) == 30
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    other = pretrain(SMALL, replace(SHORT, seed=1))
    pairs = zip(first.parameters(), again.parameters(), other.parameters(), strict=True)
    same = [(torch.equal(a, b), torch.equal(a, c)) for a, b, c in pairs if a.dim() > 1]
    assert same == [(True, False)] * len(same)
    assert not first.training


def test_prompts_are_read_and_not_learned_and_the_end_is_learned() -> None:
    pairs = list(islice(lines(random.Random(1)), 5))
    words = tokenizer()
    ids, labels = _batch(pairs, words)
    for row, (prompt, text) in enumerate(pairs):
        asked, said = words.encode(prompt), [*words.encode(text), words.eos_token_id]
        assert ids[row, : len(asked) + len(said)].tolist() == [*asked, *said]
        assert labels[row, : len(asked)].tolist() == [IGNORED_LABEL] * len(asked)
        assert labels[row, len(asked) : len(asked) + len(said)].tolist() == said
        assert (labels[row, len(asked) + len(said) :] == IGNORED_LABEL).all()


def test_a_model_is_saved_with_its_tokenizer_for_every_tool_that_opens_one(tmp_path: Path) -> None:
    model = pretrain(SMALL, Pretraining(steps=1, lines=2))
    save(model, SMALL, tmp_path)
    again, words = AutoModelForCausalLM.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    ids = torch.tensor([words.encode("1 2 3 4 = 10 :")])
    with torch.inference_mode():
        assert torch.equal(again(input_ids=ids).logits, model(input_ids=ids).logits)
    assert again.generation_config.eos_token_id == words.eos_token_id == again.config.eos_token_id
    assert again.config.max_position_embeddings == SMALL.context


@pytest.mark.parametrize(("name", "value"), [("steps", 0), ("lines", 0), ("seed", -1)])
def test_what_cannot_be_done_is_refused(name: str, value: int) -> None:
    with pytest.raises(OffleashError, match=f"{name} must be . or more; found {value}"):
        Pretraining(**{name: value})
