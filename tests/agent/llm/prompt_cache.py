"""The prompt cache of a server that speaks Anthropic's messages, as its documentation describes it, and its bill.

A request is a row of blocks: tools, system, messages. A mark (`cache_control`) on a block keeps the row up to it, for
five minutes or an hour from its last use; a request has at most four. A mark finds what was kept at its own block or at
one of the twenty before. Rows shorter than 1,024 tokens are not kept. Rows with messages differ when thinking differs.
With tools the server adds an instruction of its own to the system prompt.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

MINIMUM = 1024
LOOK_BACK = 20
TOOL_INSTRUCTION = 346
"""Tokens of what the server adds for tools."""
MOST_MARKS = 4
_OF_MESSAGES = ("thinking", "tool_choice", "output_config")
"""What messages are kept for, beside a model."""
SHORT_S, LONG_S = 300.0, 3600.0
READ, SHORT_WRITE, LONG_WRITE = 0.1, 1.25, 2.0
"""Prices of a token, in those of one that is in no cache."""


class Bill(NamedTuple):
    """What the tokens of requests cost, in prices of one that is in no cache, and how many were read from the cache."""

    price: float = 0.0
    tokens: int = 0
    read: int = 0

    def __add__(self, other: object) -> "Bill":
        """Add another one."""
        assert isinstance(other, Bill)
        return Bill(self.price + other.price, self.tokens + other.tokens, self.read + other.read)


class _Block(NamedTuple):
    key: str
    tokens: int
    kept_s: float | None


class PromptCache:
    """One account's cache."""

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._until: dict[str, float] = {}

    def bill(self, body: Mapping[str, Any], now_s: float) -> Bill:
        """Take a request and return what its prompt costs."""
        row = _row(body)
        marks = [number for number, block in enumerate(row) if block.kept_s is not None]
        assert len(marks) <= MOST_MARKS, "the server refuses a fifth mark"
        keys, sizes = _prefixes(row)
        read_end = max((self._found(keys, mark, now_s) for mark in marks), default=-1)
        price = READ * (sizes[read_end] if read_end >= 0 else 0)
        done = sizes[read_end] if read_end >= 0 else 0
        read = done
        for mark in marks:
            kept_s = row[mark].kept_s
            assert kept_s is not None
            if sizes[mark] < MINIMUM:
                continue
            self._until[keys[mark]] = now_s + kept_s
            if sizes[mark] > done:
                price += (SHORT_WRITE if kept_s == SHORT_S else LONG_WRITE) * (sizes[mark] - done)
                done = sizes[mark]
        total = sizes[-1] if sizes else 0
        return Bill(price + total - done, total, read)

    def _found(self, keys: list[str], mark: int, now_s: float) -> int:
        for number in range(mark, max(-1, mark - LOOK_BACK - 1), -1):
            if self._until.get(keys[number], 0.0) > now_s:
                self._until[keys[number]] = max(self._until[keys[number]], now_s + SHORT_S)
                return number
        return -1


def blocks_of(body: Mapping[str, Any]) -> list[tuple[str, int, bool]]:
    """Return the text, the tokens and whether it is marked of each block, whatever model or thinking it is for."""
    plain = {**body, "model": ""} | dict.fromkeys(_OF_MESSAGES)
    return [(block.key, block.tokens, block.kept_s is not None) for block in _row(plain)]


def _row(body: Mapping[str, Any]) -> list[_Block]:
    """Return the blocks of a request, in the order in which they are kept."""
    blocks = [*body.get("tools", ()), *_blocks(body.get("system", ()))]
    messages = {name: body.get(name) for name in _OF_MESSAGES}
    row = [_block(body["model"], each) for each in blocks]
    if body.get("tools"):
        row[0] = row[0]._replace(tokens=row[0].tokens + TOOL_INSTRUCTION)
    for message in body["messages"]:
        row += [_block([message["role"], messages], each) for each in _blocks(message["content"])]
    return row


def _blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _block(place: object, block: Mapping[str, Any]) -> _Block:
    text = json.dumps({name: value for name, value in block.items() if name != "cache_control"}, sort_keys=True)
    mark = block.get("cache_control")
    kept_s = None if mark is None else LONG_S if mark.get("ttl") == "1h" else SHORT_S
    return _Block(json.dumps([place, text]), -(-len(text) // 4), kept_s)


def _prefixes(row: list[_Block]) -> tuple[list[str], list[int]]:
    """Return an identity and the tokens of the row up to each block."""
    import hashlib

    keys: list[str] = []
    sizes: list[int] = []
    state = hashlib.blake2b()
    size = 0
    for block in row:
        state.update(block.key.encode())
        size += block.tokens
        keys.append(state.copy().hexdigest())
        sizes.append(size)
    return keys, sizes
