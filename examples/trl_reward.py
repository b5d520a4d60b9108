"""TRL's GRPO with a verifier of offleash as the reward, on the lab's model: python examples/trl_reward.py

It runs as it is on a CPU. For a real model change MODEL and the dataset: any with a prompt and an answer. Prints the
reward of every step; --figure FILE.svg plots it.
"""

import argparse
from pathlib import Path

import altair as alt
import polars as pl
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

import offleash as ol
from offleash.lab.pretrain import base_of
from offleash.training.trl import reward

MODEL = str(base_of("countdown"))  # or "Qwen/Qwen2.5-0.5B-Instruct"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--out", default="runs/trl-reward")
    parser.add_argument("--figure", help="plot reward and unread rate to this file: .svg or .png")
    options = parser.parse_args()

    problems = ol.problem_set("countdown:train", selection=ol.ProblemSelection(size=256)).frame
    dataset = Dataset.from_list(problems.select("prompt", "verifier", "details").to_dicts())
    config = GRPOConfig(
        output_dir=options.out,
        max_steps=options.steps,
        num_generations=8,
        per_device_train_batch_size=64,
        max_completion_length=18,
        learning_rate=3e-4,
        logging_steps=1,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        bf16=False,
    )
    score = reward("countdown")
    trainer = GRPOTrainer(model=MODEL, reward_funcs=score, train_dataset=dataset, args=config)
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "reward" in entry]
    for entry in logged:
        print(f"step {entry['step']:.0f}: reward {entry['reward']:.3f}, unread {entry['countdown/unread_rate']:.3f}")
    if options.figure:
        plot(logged).save(options.figure)
        print(f"Wrote {Path(options.figure)}")


def plot(logged: list[dict[str, float]]) -> alt.LayerChart:
    """Reward and unread rate of every step, and their means over the nine steps around it."""
    names = ("reward", "countdown/unread_rate")
    rows = [{"step": entry["step"], "value": entry[name], "metric": name} for entry in logged for name in names]
    chart = alt.Chart(pl.DataFrame(rows)).encode(
        alt.X("step:Q", title="training step"), alt.Color("metric:N", title=None)
    )
    steps = chart.mark_point(opacity=0.35, size=14).encode(alt.Y("value:Q", title=None))
    mean = chart.transform_window(mean="mean(value)", frame=[-4, 4], groupby=["metric"], sort=[{"field": "step"}])
    layers: alt.LayerChart = (steps + mean.mark_line().encode(alt.Y("mean:Q"))).properties(width=520, height=240)
    return layers


if __name__ == "__main__":
    main()
