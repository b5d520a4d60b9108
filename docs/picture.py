"""Take the picture of a page that the README shows: `python docs/picture.py report.html page.png`."""

import os
import shutil
import sys
from pathlib import Path


def main() -> None:
    from playwright.sync_api import sync_playwright

    page, picture = map(Path, sys.argv[1:])
    with sync_playwright() as driver:
        chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_context(viewport={"width": 1100, "height": 900}, offline=True).new_page()
        tab.goto(page.resolve().as_uri())
        tab.wait_for_selector("html[data-charts=drawn]")
        tab.screenshot(path=picture, full_page=True, clip={"x": 0, "y": 0, "width": 1100, "height": 1500})
        browser.close()


if __name__ == "__main__":
    main()
