"""offleash figure: one figure as a file, with its caption; what cannot be drawn is said in one message."""

from pathlib import Path

import pytest

from offleash.api import compare as api
from offleash.reporting.figures import FIGURES
from tests.cli.command import offleash, refused
from tests.reporting.worlds import spread, write_counts


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    return [write_counts(tmp_path / f"{r}.csv", correct, 32) for r, correct in enumerate(spread(30, 32))]


def test_the_names_of_the_help_are_the_figures_there_are() -> None:
    assert list(api.FIGURES) == list(FIGURES)
    shown = offleash("figure", "--help").out
    assert all(name in shown for name in FIGURES)


def test_a_figure_is_written_and_its_caption_printed(runs: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "passes.pdf"
    shown = offleash("figure", "passes", *runs, "-o", path, "--replicates", "200")
    assert shown.code == 0, shown
    assert path.read_bytes().startswith(b"%PDF")
    assert "30 problems" in shown.out
    assert str(path) in shown.out


def test_json_names_the_figure_its_place_and_its_words(runs: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "plane.svg"
    told = offleash("figure", "plane", *runs, "-o", path, "--width", "400", "--replicates", "200", "--json").json
    assert set(told) == {"figure", "path", "title", "caption", "alt"}
    assert (told["figure"], told["path"]) == ("plane", str(path))
    assert path.is_file()


def test_what_cannot_be_drawn_is_refused_with_the_next_step(runs: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "figure.pdf"
    few = ("--replicates", "200")
    refused(offleash("figure", "plain", *runs, "-o", path), "Did you mean 'plane'?")
    refused(offleash("figure", "perplexity", *runs, "-o", path, *few), "offleash score")
    refused(offleash("figure", "passes", *runs, "-o", tmp_path / "figure.jpg"), ".png, .svg or .pdf")
    refused(offleash("figure", "passes", *runs, "-o", path, "--width", "20"), "--width 20")
    refused(offleash("figure", "passes", runs[0], "-o", path), "two runs")
    refused(offleash("figure", "passes", *runs, "-o", runs[0] / "figure.pdf"), "cannot be written")
    assert not path.exists()
