"""Nothing that is written to stdin ends the process, and each refusal says what was wrong, and with what.

Lines that must change nothing go to one agent that all tests share; after each it is asked for its state.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent
from pinnace_spec.records.command_table import CLIENT_ANSWERS, COMMAND_TABLE, TEXT_COMMANDS
from pinnace_spec.records.commands import ALL_COMMANDS, MODELS
from pinnace_spec.records.parsing import CommandError, parse_command

# A client that probes whether an agent lives waits about a second. That is for benchmarks to hold: what else a machine
# has to do must not decide here.
ANSWER_S = 30.0
# Parsing the largest lines takes a part of a second; a shared machine may need many.
REFUSAL_S = 60.0

MIB = 1024 * 1024
NOT_AN_OBJECT = "Failed to parse command: expected an object"
TOO_DEEP = "Failed to parse command: nested deeper than 512 levels"


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


def in_a_field(value: bytes) -> bytes:
    return b'{"type":"get_state","more":' + value + b"}"


@pytest.fixture(scope="module")
def pi(module_agent: AgentStarter) -> HomedAgent:
    return module_agent()


@pytest.fixture(scope="module")
def unchecked(module_agent: AgentStarter) -> HomedAgent:
    """For what the judge would call a fault: a command with an id, answered without one."""
    return module_agent(is_checked=False)


@pytest.fixture
def unchanged(pi: HomedAgent) -> Iterator[None]:
    """Holds a test to this: the agent answers, with the state of before, and no file has changed."""
    state, files = snapshot(pi)
    yield
    assert (state, files) == snapshot(pi)


@pytest.mark.parametrize("text", ["\\u0000", "~a\\u0000", "/\\ud800", "\\u2028", "x" * 300 + "/x"])
def test_no_text_in_a_field_is_a_defect(module_agent: AgentStarter, text: str) -> None:
    """R-ERR-03: what no path can be, among others, is refused as what it is. Messages begin runs."""
    pi = module_agent(is_checked=False, has_session=True)
    asked: dict[str, str] = {}
    for name, fields in COMMAND_TABLE.items():
        if name in (*TEXT_COMMANDS, *CLIENT_ANSWERS):
            continue
        rest = [f',"{key}":"x"' for key, (kind, default, _) in fields.items() if kind is str and default is ...]
        for key, (kind, _, _) in fields.items():
            if kind in (str, list):
                identity = f"{name}.{key}"
                value = f'["{text}"]' if kind is list else f'"{text}"'
                given = "".join(each for each in rest if not each.startswith(f',"{key}"'))
                asked[identity] = f'{{"id":"{identity}","type":"{name}","{key}":{value}{given}}}'
    pi.send_bytes("".join(f"{line}\n" for line in asked.values()).encode())
    answers = {identity: pi.wait_response(identity) for identity in asked}

    assert len(asked) > 40
    assert [] == [each for each in answers.values() if each.get("errorCode") == "internal_error"]


def snapshot(pi: HomedAgent) -> tuple[Record, Mapping[str, bytes]]:
    state = pi.request({"type": "get_state"}, ANSWER_S)["data"]
    folders = pi.home.agent_dir, pi.home.work, pi.home.home, pi.home.sessions
    files = (path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file())
    return state, {str(path): path.read_bytes() for path in files}


def refusal(pi: HomedAgent, line: bytes) -> Record:
    """Write a line and return the one record that it causes."""
    mark = pi.mark()
    pi.send_bytes(line + b"\n", REFUSAL_S)
    pi.wait({"type": "response"}, REFUSAL_S, since=mark)
    # What else a line may cause comes before the answer to the next one.
    pi.request({"type": "get_state"}, ANSWER_S)
    caused, _ = [received.record for received in pi.records[mark:]]
    return caused


NO_OBJECTS = {
    "null": b"null",
    "a number": b"42",
    "a negative fraction": b"-0.5",
    "an array": b"[]",
    "a string": b'"x"',
    "true": b"true",
    "an array of a command": b'[{"type":"get_state","id":"x"}]',
}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("line", list(NO_OBJECTS.values()), ids=list(NO_OBJECTS))
def test_a_line_that_is_no_object_is_a_parse_error(pi: HomedAgent, line: bytes) -> None:
    """R-ERR-01."""
    assert {
        "type": "response",
        "command": "parse",
        "success": False,
        "error": NOT_AN_OBJECT,
        "errorCode": "parse_error",
    } == refusal(pi, line)


NO_JSON = {
    "text": b"hello",
    "a cut object": b'{"type":"get_state"',
    "a cut string": b'{"type":"get_st',
    "single quotes": b"{'type':'get_state'}",
    "a trailing comma": b'{"type":"get_state",}',
    "two values": b'{"type":"get_state"}{"type":"get_state"}',
    "a comment": b'{"type":"get_state"} // now',
    "NaN": b"NaN",
    "NaN in a field": in_a_field(b"NaN"),
    "Infinity in a field": in_a_field(b"-Infinity"),
    "a number past every double": in_a_field(b"1e400"),
    "an integer of 5,000 digits": b"9" * 5_000,
    "an integer of 5,000 digits in a field": in_a_field(b"-" + b"1" * 5_000),
    "bytes FF FE": b"\xff\xfe",
    "bytes FF FE in a string": in_a_field(b'"\xff\xfe"'),
    "UTF-16": '{"type":"get_state"}'.encode("utf-16-le"),
    "an overlong slash": in_a_field(b'"\xc0\xaf"'),
    "a surrogate in UTF-8": in_a_field(b'"\xed\xa0\x80"'),
    "a byte order mark": b'\xef\xbb\xbf{"type":"get_state"}',
    "NUL bytes": b"\0\0\0",
    "a NUL byte in a string": in_a_field(b'"\0"'),
    "a NUL byte after an object": b'{"type":"get_state"}\0',
    "5,000 nested arrays": nested(5_000),
    "200,000 nested arrays": nested(200_000),
    "5,000 nested arrays in a field": in_a_field(nested(5_000)),
    "200,000 nested arrays in a field": in_a_field(nested(200_000)),
    "200,000 nested objects": b'{"a":' * 200_000 + b"1" + b"}" * 200_000,
    "200,000 open arrays": b"[" * 200_000,
    "200,000 nested arrays and a lone surrogate": in_a_field(b'["\\ud800",' + nested(200_000) + b"]"),
    "513 levels": in_a_field(nested(512)),
}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("line", list(NO_JSON.values()), ids=list(NO_JSON))
def test_a_line_that_is_no_json_is_a_parse_error(pi: HomedAgent, line: bytes) -> None:
    """R-ERR-01, R-FRM-05, R-FRM-06, R-FRM-08."""
    answer = refusal(pi, line)

    assert {"type", "command", "success", "error", "errorCode"} == set(answer)
    assert ("parse", False, "parse_error") == (answer["command"], answer["success"], answer["errorCode"])
    assert answer["error"].startswith("Failed to parse command: ")
    assert len(answer["error"]) < 200


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (nested(513), TOO_DEEP),
        (nested(200_000), TOO_DEEP),
        (in_a_field(nested(200_000)), TOO_DEEP),
        (b"\xff\xfe", "Failed to parse command: invalid UTF-8 at byte 0"),
    ],
    ids=["513 levels", "200,000 levels", "200,000 levels in a field", "FF FE"],
)
def test_a_parse_error_says_which_limit_it_was(pi: HomedAgent, line: bytes, error: str) -> None:
    """R-FRM-08."""
    assert error == refusal(pi, line)["error"]


ODD_BUT_VALID = {
    "512 levels": nested(511),
    "an integer of 300 digits": b"1" * 300,
    "a lone surrogate": b'"\\ud800"',
    "an escaped NUL": b'"\\u0000"',
    "a key twice": b'1,"more":2',
    "line separators": '"\u2028\u2029\x85"'.encode(),
}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("value", list(ODD_BUT_VALID.values()), ids=list(ODD_BUT_VALID))
def test_what_an_unknown_field_holds_does_not_matter(pi: HomedAgent, value: bytes) -> None:
    """R-FRM-01, R-FRM-08: just within the limits, or strange, and still JSON."""
    assert refusal(pi, in_a_field(value))["success"]


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("type_field", ["", '"type":null,', '"type":7,', '"type":["get_state"],', '"type":{},'])
def test_a_record_without_a_type_is_refused_as_unknown_with_its_id(pi: HomedAgent, type_field: str) -> None:
    """R-ERR-01."""
    assert {
        "id": "t",
        "type": "response",
        "command": "unknown",
        "success": False,
        "error": "Invalid command: type must be a string",
        "errorCode": "invalid_command",
    } == refusal(pi, f'{{{type_field}"id":"t"}}'.encode())


@pytest.mark.usefixtures("unchanged")
def test_an_empty_object_is_refused_without_an_id(pi: HomedAgent) -> None:
    """R-ERR-01, R-RSP-01: no id in, no id out."""
    answer = refusal(pi, b"{}")

    assert "id" not in answer
    assert ("unknown", "Invalid command: type must be a string") == (answer["command"], answer["error"])


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("name", ["dance", "", "x" * 10_000, "__class__", "\0", "\u2028"])
def test_an_unknown_command_is_refused_with_its_id_and_its_type(pi: HomedAgent, name: str) -> None:
    """R-ERR-04."""
    assert {
        "id": "u",
        "type": "response",
        "command": name,
        "success": False,
        "error": f"Unknown command: {name}",
        "errorCode": "unknown_command",
    } == refusal(pi, json.dumps({"type": name, "id": "u"}).encode())


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("command", "text", "near"),
    [
        ({"type": "GET_STATE"}, "Unknown command: GET_STATE", "get_state"),
        ({"type": "getState"}, "Unknown command: getState", "get_state"),
        ({"type": "promt", "message": "hi"}, "Unknown command: promt", "prompt"),
        ({"type": "set_model", "provider": "fake", "modelId": "m11"}, "Model not found: fake/m11", "fake/m1"),
        ({"type": "set_active_tools", "names": ["baash"]}, None, "bash"),
    ],
)
def test_a_refused_name_comes_with_the_nearest_one(
    pi: HomedAgent, command: Record, text: str | None, near: str
) -> None:
    """R-ERR-07, R-ERR-05: beside the published text, which stays as it is."""
    answer = refusal(pi, json.dumps(command).encode())

    assert near == answer["didYouMean"]
    assert text in {None, answer["error"]}


@pytest.mark.parametrize("profile", ["seed", "0.5x", "0.18"])
def test_older_profiles_refuse_a_name_without_a_suggestion(agent: AgentStarter, profile: str) -> None:
    """R-ERR-07, R-PRO-02: those generations have no such field."""
    pi = agent([])
    pi.ask("hello", protocol=profile)

    refused = {"id": "u", "type": "response", "command": "promt", "success": False, "error": "Unknown command: promt"}
    assert refused == refusal(pi, b'{"type":"promt","id":"u"}')


def test_a_suggestion_is_a_command_of_the_clients_profile() -> None:
    """R-ERR-07: a name that the profile does not have is suggested to nobody."""
    with pytest.raises(CommandError) as refused:
        parse_command({"type": "get_tols"}, unknown={"get_tools"})

    assert refused.value.did_you_mean not in {None, "get_tools"}


# Fields. Of each kind: values that are not of it.

WRONG: Mapping[str, Sequence[Any]] = {
    "string": [7, True, ["x"], {"x": "x"}],
    "enum": [7, True, "no such value", "", ["steer"]],
    "boolean": ["true", 1, 0, []],
    "integer": ["1", 1.5, True, [1]],
    "number": ["1", True, [1], -1],
    "images": [
        "x",
        {"0": {}},
        [7],
        [{}],
        [{"type": "image", "data": "QUJD"}],
        [{"type": "image", "mimeType": "image/png"}],
        [{"type": "image", "mimeType": "image/png", "data": 7}],
        [{"type": "image", "mimeType": "image/png", "data": "not base64!"}],
        [{"type": "video", "mimeType": "image/png", "data": "QUJD"}],
    ],
    "texts": ["read", 7, {}, [7], [None], ["read", []]],
    "item": [
        "x",
        7,
        True,
        [],
        {},
        {"kind": "call"},
        {"kind": "nothing", "name": "x", "id": "y"},
        {"kind": "call", "name": 7, "id": "y"},
        {"kind": "call", "name": "x", "id": None},
        {"kind": "call", "name": "x", "id": "y", "arguments": []},
        {"kind": "call", "name": "x", "id": "y", "expanded": 1},
        {"kind": "call", "name": "x", "id": "y", "durationMs": "1"},
    ],
    "attachments": [
        "x",
        [7],
        [{}],
        [{"type": "image", "mimeType": "image/png"}],
        [{"type": "image", "mimeType": "image/png", "content": 7}],
        [{"type": "video", "mimeType": "image/png", "content": "QUJD"}],
    ],
}

# What is left behind if it is executed.
BASH = {"command": "touch ran"}
KINDS: Mapping[Any, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "texts",
    dict: "item",
}
LISTS = ("images", "attachments")


def kinds_of(name: str) -> dict[str, str]:
    """Return the kinds of the fields of a command that it looks at, as it is declared."""
    rows = {field: kind for field, (kind, _, _) in COMMAND_TABLE[name].items() if kind is not None}
    kinds = {field: "enum" if isinstance(kind, frozenset) else KINDS[kind] for field, kind in rows.items()}
    return kinds | {field: field for field in LISTS if field in MODELS[name].model_fields}


def valid_fields(name: str) -> dict[str, Any]:
    """Return values for the fields that a command must have."""
    values: dict[Any, Any] = {str: "hello", bool: True, int: 0, list: ["read"]}
    required = {field: kind for field, (kind, default, _) in COMMAND_TABLE[name].items() if default is ...}
    found = {field: min(kind) if isinstance(kind, frozenset) else values[kind] for field, kind in required.items()}
    sample = BASH if name == "bash" else MODELS[name].sample
    return found | {field: value for field, value in sample.items() if field in found}


WITH_FIELDS = [name for name in ALL_COMMANDS if kinds_of(name)]
# Null means something there.
NULLABLE = {("navigate_tree", "entryId")}


def violations(name: str) -> Iterator[tuple[str, Record]]:
    """Yield the name of each field with commands in which it alone is missing or wrong."""
    valid = valid_fields(name)
    for field in valid:
        yield field, {key: value for key, value in valid.items() if key != field}
        if (name, field) not in NULLABLE:
            yield field, {**valid, field: None}
    for field, kind in kinds_of(name).items():
        for value in WRONG[kind]:
            yield field, {**valid, field: value}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("name", WITH_FIELDS)
def test_a_field_that_is_missing_or_wrong_is_named(pi: HomedAgent, name: str) -> None:
    """R-ERR-03: one text for all, and nothing has happened."""
    begin = pi.mark()
    cases = [(f"{name}-{begin}-{number}", *case) for number, case in enumerate(violations(name))]
    pi.send_many({"id": key, "type": name, **fields} for key, _, fields in cases)
    for key, field, fields in cases:
        answer = pi.wait_response(key)
        assert (name, False, "invalid_field") == (answer["command"], answer["success"], answer.get("errorCode")), fields
        error, beginning = answer["error"], f"Invalid {name} command: {field}"
        assert error.startswith((f"{beginning} ", f"{beginning}[", f"{beginning}.")), (fields, error)

    assert len(cases) == pi.mark() - begin


def test_an_attachment_that_is_not_base64_is_refused(agent: AgentStarter) -> None:
    """R-ERR-03: the oldest generation's pictures are checked like those of today."""
    pi = agent([{"text": "seen"}])
    attachment = {"type": "image", "mimeType": "image/png", "content": "not base64!"}

    assert not pi.request({"type": "prompt", "message": "look", "attachments": [attachment]})["success"]


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("name", ["", "  \t\n "])
def test_a_session_name_of_nothing_is_refused(pi: HomedAgent, name: str) -> None:
    answer = pi.request({"type": "set_session_name", "name": name})

    assert ("Session name cannot be empty", "invalid_field") == (answer["error"], answer["errorCode"])


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("name", ["prompt", "steer", "follow_up", "queue_message"])
def test_a_text_of_nothing_is_refused(pi: HomedAgent, name: str) -> None:
    """R-PRM-06."""
    answer = pi.request({"type": name, "message": ""})

    assert f"Invalid {name} command: message must not be empty without images" == answer["error"]


