"""What the judge of runs against a host makes of messages and shell commands; the runs themselves are random."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from pinnace_campaigns.chaos.hosted.client_log import ClientLog
from pinnace_campaigns.chaos.hosted.verdict import Agent, find_faults

SESSION = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-11-23T00:00:00.000Z", "cwd": "/"}


def faults(entries: Sequence[Mapping[str, object]], ran: Sequence[str] = (), waiting: int = 0) -> list[str]:
    """Judge an agent whose client has sent an accepted prompt and a shell command of which it knows nothing."""
    log = ClientLog("one")
    for command in (
        {"id": "p", "type": "prompt", "message": "hi", "messageId": "m"},
        {"id": "b", "type": "bash", "command": "echo"},
    ):
        log.ask(command)
    log.responses["p"] = {"id": "p", "type": "response", "command": "prompt", "success": True}
    session = b"".join(json.dumps(each).encode() + b"\n" for each in (SESSION, *entries))
    return find_faults(Agent("main", [log], session, {}, waiting, ran, had_disk_fault=True), Counter())


def message(number: int) -> Mapping[str, object]:
    content = {"role": "user", "content": [{"type": "text", "text": "hi"}], "timestamp": 1}
    return {"type": "message", "id": f"e{number}", "parentId": None, "messageId": "m", "message": content}


def operation(number: int, **data: object) -> Mapping[str, object]:
    data = {"session": "s", **data}
    return {"type": "custom", "customType": "pinnace.queue", "id": f"e{number}", "parentId": None, "data": data}


def refused(number: int) -> Mapping[str, object]:
    return operation(number, op="refused", messageIds=["m"])


def test_a_message_is_delivered_once_although_a_former_process_has_refused_it() -> None:
    assert [] == faults([message(1)])
    assert [] == faults([message(1), refused(2), message(3)])


def test_a_message_that_is_delivered_twice_or_not_at_all_is_found() -> None:
    for entries, times in (
        ([message(1), message(2)], 2),
        ([message(1), refused(2), message(3), message(4)], 2),
        ([message(1), refused(2)], 0),
    ):
        [fault] = faults(entries)
        assert f"accepted, is {{'delivered': {times}, " in fault


def test_a_message_that_is_queued_again_since_its_return_was_not_saved_is_not_returned_as_well() -> None:
    queued = operation(1, op="add", messageId="m", kind="steer", text="hi")
    returned = operation(2, op="remove", messageIds=["m"], reason="abort")

    assert [] == faults([queued, returned, {**queued, "id": "e3"}], waiting=1)
    [fault] = faults([queued, returned, {**queued, "id": "e3"}, message(4), message(5)])
    assert "{'delivered': 2, 'queued': 0, 'returned': 0}" in fault


def test_a_shell_command_that_has_run_twice_is_found() -> None:
    assert [] == faults([message(1)], ran=["b"])
    assert ["agent main: the shell command b, unanswered, has run 2 times"] == faults([message(1)], ran=["b", "b"])


def attached(*, is_known: bool) -> dict[str, object]:
    return {"type": "attached", "journal": "j", "epoch": 1, "seq": 0, "replay": "none", "knownClient": is_known}


def test_a_host_that_forgets_a_client_whose_command_it_has_answered_is_found() -> None:
    """Its commands would be executed again. Where a disk was full, the host could not keep them."""
    log = ClientLog("one")
    log.take(attached(is_known=False))
    log.ask({"id": "s", "type": "get_state"})
    log.to_write()
    log.take({"id": "s", "type": "response", "success": True})
    log.disconnect()
    log.take({**attached(is_known=False), "replay": "complete"})  # reads are not kept
    assert [] == log.forgotten
    log.ask({"id": "b", "type": "bash", "command": "echo"})
    log.to_write()
    log.take({"id": "b", "type": "response", "success": True, "data": {}})
    for is_known in (True, False):
        log.disconnect()
        log.take({**attached(is_known=is_known), "replay": "complete"})

    session = json.dumps(SESSION).encode() + b"\n"
    agent = Agent("main", [log], session, {}, 0, ["b"], had_disk_fault=False)
    [fault] = find_faults(agent, Counter())
    assert "client one: the host answered ['b'], and does not know it" in fault
    assert [] == find_faults(agent._replace(had_disk_fault=True), Counter())
