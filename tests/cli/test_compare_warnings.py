"""What is said above the table of a comparison: the same samples twice, greedy runs, problems fused or left apart."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.command import offleash
from tests.comparing.world import drawn, write_log


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
    for words in ("unchanged model", "beyond chance", "redraw"):
        assert words not in text
    result = offleash("compare", base, rl, "--json").json
    chance = result["chance"]
    assert [result["support"][cell] for cell in "PESO"] == [10, 15, 10, 5]
    numbers = ("expected_E", "expected_S", "p_E", "p_S", "losses_at_least", "gains_at_least", "smallest_certain_loss")
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
    assert re.search(r"\d expected for an unchanged model|beyond chance \(95%", page) is None


def test_the_same_samples_on_both_sides_are_noticed_above_the_table(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", drawn(6, 8))
    (tmp_path / "copy.jsonl").write_text(log.read_text())
    text = " ".join(offleash("compare", log, tmp_path / "copy.jsonl").out.split())
    assert text.index("are they the same samples?") < text.index("SRR")


def test_the_same_counts_on_both_sides_are_noticed(tmp_path: Path) -> None:
    counts = "problem,n,c\n" + "".join(f"p{number},64,{number}\n" for number in range(10))
    for name in ("base.csv", "rl.csv"):
        (tmp_path / name).write_text(counts)
    assert "are they the same samples?" in offleash("compare", tmp_path / "base.csv", tmp_path / "rl.csv").out
