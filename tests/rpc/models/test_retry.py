"""Automatic retry of the whole program over real pipes: which errors, when, how often, and what is told of it.

Delays come from the settings: short where they are waited for, and so long that nobody does where a test acts in them.
Where it does both, delays grow until the machine was quick enough.
Rules R-RTY-01 to R-RTY-03, C-2, C-14, C-15.
"""

import json
from collections.abc import Sequence
from typing import Final

import pytest

from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.reading import kinds, user_texts
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent
from pinnace_spec.rules import errors

AT_ONCE: Final = {"retry": {"baseDelayMs": 1}}
ENDLESS: Final = {"retry": {"baseDelayMs": 600_000, "maxAgentDelayMs": 600_000}}
# For what has to come in a delay that is waited for: the longer ones count on a machine that is busy with others.
DELAYS_MS: Final = (100, 1_000, 10_000)
# How long the server, a thread of the test, may say nothing: the longer ones count on a machine that is busy.
SILENCES_MS: Final = (200, 2_000, 20_000)
MORE: Final = {"text": "more", "repeat": -1}
SETTLED: Final = {"type": "agent_settled"}
STARTED: Final = {"type": "auto_retry_start"}
DRAIN: Final = ("--on-eof", "drain")
# What a client needs in order to follow a retry.
FLOW: Final = (
    "agent_start",
    "agent_end",
    "auto_retry_start",
    "auto_retry_end",
    "compaction_start",
    "compaction_end",
    "agent_settled",
)


def failing(
    status: int, message: str = "scripted error", /, *, headers: Record | None = None, **error: object
) -> Record:
    """Return an answer that is an HTTP error with a message."""
    body = {"error": {"message": message, **error}}
    return {"error": {"status": status, "headers": headers or {}, "body": body}}


def say(pi: HomedAgent, text: str) -> list[str]:
    """Send a prompt, wait until it is done with, and return the flow."""
    mark = pi.mark()
    pi.ask("prompt", message=text)
    pi.wait(SETTLED, since=mark)
    return kinds(pi.records[mark:], *FLOW)


def fail(pi: HomedAgent, text: str = "P") -> Record:
    """Send a prompt and wait for the delay after its failure; return the record that begins it."""
    mark = pi.mark()
    pi.ask("prompt", message=text)
    return pi.wait(STARTED, since=mark)


def came_in_the_delay(pi: HomedAgent, answer: str) -> bool:
    """Say whether a command had this answer before the next attempt began."""
    pi.ask("get_state")  # what was written before its answer has been read
    words = kinds(pi.records, "auto_retry_start", "agent_start", answer)
    return words.index(answer) < words.index("agent_start", words.index("auto_retry_start"))


def retries(pi: HomedAgent) -> list[tuple[int, int]]:
    """Return attempt and delay of each retry."""
    return [(record["attempt"], record["delayMs"]) for record in pi.found(STARTED)]


def failure_fields(message: Record) -> Record:
    """Return what a message that failed says to programs."""
    return {name: message[name] for name in ("errorCode", "status", "attempts") if name in message}


def endings(pi: HomedAgent) -> list[tuple[bool, int]]:
    """Return success and attempt of each end of a retry."""
    return [(record["success"], record["attempt"]) for record in pi.found({"type": "auto_retry_end"})]


def will_retry(pi: HomedAgent, since: int = 0) -> list[bool]:
    """Return what each run says about its being tried again."""
    return [record["willRetry"] for record in pi.found({"type": "agent_end"}, since=since)]


def told(messages: Sequence[Record]) -> list[tuple[str, str]]:
    """Return role and text of messages, of an answer that failed how it ended."""
    return [(message["role"], _told(message)) for message in messages]


def _told(message: Record) -> str:
    if message.get("stopReason") in {"error", "aborted"}:
        return str(message["stopReason"])
    blocks = message.get("content") or [{"type": "text", "text": message.get("output", "")}]
    return "".join(block["text"] for block in blocks if block["type"] == "text")


def context(pi: HomedAgent) -> list[tuple[str, str]]:
    return told(pi.ask("get_messages")["messages"])


def file_messages(pi: HomedAgent) -> list[tuple[str, str]]:
    """Return the messages in the session file."""
    with open(pi.ask("get_state")["sessionFile"], "rb") as file:
        rows = [json.loads(line) for line in file]
    return told([row["message"] for row in rows if row["type"] == "message"])


