"""Verdicts per second: offleash against judging every sample, on the same texts, on one core.

python benchmarks/verdicts.py [--small] [outputs.jsonl ...]

Judging every sample is what TRL's accuracy_reward does: math-verify parses the gold answer and the completion for each
sample, and compares. Files are JSONL with problem_id, completion and gold; without any, the outputs of the shared
data folder beside the project are used, else completions written here. To grow a file, its completions are drawn again
within each problem. Both sides are warm before the clock starts.

Programs are HumanEval's own solutions, right and wrong, each in a fresh sandbox. All rates are per second of processor
time, all processes counted, so that they do not depend on what else the machine does.
"""

import json
import logging
import os
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from unittest.mock import patch

from offleash.data.verdict import Verdict
from offleash.verifiers.extraction.extract import extract
from offleash.verifiers.registry import VERIFIERS
from offleash.verifiers.sandbox import run
from offleash.verifiers.sandbox.limits import cpu_time_with_descendants
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifiers.verifier import Case
from offleash.verifying.cache import Cache
from offleash.verifying.cases import judge_texts
from offleash.verifying.judge import Judge, problem_case

SHARED = Path(__file__).parents[1].parent / "shared" / "data" / "outputs"
GROWN = (64, 1_024)  # samples per problem
MEASURED = 1_600  # samples on which judging every sample is timed; its cost per sample does not fall with their number
MATH = VERIFIERS["math"]
WARM = [("x+1", "1+x"), ("28", "\\sqrt{34} + 3\\sqrt{10}"), ("\\frac{1}{2}", "\\sin x"), ("(1,2)", "[1,3]")]
WRITTEN = {
    "problem": "def total(numbers):\n",
    "answer": "    return sum(numbers)\n",
    "test": "def check(candidate):\n    for n in range(20):\n        assert candidate([n, 1]) == n + 1\n",
    "entry_point": "total",
}
Row = tuple[str, str, str]  # problem, completion, gold


def main() -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    logging.disable(logging.CRITICAL)
    small = "--small" in sys.argv
    named = [Path(word) for word in sys.argv[1:] if not word.startswith("--")]
    files = named or sorted(SHARED.glob("*.jsonl"))
    ratios = []
    for name, rows in {path.stem: read(path) for path in files}.items() if files else [("written here", written())]:
        each = max(Counter(problem for problem, _, _ in rows).values())
        for samples in (each, *(() if small else GROWN)):
            grown = rows if samples == each else grow(rows, samples)
            ratios.append(compare(name, f"{samples:,} samples per problem", grown))
        if not small:  # a model's long texts hardly repeat: make every text a different one
            apart = [(problem, f"Try {n}. {text}", gold) for n, (problem, text, gold) in enumerate(grown)]
            ratios.append(compare(name, f"{GROWN[-1]:,} samples per problem, no two texts alike", apart))
    for backend in ("namespaces", "bwrap"):
        if why := run.unavailable_reason(backend):
            print(f"\nprograms by {backend}: not measured, {why}")
        else:
            ratios.append(programs(backend, 64 if small else 328))
    print("\n".join(ratios))


def programs(backend: str, count: int) -> str:
    """Programs judged per second of processor time, isolated by one backend."""
    cases = written_programs(count)
    with patch.object(run, "unavailable_reason", lambda other: "" if other == backend else "not measured now"):
        started, before = time.perf_counter(), processor_time()
        with Pool(1) as pool:
            judgements = [judgement for _, judgement in pool.judge(VERIFIERS["program"], cases)]
        used, seconds = processor_time() - before, time.perf_counter() - started
    verdicts = dict(Counter(judgement.verdict.value for judgement in judgements))
    print(f"\nprograms by {backend}, {count:,} in all: {verdicts}")
    print(f"  {count / used:.1f} per second of processor time, {count / seconds:.1f} per second on the clock")
    return f"ratio programs judged per second and core, {backend}: {count / used:.1f}"