def test_null_in_an_optional_field_is_as_no_field(agent: AgentStarter) -> None:
    pi = agent([{"text": "one"}])
    nothing = {"images": None, "attachments": None, "streamingBehavior": None}

    assert pi.request({"type": "prompt", "message": "hello", **nothing})["success"]
    pi.wait({"type": "agent_settled"})
    assert {"success": True} == {"success": pi.request({"type": "abort", "queue": None})["success"]}
    assert pi.request({"type": "bash", "command": "true", "excludeFromContext": None})["success"]
    assert pi.request({"type": "new_session", "parentSession": None})["success"]


# Ids.


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("identity", ["x", "", "x" * 256, 7, -1.5, 0, 2**53 + 1, None], ids=repr)
def test_an_id_that_is_a_string_or_a_number_or_null_comes_back(pi: HomedAgent, identity: object) -> None:
    """R-ID-01."""
    answer = refusal(pi, json.dumps({"type": "get_state", "id": identity}).encode())

    assert ("get_state", True) == (answer["command"], answer["success"])
    assert answer["id"] == identity
    assert type(answer["id"]) is type(identity)


@pytest.mark.parametrize("identity", [True, [], ["x"], {}, {"id": "x"}, "x" * 257], ids=lambda value: str(value)[:20])
def test_any_other_id_is_refused_without_an_id(unchecked: HomedAgent, identity: object) -> None:
    """R-ID-01."""
    assert {
        "type": "response",
        "command": "get_state",
        "success": False,
        "error": "Invalid get_state command: id must be a string of at most 256 characters",
        "errorCode": "invalid_field",
    } == refusal(unchecked, json.dumps({"type": "get_state", "id": identity}).encode())


