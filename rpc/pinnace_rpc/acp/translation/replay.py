"""Entries of a session to what shows it again: the active branch, from its root to its leaf.

Ids, texts and calls are those that were sent live. A call has its final status at once; one without a result has
failed. Entries that show nothing, or that can't be read, are left out.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_rpc.acp.translation.prompts import user_blocks
from pinnace_rpc.acp.translation.shown import (
    Call,
    CallReplayed,
    Json,
    ShellReplayed,
    Shown,
    SummaryReplayed,
    UserMessage,
)
from pinnace_rpc.acp.translation.translator import (
    arguments_of,
    call_blocks,
    call_id,
    custom_texts,
    has_failed,
    planned,
    result_status,
    whole_block,
)

_Results: TypeAlias = Mapping[str, Json]
"""The results of calls, by their ids."""
NO_RESULTS: Final[_Results] = {}


def replay(
    branch: Sequence[Json], unfinished: Container[object] = (), ended: Mapping[str, Json] = NO_RESULTS
) -> Iterator[Shown]:
    """Yield what a session shows.

    Args:
        branch: The entries of its active branch.
        unfinished: The ids of calls that may still end.
        ended: The results of calls that have ended and may have no entry yet, by the ids of the calls.
    """
    results = {**ended, **_found_results(branch)}
    hidden = _hidden(branch)
    for entry in branch:
        if entry["id"] not in hidden:
            yield from _entry(entry, results, unfinished)


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
    found = _found_results(end)
    done = (at for at, _ in enumerate(call_blocks(message)) if call_id(identity, at) in found)
    return identity, message, frozenset(done)


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


def _entry(entry: Json, results: _Results, unfinished: Container[object]) -> Iterator[Shown]:
    identity = str(entry["id"])
    match entry.get("type"):
        case "message":
            yield from _message(entry, as_object(entry.get("message")) or {}, results, unfinished)
        case "custom_message":
            yield from custom_texts(identity, entry)
        case "compaction":
            yield SummaryReplayed(identity, str(entry.get("summary", "")), "compaction")
        case "branch_summary":
            yield SummaryReplayed(identity, str(entry.get("summary", "")), "branch")
        case _:
            pass


def _message(entry: Json, message: Json, results: _Results, unfinished: Container[object]) -> Iterator[Shown]:
    identity = str(entry["id"])
    match message.get("role"):
        case "user":
            given_as = str(entry.get("messageId") or "")
            yield UserMessage(identity, [*user_blocks(message.get("content"))], given_as=given_as)
        case "custom":
            yield from custom_texts(identity, message)
        case "assistant":
            yield from _answer(identity, message, results, unfinished)
        case "bashExecution":
            yield _shell(identity, message)
        case _:
            pass


def _answer(identity: str, message: Json, results: _Results, unfinished: Container[object]) -> Iterator[Shown]:
    calls = 0
    for each in as_array(message.get("content")):
        block = as_object(each) or {}
        if block.get("type") == "toolCall":
            call = Call(call_id(identity, calls), str(block.get("name", "tool")), arguments=arguments_of(block))
            call.agent_id = str(block.get("id", ""))
            result = None if has_failed(message) else results.get(call.id)  # as live: it was not executed
            if call.id in unfinished:
                call.status = "in_progress"
            elif result is None:
                call.status = "cancelled" if message.get("stopReason") == "aborted" else "failed"
            else:
                call.status = result_status(result, is_error=result.get("isError") is True)
            yield CallReplayed(call, result)
            if result is not None:
                yield from planned(call, result)
            calls += 1
        elif (said := whole_block(identity, block)) is not None:
            yield said


def _shell(identity: str, message: Json) -> Shown:
    code = message.get("exitCode")
    has_failed = code != 0 or message.get("cancelled") is True
    output = str(message.get("output", ""))
    exit_code = code if isinstance(code, int) else None
    return ShellReplayed(identity, str(message.get("command", "")), output, exit_code, has_failed)


def _found_results(branch: Sequence[Json]) -> _Results:
    found: dict[str, Json] = {}
    open_calls: list[tuple[str, str]] = []
    for entry in branch:
        fields = as_object(entry.get("message")) or {}
        if fields.get("role") == "assistant":
            blocks = enumerate(block for _, block in call_blocks(fields))
            open_calls = [(call_id(str(entry["id"]), index), str(block.get("id", ""))) for index, block in blocks]
        elif fields.get("role") == "toolResult":
            for call in open_calls:
                if call[1] == fields.get("toolCallId"):
                    found[call[0]] = fields
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
