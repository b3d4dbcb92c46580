"""Entries of a session to the updates that show it again: the active branch, from its root to its leaf.

Ids, texts and calls are those that were sent live. A call has its final status at once; one without a result has
failed. Entries that show nothing, or that can't be read, are left out.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TypeAlias

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_rpc.acp.translation import tool_calls
from pinnace_rpc.acp.translation.tool_calls import Json
from pinnace_rpc.acp.translation.updates import (
    ClientFeatures,
    Update,
    arguments_of,
    block_chunk,
    call_blocks,
    call_id,
    compaction_update,
    custom_updates,
    summary_call,
    user_updates,
)

_Results: TypeAlias = Mapping[tuple[str, int], Json]
"""The results of calls, by the entry of the answer and the position of the call."""


def replay(
    branch: Sequence[Json], cwd: str, features: ClientFeatures, unfinished: Container[object] = ()
) -> Iterator[Update]:
    """Yield the updates of a session.

    Args:
        branch: The entries of its active branch.
        cwd: Its working folder.
        features: What the client understands.
        unfinished: The ids of calls that may still end.
    """
    results = _found_results(branch)
    hidden = _hidden(branch)
    for entry in branch:
        if entry["id"] not in hidden:
            for update in _entry(entry, results, cwd, features):
                if update.get("toolCallId") in unfinished:
                    update["status"] = "in_progress"
                yield update


def last_answer(branch: Sequence[Json]) -> tuple[str, Json, frozenset[int]] | None:
    """Return the answer behind which there are only results: its entry, the message, the positions of its results."""
    end = tail(branch)
    message = as_object(end[0].get("message")) or {} if end else {}
    if message.get("role") != "assistant":
        return None
    for entry in end[1:]:
        role = (as_object(entry.get("message")) or {}).get("role")
        if role not in ("toolResult", None) or entry.get("type") == "custom_message":
            return None
    identity = str(end[0]["id"])
    return identity, message, frozenset(index for _, index in _found_results(end))


def tail(branch: Sequence[Json]) -> Sequence[Json]:
    """Return the entries from the last answer on; all, if there is none."""
    for at in range(len(branch) - 1, -1, -1):
        if (as_object(branch[at].get("message")) or {}).get("role") == "assistant":
            return branch[at:]
    return branch


def active_branch(entries: Sequence[Json], leaf: str | None) -> list[Json]:
    """Return the entries from the root to a leaf."""
    by_id = {entry["id"]: entry for entry in entries if isinstance(entry.get("id"), str)}
    branch: list[Json] = []
    at: object = leaf
    while at in by_id and len(branch) <= len(by_id):
        entry = by_id[at]
        branch.append(entry)
        at = entry.get("parentId")
    branch.reverse()
    return branch


def _entry(entry: Json, results: _Results, cwd: str, features: ClientFeatures) -> Iterator[Update]:
    identity = str(entry["id"])
    match entry.get("type"):
        case "message":
            yield from _message(identity, as_object(entry.get("message")) or {}, results, cwd)
        case "custom_message":
            yield from custom_updates(identity, entry)
        case "compaction" | "branch_summary" as kind:
            summary = str(entry.get("summary", ""))
            if kind == "branch_summary":
                yield summary_call(identity, "Branch summary", summary)
            elif features.compactions:
                yield compaction_update(identity, summary, None)
            else:
                yield summary_call(identity, "Compaction", summary)
        case _:
            pass


def _message(identity: str, message: Json, results: _Results, cwd: str) -> Iterator[Update]:
    match message.get("role"):
        case "user":
            yield from user_updates(identity, message)
        case "custom":
            yield from custom_updates(identity, message)
        case "assistant":
            yield from _answer(identity, message, results, cwd)
        case "bashExecution":
            yield from _bash(identity, message)
        case _:
            pass


def _answer(identity: str, message: Json, results: _Results, cwd: str) -> Iterator[Update]:
    calls = 0
    for each in as_array(message.get("content")):
        block = as_object(each) or {}
        if block.get("type") == "toolCall":
            yield _call(identity, calls, block, results.get((identity, calls)), cwd)
            calls += 1
        elif (said := block_chunk(identity, block)) is not None:
            yield said


def _call(identity: str, index: int, block: Json, result: Json | None, cwd: str) -> Update:
    tool = str(block.get("name", "tool"))
    arguments = arguments_of(block)
    call = tool_calls.announced(call_id(identity, index), tool)
    call.update(tool_calls.described(tool, arguments, cwd))
    if result is None:
        call["status"] = "failed"
    else:
        is_error = result.get("isError") is True
        call.update(tool_calls.finished(tool, arguments, result, cwd, is_error=is_error))
    return call


def _bash(identity: str, message: Json) -> Iterator[Update]:
    command = str(message.get("command", ""))
    call = tool_calls.announced(identity, "bash")
    call["title"] = tool_calls.title("bash", {"command": command}, "/")
    call["rawInput"] = {"command": command}
    has_failed = message.get("exitCode") != 0 or message.get("cancelled") is True
    call["status"] = "failed" if has_failed else "completed"
    if output := str(message.get("output", "")):
        call["content"] = tool_calls.text_content(tool_calls.fenced(output))
    yield call


def _found_results(branch: Sequence[Json]) -> _Results:
    found: dict[tuple[str, int], Json] = {}
    open_calls: list[tuple[str, int, str]] = []
    for entry in branch:
        fields = as_object(entry.get("message")) or {}
        if fields.get("role") == "assistant":
            blocks = enumerate(block for _, block in call_blocks(fields))
            open_calls = [(str(entry["id"]), index, str(block.get("id", ""))) for index, block in blocks]
        elif fields.get("role") == "toolResult":
            for call in open_calls:
                if call[2] == fields.get("toolCallId"):
                    found[call[0], call[1]] = fields
                    open_calls.remove(call)
                    break
    return found


def _hidden(branch: Sequence[Json]) -> set[object]:
    """Return the entries that a later one has taken out of the context: failed answers that were tried again."""
    return {
        entry.get("targetId")
        for entry in branch
        if entry.get("type") == "context_edit" and entry.get("replacement") is None
    }