def test_each_of_two_commands_with_one_id_is_answered(pi: HomedAgent) -> None:
    """R-RSP-01."""
    mark = pi.mark()
    pi.send_many([{"type": "get_state", "id": "twice"}, {"type": "get_messages", "id": "twice"}, {"type": "abort"}])
    pi.wait({"type": "response", "command": "abort"}, since=mark)

    answers = pi.found({"id": "twice"}, since=mark)
    assert ["get_state", "get_messages"] == [answer["command"] for answer in answers]


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    "fields", [{}, {"id": "no-such"}, {"id": 7, "value": 7}, {"id": None}, {"id": ["x"]}], ids=repr
)
def test_an_answer_to_no_dialog_is_never_answered(pi: HomedAgent, fields: Record) -> None:
    """R-UI-01."""
    mark = pi.mark()
    pi.send({"type": "extension_ui_response", **fields})
    pi.request({"type": "get_state"}, ANSWER_S)

    assert mark + 1 == pi.mark()


# Lines.


@pytest.mark.usefixtures("unchanged")
def test_blank_lines_are_ignored(pi: HomedAgent) -> None:
    """R-FRM-04."""
    mark = pi.mark()
    pi.send_bytes(b"\n\r\n  \n\t\r\n\n")
    pi.request({"type": "get_state"}, ANSWER_S)

    assert mark + 1 == pi.mark()