def sent_texts(pi: HomedAgent, number: int) -> list[tuple[str, str]]:
    """Return role and text of what a request held, without the system prompt."""
    told_texts: list[tuple[str, str]] = []
    for message in pi.llm.requests[number].body["messages"]:
        content = message.get("content") or ""
        text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        if message["role"] not in {"system", "developer"}:
            told_texts.append((message["role"], text))
    return told_texts


# Which errors.

TRANSIENT: Final[dict[str, Scripted]] = {
    "429": failing(429),
    "500": failing(500),
    "502": failing(502),
    "503": failing(503),
    "504": failing(504),
    "529": failing(529, "Overloaded"),
    "a code in words": failing(400, "The server had an error while processing your request"),
    "an error in the stream": {
        "chunks": [{"text": "begun"}, {"event": {"error": {"message": "overloaded", "code": 529}}}],
    },
    "a connection reset before the answer": {"refuse": "rst"},
    "a connection closed before the answer": {"refuse": "fin"},
    "an answer that is reset": {"chunks": [{"text": "begun"}, {"disconnect": "rst"}]},
    "an answer that is cut": {"chunks": [{"text": "begun"}, {"disconnect": "fin"}]},
    "an answer without its end": {"text": "begun", "finish": None, "usage": None, "done": False},
    "a tool call that is cut": {
        "chunks": [{"tool": {"id": "c", "name": "bash"}}, {"args": '{"comm'}, {"disconnect": "fin"}],
    },
    "thinking that is cut": {"chunks": [{"reasoning": "hm"}, {"disconnect": "rst"}]},
}
FINAL: Final[dict[str, Scripted]] = {
    "400": failing(400),
    "401": failing(401),
    "402": failing(402),
    "403": failing(403),
    "404": failing(404),
    "a used up quota": failing(429, "You exceeded your current quota", code="insufficient_quota"),
    "a used up quota by its type": failing(429, "no more", type="insufficient_quota"),
    "a month's limit": failing(429, "Monthly usage limit reached"),
    "a bill": failing(429, "check your billing details"),
    "a plan's limit": failing(429, "limit reached, resets tomorrow", code="1308"),
    "a number that is no status": failing(400, "tool result 500 of 503 is malformed"),
}


@pytest.fixture(scope="module")
def shared(module_agent: AgentStarter) -> HomedAgent:
    """An agent for errors alone, each in a session of its own."""
    return module_agent([], settings=AT_ONCE, has_session=True)


@pytest.mark.parametrize("error", TRANSIENT)
def test_a_transient_error_is_tried_again(shared: HomedAgent, error: str) -> None:
    """R-RTY-01, R-RTY-02: the records in their order, and nothing of the failure before the answer."""
    pi = shared
    pi.ask("new_session")
    pi.llm.add(TRANSIENT[error])
    # Nothing is kept for the next of these tests: a request on a kept connection that dies is no error yet.
    pi.llm.add({"text": "more", "headers": {"Connection": "close"}})
    before = len(pi.llm.requests)
    mark = pi.mark()
    pi.ask("prompt", message="P")
    pi.wait(SETTLED, since=mark)

    run = ["turn_start", "message_start", "message_end"]
    assert [kind for kind in kinds(pi.records[mark:]) if kind != "message_update"] == [
        "prompt:ok",
        "agent_start",
        *run,
        "message_start",
        "message_end",
        "turn_end",
        "agent_end",
        "auto_retry_start",
        "agent_start",
        *run,
        "auto_retry_end",
        "turn_end",
        "agent_end",
        "agent_settled",
    ]
    failed = pi.found({"type": "message_end", "message": {"stopReason": "error"}}, since=mark)[0]["message"]
    assert pi.found(STARTED, since=mark) == [
        {
            "type": "auto_retry_start",
            "attempt": 1,
            "maxAttempts": 3,
            "delayMs": 1,
            "errorMessage": failed["errorMessage"],
            **failure_fields(failed),
        }
    ]
    assert failed["attempts"] == 1
    assert pi.found({"type": "auto_retry_end"}, since=mark) == [
        {"type": "auto_retry_end", "success": True, "attempt": 1}
    ]
    assert will_retry(pi, mark) == [True, False]
    assert pi.found({"type": "agent_end"}, since=mark)[0]["messages"][-1] == failed
    assert pi.found({"type": "tool_execution_start"}, since=mark) == []
    assert sent_texts(pi, before + 1) == sent_texts(pi, before) == [("user", "P")]
    assert context(pi) == [("user", "P"), ("assistant", "more")]
    assert file_messages(pi) == [("user", "P"), ("assistant", "error"), ("assistant", "more")]


