"""Run by test_verl.py with the Python of verl's environment: the example's configuration and verl's reward manager.

Prints one JSON document: what the configuration says, and what the manager returns for each sample.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from tensordict import TensorDict
from transformers import AutoTokenizer
from verl import DataProto
from verl.trainer.ppo.reward import get_custom_reward_fn, resolve_reward_manager_cls


def main(configuration: str, tokenizer_folder: str) -> None:
    with initialize_config_dir(config_dir=configuration, version_base=None):
        config = compose("grpo", overrides=["reward.custom_reward_function.reward_kwargs.verifier=countdown"])
    OmegaConf.resolve(config)
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    score = get_custom_reward_fn(config)
    manager = resolve_reward_manager_cls(config)(config, tokenizer, score)
    texts = ["3 + 5 = 8 , 8 * 2 = 16", "3 + 5 = 9 , 9 * 2 = 16", "3"]
    batches = [_batch(tokenizer, text) for text in texts for _ in range(4)]

    async def run_all() -> list[dict[str, object]]:
        return list(await asyncio.gather(*(manager.run_single(batch) for batch in batches)))

    results = manager.loop.run_until_complete(run_all())
    document = {"estimator": config.algorithm.adv_estimator, "group": config.actor_rollout_ref.rollout.n}
    print(json.dumps({**document, "results": results}))


def _batch(tokenizer: Callable[..., Any], text: str) -> DataProto:
    """One sample as verl's rollout workers hand it to the manager."""
    response = tokenizer(text, return_tensors="pt")["input_ids"]
    batch = TensorDict(
        {"responses": response, "attention_mask": torch.ones_like(response)}, batch_size=response.shape[0]
    )
    problem = {"ground_truth": {"target": 16, "numbers": [3, 5, 2]}}
    columns = {"data_source": "countdown", "reward_model": problem, "extra_info": {"index": 0}}
    arrays = {}
    for name, value in columns.items():
        arrays[name] = np.empty(1, dtype=object)
        arrays[name][0] = value
    return DataProto(batch=batch, non_tensor_batch=arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
