"""Three generations of the protocol from one process: who chooses, and what each of them writes."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pinnace_fuzz.harness.model_server.server import generated_delta
from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.trials.reading import faults, joined_deltas, kinds, user_texts
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent
from pinnace_rpc.server.exact_projections import exact_projection
from pinnace_spec.profiles.generations import generation
from pinnace_spec.profiles.profiles import CLIENT_PROFILES, EVENT_NAMES, PROFILES, ClientProfile, Profile
from pinnace_spec.records.events import EVENTS
from pinnace_spec.rules.limits import PUBLISHED

MakeGate = Callable[[], ShellGate]

HELLO = {"id": "h", "type": "hello"}
PROMPT = {"id": "p", "type": "prompt", "message": "go"}
TEXTS = ["one ", "tw", "o", " thr\u2028ee", "\n", "€𝄞"]
THOUGHTS = ["hm", "m ", "so"]
ANSWER = {"reasoning": THOUGHTS, "text": TEXTS}
# In profile `seed` a run ends with this record; the others have one more.
RUN_END = {"type": "agent_end"}

SEED_TYPES = {
    "response",
    "agent_start",
    "agent_end",
    "turn_start",
    "turn_end",
    "message_start",
    "message_update",
    "message_end",
    "tool_execution_start",
    "tool_execution_update",
    "tool_execution_end",
    "queue_update",
    "compaction_start",
    "compaction_end",
    "auto_retry_start",
    "auto_retry_end",
    "extension_error",
    "extension_ui_request",
}
STATE = {
    "model",
    "thinkingLevel",
    "isStreaming",
    "isCompacting",
    "steeringMode",
    "followUpMode",
    "sessionFile",
    "sessionId",
    "sessionName",
    "autoCompactionEnabled",
    "messageCount",
    "pendingMessageCount",
}
LATER_TYPES = {"agent_settled", "bash_execution_update", "thinking_level_changed", "session_info_changed"}


def profile_of(pi: HomedAgent) -> str:
    return str(pi.request({"type": "hello"})["data"]["protocol"])


# Who chooses.


@pytest.mark.parametrize("profile", CLIENT_PROFILES)
def test_hello_chooses_as_the_first_command(agent: AgentStarter, profile: ClientProfile) -> None:
    """R-HEL-01: from its own answer on."""
    pi = agent([{"text": "one"}])
    answer = pi.request({**HELLO, "protocol": profile})
    pi.request(PROMPT)
    pi.wait(RUN_END)
    update = pi.found({"type": "message_update"})[0]

    assert (profile, list(CLIENT_PROFILES)) == (answer["data"]["protocol"], answer["data"]["protocols"])
    assert (profile != "1.5") == ("message" in update)
    assert (profile in {"pi", "1.5"}) == ("usage" in update)


def test_hello_reports_what_the_agent_is(agent: AgentStarter) -> None:
    """R-HEL-01."""
    pi = agent()
    data = pi.request(HELLO)["data"]

    assert ("pinnace", "pi") == (data["name"], data["protocol"])
    # How many shells run at once depends on the machine.
    assert {**PUBLISHED, "shells": data["limits"]["shells"]} == data["limits"]
    assert {"prompt", "abort", "hello", "queue_message"} <= set(data["commands"])
    assert set(EVENT_NAMES) == set(data["events"]) == set(EVENTS["pi"])


@pytest.mark.parametrize("profile", ["seed", "0.5x", "0.18"])
def test_hello_lists_the_records_of_an_older_profile(agent: AgentStarter, profile: ClientProfile) -> None:
    """R-HEL-01: those that the generation has, and no others."""
    events = set(agent().request({**HELLO, "protocol": profile})["data"]["events"])
    known = generation(profile)

    assert events <= known.written
    if profile != "0.5x":  # the documents of the time name two of the records
        assert events == known.records


@pytest.mark.parametrize(
    ("flag", "variable", "hello", "expected"),
    [
        (None, None, None, "pi"),
        (None, "", None, "pi"),
        (None, "1.5", None, "1.5"),
        ("seed", "1.5", None, "seed"),
        ("seed", "1.5", "pi", "pi"),
        (None, "seed", "1.5", "1.5"),
        ("1.5", None, None, "1.5"),
    ],
)
def test_hello_goes_before_the_flag_and_the_flag_before_the_variable(
    agent: AgentStarter, flag: Profile | None, variable: str | None, hello: str | None, expected: str
) -> None:
    """R-PRO-01."""
    env = {} if variable is None else {"PINNACE_PROTOCOL": variable}
    pi = agent([], protocol=flag, env=env)
    if hello is not None:
        pi.request({**HELLO, "protocol": hello})

    assert expected == profile_of(pi)


@pytest.mark.parametrize("first", [{"type": "get_state"}, {"type": "hello"}, {"type": "no such"}, {"type": "abort"}])
def test_hello_is_too_late_to_choose_after_another_command(agent: AgentStarter, first: Mapping[str, object]) -> None:
    """R-HEL-01: without a profile it always answers."""
    pi = agent()
    pi.request(first)
    refused = pi.request({**HELLO, "protocol": "seed"})

    assert (False, "too_late") == (refused["success"], refused["errorCode"])
    assert "pi" == profile_of(pi)


def test_a_line_that_is_no_command_does_not_come_before_hello(agent: AgentStarter) -> None:
    """R-HEL-01: the first command chooses, whatever noise was before it."""
    pi = agent()
    pi.send_bytes(b"null\nnoise\n")
    chosen = pi.request({**HELLO, "protocol": "seed"})

    assert "seed" == chosen["data"]["protocol"]


def test_hello_is_too_late_even_to_choose_what_is_chosen(agent: AgentStarter) -> None:
    """R-HEL-01: so that a client learns of its mistake whatever the default is."""
    pi = agent()
    pi.request({"type": "get_state"})

    assert "too_late" == pi.request({**HELLO, "protocol": "pi"})["errorCode"]


def test_an_unknown_profile_is_refused_and_changes_nothing(agent: AgentStarter) -> None:
    pi = agent()
    refused = pi.request({**HELLO, "protocol": "2.0"})

    assert "Invalid hello command: protocol must be 'pi', 'seed', '1.5', '0.5x' or '0.18'" == refused["error"]
    assert "pi" == profile_of(pi)


@pytest.mark.parametrize(("flags", "env"), [(["--protocol", "2.0"], {}), ([], {"PINNACE_PROTOCOL": "2.0"})])
def test_an_unknown_profile_at_the_start_is_an_error_of_the_command_line(
    agent: AgentStarter, flags: list[str], env: dict[str, str]
) -> None:
    """Before anything is written to stdout."""
    pi = agent([], *flags, env=env)

    assert 2 == pi.wait_exit()
    assert [] == pi.records
    assert "takes one of pi, seed, 1.5, 0.5x, 0.18" in pi.stderr_text


# What each of them writes.


def everything(pi: HomedAgent, gate: ShellGate) -> None:
    """Hold a conversation with every kind of record that this release has."""
    pi.request({"type": "set_session_name", "name": "a name"})
    pi.request({"type": "set_model", "provider": "fake", "modelId": "m2"})
    pi.request({"type": "set_thinking_level", "level": "high"})
    pi.request({"type": "bash", "command": "echo said"})
    pi.request(PROMPT)
    gate.wait_reached()
    pi.wait({"type": "tool_execution_update"})
    pi.request({"type": "steer", "message": "S"})
    pi.request({"type": "prompt", "message": "F", "streamingBehavior": "followUp"})
    gate.release()
    pi.wait({"type": "queue_update", "steering": [], "followUp": []})
    pi.wait(RUN_END)
    pi.request({"type": "get_messages"})
    pi.request({"type": "new_session"})


def script(gate: ShellGate) -> list[Mapping[str, Any]]:
    call = {"name": "bash", "args": {"command": f"echo said; {gate.reading}"}}
    return [{**ANSWER, "tool_calls": [call]}, {**ANSWER, "repeat": -1}]


def fields_of(pi: HomedAgent, pattern: Mapping[str, object], *path: str) -> set[str]:
    """Return the names of all fields that records of a kind have, in an object inside of them."""
    names: set[str] = set()
    for found in pi.found(pattern):
        value: Any = found
        for name in path:
            value = value[name]
        names |= set(value)
    return names


def test_seed_writes_no_record_and_no_field_of_a_later_generation(agent: AgentStarter, gates: MakeGate) -> None:
    """R-PRO-02."""
    gate = gates()
    pi = agent(script(gate), protocol="seed")
    everything(pi, gate)
    roles = {record["message"]["role"] for record in pi.found({"type": "message_end"})}
    starts = fields_of(pi, {"type": "message_update", "assistantMessageEvent": {"type": "toolcall_start"}})

    assert set(kinds([each for each in pi.records if each.record["type"] != "response"])) <= SEED_TYPES
    assert {"user", "assistant", "toolResult"} == roles
    assert {"type", "message", "assistantMessageEvent"} == starts == fields_of(pi, {"type": "message_update"})
    assert {"type", "contentIndex", "partial"} == fields_of(
        pi, {"assistantMessageEvent": {"type": "toolcall_start"}}, "assistantMessageEvent"
    )
    assert {"type", "toolCallId", "toolName", "result", "isError"} == fields_of(pi, {"type": "tool_execution_end"})
    for name in ("prompt", "steer"):
        answered = fields_of(pi, {"type": "response", "command": name})
        assert {"id", "type", "command", "success"} == answered
    assert {"type", "messages", "willRetry"} == fields_of(pi, {"type": "agent_end"})
    state = pi.request({"type": "get_state"})["data"]
    assert STATE - {"sessionFile", "sessionName"} == set(state)
    stats = pi.request({"type": "get_session_stats"})["data"]
    assert {"session"}.isdisjoint(stats)
    refused = pi.request({"type": "set_model", "provider": "fake", "modelId": "none"})
    assert {"id", "type", "command", "success", "error"} == set(refused)


SMALL = {"compaction": {"keepRecentTokens": 3}}
FULL = {"usage": {"input": 120_000, "output": 5}}


@pytest.mark.parametrize("profile", ["seed", "0.5x", "0.18"])
def test_an_exact_profile_writes_what_its_generation_has_and_nothing_else(
    agent: AgentStarter, profile: ClientProfile
) -> None:
    """R-PRO-02, R-OLD-01: each record is also held to the closed schema of that generation."""
    call = {"name": "bash", "args": {"command": "echo said"}}
    script: list[Mapping[str, Any]]
    script = [{**ANSWER, "tool_calls": [call]}, {**ANSWER}, {**ANSWER, **FULL}, {"text": "SUMMARY"}, {**ANSWER}]
    pi = agent(script, protocol=profile, settings=SMALL)
    for text in ("one", "two"):
        mark = pi.mark()
        pi.request({"type": "prompt", "message": text})
        pi.wait(RUN_END, since=mark)
    ends = {"seed": "compaction_end", "0.5x": "auto_compaction_end", "0.18": "auto_compaction_end"}
    end = pi.wait({"type": ends[profile]}, since=0)
    pi.request({"type": "bash", "command": "echo said"})
    messages = pi.request({"type": "get_messages"})["data"]["messages"]
    state = pi.request({"type": "get_state"})["data"]
    answers = [
        pi.request({"type": "compact"}),
        pi.request({"type": "set_model", "provider": "fake", "modelId": "none"}),
        pi.request({"type": "get_session_stats"}),
        pi.request({"type": "get_commands"}),
        pi.request({"type": "reset" if profile == "0.18" else "new_session"}),
    ]

    own = {"seed": {"reason", "willRetry"}, "0.5x": {"willRetry"}, "0.18": set[str]()}
    assert {"type", "result", "aborted"} | own[profile] == set(end)
    result = {"summary", "tokensBefore"}
    own = {"seed": {"firstKeptEntryId", "details", "estimatedTokensAfter"}, "0.5x": {"firstKeptEntryId", "details"}}
    assert result | own.get(profile, set()) == set(end["result"])
    roles = {each["role"] for each in messages}
    assert {"assistant", "bashExecution", "compactionSummary" if profile == "0.5x" else "user"} == roles
    queues = {"steeringMode", "followUpMode", "pendingMessageCount"}
    known = STATE - {"sessionFile", "sessionName"}
    assert set(state) == (known if profile != "0.18" else known - queues | {"queueMode", "queuedMessageCount"})
    assert [] == [each for each in answers if "errorCode" in each]
    kinds_written = {each.record["type"] for each in pi.records} - {"response"}
    assert kinds_written <= generation(profile).written


def test_a_dialog_is_declined_where_a_generation_can_not_show_it(agent: AgentStarter, tmp_path: Path) -> None:
    """Else its extension would wait for ever for an answer that nobody can give."""
    extension = tmp_path / "asks.py"
    extension.write_text(
        "def extension(pi):\n"
        "    @pi.on('tool_call')\n"
        "    async def gate(ctx, event):\n"
        "        ctx.ui.notify('asking')\n"
        "        if not await ctx.ui.confirm('Really?'):\n"
        "            return {'block': True, 'reason': 'declined'}\n"
    )
    script: list[Mapping[str, Any]]
    script = [{"tool_calls": [{"name": "bash", "args": {"command": "touch ran"}}]}, {"text": "done"}]
    pi = agent(script, "-e", str(extension), protocol="0.18")
    pi.request(PROMPT)
    pi.wait(RUN_END)

    assert [True] == [each["isError"] for each in pi.found({"type": "tool_execution_end"})]
    assert not (pi.home.work / "ran").exists()
    assert [] == pi.found({"type": "extension_ui_request"})


@pytest.mark.parametrize(("profile", "reason"), [("0.18", {}), ("0.5x", {"reason": "threshold"})])
def test_an_older_profile_reports_automatic_compactions_alone(
    agent: AgentStarter, profile: ClientProfile, reason: Mapping[str, str]
) -> None:
    """R-CMP-11, R-CMP-12: one that fails, one that succeeds, and none of the client's own."""
    refused = {"error": {"status": 400, "body": {"error": {"message": "no"}}}}
    script: list[Mapping[str, Any]]
    script = [
        {**ANSWER},
        {**ANSWER, **FULL},
        refused,
        {**ANSWER, **FULL},
        {"text": "SUMMARY"},
        {**ANSWER},
        {"text": "OWN", "repeat": -1},
    ]
    pi = agent(script, protocol=profile, settings=SMALL)
    ends: list[Mapping[str, Any]] = []
    for text in ("one", "two", "three", "four"):
        mark = pi.mark()
        pi.request({"type": "prompt", "message": text})
        pi.wait(RUN_END, since=mark)
        if text in {"two", "three"}:
            ends.append(pi.wait({"type": "auto_compaction_end"}, since=mark))
    answer = pi.request({"type": "compact"})
    failed, succeeded = ends

    assert [{"type": "auto_compaction_start", **reason}] * 2 == pi.found({"type": "auto_compaction_start"})
    assert (None, False) == (failed["result"], failed["aborted"])
    assert ("summary" in succeeded["result"], succeeded["aborted"]) == (True, False)
    assert (profile == "0.5x") == ("errorMessage" in failed)
    assert [profile == "0.5x"] * 2 == ["willRetry" in end for end in ends]
    assert "OWN" in answer["data"]["summary"]
    assert set() == {"compaction_start", "compaction_end"} & set(kinds(pi.records))


