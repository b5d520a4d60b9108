"""What is said above the table of a comparison: the same samples twice, greedy runs, problems fused or left apart."""

import ast
import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from offleash.data.run_folder import verifiers
from offleash.data.tables import Note
from tests.cli.command import offleash, refused
from tests.comparing.world import drawn, write_log
from tests.places import ROOT
from tests.verifying.samples import run_of_texts


def lm_eval_log(path: Path, correct: set[int], **decoding: object) -> Path:
    rows = [
        {
            "doc_id": number,
            "doc": {"question": f"Question {number}?"},
            "target": "7",
            "arguments": {"gen_args_0": {"arg_0": "prompt", "arg_1": decoding}},
            "resps": [["seven"]],
            "filtered_resps": ["7"],
            "exact_match": float(number in correct),
        }
        for number in range(40)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


GREEDY = "What chance alone would give is not shown: greedy decoding is deterministic"


@pytest.mark.parametrize("decoding", [{"do_sample": False}, {"do_sample": True, "temperature": 0.0}])
def test_a_greedy_pair_prints_no_chance_figure(decoding: dict[str, object], tmp_path: Path) -> None:
    base = lm_eval_log(tmp_path / "base.jsonl", set(range(20)), **decoding)
    rl = lm_eval_log(tmp_path / "rl.jsonl", set(range(10, 35)), **decoding)
    text = " ".join(offleash("compare", base, rl).out.split())
    assert GREEDY in text
    assert text.index(GREEDY) < text.index("SRR")
    for words in ("unchanged model", "the rate fell", "redraw"):
        assert words not in text
    result = offleash("compare", base, rl, "--json").json
    chance = result["chance"]
    assert [result["support"][cell] for cell in "PESO"] == [10, 15, 10, 5]
    numbers = ("expected_E", "expected_S", "p_E", "p_S", "losses_at_least", "gains_at_least", "successes_needed")
    assert all(chance[name] is None for name in numbers)
    assert set(chance["retest"].values()) == {None}
    assert chance["mcnemar_p"] == pytest.approx(0.4244, abs=1e-4)  # of 25 changed problems 10 were lost: about problems


def test_a_sampled_pair_prints_what_chance_would_give(tmp_path: Path) -> None:
    base = lm_eval_log(tmp_path / "base.jsonl", set(range(20)), do_sample=True, temperature=1.0)
    rl = lm_eval_log(tmp_path / "rl.jsonl", set(range(10, 35)), do_sample=True, temperature=1.0)
    text = offleash("compare", base, rl).out
    assert "greedy" not in text
    assert "unchanged model" in text


def test_a_page_and_markdown_of_a_greedy_pair_print_no_chance_figure(tmp_path: Path) -> None:
    base = lm_eval_log(tmp_path / "base.jsonl", set(range(20)), do_sample=False)
    rl = lm_eval_log(tmp_path / "rl.jsonl", set(range(10, 35)), do_sample=False)
    markdown = offleash("report", base, rl, "--format", "md").out
    assert GREEDY in markdown
    assert re.search(r"\d expected for an unchanged model", markdown) is None
    offleash("report", base, rl, "-o", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert GREEDY in page
    assert re.search(r"\d expected for an unchanged model|jointly 95%", page) is None


def test_the_same_samples_on_both_sides_are_noticed_above_the_table(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", drawn(6, 8))
    (tmp_path / "copy.jsonl").write_text(log.read_text())
    text = " ".join(offleash("compare", log, tmp_path / "copy.jsonl").out.split())
    assert text.index("are they the same samples?") < text.index("SRR")


def test_the_same_counts_on_both_sides_are_noticed(tmp_path: Path) -> None:
    counts = "problem,n,c\n" + "".join(f"p{number},64,{number}\n" for number in range(10))
    for name in ("base.csv", "rl.csv"):
        (tmp_path / name).write_text(counts)
    text = " ".join(offleash("compare", tmp_path / "base.csv", tmp_path / "rl.csv").out.split())
    assert "are they the same samples?" in text
    (warning,) = offleash("compare", tmp_path / "base.csv", tmp_path / "rl.csv", "--json").json["warnings"]
    assert warning["code"] == "same_samples"
    assert warning["text"].startswith("base and rl have the same successes")


def mixed_run(folder: Path) -> Path:
    """A run of two problems with a verifier each, judged: all correct."""
    run_of_texts(folder, {"a": "1", "b": "2"}, {"a": ["\\boxed{1}"] * 4, "b": ["\\boxed{2}"] * 4})
    problems = pl.read_parquet(folder / "problems.parquet")
    problems.with_columns(verifier=pl.Series(["math", "string"])).write_parquet(folder / "problems.parquet")
    assert offleash("verify", folder, "--no-cache").code == 0
    return folder


def with_all_wrong(folder: Path, name: str, record: str | None) -> None:
    """Put verdicts that call every sample wrong into a run, under a name."""
    (true,) = [folder / "verdicts" / verifier for verifier in verifiers(folder)]
    planted = Path(shutil.copytree(true, true.with_name(name)))
    for shard in planted.glob("*.parquet"):
        frame = pl.read_parquet(shard)
        frame.with_columns(verdict=pl.lit("wrong").cast(frame["verdict"].dtype)).write_parquet(shard)
    if record is None:
        (planted / "about.json").unlink()
    else:
        (planted / "about.json").write_text(record)


@pytest.mark.parametrize("record", ["its own", None, "{}"])
def test_verdicts_put_into_a_folder_do_not_count_by_the_order_of_a_hash(tmp_path: Path, record: str | None) -> None:
    base, rl = mixed_run(tmp_path / "base"), mixed_run(tmp_path / "rl")
    before = offleash("compare", base, rl, "--json").json
    assert before["support"]["P"] == 2
    (true,) = verifiers(base)
    about = (base / "verdicts" / true / "about.json").read_text()
    with_all_wrong(base, "mixed@ffff9999", about if record == "its own" else record)
    refused(offleash("compare", base, rl), true, "mixed@ffff9999", "--verdicts NAME")
    named = offleash("compare", base, rl, "--verdicts", true, "--json").json
    assert named["support"] == before["support"]
    assert [warning["code"] for warning in named["warnings"]] == [warning["code"] for warning in before["warnings"]]


def test_which_verdicts_were_taken_is_said_above_the_table(tmp_path: Path) -> None:
    base, rl = mixed_run(tmp_path / "base"), mixed_run(tmp_path / "rl")
    for folder in (base, rl):
        for name in ("string@1", "string@2"):
            (true,) = [folder / "verdicts" / verifier for verifier in verifiers(folder) if "mixed" in verifier]
            shutil.copytree(true, true.with_name(name), ignore=shutil.ignore_patterns("about.json"))
        shutil.rmtree(true)
    result = offleash("compare", base, rl, "--json").json
    chosen = [warning["text"] for warning in result["warnings"] if warning["code"] == "verdicts_chosen"]
    assert [text.partition(":")[0] for text in chosen] == ["base", "rl"]
    assert all("string@2" in text and "string@1" in text for text in chosen)
    text = " ".join(offleash("compare", base, rl).out.split())
    assert text.index("the verdicts of string@2, the newest version") < text.index("SRR")


def test_every_checkpoint_has_its_warnings_and_the_whole_has_all(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", drawn(6, 8))
    (tmp_path / "copy.jsonl").write_text(log.read_text())
    other = write_log(tmp_path / "other.jsonl", drawn(6, 8, seed=1))
    result = offleash("compare", log, tmp_path / "copy.jsonl", other, "--json").json
    assert [[warning["code"] for warning in part["warnings"]] for part in result["comparisons"]] == [
        ["same_samples"],
        [],
    ]
    assert [warning["code"] for warning in result["warnings"]] == ["same_samples"]
    text = " ".join(offleash("compare", log, tmp_path / "copy.jsonl", other).out.split())
    assert "log and copy have the same successes" in text


def test_a_greedy_pair_is_a_warning_with_a_code(tmp_path: Path) -> None:
    base = lm_eval_log(tmp_path / "base.jsonl", set(range(20)), do_sample=False)
    rl = lm_eval_log(tmp_path / "rl.jsonl", set(range(10, 35)), do_sample=False)
    assert "greedy" in [warning["code"] for warning in offleash("compare", base, rl, "--json").json["warnings"]]


def test_every_warning_has_a_code_that_is_documented() -> None:
    described = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    codes = 0
    for path in sorted((ROOT / "offleash").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == Note.__name__):
                continue
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            assert "code" in given or "warning" not in given, f"{path}:{node.lineno}"
            code = given.get("code")
            if isinstance(code, ast.Constant) and isinstance(code.value, str):
                assert f"| `{code.value}` |" in described, f"{path}:{node.lineno}"
                codes += 1
    assert codes >= 6
