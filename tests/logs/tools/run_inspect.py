"""Runs inspect-ai with scripted answers: four problems, three epochs, two scorers, an .eval and a .json log."""
# mypy: ignore-errors

from inspect_ai import Task, eval  # noqa: A004
from inspect_ai.dataset import Sample
from inspect_ai.model import GenerateConfig, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes, match
from inspect_ai.solver import generate

SUMS = [("2 + 3", "5"), ("7 - 4", "3"), ("6 * 7", "42"), ("9 / 3", "3")]
SAID = ["5", "3 it is", "I think 42", "3", "6", "4", "42", "it is 3", "no idea", "3", "41", "1"]


def scripted(text):
    output = ModelOutput.from_content("mockllm/model", text)
    # without a usage the mock model counts tokens with a tokenizer that it would download
    output.usage = ModelUsage(input_tokens=6, output_tokens=len(text), total_tokens=6 + len(text))
    return output


def main():
    problems = [Sample(id=f"sum-{i}", input=f"What is {sum_}?", target=gold) for i, (sum_, gold) in enumerate(SUMS)]
    for kind in ("eval", "json"):
        model = get_model("mockllm/model", custom_outputs=[scripted(text) for text in SAID])
        task = Task(
            name="tiny_sums",
            dataset=problems,
            solver=generate(),
            scorer=[match(), includes()],
            epochs=3,
            config=GenerateConfig(temperature=0.8, max_tokens=64),
        )
        eval(task, model=model, log_dir="logs", log_format=kind, max_samples=1, max_connections=1, display="none")


main()
