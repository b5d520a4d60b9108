"""TRL's GRPO with the support monitor, on the lab's model: python examples/trl_monitor.py

It runs as it is on a CPU, in two or three minutes. For a real model change MODEL, the dataset and the probe set, which
must not be trained on. Prints what was logged; --figure FILE.svg plots it.
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
SHOWN = ("probe/pass@1", "probe/pass@{k}", "support/srr")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("-k", type=int, default=64)
    parser.add_argument("--size", type=int, default=60, help="problems of the probe set")
    parser.add_argument("--out", default="runs/trl-monitor")
    parser.add_argument("--figure", help="plot the curves to this file: .svg or .png")
    options = parser.parse_args()

    problems = ol.problem_set("countdown:train", selection=ol.ProblemSelection(size=1024)).frame
    probe = ol.problem_set("countdown:dev", selection=ol.ProblemSelection(size=options.size)).frame
    config = GRPOConfig(
        output_dir=options.out,
        max_steps=options.steps,
        num_generations=16,
        per_device_train_batch_size=512,
        max_completion_length=18,
        learning_rate=3e-4,
        logging_steps=5,
        report_to="none",  # or tensorboard, wandb, trackio: the values go wherever the trainer logs
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        bf16=False,
    )
    trainer = GRPOTrainer(
        model=MODEL,
        reward_funcs=reward("countdown"),
        train_dataset=Dataset.from_list(problems.select("prompt", "verifier", "details").to_dicts()),
        args=config,
    )
    monitor = ol.SupportMonitor(trainer, probe=probe, k=options.k, every=options.every, max_share=None)
    trainer.add_callback(monitor)
    trainer.train()

    logged = [entry for entry in trainer.state.log_history if "support/srr" in entry]
    names = [name.format(k=options.k) for name in SHOWN]
    for entry in logged:
        values = (
            f"{name} {entry[name]:.3f} [{entry[f'{name}_low']:.3f}, {entry[f'{name}_high']:.3f}]" for name in names
        )
        print(f"step {entry['step']:.0f}: {', '.join(values)}, lost {entry['support/S']:.1f}")
    print(f"Compare the evaluations: offleash compare {monitor.out}/base {monitor.out}/step-*")
    if options.figure:
        plot(logged, names).save(options.figure)
        print(f"Wrote {Path(options.figure)}")


def plot(logged: list[dict[str, float]], names: list[str]) -> alt.LayerChart:
    """The logged values with their intervals."""
    rows = [
        {
            "step": entry["step"],
            "metric": name,
            "value": entry[name],
            "low": entry[f"{name}_low"],
            "high": entry[f"{name}_high"],
        }
        for entry in logged
        for name in names
    ]
    chart = alt.Chart(pl.DataFrame(rows)).encode(
        alt.X("step:Q", title="training step"), alt.Color("metric:N", title=None)
    )
    band = chart.mark_area(opacity=0.15).encode(alt.Y("low:Q", title=None), alt.Y2("high:Q"))
    layers: alt.LayerChart = (band + chart.mark_line(point=True).encode(alt.Y("value:Q"))).properties(
        width=520, height=280
    )
    return layers


if __name__ == "__main__":
    main()