@pytest.mark.parametrize(("profile", "command"), [("0.18", "queue_message"), ("0.5x", "steer")])
def test_a_message_that_is_queued_during_calls_waits_for_all_of_them(
    agent: AgentStarter, gates: MakeGate, profile: ClientProfile, command: str
) -> None:
    """R-QUE-03, R-QUE-19, R-QUE-20: none is skipped, in profiles whose releases skipped some, too."""
    gate = gates()
    calls = [{"name": "bash", "args": {"command": each}} for each in (gate.reading, "echo second")]
    pi = agent([{"tool_calls": calls}, {**ANSWER}], protocol=profile)
    pi.request(PROMPT)
    gate.wait_reached()
    pi.request({"type": command, "message": "S"})
    gate.release()
    pi.wait(RUN_END)
    turns = kinds(pi.records, "turn_start", "tool_execution_end", "turn_end")

    assert ["turn_start", "tool_execution_end", "tool_execution_end", "turn_end", "turn_start", "turn_end"] == turns
    assert [False, False] == [each["isError"] for each in pi.found({"type": "tool_execution_end"})]
    assert ["go", "S"] == user_texts(pi.records)


def test_attachments_of_the_oldest_client_are_content_alone(agent: AgentStarter) -> None:
    """R-OLD-02: its releases repeated them in the message."""
    image = {"id": "i", "type": "image", "fileName": "i.png", "mimeType": "image/png", "size": 1, "content": "QQ=="}
    document = {**image, "id": "d", "type": "document", "fileName": "d.txt", "extractedText": "words"}
    pi = agent([{"text": "seen"}], protocol="0.18")
    pi.request({**PROMPT, "attachments": [image, document]})
    pi.wait(RUN_END)
    (message,) = [each["message"] for each in pi.found({"type": "message_end", "message": {"role": "user"}})]

    assert {"role", "content", "timestamp"} == set(message)
    assert [
        {"type": "text", "text": "go\n\n[Document: d.txt]\nwords"},
        {"type": "image", "data": "QQ==", "mimeType": "image/png"},
    ] == message["content"]


