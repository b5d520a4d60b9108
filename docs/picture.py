"""Take the picture of a page that the README shows: `python docs/picture.py report.html page.png`."""

import os
import shutil
import sys
from pathlib import Path

LEFT_OUT = ".sentences, .chapters, #believe, #figure-passes figcaption"  # to have the figures near the finding


def main() -> None:
    from playwright.sync_api import sync_playwright

    page, picture = map(Path, sys.argv[1:])
    with sync_playwright() as driver:
        chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_context(viewport={"width": 1240, "height": 900}, offline=True).new_page()
        tab.goto(page.resolve().as_uri())
        tab.wait_for_selector("html[data-charts=drawn]")
        tab.add_style_tag(content=f"{LEFT_OUT} {{ display: none }}")
        end = tab.locator("#figure-plane figcaption").bounding_box()
        assert end is not None, "the page has no plane of problems"
        tab.screenshot(path=picture, full_page=True, clip={"x": 0, "y": 0, "width": 1240, "height": end["y"]})
        browser.close()


if __name__ == "__main__":
    main()