@pytest.mark.parametrize("error", FINAL)
def test_an_error_that_time_does_not_mend_is_reported_at_once(shared: HomedAgent, error: str) -> None:
    pi = shared
    pi.ask("new_session")
    pi.llm.add(FINAL[error])
    before, mark = len(pi.llm.requests), pi.mark()

    assert say(pi, "P") == ["agent_start", "agent_end", "agent_settled"]
    assert will_retry(pi, mark) == [False]
    assert len(pi.llm.requests) == before + 1
    assert context(pi) == [("user", "P"), ("assistant", "error")]


def test_silence_in_the_middle_of_an_answer_is_tried_again(agent: AgentStarter) -> None:
    for silence_ms in SILENCES_MS:
        settings = {**AT_ONCE, "httpIdleTimeoutMs": silence_ms}
        pi = agent([{"chunks": [{"text": "begun"}, {"hang": True}]}, MORE], settings=settings)
        say(pi, "P")
        if endings(pi) == [(True, 1)]:
            break

    assert endings(pi) == [(True, 1)]
    assert context(pi) == [("user", "P"), ("assistant", "more")]


def test_a_server_that_is_not_there_is_tried_again(agent: AgentStarter) -> None:
    pi = agent([MORE], settings={"retry": {"baseDelayMs": 1, "maxRetries": 1}})
    pi.llm.go_away()

    say(pi, "P")

    assert endings(pi) == [(False, 1)]


# How often, and when.


def test_attempts_are_numbered_and_delays_double_until_they_are_used_up(agent: AgentStarter) -> None:
    """R-RTY-01, R-RTY-02: the last error is final, and stays where everybody sees it."""
    script = [failing(500, f"failure {number}") for number in range(4)]
    pi = agent([*script, MORE], settings={"retry": {"baseDelayMs": 5}}, has_session=True)

    flow = say(pi, "P")

    attempt = ["agent_start", "agent_end", "auto_retry_start"]
    assert flow == [*attempt * 3, "agent_start", "agent_end", "auto_retry_end", "agent_settled"]
    assert retries(pi) == [(1, 5), (2, 10), (3, 20)]
    assert [("failure " + str(number)) in each["errorMessage"] for number, each in enumerate(pi.found(STARTED))] == [
        True
    ] * 3
    last = pi.ask("get_messages")["messages"][-1]
    assert pi.found({"type": "auto_retry_end"}) == [
        {
            "type": "auto_retry_end",
            "success": False,
            "attempt": 3,
            "finalError": last["errorMessage"],
            "errorCode": "server_error",
            "status": 500,
            "attempts": 4,
        }
    ]
    assert failure_fields(last) == {"errorCode": "server_error", "status": 500, "attempts": 4}
    assert "failure 3" in last["errorMessage"]
    assert will_retry(pi) == [True, True, True, False]
    assert context(pi) == [("user", "P"), ("assistant", "error")]
    assert file_messages(pi) == [("user", "P"), *[("assistant", "error")] * 4]

    # Everything is forgotten by the next prompt.
    say(pi, "Q")
    assert context(pi)[-2:] == [("user", "Q"), ("assistant", "more")]
    assert sent_texts(pi, 4) == [("user", "P"), ("user", "Q")]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"maxRetries": 1}, [(1, 4)]),
        ({"maxRetries": 0}, []),
        ({"enabled": False}, []),
        ({"maxAgentDelayMs": 6}, [(1, 4), (2, 6), (3, 6)]),
        ({"baseDelayMs": 0}, [(1, 0), (2, 0), (3, 0)]),
    ],
)
def test_the_settings_say_how_often_and_how_long(
    agent: AgentStarter, settings: Record, expected: list[tuple[int, int]]
) -> None:
    pi = agent([{**failing(500), "repeat": -1}], settings={"retry": {"baseDelayMs": 4, **settings}})

    say(pi, "P")

    assert retries(pi) == expected
    assert len(pi.llm.requests) == len(expected) + 1
    assert endings(pi) == ([(False, len(expected))] if expected else [])