@pytest.mark.parametrize("profile", ["pi", "1.5"])
def test_later_records_and_fields_are_in_the_other_profiles(
    agent: AgentStarter, gates: MakeGate, profile: Profile
) -> None:
    """R-PRO-01."""
    gate = gates()
    pi = agent(script(gate), protocol=profile)
    everything(pi, gate)

    assert set(kinds(pi.records)) >= LATER_TYPES
    assert "durationMs" in fields_of(pi, {"type": "tool_execution_end"})
    assert "usage" in fields_of(pi, {"type": "message_update"})
    assert {"id", "toolName"} < fields_of(
        pi, {"assistantMessageEvent": {"type": "toolcall_start"}}, "assistantMessageEvent"
    )
    assert ["started", "queued"] == [each["data"]["disposition"] for each in pi.found({"command": "prompt"})]
    assert [{"disposition": "queued"}] == [each["data"] for each in pi.found({"command": "steer"})]


def test_updates_of_1_5_are_deltas_alone(agent: AgentStarter) -> None:
    """R-PRO-03."""
    pi = agent([ANSWER], protocol="1.5")
    pi.request(PROMPT)
    pi.wait(RUN_END)

    assert {"type", "entryId", "usage", "assistantMessageEvent"} == fields_of(pi, {"type": "message_update"})
    assert "partial" not in fields_of(pi, {"type": "message_update"}, "assistantMessageEvent")


