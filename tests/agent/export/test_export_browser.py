"""The page in a real browser: what is hostile does nothing, and the contents, the filters and the search work.

A browser of its own for the module, over the pipe of its DevTools protocol. Every request goes to a recorder that
stands in for all proxies; dialogs, errors and breaches of the page's policy are recorded as well.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from tests.browser import Browser, Recorder, without_policy

from pinnace_agent.export.page import page
from pinnace_agent.export.source import read_source

pytestmark = [pytest.mark.peer, pytest.mark.slow]


def made(session: Path, change: Callable[[str], str] = lambda text: text) -> Path:
    path = session.with_suffix(".html")
    path.write_text(change("".join(page(read_source(str(session), "/")))), encoding="utf-8")
    return path


# Long enough for what has been started to be noticed; only that nothing happens needs it.
MOMENT: Final = "new Promise(done => setTimeout(done, 300))"
POKE: Final = """(() => {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  for (const each of document.querySelectorAll("*")) {
    for (const kind of ["focus", "mouseover", "load", "error", "toggle"]) each.dispatchEvent(new Event(kind));
  }
  for (const link of document.querySelectorAll("a")) {
    if (!/^(https?|mailto):/.test(link.getAttribute("href")) && link.id !== "lines") link.click();
  }
})()"""


@pytest.mark.parametrize("change", [str, without_policy], ids=["as it is", "without its policy"])
def test_s8_hostile_text_in_every_field_does_nothing(
    browser: Browser, recorder: Recorder, hostile: Path, change: Callable[[str], str]
) -> None:
    """The policy is the second wall: the first one holds alone."""
    browser.open(made(hostile, change))
    browser.run(POKE)
    browser.run(MOMENT)

    assert browser.alarms() == []
    assert browser.run("globalThis.hit") is None
    assert browser.run("document.querySelectorAll('script').length") == 1
    assert browser.run("document.querySelectorAll('iframe, object, embed, svg, link, base, form').length") == 0
    assert browser.run("[...document.images].every(each => each.src.startsWith('data:'))")
    assert [line for line in recorder.asked if "evil" in line] == []


BREACH: Final = (
    "<script>globalThis.hit=1;alert(1)</script><img src=http://evil.invalid/img onerror='globalThis.hit=1'>"
    "<link rel=stylesheet href=http://evil.invalid/css><iframe src=http://evil.invalid/frame></iframe>"
    "<p id=styled style='background:url(http://evil.invalid/style)'>x</p><base href=http://evil.invalid/>"
    "<form action=http://evil.invalid/form><button id=send></button></form>"
)


def test_s8_the_policy_stops_what_would_have_got_through(browser: Browser, recorder: Recorder, writer: Any) -> None:
    """The second wall holds alone, too; and the recorder and the alarms notice when there is none."""
    writer.user(None, "hi")
    path = made(writer.save(), lambda text: text.replace("<p>hi</p>", BREACH))
    browser.open(path)
    browser.run("document.getElementById('send').click()")
    browser.run(MOMENT)
    assert browser.run("globalThis.hit") is None
    assert browser.run("getComputedStyle(document.getElementById('styled')).backgroundImage") == "none"
    assert len(browser.alarms()) >= 5
    assert [line for line in recorder.asked if "evil" in line] == []

    path.write_text(without_policy(path.read_text()))
    browser.open(path)
    browser.run(MOMENT)
    assert browser.run("globalThis.hit") == 1
    assert any(event["method"] == "Page.javascriptDialogOpening" for event in browser.alarms())
    assert [line for line in recorder.asked if "evil" in line] != []


@pytest.fixture
def talk(writer: Any) -> Path:
    root = writer.user(writer.add(None, "model_change", provider="acme", modelId="swift"), "Where is the needle?")
    call = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "grep -r needle ."}}
    thought = {"type": "thinking", "thinking": "A *haystack* is likely."}
    last = writer.answer(root, thought, {"type": "text", "text": "I'll look."}, call)
    last = writer.result(last, "\n".join(f"hay {number}" for number in range(100)) + "\nneedle")
    other = writer.user(root, "Never mind.")
    writer.answer(other, {"type": "text", "text": "As you like."})
    last = writer.answer(last, {"type": "text", "text": f"In the last line.\n\n```python\n{'x = 1; ' * 60}\n```"})
    writer.add(last, "label", targetId=last, label="found it")
    path: Path = writer.save()
    return path


SHOWN: Final = """[...document.querySelectorAll("main article")]
  .filter(each => getComputedStyle(each).display !== "none").map(each => each.id).join(" ")"""
LISTED: Final = SHOWN.replace("main article", "nav li").replace("each.id", "each.firstElementChild.hash.slice(1)")


def choose(browser: Browser, name: str) -> str:
    browser.run(
        f"filter.value = '{name}'; filter.dispatchEvent(new Event('change'))".replace("filter", "window.filter")
    )
    shown = browser.run(SHOWN)
    assert browser.run(LISTED) == shown
    return str(shown)


def test_filters_show_what_they_name(browser: Browser, talk: Path) -> None:
    browser.open(made(talk))
    assert browser.run(SHOWN) == "e1 e2 e3 e6 e4 e5"
    assert choose(browser, "all") == "e0 e1 e2 e3 e6 e7 e4 e5"
    assert choose(browser, "notools") == "e1 e2 e6 e4 e5"
    assert browser.run("getComputedStyle(document.querySelector('.calls')).display") == "none"
    assert choose(browser, "user") == "e1 e4"
    assert choose(browser, "labelled") == "e6"
    assert choose(browser, "talk") == "e1 e2 e3 e6 e4 e5"
    assert browser.alarms() == []


def test_the_search_finds_words_wherever_they_are(browser: Browser, talk: Path) -> None:
    browser.open(made(talk))
    browser.press("/", "/")
    assert browser.run("document.activeElement.id") == "search"
    for letter in "NEEDLE hay":
        browser.press(letter, letter)
    browser.until("document.getElementById('found').textContent")
    assert browser.run(SHOWN) == browser.run(LISTED) == "e3"
    assert browser.run("document.getElementById('found').textContent") == "1 found"
    assert browser.run("CSS.highlights.get('found').size") == 102
    # A branch in which nothing was found is not there.
    assert browser.run("[...document.querySelectorAll('section.branch')].map(each => each.checkVisibility())") == [
        True,
        False,
    ]
    for letter in "xyz":
        browser.press(letter, letter)
    browser.until("!document.getElementById('nothing').hidden")
    browser.press("Escape")
    assert browser.run(SHOWN) == "e1 e2 e3 e6 e4 e5"


def test_the_contents_lead_to_entries(browser: Browser, talk: Path) -> None:
    browser.open(made(talk))
    browser.run("document.querySelector('nav a[href=\"#e5\"]').click()")
    browser.until("location.hash === '#e5' && document.querySelector(':target')?.id === 'e5'")
    top = browser.run("document.getElementById('e5').getBoundingClientRect().top")
    assert 0 <= top < 900
    # What a filter hides is shown on request.
    choose(browser, "user")
    browser.run("location.hash = '#e6'")
    browser.until(f"{SHOWN}.includes('e6')")


def test_the_session_is_saved_as_json_lines(browser: Browser, talk: Path, tmp_path: Path) -> None:
    folder = tmp_path / "saved"
    folder.mkdir()
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder), eventsEnabled=True)
    browser.open(made(talk))
    x, y = browser.run(
        "(b => [b.x + b.width / 2, b.y + b.height / 2])(document.getElementById('lines').getBoundingClientRect())"
    )
    for kind in ("mousePressed", "mouseReleased"):
        browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    while not [event for event in browser.events if event.get("params", {}).get("state") == "completed"]:
        browser.run(MOMENT)

    assert ["session.jsonl"] == [path.name for path in folder.iterdir()]
    saved = [json.loads(line) for line in (folder / "session.jsonl").read_text().splitlines()]
    assert [json.loads(line) for line in talk.read_text().splitlines()] == saved


def test_everything_unfolds_at_once(browser: Browser, talk: Path) -> None:
    browser.open(made(talk))
    browser.run("document.getElementById('folds').click()")
    assert browser.run("[...document.querySelectorAll('main details')].every(each => each.open)")
    browser.run("document.getElementById('folds').click()")
    assert not browser.run("[...document.querySelectorAll('main details')].some(each => each.open)")


# What is outside of the window, or sticks out of a box that does not scroll: articles cut it off.
OUTSIDE: Final = """[...document.querySelectorAll("main *, header *")].filter(each => {
  if (each.closest("[hidden]") || !each.checkVisibility()) return false;
  const scrolls = getComputedStyle(each).overflowX !== "visible" || !each.clientWidth;
  const isOutside = !each.closest("pre, .table") && each.getBoundingClientRect().right > innerWidth + 1;
  return isOutside || (!scrolls && each.scrollWidth > each.clientWidth + 1 && !each.closest("pre > *, table"));
}).map(each => each.outerHTML.slice(0, 80)).join()"""


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 390, 768, 1280])
@pytest.mark.parametrize("name", ["talk", "hostile"])
def test_no_page_is_wider_than_its_window(
    browser: Browser, request: pytest.FixtureRequest, name: str, width: int, is_dark: bool
) -> None:
    browser.open(made(request.getfixturevalue(name)), width=width, is_dark=is_dark)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(OUTSIDE) == ""
    browser.run("document.getElementById('folds').click()")
    assert browser.run(OUTSIDE) == ""


CONTRAST: Final = """(() => {
  const part = c => { c /= 255; return c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; };
  const light = ([r, g, b]) => .2126 * part(r) + .7152 * part(g) + .0722 * part(b);
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const flat = (colours) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const each of colours) { canvas.fillStyle = each; canvas.fillRect(0, 0, 1, 1); }
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const bad = new Set();
  for (const each of document.querySelectorAll("body *")) {
    if (![...each.childNodes].some(node => node.nodeType === 3 && node.data.trim())) continue;
    if (!each.checkVisibility() || each.matches("script, style, option, .D, .N") || each.closest(".term")) continue;
    const under = [];
    for (let at = each; at; at = at.parentElement) under.unshift(getComputedStyle(at).backgroundColor);
    const back = light(flat(under)), front = light(flat([...under, getComputedStyle(each).color]));
    const ratio = (Math.max(back, front) + .05) / (Math.min(back, front) + .05);
    if (ratio < 4.5) bad.add(`${each.tagName}.${each.className} ${ratio.toFixed(1)}`);
  }
  return [...bad].join(", ");
})()"""


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_text_contrasts_with_its_background(browser: Browser, talk: Path, is_dark: bool) -> None:
    """4.5 to 1, as accessibility guidelines ask."""
    browser.open(made(talk), is_dark=is_dark)
    browser.run("document.getElementById('folds').click()")
    assert browser.run(CONTRAST) == ""


def test_the_contents_open_and_close_on_a_phone(browser: Browser, talk: Path) -> None:
    browser.open(made(talk), width=390, height=844)
    seen = "getComputedStyle(document.querySelector('nav')).display"
    assert browser.run(seen) == "none"
    browser.run("document.querySelector('label.menu').click()")
    assert browser.run(seen) == "block"
    browser.run("document.querySelector('nav a[href=\"#e6\"]').click()")
    assert browser.run(seen) == "none"


def test_without_scripts_everything_is_there(browser: Browser, talk: Path) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.load(made(talk))
        shot = browser.call("Page.captureScreenshot")["data"]
        root = browser.call("DOM.getDocument", depth=0)["root"]["nodeId"]
        found = browser.call("DOM.querySelectorAll", nodeId=root, selector="main article")["nodeIds"]
        boxes = [browser.call("DOM.getBoxModel", nodeId=node)["model"]["height"] for node in found]
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert len(shot) > 10_000
    assert len(boxes) == 8
    assert all(height > 10 for height in boxes)
