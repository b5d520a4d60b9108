"""The shipped base: small, opened by any tool, as good as it was, and made again by the defaults."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from offleash.data.tally import tally_of_counts
from offleash.lab.countdown import COUNTDOWN, tokenizer
from offleash.lab.pretrain import pretrain, save
from offleash.lab.world import Pretraining
from offleash.samplers.sampler import SamplingParams
from offleash.samplers.seeds import seed_of
from offleash.stats.curves import Curve, pass_curve
from offleash.training.policy import open_policy
from offleash.training.rollouts import rewards_for
from tests.places import MODELS

SHIPPED = MODELS / "countdown"


def correct(folder: Path, part: str, problems: int, k: int, seed: int) -> list[int]:
    """How many of k samples of each problem are correct."""
    asked, policy = COUNTDOWN.problems(part, problems, 0), open_policy(str(folder))
    seeds = [seed_of("base", seed, name) for name in asked["problem"]]
    prompts = [policy.tokens(prompt) for prompt in asked["prompt"]]
    counts = []
    with rewards_for(asked, part) as rewards:
        for start in range(0, problems, 20):
            part_ = slice(start, start + 20)
            drawn = policy.draw(prompts[part_], k, seeds[part_], SamplingParams(max_tokens=COUNTDOWN.longest))
            names = [name for name in asked["problem"][part_] for _ in range(k)]
            judged = rewards.of(names, drawn.texts, drawn.truncated_N.tolist()).rewards
            counts += np.array(judged).reshape(-1, k).sum(1).astype(int).tolist()
    return counts


def curve_of(counts: list[int], k: int) -> Curve:
    return pass_curve(tally_of_counts(k, np.array(counts)[:, None], runs=("one",))).runs["one"]


def test_it_takes_less_than_a_megabyte() -> None:
    assert sum(path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file()) < 1_000_000


def test_any_tool_opens_it_and_its_tokenizer_is_that_of_the_world() -> None:
    model, words = AutoModelForCausalLM.from_pretrained(SHIPPED), AutoTokenizer.from_pretrained(SHIPPED)
    assert words.get_vocab() == tokenizer().get_vocab()
    assert (words.eos_token, words.pad_token, words.unk_token) == ("<end>", "<pad>", "<unk>")
    assert model.num_parameters() == 158_016
    assert all(torch.isfinite(weights).all() for weights in model.parameters())
    ids = torch.tensor([words.encode("3 4 5 6 = 24 :")])
    made = model.generate(ids, max_new_tokens=30, do_sample=False)
    assert made[0, -1] == words.eos_token_id
    assert made.shape[1] < ids.shape[1] + 30


def test_its_pass_at_1_is_what_it_was() -> None:
    counts = correct(SHIPPED, "dev", 100, 32, seed=0)
    assert 0.06 < sum(counts) / (100 * 32) < 0.11  # 0.084 of 12,800 samples when it was shipped
    assert sum(count > 0 for count in counts) > 50


@pytest.mark.slow
def test_the_base_made_again_has_the_pass_at_1_and_at_512_of_the_shipped_one(tmp_path: Path) -> None:
    save(pretrain(COUNTDOWN, Pretraining()), COUNTDOWN, tmp_path)
    shipped = curve_of(correct(SHIPPED, "test", 200, 1024, seed=0), 1024)
    again = curve_of(correct(tmp_path, "test", 200, 1024, seed=1), 1024)
    for k in (1, 512):
        place = shipped.k_K.tolist().index(k)
        told = f"{k}: {again.value_K[place]:.4f}, shipped {shipped.value_K[place]:.4f}"
        told += f" [{shipped.low_K[place]:.4f}, {shipped.high_K[place]:.4f}]"
        print(told)
        assert shipped.low_K[place] <= again.value_K[place] <= shipped.high_K[place], told
