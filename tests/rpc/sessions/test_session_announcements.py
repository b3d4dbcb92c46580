"""`session_changed` where no scenario reaches: a session of another process, and an agent that can't change.

R-SES-16, R-SES-17.
"""

import signal

from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

CHANGED = {"type": "session_changed"}


def users(pi: HomedAgent) -> list[str]:
    """Return the texts of the user in the context."""
    return [each["content"][0]["text"] for each in pi.ask("get_messages")["messages"] if each["role"] == "user"]


def test_a_session_of_another_process_is_announced_when_it_is_continued(agent: AgentStarter) -> None:
    """R-SES-16: what its owner had appended is in no record; the announcement precedes what is appended now."""
    first = agent([{"text": "more", "repeat": -1}], has_session=True, is_checked=False)
    first.say("one")
    path = first.ask("get_state")["sessionFile"]
    # Unchecked: what the first one appends is in no record of the second one.
    second = agent([{"text": "fine", "repeat": -1}], "--session", path, has_session=True, is_checked=False)
    assert ["one"] == users(second)
    first.say("two")
    leaf = first.ask("get_entries")["leafId"]
    first.signal(signal.SIGKILL)
    first.wait_exit()
    assert ["one"] == users(second)
    assert [] == second.found(CHANGED)

    second.say("three")
    (changed,) = second.found(CHANGED)
    session = second.ask("get_state")["sessionId"]
    expected = {"reason": "takeover", "sessionId": session, "sessionFile": path, "leafId": leaf}
    assert CHANGED | expected == changed
    assert ["one", "two", "three"] == users(second)
    kinds = [each.record["type"] for each in second.records]
    assert kinds.index("session_changed") < kinds.index("agent_start")


def test_a_session_that_its_owner_has_not_changed_is_not_announced(agent: AgentStarter) -> None:
    """R-SES-16: the conversation is the same."""
    first = agent([{"text": "more", "repeat": -1}], has_session=True, is_checked=False)
    first.say("one")
    path = first.ask("get_state")["sessionFile"]
    second = agent([{"text": "fine", "repeat": -1}], "--session", path, has_session=True)
    assert ["one"] == users(second)
    first.signal(signal.SIGKILL)
    first.wait_exit()

    second.say("two")
    assert ["one", "two"] == users(second)
    assert [] == second.found(CHANGED)


def test_a_session_without_a_file_has_none_in_its_announcement(agent: AgentStarter) -> None:
    pi = agent([])
    pi.ask("new_session")
    (changed,) = pi.found(CHANGED)
    expected = {"reason": "new", "by": "client", "sessionId": pi.ask("get_state")["sessionId"], "leafId": None}
    assert CHANGED | expected == changed
