"""Runs inspect-ai on problems that share a sentence, with choices, images and errors: two models, two epochs."""
# mypy: ignore-errors

import json
import shutil
from pathlib import Path

from inspect_ai import Task, eval  # noqa: A004
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, ContentImage, ContentText, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, solver

PIXELS = ("iVBORw0KGgo=", "R0lGODlhAQABAAAAACw=")  # never looked at: the model is scripted
LONG = "Read this with care. " * 250  # summaries of an archive hold the first 5,120 characters
SAID = {"base": "41 3 cat no 5 boom 41 42 9 dog 9 boom", "rl": "42 3 cat no 9 boom 41 42 3 cat 9 boom"}


def problems():
    for number, (choices, gold) in enumerate(((["41", "42"], "42"), (["1", "3"], "3"))):
        yield Sample(id=f"larger-{number}", input="Which is larger?", target=gold, choices=choices)
    for pixels, gold in zip(PIXELS, ("cat", "dog"), strict=True):
        parts = [ContentText(text="What is this?"), ContentImage(image=f"data:image/png;base64,{pixels}")]
        yield Sample(id=f"image-{gold}", input=[ChatMessageUser(content=parts)], target=gold)
    yield Sample(id="long", input=f"{LONG}What is 2 + 3?", target="5")
    yield Sample(id="unlucky", input="What is 7 - 4?", target="3")


def scripted(text):
    output = ModelOutput.from_content("mockllm/model", text)
    output.usage = ModelUsage(input_tokens=6, output_tokens=len(text), total_tokens=6 + len(text))
    return output


@solver
def fragile():
    async def solve(state, generate):
        if state.output.completion == "boom":
            raise ConnectionError(f"The server closed the connection\nwhile {state.sample_id} was drawn")
        return state

    return solve


def main():
    for name, said in SAID.items():
        for kind in ("eval", "json"):
            model = get_model("mockllm/model", custom_outputs=[scripted(text) for text in said.split()])
            task = Task(
                name="shared", dataset=list(problems()), solver=[generate(), fragile()], scorer=includes(), epochs=2
            )
            options = {"max_samples": 1, "max_connections": 1, "display": "none", "fail_on_error": False}
            eval(task, model=model, log_dir=f"{name}_{kind}", log_format=kind, **options)
            (log,) = Path(f"{name}_{kind}").glob(f"*.{kind}")
            shutil.move(log, f"{name}.{kind}")
        whole = json.loads(Path(f"{name}.json").read_text())
        for sample in whole["samples"]:  # transcripts and tracebacks are most of the file, and are not read
            sample |= {"events": [], "messages": [], "store": {}}
            sample["error"] = sample.get("error") and {**sample["error"], "traceback": "", "traceback_ansi": ""}
        Path(f"{name}.json").write_text(json.dumps(whole, indent=1))


main()
