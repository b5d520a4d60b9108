"""TRL's GRPO on the lab's model, for the tests of the monitor; also a script, to be run by accelerate or killed.

python -m tests.training.trl_lab OUT '{"steps": 6, ...}' trains and prints the log as JSON.
"""

import json
import sys
from pathlib import Path
from typing import Any

import offleash as ol
from offleash.lab.pretrain import base_of
from offleash.training.trl import reward

LONGEST = 18  # tokens of a sample of the lab's model, its end included


def rows(part: str, size: int, seed: int = 0) -> list[dict[str, Any]]:
    """Countdown problems as a dataset for TRL."""
    problems = ol.problem_set(f"countdown:{part}", selection=ol.ProblemSelection(size=size, problem_seed=seed)).frame
    return problems.select("prompt", "verifier", "details").to_dicts()


def grpo(
    out: Path, steps: int, rate: float = 1e-3, groups: int = 2, seed: int = 0, tokenizer: Any = None, **options: Any
) -> Any:
    """A trainer; groups of 8."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    config = {
        "output_dir": str(out),
        "max_steps": steps,
        "num_generations": 8,
        "per_device_train_batch_size": 8 * groups,
        "max_completion_length": LONGEST,
        "learning_rate": rate,
        "lr_scheduler_type": "constant",
        "logging_steps": 1,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": True,
        "bf16": False,
        "seed": seed,
        **options,
    }
    data = Dataset.from_list(rows("train", 256, seed))
    score = reward("countdown")
    model, arguments = str(base_of("countdown")), GRPOConfig(**config)
    return GRPOTrainer(model=model, reward_funcs=score, train_dataset=data, args=arguments, processing_class=tokenizer)


def main(out: str, text: str) -> None:
    """Train with a monitor and print what was logged."""
    options = json.loads(text)
    monitoring, resume = options.pop("monitor", {}), options.pop("resume", None)
    trainer = grpo(Path(out), **options)
    probe = rows("dev", monitoring.pop("size", 12))
    monitor = ol.SupportMonitor(trainer, probe=probe, max_share=None, **monitoring)
    trainer.add_callback(monitor)
    trainer.train(resume_from_checkpoint=resume)
    if trainer.accelerator.is_main_process:
        print(json.dumps(trainer.state.log_history))


if __name__ == "__main__":
    main(*sys.argv[1:])
