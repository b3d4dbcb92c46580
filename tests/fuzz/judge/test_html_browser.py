"""The page in a real browser: what is hostile does nothing; filters, drill-down, path and copying work."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from tests.browser import Browser, Recorder, without_policy
from tests.fuzz.judge.html_reports import HOSTILE, case, changed, report

from pinnace_fuzz.judge.html.page import page
from pinnace_spec.statechart.transitions import STATES

pytestmark = [pytest.mark.peer, pytest.mark.slow]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two agents that differ on one rule."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    good = report(case("QUE/x", "PASS", "R-QUE-03"), case("PRM/y", "NON-STRICT", "R-PRM-01"), name="beta")
    path.write_text(page([report(), good]), encoding="utf-8")
    return path


POKE: Final = """(() => {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  for (const each of document.querySelectorAll("*")) {
    for (const kind of ["focus", "mouseover", "load", "error", "toggle"]) each.dispatchEvent(new Event(kind));
  }
  for (const each of document.querySelectorAll('a:not([href^="#"]), button')) each.click();
})()"""
# Long enough for what has been started to be noticed; only that nothing happens needs it.
MOMENT: Final = "new Promise(done => setTimeout(done, 300))"


@pytest.mark.parametrize("change", [str, without_policy], ids=["as it is", "without its policy"])
def test_hostile_text_in_every_field_does_nothing(
    browser: Browser, recorder: Recorder, tmp_path: Path, change: Callable[[str], str]
) -> None:
    """The policy is the second wall: the first one holds alone."""
    sources = [changed(report(), lambda text, each=each: f"{text} {each}") for each in HOSTILE]  # type: ignore[misc]
    sources += [changed(report(), lambda text, each=each: each) for each in HOSTILE]  # type: ignore[misc]
    path = tmp_path / "page.html"
    path.write_text(change(page(sources)), encoding="utf-8")
    browser.open(path)
    browser.run(POKE)
    browser.run(MOMENT)

    assert browser.alarms() == []
    assert browser.run("globalThis.hit") is None
    assert browser.run("document.querySelectorAll('script').length") == 1
    assert browser.run("document.querySelectorAll('iframe, object, embed, img, link, base, form').length") == 0
    assert [line for line in recorder.asked if "evil" in line] == []


RULES: Final = """[...document.querySelectorAll(".rule")].filter(each => each.checkVisibility())
  .map(each => each.id.slice(2)).join(" ")"""
CASES: Final = """[...document.querySelectorAll(".case")].filter(each => each.checkVisibility())
  .map(each => each.id).join(" ")"""


def shown(browser: Browser) -> tuple[str, str]:
    return browser.run(RULES), browser.run(CASES)


def choose(browser: Browser, name: str, value: str) -> None:
    place = f"document.getElementById('{name}')"
    browser.run(f"{place}.value = '{value}'; {place}.dispatchEvent(new Event('change'))")


def press(browser: Browser, query: str) -> None:
    browser.run(f"document.querySelector({json.dumps(query)}).click()")


def test_filters_show_what_they_say(browser: Browser, two: Path) -> None:
    browser.open(two)
    assert ("R-QUE-03 R-PRM-01", "a1-1 a2-2") == shown(browser)
    press(browser, '.pick[data-v="FAIL"]')
    assert ("R-QUE-03", "a1-1") == shown(browser)
    choose(browser, "agent", "2")
    assert ("", "") == shown(browser)
    assert browser.run("!document.getElementById('nothing').hidden")
    press(browser, '.pick[data-v="FAIL"]')
    assert ("R-QUE-03 R-PRM-01", "a2-2") == shown(browser)
    choose(browser, "agent", "")
    choose(browser, "area", "PRM")
    assert ("R-PRM-01", "a2-2") == shown(browser)
    choose(browser, "area", "")
    press(browser, "#differ")
    assert "R-QUE-03 R-PRM-01" == shown(browser)[0]
    assert "2 rules, 2 cases" == browser.run("document.getElementById('found').textContent")
    assert browser.alarms() == []


def test_the_search_finds_what_is_in_a_transcript(browser: Browser, two: Path) -> None:
    browser.open(two)
    browser.press("/", "/")
    assert browser.run("document.activeElement.id") == "search"
    for letter in "tool_exec":
        browser.press(letter, letter)
    browser.until("document.getElementById('found').textContent.startsWith('0 rules, 1')")
    assert ("", "a1-1") == shown(browser)
    browser.press("Escape")
    assert ("R-QUE-03 R-PRM-01", "a1-1 a2-2") == shown(browser)


def test_a_cell_leads_to_its_cases_and_these_to_the_proof(browser: Browser, two: Path) -> None:
    browser.open(two)
    assert not browser.run("document.getElementById('r-R-QUE-03-more').checkVisibility()")
    press(browser, "#r-R-QUE-03 .cell a")
    browser.until("document.getElementById('r-R-QUE-03-1').checkVisibility()")
    assert browser.run("document.querySelector('#r-R-QUE-03 .open').getAttribute('aria-expanded')") == "true"
    press(browser, "#r-R-QUE-03-1 li a")
    browser.until("document.getElementById('a1-1').open")
    browser.until("document.activeElement.matches('#a1-1 > summary')")
    press(browser, '#a1-1 .findings a[href="#a1-1-0-2"]')
    browser.until("document.querySelector(':target')?.id === 'a1-1-0-2'")
    top = browser.run("document.querySelector(':target').getBoundingClientRect().top")
    assert 0 < top < 900
    press(browser, "#r-R-QUE-03 .open")
    assert not browser.run("document.getElementById('r-R-QUE-03-more').checkVisibility()")


def test_what_is_filtered_away_comes_back_for_a_link_to_it(browser: Browser, two: Path) -> None:
    browser.open(two)
    choose(browser, "area", "QUE")
    browser.run("location.hash = '#a2-2'")
    browser.until("document.getElementById('a2-2').open")
    assert ("R-QUE-03 R-PRM-01", "a1-1 a2-2") == shown(browser)


def test_the_two_lanes_stand_on_their_sides(browser: Browser, two: Path) -> None:
    browser.open(two)
    browser.run("document.getElementById('a1-1').open = true")
    left, right = browser.run(
        "['1', '4'].map(each => document.querySelector(`#a1-1-0-${each} .rec`).getBoundingClientRect().left)"
    )
    assert left + 200 < right


def test_the_path_of_a_case_is_lit_in_the_drawing(browser: Browser, two: Path) -> None:
    browser.open(two)
    chart = "document.getElementById('a1-1-0-chart')"
    browser.run(f"document.getElementById('a1-1').open = true; {chart}.closest('details').open = true")
    browser.run(f"{chart}.scrollIntoView()")
    places = {state: number for number, state in enumerate(STATES["run"])}
    lit = browser.run(f"[...getComputedStyle({chart}).getPropertyValue('--s{places['preflight']}')].length > 0")
    unlit = browser.run(f"getComputedStyle({chart}).getPropertyValue('--s{places['retrying']}')")
    assert (True, "") == (lit, unlit)
    assert browser.run(f"{chart}.getBoundingClientRect().height") > 500


def test_the_reproduction_can_be_copied(browser: Browser, two: Path) -> None:
    browser.open(two)
    browser.run("document.getElementById('a1-1').open = true")
    box = browser.run(
        "(() => { const each = document.querySelector('.copy'); each.scrollIntoView({block: 'center'});"
        "const at = each.getBoundingClientRect(); return [at.left + 5, at.top + 5] })()"
    )
    for kind in ("mousePressed", "mouseReleased"):
        browser.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)
    browser.until("document.querySelector('.copy').textContent === 'Copied'")
    browser.run("document.getElementById('search').focus()")
    browser.call("Input.dispatchKeyEvent", type="keyDown", key="v", commands=["paste"])
    browser.until("document.getElementById('search').value !== ''")
    assert "printf '%s\\n' '{\"type\":\"prompt\"}' | agent" == browser.run("document.getElementById('search').value")


def test_the_keyboard_reaches_everything(browser: Browser, two: Path) -> None:
    browser.open(two)
    browser.press("j")
    assert browser.run("document.activeElement.parentElement.id") == "a1-1"
    browser.press("Enter", "\r")
    browser.until("document.getElementById('a1-1').open")
    browser.press("j")
    assert browser.run("document.activeElement.parentElement.id") == "a2-2"
    browser.press("k")
    assert browser.run("document.activeElement.parentElement.id") == "a1-1"
    unreachable = "[...document.querySelectorAll('.wide, .frame, pre')].filter(each => each.tabIndex < 0).length"
    assert browser.run(unreachable) == 0


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_page(browser: Browser, tmp_path: Path, width: int, is_dark: bool) -> None:
    path = tmp_path / "page.html"
    path.write_text(page([report(name=f"agent-{number}") for number in range(12)]), encoding="utf-8")
    browser.open(path, width=width, is_dark=is_dark)
    browser.run("for (const each of document.querySelectorAll('details')) each.open = true")
    browser.run("for (const each of document.querySelectorAll('button.open')) each.click()")
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    background = browser.run("getComputedStyle(document.documentElement).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background))) < 200) == is_dark


def test_without_scripts_everything_is_there(browser: Browser, two: Path) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.load(two)
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert browser.run("document.getElementById('controls').hidden && !document.querySelector('.drill[hidden]')")


def test_failures_are_printed_open(browser: Browser, two: Path) -> None:
    browser.open(two)
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert ["a1-1"] == browser.run("[...document.querySelectorAll('.case[open]')].map(each => each.id)")
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert [] == browser.run("[...document.querySelectorAll('.case[open]')].map(each => each.id)")
