"""The command line from problems and two models to support by decoding, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import offleash, refused
from tests.drawing.drawn_world import problems_file, script
from tests.test_docs import described, keys_of

FEW = ("-k", "24", "--jobs", "1", "--no-cache")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Problems, enough of them for intervals, and two scripts of the same last name.

    Samples depend on where the scripts stand; at k = 24 each of four problems is lost in 97 of 100 cases.
    """
    folder = tmp_path_factory.mktemp("sweep")
    problems_file(folder / "problems.jsonl", 9)
    for name, (some, others) in {"old": (0.05, 0.2), "new": (0.9, 0.001)}.items():
        (folder / name).mkdir()
        script(folder / name / "model.json", (*(some,) * 4, *(others,) * 4, 0.0))
    return folder


def words(world: Path, *more: str | Path) -> tuple[str | Path, ...]:
    models = (f"scripted:{world}/{name}/model.json" for name in ("old", "new"))
    return ("sweep", world / "problems.jsonl", *models, *FEW, *more)


def undescribed(document: dict[str, Any]) -> list[str]:
    """Keys that no page describes."""
    known = described("decoding.md") + described("json.md")
    return sorted({key for key in keys_of(document) if f"`{key}`" not in known} - {"old", "new"})


def test_two_models_are_swept_and_what_is_told_is_described(world: Path, tmp_path: Path) -> None:
    asked = words(world, "--temperature", "0.7,1", "--figure", tmp_path / "sweep.svg", "-o", tmp_path / "runs")
    done = offleash(*asked, "--json")
    assert done.code == 0, done.err
    actual = done.json
    assert (actual["schema"], actual["k"], actual["problems"]) == (2, 24, 9)
    assert list(actual["models"]) == ["old", "new"]
    order = [("old", 0.7), ("new", 0.7), ("old", 1), ("new", 1)]
    assert [(point["model"], point["temperature"]) for point in actual["points"]] == order
    for change in actual["changes"]:
        assert sum(change["support"][cell] for cell in "PESO") == 9
    assert (tmp_path / "runs" / "old" / "t0.7-p1" / "run.json").is_file()
    assert (tmp_path / "sweep.svg").read_text().startswith("<svg")
    assert undescribed(actual) == []
    text = offleash(*asked)
    assert text.code == 0, text.err
    assert "…" not in text.out
    for word in ("old → new", "at equal decoding", "Each at its own best decoding", "no new samples drawn"):
        assert word in " ".join(text.out.split())
    compared = offleash("compare", tmp_path / "runs/old/t0.7-p1", tmp_path / "runs/new/t1-p1")
    refused(compared, "--allow decoding")


def test_two_models_are_matched_in_entropy_and_what_is_told_is_described(world: Path, tmp_path: Path) -> None:
    done = offleash(*words(world, "--match", "--figure", tmp_path / "match.svg", "-o", tmp_path / "runs", "--json"))
    assert done.code == 0, done.err
    (actual,) = done.json["matched"]
    assert actual["matched_temperature"] > actual["temperature"] == 1
    low, high = actual["matched_interval"]
    assert low <= actual["matched_temperature"] <= high
    assert actual["matched"]["support"]["S"] == actual["recovered"]["lost_matched"]
    assert "Matching entropy alone removes" in done.json["finding"]
    assert "as at 1" in (tmp_path / "match.svg").read_text()
    assert undescribed(done.json) == []


def test_an_entropy_that_cannot_be_matched_is_told_beside_the_tables(world: Path, tmp_path: Path) -> None:
    script(tmp_path / "sharp.json", (0.99999,) * 9)  # far from the other's entropy at the highest temperature there is
    models = (f"scripted:{world}/old/model.json", f"scripted:{tmp_path}/sharp.json")
    match = ("--temperature", "5", "--match", "-o", tmp_path / "runs")
    asked = ("sweep", world / "problems.jsonl", *models, *FEW, *match)
    done = offleash(*asked, "--json")
    assert done.code == 1, done.err
    assert (done.json["matched"], len(done.json["points"])) == ([], 2)
    (why,) = done.json["unmatched"]
    assert (why["temperature"], why["top_p"]) == (5, 1)
    assert "No temperature from 0.05 to 5" in why["reason"]
    text = offleash(*asked)
    assert text.code == 1
    assert "! not matched at temperature 5" in text.out


