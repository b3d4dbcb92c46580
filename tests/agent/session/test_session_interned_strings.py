"""Texts that entries repeat are shared, which changes no entry."""

import copy
import json
from typing import Any, cast

import orjson
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.session.store.entries import intern_strings
from pinnace_agent.session.store.reading import read_session

NAMES = ("type", "role", "api", "provider", "model", "stopReason", "toolName", "name", "message", "content", "text")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(["message", "user"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(NAMES), JSON))
def test_interning_does_not_change_an_entry(entry: dict[str, object]) -> None:
    before = copy.deepcopy(entry)

    intern_strings(entry)

    assert entry == before
    assert json.dumps(entry) == json.dumps(before)  # in its order


def test_entries_of_a_file_share_repeated_texts() -> None:
    header = {"type": "session", "version": 3, "id": "s", "cwd": "/"}
    blocks = [{"type": "toolCall", "name": "read"}, {"type": "toolCall", "name": "read"}]
    message = {"role": "assistant", "api": "openai-completions", "content": blocks}
    lines = [header, *({"type": "message", "id": each, "parentId": None, "message": message} for each in "ab")]

    text = read_session(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    first, second = cast("list[dict[str, Any]]", text.entries)

    assert first["type"] is second["type"]
    assert first["message"]["api"] is second["message"]["api"]
    names = [block["name"] for entry in (first, second) for block in entry["message"]["content"]]
    assert all(name is names[0] for name in names)
