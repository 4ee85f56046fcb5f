"""The report in a real browser: silent, self-contained, sortable, readable on a phone, in the dark and by everyone."""

from __future__ import annotations

import json
import os
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from report_cases import case

webdriver = pytest.importorskip("selenium.webdriver", reason="Selenium is not installed")

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
DRIVER = shutil.which("chromedriver")
if BROWSER is None or DRIVER is None:
    pytest.skip("Chromium and its chromedriver are not installed", allow_module_level=True)

AXE = Path(os.environ.get("FBED_AXE", Path(__file__).parent.parent / "build" / "axe-core" / "axe.min.js"))

SHOWN = ("hostile", "removals", "logistic", "cox", "multinomial", "separated", "nothing", "oracle")
SCREENS = {
    "desktop, light": (1280, "light"),
    "phone, dark": (390, "dark"),
    "phone, light": (390, "light"),
    "desktop, dark": (1280, "dark"),
}


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-extensions",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    try:
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    except Exception as error:  # a browser that does not start is no fault of the report
        pytest.skip(f"Chromium does not start: {error}")
    driver.set_page_load_timeout(60)
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    return {name: case(name).report(folder / f"{name}.html") for name in SHOWN}


def visit(browser, page: Path, width: int = 1280, scheme: str = "light") -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    for log in ("browser", "performance"):
        browser.get_log(log)
    browser.get(page.as_uri())


def open_all(browser) -> None:
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")


@pytest.mark.parametrize("name", SHOWN)
def test_no_complaint_and_no_request_to_the_outside(name, browser, pages):
    visit(browser, pages[name])
    assert browser.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if not url.startswith("data:")] == [pages[name].as_uri()]
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0


def test_hostile_names_are_shown_as_text(browser, pages):
    visit(browser, pages["hostile"])
    assert browser.title.startswith("fbed report: ")
    assert browser.execute_script("return [document.scripts.length, document.images.length]") == [1, 0]
    names = set(browser.execute_script("return [...document.querySelectorAll('.chips .name')].map(e => e.textContent)"))
    assert "<script>document.title = 'hacked'</script>" in names
    assert "a" * 300 in names
    assert {"name", "name ", "Name", ""} <= names


def test_policy_lets_no_other_script_run(browser, pages, tmp_path):
    page = tmp_path / "tampered.html"
    text = pages["removals"].read_text(encoding="utf-8")
    page.write_text(text.replace("<main>", "<main><script>document.title = 'hacked'</script>"), encoding="utf-8")
    visit(browser, page)
    assert browser.title.startswith("fbed report: ")
    assert "Content Security Policy" in browser.get_log("browser")[0]["message"]


@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("screen", ["desktop, light", "phone, light"])
def test_page_is_not_wider_than_the_screen(name, screen, browser, pages):
    visit(browser, pages[name], *SCREENS[screen])
    widths = browser.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert widths[0] <= widths[1]


def values_of(browser, table: int, column: int) -> list[str | float]:
    script = """
    const rows = [...document.querySelectorAll('table.sortable')[arguments[0]].tBodies[0].rows];
    const cells = rows.map(row => row.cells[arguments[1]]);
    return cells.map(cell => cell.dataset.v ? [+cell.dataset.v] : cell.textContent.trim());
    """
    found = browser.execute_script(script, table, column)
    return [value if isinstance(value, str) else float(value[0]) for value in found]


def test_tables_sort_both_ways(browser, pages):
    visit(browser, pages["removals"])
    open_all(browser)
    tables = browser.find_elements("css selector", "table.sortable")
    assert len(tables) >= 5
    for i, table in enumerate(tables):
        for j, head in enumerate(table.find_elements("css selector", "thead th")):
            before = sorted(map(str, values_of(browser, i, j)))
            for order in ("ascending", "descending"):
                browser.execute_script("arguments[0].querySelector('button').click()", head)
                assert head.get_attribute("aria-sort") == order
                found = values_of(browser, i, j)
                assert sorted(map(str, found)) == before
                numbers = [value for value in found if isinstance(value, float)]
                assert numbers == sorted(numbers, reverse=order == "descending")
            told = browser.execute_script("return document.getElementById('told').textContent")
            assert told.startswith("Sorted by ")
            assert told.endswith("descending")
        assert len(table.find_elements("css selector", "[aria-sort]")) == 1


