"""The frames and control messages between a host and those that attach, also from a hostile peer."""

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_rpc.host.command_lines import other_options
from pinnace_rpc.host.protocol import (
    MAX_FRAME_BYTES,
    Accepted,
    AgentAction,
    Answer,
    AskStatus,
    Attach,
    Cursor,
    Detach,
    EndAgent,
    Ended,
    FrameDecoder,
    HostProtocolError,
    ListAgents,
    Refused,
    StopHost,
    common_version,
    encode_client_control,
    encode_data,
    encode_frame,
    encode_host_control,
    encode_request,
    parse_client_control,
    parse_cursor,
    parse_host_control,
    parse_request,
)

ATTACH = Attach(
    versions=(1,),
    release="0.1.0",
    is_new=False,
    agent="main",
    session=None,
    since=Cursor("ab12", 1, 41),
    has_cursors=True,
    client="ide",
    on_eof="detach",
    start=("--model", "opus"),
    cwd="/tmp",
    environment={"KEY": "a\udcffb"},
    umask=0o022,
    profile=None,
)


def payload(frame: bytes) -> bytes:
    ((kind, content),) = FrameDecoder().receive_data(frame)
    assert kind == "j"
    return content


@pytest.mark.parametrize(
    "request_",
    [
        ATTACH,
        ATTACH._replace(takes_options=True),
        ListAgents(True),
        AgentAction("remove", "main"),
        StopHost(),
        AskStatus(),
    ],
    ids=str,
)
def test_a_request_survives_its_frame(request_: Attach | ListAgents | AgentAction | StopHost | AskStatus) -> None:
    assert parse_request(payload(encode_request(request_))) == request_


@pytest.mark.parametrize("control", [Detach(), Detach(at_once=True), EndAgent(True), EndAgent(False)], ids=str)
def test_a_client_control_survives_its_frame(control: Detach | EndAgent) -> None:
    assert parse_client_control(payload(encode_client_control(control))) == control


@pytest.mark.parametrize(
    "control",
    [
        Accepted(1, "0.1.0", "main"),
        Accepted(1, "0.1.0", "main", ("--model",)),
        Refused(69, "no"),
        Ended(0, None),
        Ended(1, "x"),
        Answer({"type": "agents"}),
    ],
    ids=str,
)
def test_a_host_control_survives_its_frame(control: Accepted | Refused | Ended | Answer) -> None:
    assert parse_host_control(payload(encode_host_control(control))) == control


@given(st.lists(st.binary(max_size=50), max_size=5), st.integers(1, 7))
def test_frames_are_the_same_however_their_bytes_are_divided(contents: list[bytes], size: int) -> None:
    stream = b"".join(encode_frame("d", each) for each in contents)
    decoder = FrameDecoder()
    frames = [frame for at in range(0, len(stream), size) for frame in decoder.receive_data(stream[at : at + size])]
    decoder.close()

    assert [frame.payload for frame in frames] == contents


def test_long_data_is_divided() -> None:
    data = bytes(2 * MAX_FRAME_BYTES + 1)
    frames = [frame for part in encode_data(data) for frame in FrameDecoder().receive_data(part)]

    assert [len(frame.payload) for frame in frames] == [MAX_FRAME_BYTES, MAX_FRAME_BYTES, 1]


@pytest.mark.parametrize("head", [b"x\0\0\0\0", b"j\xff\xff\xff\xff", b"d\0\x10\0\x01"])
def test_what_begins_no_frame_is_refused_at_once(head: bytes) -> None:
    with pytest.raises(HostProtocolError):
        FrameDecoder().receive_data(head)


def test_a_stream_that_ends_inside_a_frame_is_detected() -> None:
    decoder = FrameDecoder()
    decoder.receive_data(encode_frame("d", b"abc")[:-1])
    with pytest.raises(HostProtocolError):
        decoder.close()


PARSERS = [parse_request, parse_client_control, parse_host_control]


@pytest.mark.parametrize("parse", PARSERS)
@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_else(parse: Callable[[bytes], object], data: bytes) -> None:
    with suppress(HostProtocolError):
        parse(data)


@pytest.mark.parametrize("parse", PARSERS)
def test_deep_nesting_is_refused(parse: Callable[[bytes], object]) -> None:
    with pytest.raises(HostProtocolError):
        parse(b"[" * 500_000)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("versions", [True]),
        ("versions", 1),
        ("release", None),
        ("new", 1),
        ("agent", "../x"),
        ("agent", ".."),
        ("agent", ""),
        ("agent", "a" * 65),
        ("session", "id"),  # beside an agent
        ("since", "x"),
        ("since", "a.-1:2"),
        ("cursors", "yes"),
        ("client", ""),
        ("client", "a\nb"),
        ("onEof", "drain"),
        ("start", "--model"),
        ("start", ["a\0b"]),
        ("cwd", "relative"),
        ("cwd", "/a\0b"),
        ("environment", ["A=1"]),
        ("environment", {"A": 1}),
        ("environment", {"A=B": "1"}),
        ("environment", {"": "1"}),
        ("umask", -1),
        ("umask", 0o1000),
        ("umask", True),
        ("profile", 1),
    ],
)
def test_a_field_out_of_its_range_is_refused(field: str, value: object) -> None:
    message = json.loads(payload(encode_request(ATTACH)))
    with pytest.raises(HostProtocolError, match=field):
        parse_request(json.dumps({**message, field: value}).encode())


def test_a_request_that_fits_no_frame_is_refused_where_it_is_made() -> None:
    with pytest.raises(ValueError, match="at most"):
        encode_request(ATTACH._replace(environment={"A": "x" * MAX_FRAME_BYTES}))


def test_a_cursor_is_its_text() -> None:
    assert str(parse_cursor("ab12.3:41")) == "ab12.3:41"


def test_the_version_to_speak_is_one_of_both() -> None:
    assert common_version((2, 1)) == 1
    assert common_version((2,)) is None


def test_protocol_and_locations_load_the_standard_library_alone() -> None:
    """`attach` has to start fast."""
    code = (
        "import sys; import pinnace_rpc.host.protocol, pinnace_rpc.host.locations\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(names - set(sys.stdlib_module_names) - {'pinnace_rpc', '__main__'}))\n"
        "print('dataclasses' in sys.modules, 'asyncio' in sys.modules, 'inspect' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-P", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{code}"],
                         check=True, capture_output=True, text=True)  # fmt: skip
    assert run.stdout == "[]\nFalse False False\n"


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ("--model a --no-mcp", "--no-mcp --model=a", ""),
        ("-e a -e b", "--extension b -e a", "--extension"),
        ("--model a --model b", "--model b", ""),
        ("--model a", "--provider a", "--model --provider"),
        ("--plan secret -x", "--plan other -x", "--plan"),
        ("--tool-approval ask", "", "--tool-approval"),
        ("--api-key one", "--api-key two", "--api-key"),
    ],
)
def test_options_in_which_two_command_lines_differ_are_named_without_values(one: str, other: str, found: str) -> None:
    assert other_options(one.split(), other.split()) == tuple(found.split())