@pytest.mark.parametrize(
    ("headers", "settings", "expected_ms"),
    [
        ({"retry-after-ms": "40"}, {}, 40),
        ({"retry-after": "0"}, {}, 1),
        ({"retry-after": "nonsense"}, {}, 1),
        ({"retry-after": "30"}, {}, 30_000),
        ({"retry-after": "60"}, {}, 60_000),
        # Longer than the cap is no hiccup: the ordinary delay.
        ({"retry-after": "61"}, {}, 1),
        ({"retry-after": "90"}, {"maxAgentDelayMs": 120_000}, 90_000),
        ({"retry-after": "10"}, {"maxAgentDelayMs": 5_000}, 1),
        ({"retry-after": "3", "retry-after-ms": "2000"}, {}, 2_000),
        # The computed delay is longer.
        ({"retry-after-ms": "40"}, {"baseDelayMs": 20_000}, 20_000),
    ],
)
def test_a_server_is_given_the_time_that_it_asks_for(
    agent: AgentStarter, headers: Record, settings: Record, expected_ms: int
) -> None:
    """R-RTY-01: if it is within the cap; what is waited for is what is told."""
    script = [failing(429, headers=headers), MORE]
    pi = agent(script, settings={"retry": {"baseDelayMs": 1, **settings}})

    assert fail(pi)["delayMs"] == expected_ms

    if expected_ms > 1000:
        pi.ask("abort_retry")
    pi.wait(SETTLED)


def test_each_request_of_a_run_with_tools_has_a_budget_of_its_own(agent: AgentStarter) -> None:
    """C-14: an answer gives the next failure everything again."""
    call = {"tool_calls": [{"name": "bash", "args": {"command": "echo done"}}]}
    script = [failing(500), failing(500), call, failing(503), failing(503), MORE]
    pi = agent(script, settings={"retry": {"baseDelayMs": 1, "maxRetries": 2}}, has_session=True)

    say(pi, "P")

    assert retries(pi) == [(1, 1), (2, 2), (1, 1), (2, 2)]
    assert endings(pi) == [(True, 2), (True, 2)]
    assert will_retry(pi) == [True, True, True, True, False]
    assert [role for role, _ in context(pi)] == ["user", "assistant", "toolResult", "assistant"]
    assert [text for role, text in sent_texts(pi, 5) if role == "tool"] == ["done\n"]


def test_an_error_of_another_kind_ends_the_retries_with_its_own_text(agent: AgentStarter) -> None:
    pi = agent([failing(500), failing(401, "who are you"), MORE], settings=AT_ONCE)

    say(pi, "P")

    (end,) = pi.found({"type": "auto_retry_end"})
    assert (end["success"], end["attempt"]) == (False, 1)
    assert "who are you" in end["finalError"]


# Where the failed message is.


def test_the_failed_message_leaves_the_context_when_the_retry_starts(agent: AgentStarter) -> None:
    for delay_ms in DELAYS_MS:
        settings = {"retry": {"baseDelayMs": delay_ms}}
        pi = agent([failing(500), {"hold": "g", **MORE}], settings=settings, has_session=True)
        fail(pi)
        before = context(pi)
        pi.llm.wait_reached("g")
        if came_in_the_delay(pi, "get_messages:ok"):
            break

    assert before == [("user", "P"), ("assistant", "error")]
    assert context(pi) == [("user", "P")]
    assert file_messages(pi) == [("user", "P"), ("assistant", "error")]
    pi.llm.release("g")
    pi.wait(SETTLED)

    assert context(pi) == [("user", "P"), ("assistant", "more")]


def test_a_session_that_is_opened_again_goes_on_from_the_answer(agent: AgentStarter) -> None:
    pi = agent([failing(500), MORE], settings=AT_ONCE, has_session=True)
    say(pi, "P")
    path = pi.ask("get_state")["sessionFile"]
    pi.close_stdin()
    assert pi.wait_exit() == 0

    again = agent((), "--session", path, again=pi)
    say(again, "Q")

    assert sent_texts(again, 2) == [("user", "P"), ("assistant", "more"), ("user", "Q")]


# What ends the delay.


