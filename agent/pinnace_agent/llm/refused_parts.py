"""What some servers refuse of requests that others take: marks of caches, strict tools, empty lists and texts.

Pure. Decides from the text of a refusal which optional part of a body it may be about, and makes the body without it.
Every part only saves tokens or time, or has another form that means the same. Independent of HTTP. Loaded with the
first refusal. Rule R-LLM-06.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from pinnace_agent.core.json_access import as_array, as_object, compact_body
from pinnace_agent.llm.strict_schemas import loose_parameters

Body = dict[str, object]

_SEPARATOR: Final = "\n\n"


class _Part(NamedTuple):
    """An optional part of a body."""

    pattern: re.Pattern[str]
    """What the text of its refusal has."""
    remove: Callable[[Body], bool]
    """Removes it, and returns whether there was one."""


def refused_names(text: str) -> list[str]:
    """Return the names of the parts that the text of a refusal may be about."""
    return [name for name, part in _PARTS.items() if part.pattern.search(text)]


def without(body: bytes, names: Iterable[str]) -> bytes | None:
    """Return a body without these parts; None: it has none of them."""
    members = as_object(json.loads(body))
    if members is None:
        return None
    removed = [part.remove(members) for name, part in _PARTS.items() if name in names]
    return compact_body(members) if any(removed) else None


def merged_users(messages: Iterable[Body]) -> list[Body]:
    """Join the messages of the user that follow each other, for servers that want the roles to alternate."""
    merged: list[Body] = []
    for message in messages:
        if not merged or not message.get("role") == merged[-1].get("role") == "user":
            merged.append(message)
            continue
        one, other = merged[-1].get("content"), message.get("content")
        if isinstance(one, str) and isinstance(other, str):
            joined: object = _SEPARATOR.join((one, other))
        else:
            joined = [*_blocks(one), *_blocks(other)]
        merged[-1] = {**merged[-1], "content": joined}
    return merged


def _blocks(content: object) -> list[object]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else as_array(content)


def _tools(body: Body) -> Iterator[Body]:
    for tool in as_array(body.get("tools")):
        if (members := as_object(tool)) is not None:
            yield members
            if (function := as_object(members.get("function"))) is not None:
                yield function
    for tool in as_array((as_object(body.get("toolConfig")) or {}).get("tools")):
        if (described := as_object((as_object(tool) or {}).get("toolSpec"))) is not None:
            yield described


def _messages(body: Body) -> Iterator[Body]:
    for message in as_array(body.get("messages")):
        if (members := as_object(message)) is not None:
            yield members


def _remove_marks(body: Body) -> bool:
    places = [*_tools(body), *_messages(body)]
    texts = [body.get("system"), *(message.get("content") for message in _messages(body))]
    places += [members for text in texts for block in as_array(text) if (members := as_object(block)) is not None]
    return _drop(places, "cache_control")


def _drop(places: Iterable[Body], name: str) -> bool:
    had = [place.pop(name, place) is not place for place in places]
    return any(had)


def _remove_strict(body: Body) -> bool:
    """Remove the field, and what it wants of schemas."""
    tools = [*_tools(body)]
    for tool in tools:
        if tool.get("strict") is True:
            for place, name in (
                (tool, "parameters"),
                (tool, "input_schema"),
                (as_object(tool.get("inputSchema")), "json"),
            ):
                if place is not None and (schema := as_object(place.get(name))) is not None:
                    place[name] = loose_parameters(schema)
    return _drop(tools, "strict")


def _of_tools(name: str) -> Callable[[Body], bool]:
    def remove(body: Body) -> bool:
        return _drop(_tools(body), name)

    return remove


def _at_top(name: str) -> Callable[[Body], bool]:
    def remove(body: Body) -> bool:
        return _drop([body], name)

    return remove


def _remove_empty_tools(body: Body) -> bool:
    if body.get("tools") != []:
        return False
    del body["tools"]
    return True


def _fill_null_contents(body: Body) -> bool:
    """Give assistant messages without a text an empty one."""
    found = [each for each in _messages(body) if each.get("role") == "assistant" and each.get("content", each) is None]
    for message in found:
        message["content"] = ""
    return bool(found)


def _remove_empty_contents(body: Body) -> bool:
    answers = [each for each in _messages(body) if each.get("role") == "assistant" and each.get("tool_calls")]
    return _drop([each for each in answers if each.get("content") in (None, "")], "content")


def _merge_users(body: Body) -> bool:
    messages = list(_messages(body))
    merged = merged_users(messages)
    if len(merged) == len(messages):
        return False
    body["messages"] = merged
    return True


def _named(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-]){name}(?![\w-])", re.IGNORECASE)


def _of_body(name: str) -> _Part:
    # In quotes, or behind what the word is: some of the names are ordinary words.
    named = rf"""["'`]{name}\b|\b{name}\\?["'`]|(?:parameter|argument|field|property)s?:?\s+{name}\b"""
    return _Part(re.compile(named, re.IGNORECASE), _at_top(name))


# In the order in which they are removed: what has become an empty content may be refused as well.
_PARTS: Final[Mapping[str, _Part]] = {
    "cache_control": _Part(_named("cache_control"), _remove_marks),
    "strict": _Part(
        re.compile(
            r"""["'`.]strict\b|\bstrict\\?["'`:]|\bstrict (?:mode|tools?|schema|parameter|field|is)\b"""
            # Limits of Anthropic for all strict tools of a request together.
            r"|compiled grammar is too large|too many parameters with union types",
            re.I,
        ),
        _remove_strict,
    ),
    "eager_input_streaming": _Part(_named("eager_input_streaming"), _of_tools("eager_input_streaming")),
    "tools": _Part(
        re.compile(
            r"\btools\b.{0,80}(?:empty|at least|too.?short|min_?items|\[\])|empty.{0,40}\btools\b", re.I | re.DOTALL
        ),
        _remove_empty_tools,
    ),
    "tool_choice": _Part(_named("tool_choice"), _at_top("tool_choice")),
    "null_content": _Part(
        re.compile(r"\bcontent\b.{0,80}(?:null|none\b|nil\b|missing|required|string)|null.{0,40}\bcontent\b", re.I),
        _fill_null_contents,
    ),
    "empty_content": _Part(
        re.compile(r"\bcontent\b.{0,80}(?:empty|blank|at least|too.?short)|empty.{0,40}\bcontent\b", re.I),
        _remove_empty_contents,
    ),
    "user_messages": _Part(
        re.compile(
            r"roles? must alternate|alternat\w+ (?:between|user)|multiple .{0,20}user.{0,20} in a row"
            r"|consecutive .{0,20}(?:user|messages|roles)",
            re.I,
        ),
        _merge_users,
    ),
    **{
        name: _of_body(name)
        for name in ("store", "stream_options", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options")
    },
}
