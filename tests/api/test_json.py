"""For every verb, what `--json` prints is what the Python result's `to_dict()` gives, on the same input."""

import json
import shlex
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import offleash as ol
from offleash.cli.verbs import VERBS
from offleash.signatures import describe
from tests.api.test_journey import logs
from tests.cli.command import offleash
from tests.places import EXAMPLES, MODELS, ROOT

COUNTS = (EXAMPLES / "counts" / "base.csv", EXAMPLES / "counts" / "rl.csv")
PROBLEMS, SUMS = EXAMPLES / "problems.jsonl", f"scripted:{EXAMPLES / 'sums.json'}"
BASE = f"hf:{MODELS / 'countdown'}"
FEW = {"replicates": 200}
CHANGING = {"seconds", "peak_memory_mb", "new", "resumed", "scored_now", "judged", "forwarded"}  # the second time

Case = tuple[str, tuple[object, ...], dict[str, Any]]  # verb, arguments, options


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two draws of the lab's base, judged; a certificate of it; and logs."""
    folder = tmp_path_factory.mktemp("world")
    ol.lab_problems("countdown", out=folder / "few.jsonl", size=4)
    for name, seed in (("base", 0), ("rl", 1)):
        decoding = ol.Decoding(max_tokens=18)
        ol.draw(folder / "few.jsonl", BASE, k=24, out=folder / name, seed=seed, decoding=decoding)
        ol.verify(folder / name, judging=ol.Judging(jobs=1))
    ol.certify(folder / "few.jsonl", BASE, out=folder / "cert", epsilon=0.02, decoding=ol.Decoding(max_tokens=18))
    logs(folder)
    return folder


def cases(folder: Path, out: Path) -> list[Case]:
    pair = (folder / "base", folder / "rl")
    recipe = out / "recipe.yaml"
    recipe.write_text(
        f"model: {BASE}\nproblems: {{name: 'countdown:train', size: 8}}\nsteps: 1\ntensorboard: false\n"
        "sampling: {problems: 2, group: 4, max_tokens: 18}\n"
    )
    return [
        ("compare", COUNTS, FEW),
        ("compare", pair, {**FEW, "flips": True}),
        (
            "compare",
            (folder / "base.jsonl", folder / "rl.jsonl"),
            {**FEW, "verifier": "math", "jobs": 1, "cache": False},
        ),
        ("compare", (folder / "cert", folder / "cert"), FEW),
        ("compare", (*COUNTS, COUNTS[0]), FEW),
        ("report", COUNTS, {**FEW, "format": "md"}),
        ("report", COUNTS, {**FEW, "out": out / "r.tex", "intervals": True}),
        ("figure", ("plane", *COUNTS), {**FEW, "out": out / "plane.svg", "width": 400}),
        ("compare", COUNTS, {**FEW, "list": "lost", "csv": out / "problems.csv"}),
        ("show", (folder / "rl.jsonl", "a"), {"verdict": "all", "most": 2}),
        ("entropy", pair, FEW),
        ("likelihood", pair, {**FEW, "first": 4}),
        ("strategies", pair, {**FEW, "by": "countdown", "jobs": 1}),
        ("plan samples", COUNTS[:1], {"settle": 0.8}),
        ("plan samples", COUNTS, {}),
        ("plan training", COUNTS[:1], {"group": 16}),
        ("watch", (ROOT / "tests" / "logs" / "fixtures" / "trl" / "reused_base",), {"once": True}),
        ("problems", (PROBLEMS,), {"size": 2, "problem_seed": 1}),
        ("problems", (), {}),
        ("check", (PROBLEMS,), {"jobs": 1}),
        ("draw", (PROBLEMS, SUMS), {"k": 8, "out": out / "drawn", "until": 2, "jobs": 1}),
        ("verify", (folder / "base",), {"jobs": 1}),
        ("verify", (EXAMPLES / "rows.jsonl",), {"verifier": "math", "jobs": 1}),
        ("score", (folder / "rl",), {"model": BASE, "first": 2}),
        ("import", (folder / "rl.jsonl",), {"out": out / "imported"}),
        ("formats", (), {}),
        ("fsck", pair, {}),
        ("study", (PROBLEMS, SUMS, SUMS), {"k": 8, "out": out / "study", "jobs": 1}),
        ("study", (PROBLEMS, SUMS, SUMS), {"k": 8, "out": out / "study", "dry_run": True}),
        ("sweep", (PROBLEMS, SUMS), {"k": 8, "out": out / "sweep", "temperature": [0.6, 1.0], "jobs": 1}),
        ("frontier", (PROBLEMS, SUMS, SUMS), {"k": 8, "out": out / "frontier", "dry_run": True}),
        ("blend", (MODELS / "countdown", MODELS / "countdown"), {"weights": [0.5], "out": out / "blends"}),
        ("certify", (folder / "few.jsonl", BASE), {"out": folder / "cert", "epsilon": 0.02, "max_tokens": 18}),
        ("nucleus", (folder / "cert",), {"top_p": [0.8, 0.9]}),
        ("train", (recipe, "seed=1"), {"out": out / "train"}),
        ("lab list", (), {}),
        ("lab model", ("countdown",), {"out": out / "model"}),
        ("lab problems", ("countdown",), {"out": out / "lab.jsonl", "size": 3}),
        ("lab traces", ("countdown",), {"out": out / "traces.jsonl", "problems": folder / "few.jsonl", "each": 2}),
        ("lab pretrain", ("countdown",), {"out": out / "tiny", "steps": 1}),
    ]


