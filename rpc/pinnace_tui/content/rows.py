"""Rows of the lists that commands open, and lines of what they show: sessions, entries of a session, its counts."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from pinnace_tui.content.values import Record, content_text, mapping, number, objects, text

_COUNTS: Final = {
    "userMessages": "messages of the user",
    "assistantMessages": "answers",
    "toolCalls": "tool calls",
}
_MISS_REASONS: Final = {
    "model": "another model",
    "expired": "pauses",
    "thinking": "another thinking level",
    "tools": "other tools",
    "context": "an edited context",
    "unknown": "unknown reasons",
}
_ROLES: Final = {"user": "you", "assistant": "model", "toolResult": "result", "bashExecution": "shell"}


def one_line(content: str) -> str:
    """Return the beginning of a text, as one line."""
    return " ".join(content[:300].split())


def count_line(stats: Record) -> str:
    """Return what is counted in a session."""
    return ", ".join(f"{stats.get(key)} {label}" for key, label in _COUNTS.items())


def cache_lines(stats: Record) -> Iterator[str]:
    """Yield what the stats say of a prompt cache: what was read, what was paid for again; nothing without one."""
    if read := number(mapping(mapping(stats, "session"), "tokens"), "cacheRead"):
        yield f"{read:,.0f} tokens read from the prompt cache"
    warming = mapping(stats, "cacheWarming")
    if count := number(warming, "requests"):
        requests = "request" if count == 1 else "requests"
        tokens, cost = number(mapping(warming, "tokens"), "total"), number(warming, "cost")
        yield f"{tokens:,.0f} tokens (${cost:.3f}) to keep the cache alive, in {count:.0f} {requests}"
    missed = mapping(stats, "cacheMisses")
    if count := number(missed, "missCount"):
        reasons = ", ".join(
            _MISS_REASONS.get(name := text(each, "reason"), name) for each in objects(missed, "reasons")
        )
        requests = "request" if count == 1 else "requests"
        tokens, cost = number(missed, "missedTokens"), number(missed, "missedCost")
        yield f"{tokens:,.0f} tokens (${cost:.3f}) missed in {count:.0f} {requests}: {reasons}"


def session_row(session: Record, *, with_folder: bool) -> str:
    """Return when a session was changed and what it is about."""
    modified = session.get("modified")
    when = f"{datetime.fromtimestamp(modified / 1000):%Y-%m-%d %H:%M}" if isinstance(modified, int | float) else ""
    title = text(session, "name") or text(session, "firstMessage") or "(empty)"
    folder = f"  {text(session, 'cwd')}" if with_folder else ""
    return f"{when}  {title}{folder}"


def tree_rows(roots: list[Record], leaf: str | None) -> list[tuple[str, str, str]]:
    """Return id, line and label of each entry, indented where the session branches."""
    rows: list[tuple[str, str, str]] = []
    # A stack, since a session is deeper than calls may be.
    left: list[tuple[Record, int]] = [(root, 0) for root in reversed(roots)]
    while left:
        node, depth = left.pop()
        entry = mapping(node, "entry")
        children = objects(node, "children")
        if (line := _entry_line(entry)) is not None:
            label = text(node, "label")
            mark = "●" if text(entry, "id") == leaf else " "
            tag = f"[{label}] " if label else ""
            rows.append((text(entry, "id"), f"{mark} {'│ ' * min(depth, 20)}{tag}{line}", label))
        below = depth + 1 if len(children) > 1 else depth
        left += [(child, below) for child in reversed(children)]
    return rows


def _entry_line(entry: Record) -> str | None:
    """Return an entry in a line; None: it is not shown."""
    match entry.get("type"):
        case "message":
            message = mapping(entry, "message")
            role = text(message, "role")
            content = content_text(message)
            if role == "assistant" and not content.strip():
                calls = [
                    text(block, "name") for block in objects(message, "content") if block.get("type") == "toolCall"
                ]
                content = f"calls {', '.join(calls)}" if calls else "(nothing)"
            if role == "bashExecution":
                content = f"$ {text(message, 'command')}"
            return f"{_ROLES.get(role, role)}: {one_line(content)}"
        case "compaction":
            return "compaction"
        case "branch_summary":
            return f"summary: {one_line(text(entry, 'summary'))}"
        case _:
            return None
