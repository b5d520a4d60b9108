"""The command line from a certificate to what top-p cuts off of it, and what it refuses."""

from pathlib import Path

import pytest

from tests.analyses.certificates.certified_world import BOXES, problems_file
from tests.cli.command import offleash, refused
from tests.samplers.huggingface.tiny import tiny_model
from tests.test_docs import described, keys_of


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cut")
    problems = problems_file(folder / "problems.jsonl")
    tiny_model(folder / "model", words=BOXES)
    few = ("--jobs", "1", "--max-tokens", "3", "--epsilon", "0.002")
    done = offleash("certify", problems, f"hf:{folder}/model", *few, "-o", folder / "cert")
    assert done.code == 0, done.err
    return folder


def test_what_top_p_cuts_off_is_told_in_a_table_in_words_and_as_json(world: Path) -> None:
    done = offleash("nucleus", world / "cert", "--top-p", "0.6,0.9", "--json")
    assert done.code == 0, done.err
    (actual,) = done.json["certificates"]
    assert (done.json["schema"], actual["problems"], actual["temperature"]) == (2, 4, 1)
    first, second = actual["cuts"]
    assert first["removed_completions"] > second["removed_completions"]
    assert first["removed"]["value"] == pytest.approx(
        sum(problem["removed"]["0.6"] for problem in actual["by_problem"]) / 4
    )
    assert first["removed_bounds"][1] == pytest.approx(first["removed_bounds"][0] + actual["unknown"])
    assert first["emptied"] == sum(
        problem["left"]["0.6"] == 0 < problem["correct_completions"] for problem in actual["by_problem"]
    )
    known = described("decoding.md") + described("json.md") + described("certify.md")
    assert sorted({key for key in keys_of(actual) if f"`{key}`" not in known}) == []
    text = offleash("nucleus", world / "cert", "--top-p", "0.6,0.9", "--temperature", "0.8")
    assert text.code == 0, text.err
    for word in ("temperature 0.8 (certified at 1)", "problems", "of exactly zero", "however large k is"):
        assert word in " ".join(text.out.split())
    assert "epsilon" not in text.out  # it bounds nothing at another temperature
    assert "epsilon" in offleash("nucleus", world / "cert", "--top-p", "0.6").out
    assert "…" not in text.out
    assert max(map(len, text.out.splitlines())) <= 80


def test_settings_are_honoured_with_and_without_a_model(world: Path) -> None:
    asked = ("nucleus", world / "cert", "--top-p", "0.6", "--json")
    plain, other = (offleash(*asked, *more).json for more in ((), ("--set", "rows=7", "--raw")))  # no template here
    (there,), (here,) = (item["certificates"][0]["cuts"] for item in (plain, other))
    assert here["removed_completions"] == there["removed_completions"]
    refused(offleash(*asked, "--set", "rows=none"), "--set rows=", "'none'")
    refused(offleash(*asked, "--model", f"hf:{world}/model", "--set", "rows=none"), "'none'")
    refused(offleash(*asked, "--set", "dtype=float8"), "float8", "bfloat16")


def test_what_cannot_be_cut_is_refused(world: Path, tmp_path: Path) -> None:
    refused(offleash("nucleus", world / "cert", "--top-p", "0.9,most"), "'most'")
    refused(offleash("nucleus", world / "cert", "--top-p", "2"), "above 0 and at most 1", "Found --top-p 2")
    refused(offleash("nucleus", world / "cert", "--temperature", "-1"), "Found --temperature -1")
    refused(offleash("nucleus", world), "is not a certificate", "offleash certify")
    refused(offleash("nucleus", tmp_path / "nowhere"), "is not a certificate")
    refused(offleash("nucleus", world / "cert", "--model", "hf:/no/such/model"), "/no/such/model")
    refused(offleash("nucleus", world / "cert", "--verdicts", "math"), "verifier")
