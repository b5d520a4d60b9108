"""Run by test_verl.py with the Python of verl's environment: the example's configuration, verl's reward manager, dumps.

Prints one JSON document: what the configuration says, what the manager returns for each sample, and what compute_score
returns in a thread. Writes what the manager judged as rollouts of two steps and as a validation, by verl's own code.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from tensordict import TensorDict
from transformers import AutoTokenizer
from verl import DataProto
from verl.trainer.ppo.ray_trainer import RayPPOTrainer
from verl.trainer.ppo.reward import get_custom_reward_fn, resolve_reward_manager_cls
from verl.trainer.ppo.v1.trainer_base import PPOTrainer

PROBLEM = {"ground_truth": {"target": 16, "numbers": [3, 5, 2]}}


def main(configuration: str, tokenizer_folder: str, out: str) -> None:
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
    with ThreadPoolExecutor(1) as pool:  # verl calls synchronous functions in threads: no signal arrives there
        in_thread = pool.submit(score, "countdown", texts[0], PROBLEM["ground_truth"], {"index": 0}).result()
    rows = [(text, result) for text, result in zip([text for text in texts for _ in range(4)], results, strict=True)]
    for step in (1, 2):
        dump(PPOTrainer, Path(out, "rollouts"), step, rows, {"uid": [f"{step}_{n}_0" for n in range(len(rows))]})
    extras = {name: [result["reward_extra_info"][name] for result in results] for name in ("acc", "pred", "unread")}
    dump(RayPPOTrainer, Path(out, "older"), 7, rows, extras)
    dump(PPOTrainer, Path(out, "rollouts", "validation"), 2, rows[:3], {"reward": [1.0, 1.0, 1.0]})
    print(json.dumps({**document, "results": results, "in_thread": in_thread}))


def dump(trainer: Any, folder: Path, step: int, rows: list[tuple[str, Any]], extras: dict[str, list[Any]]) -> None:
    """Write samples as a trainer of verl does, from its background thread."""
    host = SimpleNamespace(global_steps=step, _write_generations=trainer._write_generations)
    trainer._init_dump_executor(host)
    texts, scores = [text for text, _ in rows], [result["reward_score"] for _, result in rows]
    golds = [PROBLEM["ground_truth"]] * len(rows)
    trainer._dump_generations(host, ["make 16"] * len(rows), texts, golds, scores, extras, str(folder))
    trainer._shutdown_dump_executor(host)


def _batch(tokenizer: Callable[..., Any], text: str) -> DataProto:
    """One sample as verl's rollout workers hand it to the manager."""
    response = tokenizer(text, return_tensors="pt")["input_ids"]
    batch = TensorDict(
        {"responses": response, "attention_mask": torch.ones_like(response)}, batch_size=response.shape[0]
    )
    columns = {"data_source": "countdown", "reward_model": PROBLEM, "extra_info": {"index": 0}}
    arrays = {}
    for name, value in columns.items():
        arrays[name] = np.empty(1, dtype=object)
        arrays[name][0] = value
    return DataProto(batch=batch, non_tensor_batch=arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
