"""Draw docs/_static/report.png, the picture of a report on the first page: ``python docs/make_screenshot.py``.

It needs Chromium and its driver.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from selenium import webdriver
from sklearn.datasets import load_breast_cancer

import fbed

HERE = Path(__file__).parent
WIDTH, HEIGHT = 1180, 1500


def main() -> None:
    """Select, write a report, and photograph its beginning."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    tumour = y.map({0: "malignant", 1: "benign"}).rename("tumour")
    result = fbed.select(X.assign(tumour=tumour), "tumour", criterion="ebic")
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    with tempfile.TemporaryDirectory() as folder, webdriver.Chrome(options=options) as browser:
        page = result.report(Path(folder) / "report.html")
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(page.as_uri())
        browser.save_screenshot(str(HERE / "_static" / "report.png"))


if __name__ == "__main__":
    main()