def test_abort_retry_ends_the_delay_and_leaves_the_message(agent: AgentStarter) -> None:
    """R-RTY-03."""
    pi = agent([failing(500), failing(500), MORE], settings=ENDLESS, has_session=True)
    fail(pi)
    mark = pi.mark()
    pi.ask("abort_retry")

    assert kinds(pi.records[mark:]) == ["auto_retry_end", "agent_settled", "abort_retry:ok"]
    assert pi.found({"type": "auto_retry_end"}) == [
        {"type": "auto_retry_end", "success": False, "attempt": 1, "finalError": errors.RETRY_CANCELLED}
    ]
    assert context(pi) == [("user", "P"), ("assistant", "error")]
    assert not pi.ask("get_state")["isStreaming"]
    # The next failure is a first one; no request is sent what failed.
    assert fail(pi, "Q")["attempt"] == 1
    assert sent_texts(pi, 1) == [("user", "P"), ("user", "Q")]
    pi.ask("abort_retry")
    assert context(pi) == [("user", "P"), ("assistant", "error"), ("user", "Q"), ("assistant", "error")]
    assert file_messages(pi) == context(pi)


def test_abort_ends_the_delay_and_leaves_the_message(agent: AgentStarter) -> None:
    """R-ABT-01, C-6."""
    pi = agent([failing(500), MORE], settings=ENDLESS, has_session=True)
    fail(pi)
    mark = pi.mark()
    pi.ask("abort")

    assert kinds(pi.records[mark:]) == ["auto_retry_end", "agent_settled", "abort:ok"]
    assert pi.found({"type": "agent_settled"}) == [{"type": "agent_settled", "aborted": True}]
    assert pi.found({"type": "auto_retry_end"})[0]["finalError"] == errors.RETRY_CANCELLED
    assert context(pi) == file_messages(pi) == [("user", "P"), ("assistant", "error")]
    assert len(pi.llm.requests) == 1
    say(pi, "Q")
    assert sent_texts(pi, 1) == [("user", "P"), ("user", "Q")]


