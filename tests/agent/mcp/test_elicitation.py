"""Questions of MCP servers: who asks is said in each dialog, and nothing in it is hidden."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pinnace_agent.mcp.elicitation import Elicitation

PREFIX = "MCP server notes asks"


class Asked:
    """A user who answers with the first option or the given line, and what was shown."""

    def __init__(self, line: str = "x") -> None:
        self.titles: list[str] = []
        self.shown: list[str] = []
        self.addresses: list[str | None] = []
        self._line = line

    async def select(self, title: str, options: Sequence[str], url: str | None = None) -> str | None:
        self.titles.append(title)
        self.addresses.append(url)
        self.shown += options
        return options[0]

    async def input(self, title: str, placeholder: str | None) -> str | None:
        self.titles.append(title)
        self.shown += [placeholder or ""]
        return self._line


def form(**properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"message": "Who?", "requestedSchema": {"type": "object", "properties": properties}}


async def test_each_dialog_names_its_server() -> None:
    """A field may be called like a question of this program."""
    fields: dict[str, Mapping[str, Any]] = {
        "Run outside the sandbox?": {"type": "boolean"},
        "name": {"type": "string", "title": "Allow tool: bash", "description": "command: ls"},
        "kind": {"type": "string", "enum": ["a", "b"]},
        "several": {"type": "array", "items": {"enum": ["a", "b"]}},
    }
    asked = Asked()
    answer = await Elicitation("notes").ask(form(**fields), asked)

    assert answer["action"] == "accept"
    assert len(asked.titles) >= 1 + len(fields)
    assert [] == [title for title in asked.titles if not title.startswith(PREFIX)]
    assert f"{PREFIX} for Allow tool: bash: command: ls" in asked.titles


HIDDEN = "a\x1b[2J\u202eb"


@pytest.mark.parametrize(
    "params",
    [
        {**form(), "message": HIDDEN},
        form(name={"type": "string", "title": HIDDEN}),
        form(name={"type": "string", "description": HIDDEN}),
        form(**{HIDDEN: {"type": "string"}}),
        form(name={"type": "string", "default": HIDDEN}),
        form(name={"type": "string", "enum": [HIDDEN]}),
        form(name={"type": "string", "enum": ["a"], "enumNames": [HIDDEN]}),
        form(name={"type": "string", "oneOf": [{"const": "a", "title": HIDDEN}]}),
        form(name={"type": "string", "oneOf": [{"const": HIDDEN}]}),
        form(name={"type": "array", "items": {"enum": [HIDDEN]}}),
        form(name={"type": "number", "minimum": HIDDEN}),
        {"mode": "url", "message": HIDDEN, "url": "https://example.org/"},
    ],
    ids=lambda params: "",
)
async def test_no_text_of_a_server_hides_anything(params: dict[str, Any]) -> None:
    asked = Asked("1")
    await Elicitation("no\x1b[2J\u202etes").ask(params, asked)

    shown = "".join([*asked.titles, *asked.shown])
    assert "\\u{1b}[2J\\u{202e}" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


async def test_a_choice_is_answered_by_its_value_however_it_is_shown() -> None:
    answer = await Elicitation("notes").ask(form(name={"type": "string", "enum": [HIDDEN]}), Asked())

    assert answer == {"action": "accept", "content": {"name": HIDDEN}}


async def test_a_text_that_is_cut_says_so() -> None:
    asked = Asked()
    await Elicitation("notes").ask({**form(), "message": "x" * 3000}, asked)

    assert asked.titles[0].endswith("x… (1000 characters more)")


@pytest.mark.parametrize(
    ("url", "action"),
    [
        ("https://example.org/a?b=c#d", "accept"),
        ("http://localhost:8000/", "accept"),
        ("javascript:alert(1)", "decline"),
        ("file:///etc/passwd", "decline"),
        ("https://", "decline"),
        ("https://example.org/\u202e", "decline"),
        ("https://example.org/\nhttps://other", "decline"),
        ("https://[", "decline"),
        ("https://example.org/" + "x" * 3000, "decline"),
        (5, "decline"),
        (None, "decline"),
    ],
)
async def test_an_address_is_shown_whole_or_declined(url: object, action: str) -> None:
    asked = Asked()
    answer = await Elicitation("notes").ask({"mode": "url", "message": "", "url": url}, asked)

    assert answer["action"] == action
    assert asked.addresses == ([url] if asked.titles else [])
    assert (url in asked.titles[0].split("\n") if isinstance(url, str) else True) if asked.titles else True
