"""PROBLEMS: the registry of benchmarks by name. Adding one is an entry here and, where needed, a derivation.

All benchmarks of arXiv:2507.14843, with its sizes, and a few more. Ids, splits and columns are those that public
evaluation code reads (lighteval, LiveBench, LiveCodeBench, inspect_evals and others); `checked` says whether they were
seen on the hub itself. `listing` is the registry as rows, generated problems included.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from offleash.problems import countdown
from offleash.problems.derive import (
    boxed,
    has_task,
    hashes,
    humaneval,
    livebench,
    livebench_coding,
    livecodebench,
    mathvision,
    mathvista,
    mbpp,
    olympiad,
    released_between,
    scientific,
    unchanged_fields,
    whole_number,
)
from offleash.problems.problem import Benchmark

if TYPE_CHECKING:
    from rich.console import Console

GYM = "reasoning_gym"  # reasoning_gym:<task> and reasoning_gym:<task>:hard are generated, see reasoning_gym.py

# Answers of AIME are 000 to 999: hence the guess floor of 1/1000.

PROBLEMS: dict[str, Benchmark] = {
    # Competition mathematics. Answers are whole numbers, so 073 and 27.0 are rewritten (`whole_number`).
    "aime24": Benchmark(
        name="aime24",
        about="American Invitational Mathematics Examination 2024, I and II",
        hub="HuggingFaceH4/aime_2024",
        split="train",
        columns={"problem": "id", "question": "problem", "gold": "answer"},
        verifier="math",
        prompt="boxed",
        derive=whole_number,
        guess=1 / 1000,
        paper=30,
        citation="Mathematical Association of America",
    ),
    "aime25": Benchmark(
        name="aime25",
        about="American Invitational Mathematics Examination 2025, I and II",
        hub="yentinglin/aime_2025",
        config="default",
        split="train",
        columns={"problem": "id", "question": "problem", "gold": "answer"},
        verifier="math",
        prompt="boxed",
        derive=whole_number,
        guess=1 / 1000,
        paper=30,
        citation="Mathematical Association of America",
    ),
    "amc23": Benchmark(
        name="amc23",
        about="American Mathematics Competitions 2023, problems with a whole number as answer",
        hub="math-ai/amc23",
        split="test",
        columns={"problem": "id", "question": "question", "gold": "answer"},
        verifier="math",
        prompt="boxed",
        derive=whole_number,
        paper=40,
        citation="Mathematical Association of America",
    ),
    # Expressions as answers: compared by `math`, which knows equal forms.
    "math500": Benchmark(
        name="math500",
        about="500 problems from MATH",
        hub="HuggingFaceH4/MATH-500",
        split="test",
        columns={"problem": "unique_id", "question": "problem", "gold": "answer"},
        verifier="math",
        prompt="boxed",
        derive=boxed,
        paper=500,
        citation="arXiv:2103.03874, arXiv:2305.20050",
    ),
    "minerva": Benchmark(
        name="minerva",
        about="undergraduate science and mathematics from OpenCourseWare",
        hub="math-ai/minervamath",
        split="test",
        columns={"question": "question", "gold": "answer"},
        verifier="math",
        prompt="boxed",
        derive=boxed,
        paper=272,
        citation="arXiv:2206.14858",
    ),
    "olympiadbench": Benchmark(
        name="olympiadbench",
        about="olympiad mathematics in English, text only, open answers",
        hub="Hothan/OlympiadBench",
        config="OE_TO_maths_en_COMP",
        split="train",
        columns={"problem": "id", "question": "question", "gold": "final_answer"},
        verifier="math",
        prompt="boxed",
        derive=olympiad,
        paper=675,
        citation="arXiv:2402.14008",
    ),
    "gsm8k": Benchmark(
        name="gsm8k",
        about="grade-school word problems",
        hub="openai/gsm8k",
        config="main",
        split="test",
        columns={"question": "question", "gold": "answer"},
        verifier="math",
        prompt="boxed",
        derive=hashes,
        size=1319,
        citation="arXiv:2110.14168",
    ),
    # 433 is a tenth of 4,326. Which tenth the paper took is not known, so ours is a seeded sample of that size.
    "simpleqa": Benchmark(
        name="simpleqa",
        about="short factual questions, judged by a model; the paper used 10% of them",
        hub="basicv8vc/SimpleQA",
        split="test",
        columns={"question": "problem", "gold": "answer"},
        verifier="referee",
        prompt="short",
        derive=unchanged_fields,
        paper=433,
        share=433,
        citation="arXiv:2411.04368",
    ),
    # LiveBench replaces its questions over time; `keep` takes the tasks that the paper used.
    "livebench_reasoning": Benchmark(
        name="livebench_reasoning",
        about="LiveBench reasoning: web_of_lies_v2 and spatial",
        hub="livebench/reasoning",
        split="test",
        columns={"problem": "question_id", "question": "turns", "gold": "ground_truth"},
        verifier="string",
        prompt="tagged",
        derive=livebench,
        keep=has_task("web_of_lies_v2", "spatial"),
        paper=100,
        citation="arXiv:2406.19314",
    ),
    "livebench_coding": Benchmark(
        name="livebench_coding",
        about="LiveBench coding: LCB_generation and coding_completion",
        hub="livebench/coding",
        split="test",
        columns={"problem": "question_id", "question": "turns"},
        verifier="program",
        prompt="plain",
        derive=livebench_coding,
        keep=has_task("LCB_generation", "coding_completion"),
        paper=128,
        citation="arXiv:2406.19314",
    ),
    "livebench_language": Benchmark(
        name="livebench_language",
        about="LiveBench language: typos",
        hub="livebench/language",
        split="test",
        columns={"problem": "question_id", "question": "turns", "gold": "ground_truth"},
        verifier="string",
        prompt="tagged",
        derive=livebench,
        keep=has_task("typos"),
        paper=50,
        citation="arXiv:2406.19314",
    ),
    "scibench": Benchmark(
        name="scibench",
        about="textbook problems in physics, chemistry and mathematics, with units",
        hub="xw27/scibench",
        split="train",
        columns={"question": "problem_text", "gold": "answer_number"},
        verifier="number",
        prompt="number",
        derive=scientific,
        paper=692,
        citation="arXiv:2307.10635",
    ),
    # 323 and 131 are the contests of release_v6 in these windows: 279 + 44 of v5 and v6, and the rest of v6.
    "livecodebench_v5": Benchmark(
        name="livecodebench_v5",
        about="LiveCodeBench, contests from 2024-08-01 to 2025-01-31",
        hub="lighteval/code_generation_lite",
        config="release_v6",
        split="test",
        columns={"problem": "question_id", "question": "question_content"},
        verifier="program",
        prompt="stdin",
        derive=livecodebench,
        keep=released_between("2024-08-01", "2025-02-01"),
        paper=323,
        citation="arXiv:2403.07974",
    ),
    "livecodebench_v6": Benchmark(
        name="livecodebench_v6",
        about="LiveCodeBench, contests from 2025-02-01 to 2025-04-30",
        hub="lighteval/code_generation_lite",
        config="release_v6",
        split="test",
        columns={"problem": "question_id", "question": "question_content"},
        verifier="program",
        prompt="stdin",
        derive=livecodebench,
        keep=released_between("2025-02-01", "2025-05-01"),
        paper=131,
        citation="arXiv:2403.07974",
    ),
    # Not in the paper, but in most logs of code models.
    "humaneval": Benchmark(
        name="humaneval",
        about="functions to complete, with unit tests",
        hub="openai/openai_humaneval",
        split="test",
        columns={"problem": "task_id", "question": "prompt", "gold": "canonical_solution"},
        verifier="program",
        prompt="code",
        derive=humaneval,
        size=164,
        citation="arXiv:2107.03374",
    ),
    "mbpp": Benchmark(
        name="mbpp",
        about="short programs from descriptions, with assertions",
        hub="google-research-datasets/mbpp",
        config="full",
        split="test",
        columns={"problem": "task_id", "question": "text", "gold": "code"},
        verifier="program",
        prompt="asserts",
        derive=mbpp,
        size=500,
        citation="arXiv:2108.07732",
    ),
    # Questions about images. The verifier of a row depends on the kind of its answer.
    "mathvista": Benchmark(
        name="mathvista",
        about="MathVista testmini: mathematics in images",
        hub="AI4Math/MathVista",
        config="default",
        split="testmini",
        columns={"problem": "pid", "question": "question", "gold": "answer", "images": "decoded_image"},
        verifier="math",
        prompt="boxed",
        derive=mathvista,
        paper=1000,
        citation="arXiv:2310.02255",
    ),
    "mathvision": Benchmark(
        name="mathvision",
        about="MATH-Vision testmini: competition problems with figures",
        hub="MathLLMs/MathVision",
        config="default",
        split="testmini",
        columns={"problem": "id", "question": "question", "gold": "answer", "images": "decoded_image"},
        verifier="math",
        prompt="boxed",
        derive=mathvision,
        paper=304,
        citation="arXiv:2402.14804",
    ),
}


# Keys of `offleash problems --json`, in their order: attributes of a benchmark.
LISTED = (
    *("name", "about", "paper", "verifier", "guess", "prompt"),
    *("hub", "config", "split", "source", "checked", "citation"),
)


def listing() -> list[dict[str, object]]:
    """One row per benchmark, and one for each kind of generated problems."""
    rows: list[dict[str, object]] = [
        {key: getattr(benchmark, key) for key in LISTED} for benchmark in PROBLEMS.values()
    ]
    generated = dict.fromkeys(LISTED) | {
        "name": f"{GYM}:<task>",
        "about": "105 tasks, generated; easy and hard settings",
        "paper": 50,
        "verifier": GYM,
        "prompt": "the task's own",
        "source": "generated",
        "checked": True,
        "citation": "arXiv:2505.24760",
    }
    puzzles = dict.fromkeys(LISTED) | {
        "name": f"{countdown.NAME}:<part>",
        "about": "reach a target from four numbers, generated; parts train, dev and test share no numbers",
        "verifier": "countdown",
        "prompt": "plain",
        "source": "generated",
        "checked": True,
    }
    return [*rows, generated, puzzles]


def show_benchmarks(console: "Console", rows: Sequence[Mapping[str, object]]) -> None:
    """Print the benchmarks as a table; only the hub id, the longest column, may wrap."""
    from rich import box
    from rich.table import Table

    table = Table("name", "paper", "verifier", "guess", "hub id", "checked", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, column in enumerate(table.columns):
        column.no_wrap, column.overflow = number != 4, "fold"
    for row in rows:
        cells = (row["name"], row["paper"], row["verifier"], row["guess"], row["hub"] or row["source"])
        table.add_row(*("" if cell is None else str(cell) for cell in cells), "yes" if row["checked"] else "no")
    console.print(table)
    console.print(
        "paper: problems in arXiv:2507.14843. checked: whether id and columns were verified on the hub.\n"
        "Files (JSONL, JSON, CSV, Parquet) are named by path; reasoning_gym:TASK:hard is the hard setting.",
        soft_wrap=True,
    )
