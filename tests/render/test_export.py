"""Figures as files: the three kinds, the width asked for, and no traffic."""

import contextlib
import re
import subprocess
import sys
from pathlib import Path

import altair as alt
import pytest

from offleash.comparing.figures.figure_input import FigureInput
from offleash.errors import OffleashError
from offleash.render.export import specification, write_figure
from offleash.render.figure import PAPER, Figure, FigureFormat
from offleash.render.output import check_writable
from offleash.reporting.figures import figure
from tests.reporting.worlds import counted, spread


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> FigureInput:
    return counted(tmp_path_factory.mktemp("counts"), *spread(40, 32), 32, ["first", "second"] * 20)


def drawn(name: str, told: FigureInput, look: FigureFormat = PAPER) -> Figure:
    found = figure(name, told, look)
    assert isinstance(found, Figure)
    return found


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<svg"), ("PDF", b"%PDF")])
def test_a_figure_is_written_as_its_name_ends(ending: str, start: bytes, told: FigureInput, tmp_path: Path) -> None:
    path = tmp_path / "new" / f"figure.{ending}"
    write_figure(drawn("passes", told), path)
    assert path.read_bytes().startswith(start)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["passes", "benchmarks", "support"])
@pytest.mark.parametrize("look", [PAPER, FigureFormat(600)], ids=["paper", "wide"])
def test_a_figure_is_as_wide_as_asked_with_its_labels(
    name: str, look: FigureFormat, told: FigureInput, tmp_path: Path
) -> None:
    path = tmp_path / "figure.svg"
    write_figure(drawn(name, told, look), path)
    found = re.search(r'width="([0-9.]+)"', path.read_text(encoding="utf-8"))
    assert found
    assert look.width is not None
    assert look.width - 12 <= float(found[1]) <= look.width + 2


def test_facets_are_below_each_other_on_paper_and_side_by_side_elsewhere(told: FigureInput) -> None:
    assert len(specification(drawn("support", told))["vconcat"]) == 2  # type: ignore[arg-type]
    assert len(specification(drawn("support", told, FigureFormat(600)))["hconcat"]) == 2  # type: ignore[arg-type]


def test_a_figure_made_for_the_page_can_be_written_too(told: FigureInput, tmp_path: Path) -> None:
    write_figure(drawn("plane", told, FigureFormat()), tmp_path / "plane.svg")
    assert "</svg>" in (tmp_path / "plane.svg").read_text(encoding="utf-8")


def test_other_endings_and_places_that_cannot_be_written_are_refused(told: FigureInput, tmp_path: Path) -> None:
    with pytest.raises(OffleashError, match=r"'figure\.jpg' does not end in \.png, \.svg or \.pdf"):
        write_figure(drawn("passes", told), tmp_path / "figure.jpg")
    (tmp_path / "file").write_text("")
    with pytest.raises(OffleashError, match="cannot be written"):
        write_figure(drawn("passes", told), tmp_path / "file" / "figure.svg")
    (tmp_path / "folder.svg").mkdir()
    with pytest.raises(OffleashError, match="cannot be written"):
        write_figure(drawn("passes", told), tmp_path / "folder.svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.svg"]


def test_a_place_is_tried_before_the_work_and_no_trace_is_left(tmp_path: Path) -> None:
    check_writable(tmp_path / "new" / "folder" / "figure.svg")
    assert not any(tmp_path.iterdir())
    (tmp_path / "file{}").write_text("as it was")
    check_writable(tmp_path / "file{}")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["as it was"]
    with pytest.raises(OffleashError, match=r"file\{\} is a file\. Choose another path with --figure\."):
        check_writable(tmp_path / "file{}" / "figure.svg", option="--figure")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="the system has no such file system")
@pytest.mark.parametrize("place", ["/proc/figure.svg", "/proc/new/figure.svg"])
def test_a_file_system_that_takes_no_files_is_found_out_whatever_rights_say(place: str, told: FigureInput) -> None:
    with pytest.raises(
        OffleashError, match=rf"^{place} cannot be written \(.*\)\. Choose another path with --figure\.$"
    ):
        check_writable(Path(place), option="--figure")
    with pytest.raises(OffleashError, match=r"cannot be written .* with --figure"):
        write_figure(drawn("passes", told), Path(place), "--figure")


def test_nothing_is_fetched_while_a_figure_is_written(tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text('[{"x": 1}]')
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(tmp_path)]
    log = tmp_path / "log"  # in a process of its own: a converter that waits for it would keep this one from answering
    with log.open("w") as file, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=file, text=True) as server:
        try:
            assert server.stdout is not None
            port = re.search(r"port (\d+)", server.stdout.readline())
            assert port
            chart = alt.Chart(alt.UrlData(f"http://127.0.0.1:{port[1]}/data.json")).mark_point().encode(x="x:Q")
            for kind in ("svg", "png", "pdf"):
                with contextlib.suppress(ValueError):
                    write_figure(Figure("f", "?", "", "", (chart.properties(width=100),)), tmp_path / f"figure.{kind}")
        finally:
            server.terminate()
    assert "GET" not in log.read_text()