def flags(verb: str, options: dict[str, Any]) -> list[str]:
    """Options as they are typed."""
    words: list[str] = []
    for name, value in options.items():
        flag = describe(VERBS[verb].load()).options[name].name
        if isinstance(value, bool):
            words += [flag if value else f"--no-{flag[2:]}"]
        elif isinstance(value, list):
            words += [flag, ",".join(map(str, value))]
        else:
            words += [flag, str(value)]
    return words


def settled(value: Any) -> Any:
    """A document without what changes from call to call; sums of floats depend on the order of rows in a join."""
    if isinstance(value, float):
        return pytest.approx(value, rel=1e-12)
    if isinstance(value, dict):
        return {key: settled(item) for key, item in value.items() if key not in CHANGING}
    return [settled(item) for item in value] if isinstance(value, list) else value


def plain(document: Any) -> Any:
    """A document as JSON has it, without what changes."""
    kept = json.loads(json.dumps(document, allow_nan=False))

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: without(item) for key, item in value.items() if key not in CHANGING}
        return [without(item) for item in value] if isinstance(value, list) else value

    return without(kept)


ONCE = {"import", "lab model", "lab pretrain", "train"}  # they refuse a place that is taken, or resume there


def test_what_the_command_prints_is_what_the_function_returns(world: Path, tmp_path: Path) -> None:
    for verb, arguments, options in cases(world, tmp_path):
        words = [*verb.split(), *map(str, arguments), *flags(verb, options), "--json"]
        printed = offleash(*words)
        assert printed.code == 0, (verb, printed.err)
        if verb in ONCE:
            taken = Path(options["out"])
            taken.rename(taken.with_name(f"{taken.name}-before"))
        function: Callable[..., Any] = VERBS[verb].load()
        asked = {"command": shlex.join(["offleash", *words])} if "command" in describe(function).python_only else {}
        result = function(*arguments, **options, **asked)
        lines = [json.loads(line) for line in printed.out.splitlines()]
        assert settled(lines if result.lines else lines[0]) == plain(result.to_dict()), verb
        assert result.ok
        assert len(repr(result).splitlines()) <= 24, verb


def test_the_viewer_says_where_it_listens() -> None:
    session = ol.view(*COUNTS, replicates=200)
    assert set(session.to_dict()) == {"url"}
    serving = threading.Thread(target=session.serve)
    serving.start()
    time.sleep(0.5)
    session.close()
    serving.join(10)
    assert not serving.is_alive()


def test_every_verb_is_compared(tmp_path: Path) -> None:
    """theory and demo take long; `make test-slow` runs them, and `view` is above."""
    covered = {verb for verb, _, _ in cases(tmp_path, tmp_path)}
    assert set(VERBS) - covered == {"theory", "demo", "view"}


@pytest.mark.slow
def test_theory_and_the_demo_print_what_they_return(tmp_path: Path) -> None:
    printed = offleash("theory", "--json")
    assert settled(json.loads(printed.out)) == plain(ol.theory().to_dict())
    printed = offleash("demo", "--quick", "-o", tmp_path / "demo", "--json")
    again = ol.demo(quick=True, out=tmp_path / "demo")
    assert settled(json.loads(printed.out)) == plain(again.to_dict())
