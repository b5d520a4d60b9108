"""The page of a study of 3,404 problems: how long it takes to build, how large it is, and what a browser feels.

    python benchmarks/page.py [problems ...]

Two runs of 128 samples a problem with texts of about a thousand letters are made (6 benchmarks, rates from a Beta law),
the page is built as `offleash report` does, and Chromium scrolls it, searches it and opens problems while every task of
its main thread over 50 ms is noted (Long Tasks API). The peer is the same figures as Altair itself would put into a
page, `chart.to_html(inline=True)`, which compiles them in the browser: its tasks while loading, and its size.
"""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from offleash.comparing.runs import compare_inputs
from offleash.data.run_folder import create_run
from offleash.data.tables import question_hash
from offleash.render.figure import PAGE, Figure
from offleash.reporting.figures import FIGURES, subject
from offleash.reporting.page.build import report_page

K, LETTERS = 128, 1000
WATCH = """
window.long = [];
new PerformanceObserver((list) => {
  for (const one of list.getEntries()) window.long.push(one.duration);
}).observe({type: 'longtask', buffered: true});
"""


def make_run(folder: Path, seed: int, shift: float, problems: int) -> Path:
    """A run of known rates; the second one is sharper, and loses what was rare."""
    rng = np.random.default_rng([7, seed])
    base = np.random.default_rng(7).beta(0.3, 1.5, problems)
    rate = np.clip(base**shift, 0, 1) if shift != 1 else base
    names = [f"problem-{number:05d}" for number in range(problems)]
    questions = [f"{name}: what is {number} plus {number}, and why? " * 4 for number, name in enumerate(names)]
    asked = pl.DataFrame(
        {
            "problem": names,
            "question": questions,
            "hash": [question_hash(text) for text in questions],
            "gold": [str(2 * number) for number in range(problems)],
            "benchmark": [f"benchmark {number % 6}" for number in range(problems)],
        }
    )
    right = rng.random((problems, K)) < rate[:, None]
    row, index = (axis.ravel() for axis in np.indices((problems, K)))
    wrong = rng.zipf(1.6, problems * K) % 997
    answer = np.where(right.ravel(), 2 * row, 2 * row + 1 + wrong).astype(str)
    words = " ".join(["because", "so", "then", "thus", "let", "x", "be", "seven"] * (LETTERS // 32))
    frame = pl.DataFrame({"row": row, "index": index, "answer": answer, "right": right.ravel()}).with_columns(
        problem=pl.Series(np.array(names)[row]),
        text=pl.concat_str(pl.lit(words + " the answer is "), pl.col("answer")),
        verdict=pl.when(pl.col("right")).then(pl.lit("correct")).otherwise(pl.lit("wrong")),
        finish=pl.lit("stop"),
        tokens=pl.lit(200),
        entropy_raw=pl.Series(rng.random(problems * K) * 100),
    )
    with create_run(folder, folder.name, asked, {"model": "simulated"}) as run:
        run.write_samples(frame.select("problem", "index", "text", "tokens", "finish", "entropy_raw"))
        run.write_verdicts("simulated", frame.select("problem", "index", "verdict", "answer"))
    return folder


def measure(problems: int, place: Path) -> dict[str, float]:
    runs = [make_run(place / name, seed, shift, problems) for name, seed, shift in (("base", 0, 1.0), ("rl", 1, 0.5))]
    started = time.perf_counter()
    comparisons, together = compare_inputs([str(run) for run in runs])
    compared = time.perf_counter() - started
    whole = subject(comparisons, together)
    page = place / "report.html"
    page.write_text(report_page(whole), encoding="utf-8")
    built = time.perf_counter() - started
    out = {"compare s": compared, "build s": built, "page MB": page.stat().st_size / 1e6}
    peer = place / "peer.html"
    parts = [found for draw in FIGURES.values() if isinstance(found := draw(whole, PAGE), Figure)]
    bodies = [
        facet.to_html(inline=number == 0, fullhtml=number == 0, output_div=f"figure-{number}")
        for number, facet in enumerate(facet for figure in parts for facet in figure.facets)
    ]
    peer.write_text("\n".join(bodies), encoding="utf-8")
    return out | {"peer MB": peer.stat().st_size / 1e6} | browse(page, peer)


def browse(page: Path, peer: Path) -> dict[str, float]:
    """The longest tasks of the main thread in ms: while loading, while somebody reads, and while the peer loads."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = running.new_context(viewport={"width": 1280, "height": 900}, offline=True).new_page()
        tab.add_init_script(WATCH)
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-charts=drawn]", timeout=120_000)
        tab.wait_for_timeout(300)
        loading = tab.evaluate("window.long.splice(0)")
        for _ in range(60):
            tab.mouse.wheel(0, 700)
            tab.wait_for_timeout(40)
        scrolling = tab.evaluate("window.long.splice(0)")
        for word in ("problem-01", "seven", "benchmark 3", "", "problem-00042"):
            tab.fill("#search", word)
            tab.wait_for_timeout(400)
        tab.fill("#search", "")
        tab.wait_for_timeout(400)
        for key in ("before", "p", "problem", "class"):
            tab.click(f"[data-sort={key}]")
            tab.wait_for_timeout(200)
        searching = tab.evaluate("window.long.splice(0)")
        for place in range(8):
            tab.locator("#table .open").nth(place).click()
            tab.wait_for_timeout(150)
            if tab.locator("details.sample summary").count():
                tab.locator("details.sample summary").first.click()
            tab.keyboard.press("Escape")
        opening = tab.evaluate("window.long.splice(0)")
        tab.goto(peer.as_uri())
        tab.wait_for_timeout(8000)
        theirs = tab.evaluate("window.long.splice(0)")
        running.close()
    parts = {
        "loading": loading,
        "scrolling": scrolling,
        "searching": searching,
        "opening": opening,
        "peer loading": theirs,
    }
    return {f"{name} ms": float(max(found, default=0.0)) for name, found in parts.items()}


def main() -> None:
    sizes = [int(word) for word in sys.argv[1:]] or [500, 3404]
    found: dict[str, float] = {}
    for problems in sizes:
        with tempfile.TemporaryDirectory() as place:
            found = measure(problems, Path(place))
        print(
            f"{problems:>6,} problems x 2 runs x {K}:",
            ", ".join(f"{name} {value:.1f}" for name, value in found.items()),
        )
    ours = max(found[f"{name} ms"] for name in ("scrolling", "searching", "opening"))
    slower = found["peer loading ms"] / max(found["loading ms"], 1)
    print(f"longest task while reading: {ours:.0f} ms (0: none over 50 ms)")
    print(f"ratio longest task while loading, Altair's page to ours: {slower:.2f}")
    print(f"ratio size, our page to the figures alone by Altair: {found['page MB'] / found['peer MB']:.2f}")


if __name__ == "__main__":
    main()