def processor_time() -> float:
    """Of this process and of all that it has started and that has ended.

    The kernel leaves out what is killed with its sandbox: a cgroup counts 32 ms per program where this counts 30.
    """
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def written_programs(count: int) -> list[Case]:
    """HumanEval's solutions and wrong ones in turns; without the file, programs written here."""
    file = SHARED.parent / "bench" / "humaneval.jsonl"
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else [WRITTEN]
    cases = []
    for number in range(count):
        row = rows[number // 2 % len(rows)]
        details = {"kind": "check", "prompt": row["problem"], "test": row["test"], "entry_point": row["entry_point"]}
        cases.append(Case("    return None\n" if number % 2 else row["answer"], details=details))
    return cases


def compare(name: str, kind: str, rows: list[Row]) -> str:
    """Time both on the same texts, and list where they differ."""
    with tempfile.TemporaryDirectory() as scratch, Pool(1) as pool:
        warm(pool)
        started = cpu_time_with_descendants(os.getpid())
        judge = Judge(pool, Cache(Path(scratch)))
        cases = {problem: problem_case(problem, gold, "", None) for problem, _, gold in rows}
        pairs = [(cases[problem], MATH) for problem, _, _ in rows]
        judged = judge_texts(judge, pairs, [text for _, text, _ in rows], [False] * len(rows))
        ours = len(rows) / (cpu_time_with_descendants(os.getpid()) - started)
    verdicts = [judgement.verdict for _, judgement in judged]
    timed = random.Random(0).sample(range(len(rows)), min(MEASURED, len(rows)))
    theirs, other = per_sample([rows[place] for place in timed])
    print(f"\n{name}, {kind}, {len(rows):,} in all")
    print(f"  offleash {ours:,.0f} verdicts/s, {dict(judge.decided_by)}; per sample {theirs:,.0f} verdicts/s")
    apart = {
        (rows[p][2], judged[p][0].answer, v)
        for p, v in zip(timed, other, strict=True)
        if v != (verdicts[p] == "correct")
    }
    for gold, answer, verdict in sorted(apart, key=str):
        print(f"  differs: gold {gold!r}, answer {answer!r}: offleash {not verdict}, per sample {verdict}")
    print(f"  verdicts that reuse changes: {changed_by_reuse(rows, verdicts)}")
    return f"ratio verdicts per second over the per-sample way, {name}, {kind}: {ours / theirs:.1f}"


def per_sample(rows: list[Row]) -> tuple[float, list[bool]]:
    """What a reward function does: parse both sides of every sample, and compare."""
    from latex2sympy2_extended import NormalizationConfig
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

    latex = LatexExtractionConfig(normalization_config=NormalizationConfig(units=True), boxed_match_priority=0)
    configs = [latex, ExprExtractionConfig()]
    for gold, answer in WARM:
        verify(parse(f"${gold}$", configs), parse(f"${answer}$", configs))
    started = cpu_time_with_descendants(os.getpid())
    verdicts = [bool(verify(parse(f"${gold}$", configs), parse(text, configs))) for _, text, gold in rows]
    return len(rows) / (cpu_time_with_descendants(os.getpid()) - started), verdicts


def changed_by_reuse(rows: list[Row], verdicts: list[Verdict]) -> int:
    """How many of a sample of verdicts differ when each is decided again by itself: reuse must change none."""
    places = random.Random(1).sample(range(len(rows)), min(400, len(rows)))
    read = [extract(rows[place][1], MATH.steps) for place in places]
    cases = [Case(extraction.answer or "", rows[place][2]) for extraction, place in zip(read, places, strict=True)]
    with Pool(1) as pool:
        alone = dict(pool.judge(MATH, cases))
    return sum(
        verdicts[place] is not (alone[number].verdict if read[number].answer is not None else Verdict.UNREAD)
        for number, place in enumerate(places)
    )


def warm(pool: Pool) -> None:
    list(pool.judge(MATH, [Case(answer, gold) for gold, answer in WARM]))


def grow(rows: list[Row], samples: int) -> list[Row]:
    """Completions drawn again within each problem, so that every problem has so many samples."""
    rng = random.Random(0)
    by_problem: dict[str, list[Row]] = {}
    for row in rows:
        by_problem.setdefault(row[0], []).append(row)
    return [rng.choice(completions) for completions in by_problem.values() for _ in range(samples)]


def read(path: Path) -> list[Row]:
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(row["problem_id"], row["completion"], row["gold"]) for row in rows]


def written() -> list[Row]:
    """Completions in the manner of a model that is right half of the time."""
    rng = random.Random(0)
    rows = []
    for problem in range(100):
        gold = (
            f"\\frac{{{rng.randint(1, 99)}}}{{{rng.randint(100, 199)}}}"
            if problem % 4 == 0
            else str(rng.randint(0, 999))
        )
        for _ in range(8):
            answer = gold if rng.random() < 0.5 else str(rng.randint(0, 30))
            steps = "\n".join(f"Step {n}: we get $x_{{{n}}} = {rng.randint(0, 999)}$ and go on." for n in range(20))
            rows.append((str(problem), f"{steps}\nTherefore the answer is $\\boxed{{{answer}}}$.", gold))
    return rows


if __name__ == "__main__":
    main()