def test_an_abort_of_the_retried_request_closes_the_retry(agent: AgentStarter) -> None:
    """C-15: the bracket is closed behind the run."""
    pi = agent([failing(500), {"chunks": [{"text": "begun"}, {"hang": True}]}, MORE], settings=AT_ONCE)
    pi.ask("prompt", message="P")
    pi.wait({"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}})
    # Too late: there is no delay any more.
    mark = pi.mark()
    pi.ask("abort_retry")
    assert kinds(pi.records[mark:]) == ["abort_retry:ok"]
    pi.ask("abort")

    assert kinds(pi.records[mark:], *FLOW, "abort:ok") == [
        "agent_end",
        "auto_retry_end",
        "agent_settled",
        "abort:ok",
    ]
    (end,) = pi.found({"type": "auto_retry_end"})
    assert (end["success"], end["attempt"]) == (False, 1)
    assert context(pi) == [("user", "P"), ("assistant", "aborted")]


def test_abort_retry_while_idle_does_nothing(agent: AgentStarter) -> None:
    pi = agent([MORE])
    pi.ask("abort_retry")
    say(pi, "P")
    mark = pi.mark()
    pi.ask("abort_retry")

    assert kinds(pi.records[mark:]) == ["abort_retry:ok"]


def test_the_end_of_stdin_ends_the_delay(agent: AgentStarter) -> None:
    pi = agent([failing(500), MORE], settings=ENDLESS)
    fail(pi)
    mark = pi.mark()
    pi.close_stdin()

    assert pi.wait_exit() == 0
    assert kinds(pi.records[mark:]) == ["auto_retry_end", "agent_settled"]
    assert pi.found({"type": "auto_retry_end"})[0]["finalError"] == errors.RETRY_CANCELLED


def test_a_drain_tries_again(agent: AgentStarter) -> None:
    pi = agent([failing(500), failing(500), MORE], *DRAIN, settings={"retry": {"baseDelayMs": 100}})
    fail(pi)
    pi.close_stdin()

    assert pi.wait_exit() == 0
    assert endings(pi) == [(True, 2)]
    assert pi.records[-1].record == {"type": "agent_settled", "aborted": False}


# Turning it on and off.


def test_off_means_that_an_error_is_final(agent: AgentStarter) -> None:
    pi = agent([failing(500), failing(500), MORE], settings=AT_ONCE)
    pi.ask("set_auto_retry", enabled=False)
    assert say(pi, "P") == ["agent_start", "agent_end", "agent_settled"]
    pi.ask("set_auto_retry", enabled=True)
    say(pi, "Q")

    assert endings(pi) == [(True, 1)]
    # R-SET-03
    assert json.loads((pi.home.agent_dir / "settings.json").read_text()) == AT_ONCE


@pytest.mark.parametrize("is_on", [True, False])
def test_it_is_looked_at_when_the_error_comes(agent: AgentStarter, is_on: bool) -> None:
    """While the request is under way."""
    settings = {"retry": {"enabled": not is_on, "baseDelayMs": 1}}
    pi = agent([{"hold": "g", **failing(500)}, MORE], settings=settings)
    pi.ask("prompt", message="P")
    pi.llm.wait_reached("g")
    pi.ask("set_auto_retry", enabled=is_on)
    pi.llm.release("g")
    pi.wait(SETTLED)

    assert endings(pi) == ([(True, 1)] if is_on else [])


def test_off_in_the_tools_counts_for_the_request_behind_them(agent: AgentStarter) -> None:
    call = {"tool_calls": [{"name": "bash", "args": {"command": "touch there; until [ -e go ]; do sleep 0.01; done"}}]}
    pi = agent([call, failing(500), MORE], settings=AT_ONCE)
    pi.ask("prompt", message="P")
    pi.wait({"type": "tool_execution_start"})
    pi.ask("set_auto_retry", enabled=False)
    (pi.home.work / "go").touch()
    pi.wait(SETTLED)

    assert retries(pi) == []
    assert context(pi)[-1] == ("assistant", "error")


def test_off_in_the_delay_leaves_the_delay_and_counts_for_what_comes_of_it(agent: AgentStarter) -> None:
    pi = agent([failing(500), {"hold": "g", **failing(500)}, MORE], settings={"retry": {"baseDelayMs": 100}})
    fail(pi)
    pi.ask("set_auto_retry", enabled=False)
    pi.llm.wait_reached("g")
    pi.llm.release("g")
    pi.wait(SETTLED)

    assert endings(pi) == [(False, 1)]
    assert kinds(pi.records, *FLOW)[-4:] == ["agent_start", "agent_end", "auto_retry_end", "agent_settled"]


# What comes in the delay.


def test_the_retry_asks_the_model_that_was_chosen_meanwhile(agent: AgentStarter) -> None:
    for delay_ms in DELAYS_MS:
        pi = agent([failing(500), MORE], settings={"retry": {"baseDelayMs": delay_ms}})
        fail(pi)
        pi.ask("set_model", provider="fake", modelId="m2")
        pi.wait(SETTLED)
        if came_in_the_delay(pi, "set_model:ok"):
            break

    assert [request.body["model"] for request in pi.llm.requests] == ["m1", "m2"]
    assert endings(pi) == [(True, 1)]


def test_a_shell_in_the_delay_comes_behind_the_answer(agent: AgentStarter) -> None:
    for delay_ms in DELAYS_MS:
        settings = {"retry": {"baseDelayMs": delay_ms}}
        pi = agent([failing(500), {"hold": "g", **MORE}], settings=settings, has_session=True)
        fail(pi)
        pi.ask("bash", command="echo beside")
        pi.llm.wait_reached("g")
        if came_in_the_delay(pi, "bash:ok"):
            break

    assert context(pi) == [("user", "P")]
    pi.llm.release("g")
    pi.wait(SETTLED)

    assert context(pi) == [("user", "P"), ("assistant", "more"), ("bashExecution", "beside\n")]
    assert sent_texts(pi, 1) == [("user", "P")]


def test_a_steering_text_goes_with_the_retry_and_gives_it_its_whole_budget(agent: AgentStarter) -> None:
    """C-14: a delivered text is new work."""
    script = [failing(500), failing(500), failing(500), MORE]
    for delay_ms in DELAYS_MS:
        pi = agent(script, settings={"retry": {"baseDelayMs": delay_ms, "maxRetries": 2}}, has_session=True)
        fail(pi)
        pi.send_many([{"id": "s", "type": "steer", "message": "S"}, {"id": "f", "type": "follow_up", "message": "F"}])
        pi.wait(SETTLED)
        if came_in_the_delay(pi, "follow_up:ok"):
            break

    assert retries(pi) == [(1, delay_ms), (1, delay_ms), (2, 2 * delay_ms)]
    assert sent_texts(pi, 1) == [("user", "P"), ("user", "S")]
    assert user_texts(pi.records) == ["P", "S", "F"]
    assert context(pi) == [
        ("user", "P"),
        ("user", "S"),
        ("assistant", "more"),
        ("user", "F"),
        ("assistant", "more"),
    ]
    assert endings(pi)[-1] == (True, 2)


def test_what_is_queued_runs_when_the_attempts_are_used_up(agent: AgentStarter) -> None:
    """C-2, C-3."""
    script = [{"hold": "g", **failing(500)}, failing(500), MORE]
    pi = agent(script, settings={"retry": {"baseDelayMs": 1, "maxRetries": 1}})
    pi.ask("prompt", message="P")
    pi.llm.wait_reached("g")
    pi.ask("follow_up", message="F")
    pi.llm.release("g")
    pi.wait(SETTLED)

    failed = ["agent_start", "agent_end", "auto_retry_start", "agent_start", "agent_end", "auto_retry_end"]
    assert kinds(pi.records, *FLOW) == [*failed, "agent_start", "agent_end", "agent_settled"]
    assert user_texts(pi.records) == ["P", "F"]


def test_what_is_queued_runs_when_the_retry_is_cancelled(agent: AgentStarter) -> None:
    """C-2: one settled, at the very end."""
    pi = agent([failing(500), MORE], settings=ENDLESS)
    fail(pi)
    pi.ask("follow_up", message="F")
    mark = pi.mark()
    pi.ask("abort_retry")
    pi.wait(SETTLED, since=mark)

    assert kinds(pi.records[mark:], *FLOW, "abort_retry:ok", "queue_update") == [
        "auto_retry_end",
        "abort_retry:ok",
        "agent_start",
        "queue_update",
        "agent_end",
        "agent_settled",
    ]
    assert sent_texts(pi, 1) == [("user", "P"), ("user", "F")]


@pytest.mark.parametrize("queue", ["hold", "clear", "continue"])
def test_an_abort_in_the_delay_does_with_the_queue_what_it_says(agent: AgentStarter, queue: str) -> None:
    """C-1, C-6, C-8."""
    pi = agent([failing(500), MORE], settings=ENDLESS)
    fail(pi)
    pi.ask("steer", message="S")
    mark = pi.mark()
    data = pi.ask("abort", queue=queue)
    if queue == "continue":
        pi.wait(SETTLED, since=mark)
    state = pi.ask("get_state")

    flow = kinds(pi.records[mark:], *FLOW, "abort:ok")
    if queue == "continue":
        assert flow == ["auto_retry_end", "abort:ok", "agent_start", "agent_end", "agent_settled"]
    else:
        assert flow == ["auto_retry_end", "agent_settled", "abort:ok"]
    assert data.get("cleared") == ({"steering": ["S"], "followUp": []} if queue == "clear" else None)
    assert state["pendingMessageCount"] == (1 if queue == "hold" else 0)
    assert user_texts(pi.records) == (["P", "S"] if queue == "continue" else ["P"])


# Beside other failures.


def test_an_overflow_in_a_retry_closes_the_retry_first(agent: AgentStarter) -> None:
    """C-14: brackets do not cross; the compaction is no attempt."""
    overflow = failing(400, "prompt is too long")
    script = [{"text": "first"}, failing(500), overflow, {"text": "summary"}, failing(500), MORE]
    pi = agent(script, settings={**AT_ONCE, "compaction": {"keepRecentTokens": 1}})
    say(pi, "one")
    mark = pi.mark()
    say(pi, "two")

    assert kinds(pi.records[mark:], *FLOW) == [
        "agent_start",
        "agent_end",
        "auto_retry_start",
        "agent_start",
        "agent_end",
        "auto_retry_end",
        "compaction_start",
        "compaction_end",
        "agent_start",
        "agent_end",
        "auto_retry_start",
        "agent_start",
        "auto_retry_end",
        "agent_end",
        "agent_settled",
    ]
    assert endings(pi) == [(False, 1), (True, 1)]
    assert "prompt is too long" in pi.found({"type": "auto_retry_end"})[0]["finalError"]


def test_an_overflow_is_never_tried_again_as_it_is(agent: AgentStarter) -> None:
    pi = agent([failing(500, "prompt is too long: server error"), MORE], settings=AT_ONCE)
    pi.ask("set_auto_compaction", enabled=False)
    say(pi, "P")

    assert (retries(pi), len(pi.llm.requests)) == ([], 1)
