"""Verdicts of mixed cases, idle and beside busy processes, with a cold and a warm cache: all four must agree.

python -m tests.verifiers.attacks.mixed [cases] [busy processes]
"""

import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from offleash.verifiers.registry import VERIFIERS
from offleash.verifiers.sandbox.pool import Pool
from offleash.verifying.cache import Cache
from offleash.verifying.judge import Judge, ProblemCase, problem_case
from tests.places import SHARED_DATA

Mixed = tuple[str, ProblemCase, str]  # verifier, problem, answer
BURNS = "    import time\n    while time.process_time() < {seconds}: pass\n"


def main() -> None:
    given = [int(word) for word in sys.argv[1:]]
    count, others = (given + [500, 8][len(given) :])[:2]
    cases = mixed_cases(count)
    with tempfile.TemporaryDirectory() as idle, tempfile.TemporaryDirectory() as crowded:
        runs = [timed("idle, cold cache", cases, Path(idle)), timed("idle, warm cache", cases, Path(idle))]
        with busy(others):
            runs.append(timed(f"beside {others} busy processes, cold cache", cases, Path(crowded)))
            runs.append(timed(f"beside {others} busy processes, warm cache", cases, Path(crowded)))
    different = [place for place, verdicts in enumerate(zip(*runs, strict=True)) if len(set(verdicts)) > 1]
    print(f"{len(cases)} cases, {len(different)} whose verdicts differ")
    for place in different:
        print(cases[place][0], cases[place][1].id, [run[place] for run in runs])
    sys.exit(bool(different))


def timed(name: str, cases: list[Mixed], cache: Path) -> list[str]:
    started = time.monotonic()
    verdicts, by = judged(cases, cache)
    print(f"{name}: {dict(Counter(verdicts))}, {by}, {time.monotonic() - started:.0f} s", flush=True)
    return verdicts


def judged(cases: list[Mixed], folder: Path) -> tuple[list[str], dict[str, int]]:
    """The verdict of each case, and how they were decided."""
    cache = Cache(folder)
    with Pool(2) as pool:
        judge = Judge(pool, cache)
        for name in sorted({name for name, _, _ in cases}):
            judge.decide(VERIFIERS[name], [(problem, answer) for other, problem, answer in cases if other == name])
        verdicts = [judge.known(VERIFIERS[name], problem)[answer].verdict.value for name, problem, answer in cases]
    cache.close()
    return verdicts, dict(judge.decided_by) | {"starved": judge.starved}


@contextlib.contextmanager
def busy(others: int) -> Iterator[None]:
    """That many busy processes."""
    processes = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(others)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def mixed_cases(count: int) -> list[Mixed]:
    """Programs, half of the cases, and formulas and numbers; right, wrong and slow ones."""
    rng = random.Random(0)
    rows = [json.loads(line) for line in (SHARED_DATA / "bench" / "humaneval.jsonl").read_text("utf-8").splitlines()]
    rng.shuffle(rows)
    programs: list[Mixed] = []
    for place in range(count // 2):
        row, kind = rows[place % len(rows)], place // len(rows) if place >= len(rows) else place % 2
        details = {"kind": "check", "prompt": row["problem"], "test": row["test"], "entry_point": row["entry_point"]}
        answer = row["answer"] if kind == 0 else f"    return [{place}]\n"
        if place % 40 == 3:  # two seconds of processor time, right all the same
            answer = BURNS.format(seconds=2) + row["answer"]
        if place % 125 == 7:
            answer = BURNS.format(seconds=10**6)
        if place % 125 == 9:
            answer = "    import time\n    time.sleep(10**6)\n"
        programs.append(("program", problem_case(f"program {place}", None, "", json.dumps(details)), answer))
    vectors = [
        json.loads(line)
        for name in ("huggingface__Math-Verify", "huggingface__lighteval")
        for line in (SHARED_DATA / "vectors" / f"{name}.jsonl").read_text("utf-8").splitlines()
    ]
    rng.shuffle(vectors)
    formulas: list[Mixed] = [
        ("math", problem_case(f"formula {place}", str(row["gold"]), "", None), str(row["pred"]))
        for place, row in enumerate(vectors[: count * 3 // 10])
    ]
    formulas[:2] = [
        ("math", problem_case("formula 0", "x", "", None), "(((((x+1)^{9}+1)^{9}+1)^{9}+1)^{9}+1)^{9}"),
        ("math", problem_case("formula 1", "4", "", None), "\\int_0^1 \\int_0^1 e^{x^{y}} \\sin(x^{y}) dx dy"),
    ]
    numbers: list[Mixed] = []
    for place in range(count - len(programs) - len(formulas)):
        gold = str(rng.randint(-999, 9999))
        answer = gold if place % 2 else str(rng.randint(-999, 9999))
        numbers.append(("number", problem_case(f"number {place}", gold, "", None), answer))
    return [*programs, *formulas, *numbers]


if __name__ == "__main__":
    main()