@pytest.mark.parametrize("profile", ["pi", "seed"])
def test_each_update_of_the_other_profiles_holds_the_message_so_far(agent: AgentStarter, profile: Profile) -> None:
    pi = agent([ANSWER], protocol=profile)
    pi.request(PROMPT)
    pi.wait(RUN_END)
    text = ""
    for update in pi.found({"type": "message_update"}):
        event = update["assistantMessageEvent"]
        assert event["partial"] == update["message"]
        if event["type"] == "text_delta":
            text += event["delta"]
            assert text == update["message"]["content"][event["contentIndex"]]["text"]

    assert "".join(TEXTS) == text


@pytest.mark.parametrize("profile", PROFILES)
def test_deltas_add_up_to_the_text_that_ends_them(agent: AgentStarter, profile: Profile) -> None:
    """Text and thinking, in all generations."""
    pi = agent([ANSWER], protocol=profile)
    pi.request(PROMPT)
    pi.wait(RUN_END)
    (message,) = [end["message"] for end in pi.found({"type": "message_end", "message": {"role": "assistant"}})]
    for kind, field, pieces in (("thinking", "thinking", THOUGHTS), ("text", "text", TEXTS)):
        (end,) = pi.found({"assistantMessageEvent": {"type": f"{kind}_end"}})
        (block,) = [block[field] for block in message["content"] if block["type"] == kind]

        whole = "".join(pieces)
        assert [whole] * 3 == [
            joined_deltas(pi.records, f"{kind}_delta"),
            end["assistantMessageEvent"]["content"],
            block,
        ]
    assert [] == faults(pi.records)