def test_one_cr_before_the_lf_is_stripped(pi: HomedAgent) -> None:
    """R-FRM-02."""
    assert "crlf" == refusal(pi, b'{"type":"get_state","id":"crlf"}\r')["id"]


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("content", "is_accepted"),
    [
        (in_a_field(b'"' + b"x" * 32 * MIB + b'"'), True),
        (b"x" * 32 * MIB, False),
        (b"[" * 32 * MIB, False),
        (in_a_field(b"[" + b"[]," * MIB + b"[]]"), True),
        (in_a_field(b'"' + b"\\u2028" * (4 * MIB) + b'"'), True),
        (b"x" * 65 * MIB, False),
    ],
    ids=["a string", "no JSON", "open arrays", "a million arrays", "escapes", "over the limit"],
)
def test_a_line_of_many_mebibytes_is_answered(pi: HomedAgent, content: bytes, is_accepted: bool) -> None:
    """R-FRM-08."""
    answer = refusal(pi, content)

    assert ("get_state" if is_accepted else "parse", is_accepted) == (answer["command"], answer["success"])


def test_a_line_over_the_limit_says_so_and_the_next_one_is_read(pi: HomedAgent) -> None:
    """R-FRM-08: dropped up to its LF, not kept."""
    limit = pi.request({"type": "hello"})["data"]["limits"]["recordBytes"]
    mark = pi.mark()
    pi.send_bytes(b"x" * (limit + 1) + b'\n{"type":"get_state","id":"next"}\n', REFUSAL_S)
    pi.wait_response("next", REFUSAL_S)

    assert f"Failed to parse command: the record is longer than {limit} bytes" == pi.records[mark].record["error"]


