"""Run folders whose every text is hostile in some way, with classes that are known."""

from pathlib import Path

import numpy as np
import polars as pl

from offleash.data.run_folder import create_run
from offleash.data.tables import question_hash

K = 16
HOSTILE = {
    "script": "<script>document.title = 'run'; window.ran = true</script>",
    "closing": "</script></pre></dialog><img src=x onerror='window.ran=true'>",
    "quotes": '"\'`\\" onmouseover="window.ran=true"',
    "direction": "abc \u202egpj.exe\u202c \u2067x\u2069 \u200f",
    "null": "before\x00after \x1b[31m \x07",
    "latex": r"$\frac{1}{2}$ \(x^2\) \boxed{\textbf{7}} ${window.ran=true} {{ 7*7 }} {% raw %}",
    "code": "```python\nimport os\nos.system('true')\n```\n<!-- --> ]]> &lt;b&gt; &amp;",
    "template": "javascript:window.ran=true //%0Aalert(1) \u2028\u2029",
}
CLASSES = ("P", "S", "E", "O")


def class_of(number: int) -> str:
    return CLASSES[number % 4]


def make_run(folder: Path, right: str, problems: int = 24, k: int = K, long: int = 0) -> Path:
    """A run that reaches the problems of the classes in `right`; `long` letters in the first wrong sample."""
    names = [f"problem {number:03d} {list(HOSTILE.values())[number % len(HOSTILE)][:30]}" for number in range(problems)]
    questions = [f"{name}? {list(HOSTILE.values())[number % len(HOSTILE)]}" for number, name in enumerate(names)]
    asked = pl.DataFrame(
        {
            "problem": names,
            "question": questions,
            "hash": [question_hash(text) for text in questions],
            "gold": ["7 <b>"] * problems,
            "benchmark": [("first", "second <i>")[number % 2] for number in range(problems)],
        }
    )
    rows = []
    for number, name in enumerate(names):
        hits = 5 if class_of(number) in right else 0
        for index in range(k):
            verdict = "correct" if index < hits else "unread" if index == k - 1 else "wrong"
            hostile = list(HOSTILE.values())[(number + index) % len(HOSTILE)]
            text = f"sample {index} of {number}\n{hostile}"
            if long and index == hits:
                text += "x" * long + " the end"
            answer = {"correct": "7 <b>", "wrong": hostile[:40], "unread": None}[verdict]
            rows.append((name, index, text, verdict, answer))
    frame = pl.DataFrame(rows, schema=["problem", "index", "text", "verdict", "answer"], orient="row")
    with create_run(folder, folder.name, asked, {"model": "<b>scripted</b>"}) as run:
        entropy = np.linspace(1.0, 2.0, frame.height)
        run.write_samples(
            frame.select("problem", "index", "text").with_columns(
                finish=pl.lit("stop"), tokens=pl.lit(5), entropy_raw=pl.Series(entropy)
            )
        )
        run.write_verdicts("scripted", frame.select("problem", "index", "verdict", "answer"))
    return folder


def make_pair(folder: Path, **options: int) -> tuple[Path, Path]:
    """base reaches P and S, rl reaches P and E."""
    return make_run(folder / "base", "PS", **options), make_run(folder / "rl", "PE", **options)
