"""The page of a batch in a real browser: a thousand tasks, filters, links, and hostile answers."""

from pathlib import Path
from typing import Any

import pytest
from tests.browser import Browser

from pinnace_rpc.batch.summary import write_summary
from pinnace_rpc.batch.worker import made_result

pytestmark = [pytest.mark.peer, pytest.mark.slow]
TASKS = 1_000
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"


def line(number: int) -> dict[str, Any]:
    if number % 10 == 9:
        result = made_result("model_error", f"refused {HOSTILE}")
    else:
        result = {**made_result("completed", "", code=0), "error": None, "text": f"answer {number}"}
    session = {"id": f"t{number}", "file": f"sessions/t{number}.jsonl"}
    return {"id": f"t{number}", "attempt": 1, **result, "session": session, "verify": None, "stderr": ""}


SHOWN = "[...document.querySelectorAll('tbody tr')].filter(each => each.checkVisibility()).length"


def test_a_thousand_tasks_are_filtered_and_linked(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "t7.html").write_text("<!doctype html><title>The session</title>")
    write_summary(tmp_path, TASKS, map(line, range(TASKS)))
    browser.open(tmp_path / "index.html")

    assert TASKS == browser.run(SHOWN)
    browser.run("state.value = 'model_error'; state.dispatchEvent(new Event('change'))")
    assert (100, "100 of 1000 tasks") == (browser.run(SHOWN), browser.run("shown.textContent"))
    browser.run("state.value = ''; text.value = 'ANSWER 12'; text.dispatchEvent(new Event('input'))")
    assert 11 - 1 == browser.run(SHOWN)  # 12, and 120 to 128: those that end with 9 have failed
    links = browser.run("[...document.querySelectorAll('tr')].find(each => /^t7 /.test(each.textContent)).innerHTML")
    assert '<a href="sessions/t7.html">t7</a> <a href="sessions/t7.jsonl">jsonl</a>' in links
    assert "sessions/t8.html" not in browser.run("document.body.innerHTML")
    browser.run("document.querySelector('a[href=\"sessions/t7.html\"]').click()")
    browser.until("document.title === 'The session'")
    assert browser.alarms() == []