def test_a_line_cut_anywhere_is_the_same_line(pi: HomedAgent) -> None:
    """R-FRM-08: also in the middle of a character."""
    line = '{"type":"get_state","id":"ä\u2028𝄞"}\n'.encode()
    pi.split_write(line, range(1, len(line)))

    assert pi.wait_response("ä\u2028𝄞")["success"]


def test_a_last_line_without_lf_is_taken_when_stdin_ends(converse: Callable[..., list[bytes]]) -> None:
    """R-FRM-07."""
    lines = [json.loads(line) for line in converse(b'{"type":"get_state","id":"a"}\n{"type":"abort","id":"b"}')]

    assert [("a", "get_state", True), ("b", "abort", True)] == [
        (line["id"], line["command"], line["success"]) for line in lines
    ]


def test_a_last_line_that_is_cut_is_a_parse_error(converse: Callable[..., list[bytes]]) -> None:
    """R-FRM-07, R-ERR-02."""
    (line,) = converse(b'{"type":"get_st')

    assert ("parse", "parse_error") == (json.loads(line)["command"], json.loads(line)["errorCode"])


def test_separators_of_lines_survive_and_are_escaped_in_the_output(converse: Callable[..., list[bytes]]) -> None:
    """R-FRM-01, R-FRM-09: also those that other languages' line readers split at."""
    text = "a\u2028b\u2029c\x85d"
    commands = [
        {"type": "set_session_name", "id": "n", "name": text},
        {"type": "get_state", "id": text},
        {"type": "bash", "id": "b", "command": f"printf %s '{text}'"},
    ]
    lines = converse(
        b"".join(json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in commands),
        "--on-eof",
        "drain",
    )
    answers = {line["id"]: line for each in lines if "command" in (line := json.loads(each))}

    assert answers[text]["data"]["sessionName"] == "a b c d"
    assert text == answers["b"]["data"]["output"]
    output = b"\n".join(lines)
    assert output.isascii()
    assert b"a\\u2028b\\u2029c\\u0085d" in output