def test_one_model_is_swept_over_top_p(world: Path, tmp_path: Path) -> None:
    model = f"only=scripted:{world}/old/model.json"
    asked = ("sweep", world / "problems.jsonl", model, "--temperature", "1", "--top-p", "1,0.5", *FEW)
    done = offleash(*asked, "-o", tmp_path / "runs", "--figure", tmp_path / "p.svg", "--json")
    assert done.code == 0, done.err
    assert [point["top_p"] for point in done.json["points"]] == [1, 0.5]
    assert (done.json["changes"], done.json["best"], done.json["matched"]) == ([], None, [])
    assert done.json["points"][1]["pass_at_k"]["value"] < done.json["points"][0]["pass_at_k"]["value"]
    assert ">top-p<" in (tmp_path / "p.svg").read_text()
    text = offleash(*asked, "-o", tmp_path / "runs")
    assert "only reaches" in text.out


def test_what_cannot_be_swept_is_refused_before_anything_is_drawn(world: Path, tmp_path: Path) -> None:
    into = ("-o", tmp_path / "runs")
    refused(offleash(*words(world, "--temperature", "0.6,hot", *into)), "'hot'", "--temperature 0.6,hot")
    refused(offleash(*words(world, "--temperature", "-1", *into)), "Found --temperature -1")
    refused(offleash(*words(world, "--top-p", "0", *into)), "above 0 and at most 1", "Found --top-p 0")
    refused(offleash(*words(world, "--temperature", "0", *into)), "At temperature 0")
    refused(offleash(*words(world, "--temperature", "0,1", "--match", *into)), "--temperature 0 with --match")
    refused(offleash(*words(world, "--figure", tmp_path / "x.txt", *into)), ".png, .svg or .pdf")
    refused(offleash(*words(world, "-k", "many", *into)), "Found -k many")
    alone = ("sweep", world / "problems.jsonl", f"scripted:{world}/old/model.json", *FEW, *into)
    refused(offleash(*alone, "--match"), "name two models")
    refused(offleash(*alone[:3], alone[2], *FEW, *into), "Both models are scripted:")
    refused(offleash("sweep", world / "problems.jsonl", "old/model.json", *into), "hf:")
    (tmp_path / "file").write_text("")
    refused(offleash(*words(world, "-o", tmp_path / "file")), "A sweep is a folder of runs")
    refused(offleash(*words(world, "--figure", tmp_path / "file" / "x.svg", *into)), "is a file", "with --figure")
    for label in ("..", ".", "a b ü", "a/b"):
        named = f"{label}=scripted:{world}/old/model.json"
        refused(offleash("sweep", world / "problems.jsonl", named, *FEW, *into), f"found {label!r}", "_.+-")
    assert not (tmp_path / "runs").exists()


def test_what_was_found_is_told_also_where_the_figure_cannot_be_written(world: Path, tmp_path: Path) -> None:
    into = tmp_path / "runs"
    model = f"x.svg=scripted:{world}/old/model.json"  # its folder takes the name of the figure
    asked = ("sweep", world / "problems.jsonl", model, "--temperature", "1", *FEW, "-o", into)
    done = offleash(*asked, "--figure", into / "x.svg", "--json")
    refused(done, "cannot be written", "with --figure")
    assert done.json["points"][0]["model"] == "x.svg"
    again = offleash(*asked, "--figure", into / "new" / "y.svg")
    assert again.code == 0, again.err
    assert str(into / "new" / "y.svg") in again.out.replace("\n", "")


def test_samples_that_cannot_be_drawn_are_told_by_the_exit_code(world: Path, tmp_path: Path) -> None:
    model = f"scripted:{world}/old/model.json"
    asked = ("sweep", world / "problems.jsonl", model, "--temperature", "1", *FEW, "-o", tmp_path / "runs")
    refused(offleash(*asked, "--set", "fail=1"), "fail")