@pytest.mark.parametrize("profile", PROFILES)
def test_deltas_add_up_for_a_reader_that_is_slow(agent: AgentStarter, profile: Profile) -> None:
    """Merged where nobody was there to take them, in their place, with what the message was then."""
    count = 20_000 if profile == "1.5" else 1_500  # in the others each update holds the message twice
    pi = agent([{"reasoning": THOUGHTS, "gen": {"n": count, "size": 20}}], protocol=profile)
    pi.pause_reading()
    pi.send(PROMPT)
    pi.llm.wait_requests(1)
    seen = 0
    while not pi.found(RUN_END):
        pi.resume_reading()
        pi.wait(lambda _: True, since=seen)
        pi.pause_reading()
        seen = pi.mark()
    pi.resume_reading()
    pi.wait(RUN_END)
    (message,) = [end["message"] for end in pi.found({"type": "message_end", "message": {"role": "assistant"}})]

    whole = generated_delta(20) * count
    assert whole == joined_deltas(pi.records) == message["content"][1]["text"]
    assert "".join(THOUGHTS) == joined_deltas(pi.records, "thinking_delta") == message["content"][0]["thinking"]
    assert len(pi.found({"type": "message_update"})) < count / 2
    for update in pi.found({"type": "message_update", "message": {}}):
        assert whole.startswith(update["message"]["content"][-1].get("text", ""))
    assert [] == faults(pi.records)