def test_tables_sort_by_keyboard(browser, pages):
    visit(browser, pages["removals"])
    open_all(browser)
    head = browser.find_element("css selector", "table.sortable thead th:nth-child(3)")
    head.find_element("css selector", "button").send_keys("\ue007")  # Enter
    assert head.get_attribute("aria-sort") == "ascending"
    numbers = [value for value in values_of(browser, 0, 2) if isinstance(value, float)]
    assert len(numbers) > 2
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("name", SHOWN)
def test_headings_are_in_order_and_everything_has_a_name(name, browser, pages):
    visit(browser, pages[name])
    levels = browser.execute_script(
        "return [...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map(h => +h.tagName[1])"
    )
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    nameless = """
    const text = e => (e.getAttribute('aria-label') || (e.getAttribute('aria-labelledby') || '').split(' ')
      .map(id => document.getElementById(id)?.textContent || '').join(' ') || e.textContent || '').trim();
    return [...document.querySelectorAll('svg, a, button, section, [role=region], summary, th')]
      .filter(e => !text(e)).map(e => e.outerHTML.slice(0, 200));
    """
    assert browser.execute_script(nameless) == ([] if name != "hostile" else _rows_of_the_empty_name(browser))


def _rows_of_the_empty_name(browser) -> list[str]:
    empty = "[...document.querySelectorAll('th[scope=row]')].filter(e => !e.textContent.trim())"
    return browser.execute_script(f"return {empty}.map(e => e.outerHTML.slice(0, 200))")


CONTRAST = """
const parse = c => { const m = c.match(/[\\d.]+/g).map(Number); return [m[0], m[1], m[2], m.length > 3 ? m[3] : 1]; };
const over = (top, below) => top.slice(0, 3).map((v, i) => v * top[3] + below[i] * (1 - top[3])).concat(1);
const light = c => { const f = v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; };
  return .2126 * f(c[0]) + .7152 * f(c[1]) + .0722 * f(c[2]); };
const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
const ground = e => { const layers = [];
  for (let n = e; n && n.nodeType === 1; n = n.parentElement) layers.push(parse(getComputedStyle(n).backgroundColor));
  const page = parse(getComputedStyle(document.body).backgroundColor);
  return layers.reverse().reduce((below, top) => over(top, below), page); };
const bad = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const e = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || ['SCRIPT', 'STYLE', 'title', 'desc'].includes(e.tagName)) continue;
  const style = getComputedStyle(e), drawn = e.namespaceURI.endsWith('svg');
  let behind = ground(drawn ? e.ownerSVGElement.parentElement : e);
  const before = e.previousElementSibling;
  if (drawn && e.classList.contains('cell') && before?.tagName === 'rect') {
    const fill = parse(getComputedStyle(before).fill);
    behind = over([...fill.slice(0, 3), +getComputedStyle(before).fillOpacity], behind);
  }
  const found = ratio(over(parse(drawn ? style.fill : style.color), behind), behind);
  if (found < 4.5) bad.push([found.toFixed(2), e.outerHTML.slice(0, 80)]);
}
return bad;
"""


@pytest.mark.parametrize("name", ("removals", "logistic"))
@pytest.mark.parametrize("screen", SCREENS)
def test_text_can_be_read(name, screen, browser, pages):
    visit(browser, pages[name], *SCREENS[screen])
    open_all(browser)
    assert browser.execute_script(CONTRAST) == []


def test_dark_is_dark(browser, pages):
    grounds = []
    for scheme in ("light", "dark"):
        visit(browser, pages["removals"], 1280, scheme)
        grounds.append(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(255, 255, 255)", "rgb(20, 24, 29)"]


def test_print_shows_everything(browser, pages):
    visit(browser, pages["removals"])
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert browser.execute_script("return [...document.querySelectorAll('details')].every(d => d.open)")
    assert browser.execute_script("return getComputedStyle(document.querySelector('nav')).display") == "none"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not there: make axe")
@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("name", SHOWN)
def test_axe_finds_nothing(name, screen, browser, pages):
    visit(browser, pages[name], *SCREENS[screen])
    open_all(browser)
    browser.execute_script(AXE.read_text(encoding="utf-8"))
    run = "axe.run().then(r => done([r.passes.length, r.violations]), e => done([0, [String(e)]]))"
    passes, found = browser.execute_async_script(f"const done = arguments[0]; {run}")
    told = [(v["id"], v["help"], [node["html"][:200] for node in v["nodes"]][:3]) for v in found]
    assert passes > 10
    assert [problem for problem in told if name != "hostile" or problem[0] != "empty-table-header"] == []
