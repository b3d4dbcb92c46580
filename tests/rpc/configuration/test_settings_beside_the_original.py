"""The original and this program change one settings.json at the same time, and heed each other's lock."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinnace_agent.files.file_lock import file_lock
from pinnace_agent.files.json_file import FileForm, edit_object, pretty
from pinnace_agent.files.relaxed_json import JsonObject
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

pytestmark = [pytest.mark.peer, pytest.mark.slow]
CHANGES = 40


@pytest.fixture
def original(original_pi: list[str], tmp_path: Path) -> Iterator[HomedAgent]:
    with AgentStarter(original_pi, tmp_path) as start:
        yield start([], settings={"theme": "dark"}, is_checked=False)


def read(file: Path) -> dict[str, object]:
    content: dict[str, object] = json.loads(file.read_text())
    return content


def add_number(file: Path, number: int) -> None:
    def change(content: JsonObject) -> JsonObject:
        ours = content.get("ours", {})
        assert isinstance(ours, dict)
        return {**content, "ours": {**ours, str(number): number}}

    edit_object(file, change, FileForm(pretty))


def test_what_both_write_at_once_is_all_there(original: HomedAgent) -> None:
    file = original.home.agent_dir / "settings.json"
    original.request({"type": "get_state"})
    for number in range(CHANGES):
        original.send({"type": "set_steering_mode", "mode": ("all", "one-at-a-time")[number % 2]})
        add_number(file, number)
    original.request({"type": "set_follow_up_mode", "mode": "all"})
    original.close_stdin()
    original.wait_exit()

    expected = {"theme": "dark", "ours": {str(number): number for number in range(CHANGES)}, "followUpMode": "all"}
    assert expected.items() <= read(file).items()


def test_the_original_does_not_write_while_we_hold_the_lock(original: HomedAgent) -> None:
    file = original.home.agent_dir / "settings.json"
    original.request({"type": "get_state"})
    with file_lock(file):
        original.request({"type": "set_steering_mode", "mode": "all"})
        original.close_stdin()
        original.wait_exit()

    assert {"theme": "dark"} == read(file)