@pytest.mark.parametrize(
    ("profile", "data"), [("pi", {"text": None}), ("seed", {"text": None}), ("0.5x", {}), ("0.18", {"text": None})]
)
def test_without_an_answer_its_text_is_null_or_left_out(
    agent: AgentStarter, profile: str, data: dict[str, object]
) -> None:
    """R-STA-04: the releases of one profile left out what their documents call null."""
    pi = agent()
    pi.ask("hello", protocol=profile)

    assert data == pi.request({"type": "get_last_assistant_text"})["data"]


USAGE = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 2, "totalTokens": 4, "cost": {"total": 0.1}}
YOUNGER = [
    {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "", "thinkingSignature": "s", "redacted": True}],
        "usage": {**USAGE, "cacheWrite1h": 2},
        "responseId": "r",
        "responseModel": "m",
        "timestamp": 1,
    },
    {"role": "bashExecution", "command": "ls", "excludeFromContext": True, "timestamp": 1},
]


@pytest.mark.parametrize(
    ("profile", "left_out"),
    [
        ("seed", set[str]()),
        ("0.5x", {"responseId", "responseModel", "cacheWrite1h"}),
        ("0.18", {"responseId", "responseModel", "cacheWrite1h", "redacted", "excludeFromContext"}),
    ],
)
def test_an_older_profile_has_no_field_that_came_later(profile: ClientProfile, left_out: set[str]) -> None:
    """R-PRO-02: in messages, their usage and their blocks."""
    line = exact_projection(profile).line({"type": "agent_end", "messages": YOUNGER})
    names = {"responseId", "responseModel", "cacheWrite1h", "redacted", "excludeFromContext"}

    assert line is not None
    assert left_out == {name for name in names if f'"{name}"'.encode() not in line}