def test_a_lone_surrogate_survives_as_its_escape(converse: Callable[..., list[bytes]]) -> None:
    """R-FRM-09: echoed in an id, kept in a name; never a byte that is no UTF-8."""
    lines = converse(
        b'{"type":"set_session_name","id":"n","name":"a\\ud800b"}\n'
        b'{"type":"get_state","id":"\\uDFFF"}\n'
        b'{"type":"\\ud800","id":"t"}\n'
    )
    output = b"\n".join(lines)
    answers = [line for each in lines if "command" in (line := json.loads(each))]

    assert output.isascii()
    assert b"\\ud800" in output
    assert [("n", True), ("\udfff", True), ("t", False)] == [(each["id"], each["success"]) for each in answers]
    assert "a\ud800b" == answers[1]["data"]["sessionName"]
    assert "Unknown command: \ud800" == answers[2]["error"]


def test_a_lone_surrogate_in_a_prompt_reaches_the_conversation(converse: Callable[..., list[bytes]]) -> None:
    """R-ERR-02: no provider would take it, and it ends neither the run nor the process."""
    lines = converse(
        b'{"type":"prompt","id":"p","message":"a\\ud800b"}\n', "--on-eof", "drain", script=[{"text": "answer"}]
    )
    records = [json.loads(line) for line in lines]
    ends = [record["message"] for record in records if record["type"] == "message_end"]

    assert [[{"type": "text", "text": "a\ud800b"}], [{"type": "text", "text": "answer"}]] == [
        message["content"] for message in ends
    ]


def test_nul_in_a_shell_command_is_an_error_of_that_command(pi: HomedAgent) -> None:
    answer = pi.request({"type": "bash", "command": "echo \0"})

    assert (False, "shell_unavailable") == (answer["success"], answer["errorCode"])


# In the middle of a run.


def test_a_run_is_not_disturbed_by_lines_that_are_no_commands(agent: AgentStarter) -> None:
    """R-ERR-02: each is answered while the model is at its answer, and the answer is whole."""
    pi = agent([{"chunks": [{"text": "one "}, {"gate": "g"}, {"text": "two"}]}])
    pi.send({"type": "prompt", "id": "p", "message": "hello"})
    pi.llm.wait_reached("g")
    pi.wait({"type": "message_update"})
    before = pi.request({"type": "get_state"})["data"]
    lines = [*NO_OBJECTS.values(), *NO_JSON.values(), b'{"type":"no_such"}', b'{"type":"prompt"}', b"{}"]
    mark = pi.mark()
    for line in lines:
        pi.send_bytes(line + b"\n")
    assert before == pi.request({"type": "get_state"}, REFUSAL_S)["data"]
    answers = pi.found({"type": "response", "success": False}, since=mark)
    pi.llm.release("g")
    pi.wait({"type": "agent_settled", "aborted": False})

    assert len(lines) == len(answers)
    assert "one two" == pi.request({"type": "get_last_assistant_text"})["data"]["text"]
