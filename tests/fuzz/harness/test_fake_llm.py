"""The fake LLM against a real HTTP client: what is scripted arrives, when it may, and leaving is noticed."""

import json
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import httpx
import pytest

from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm, HarnessFault
from pinnace_fuzz.harness.model_server.ledger import LlmTimeout
from pinnace_fuzz.harness.model_server.server import generated_delta
from pinnace_fuzz.harness.model_server.short_form import read_response
from pinnace_fuzz.script import Piece, Response, Scripted, ScriptError, Text

PATH = "/v1/chat/completions"


@pytest.fixture
def client() -> Iterator[httpx.Client]:
    with httpx.Client(timeout=60, trust_env=False) as client:
        yield client


def body(text: str = "hi") -> dict[str, Any]:
    return {"model": "m1", "stream": True, "messages": [{"role": "user", "content": text}]}


def ask(client: httpx.Client, llm: FakeLlm, text: str = "hi") -> httpx.Response:
    return client.post(llm.base_url + PATH, json=body(text))


def events(answer: str) -> list[Any]:
    """Read the events of a whole stream; the last one must be the end marker."""
    *data, last = [part.removeprefix("data: ") for part in answer.split("\n\n")[:-1]]
    assert last == "[DONE]"
    return [json.loads(each) for each in data]


def deltas(answer: str) -> list[Any]:
    return [event["choices"][0]["delta"] for event in events(answer) if event["choices"]]


def run(script: Iterable[Scripted], client: httpx.Client) -> httpx.Response:
    with FakeLlm(script) as llm:
        return ask(client, llm)


def test_text_comes_as_one_chunk_a_delta_between_role_and_end(client: httpx.Client) -> None:
    answer = run([{"text": ["Hel", "lo ✓"]}], client)

    assert answer.headers["content-type"] == "text/event-stream"
    assert deltas(answer.text) == [
        {"role": "assistant", "content": ""},
        {"content": "Hel"},
        {"content": "lo ✓"},
        {},
    ]
    *_, finish, usage = events(answer.text)
    assert finish["choices"][0]["finish_reason"] == "stop"
    assert (finish["model"], finish["object"]) == ("m1", "chat.completion.chunk")
    assert usage["usage"]["total_tokens"] == 15


def test_reasoning_comes_before_text(client: httpx.Client) -> None:
    answer = run([{"text": "so", "reasoning": ["hm", "m"]}], client)

    assert deltas(answer.text)[1:4] == [
        {"reasoning_content": "hm"},
        {"reasoning_content": "m"},
        {"content": "so"},
    ]


@pytest.mark.parametrize("pieces", [1, 2, 3, 1000])
def test_tool_arguments_are_cut_into_pieces(client: httpx.Client, pieces: int) -> None:
    call = {"name": "bash", "args": {"command": "echo ü"}, "pieces": pieces}
    answer = run([{"tool_calls": [call, {"name": "read", "args": "{broken", "id": "x"}]}], client)

    calls = [each for delta in deltas(answer.text) for each in delta.get("tool_calls", ())]
    first = [each["function"]["arguments"] for each in calls if each["index"] == 0]
    assert json.loads("".join(first)) == {"command": "echo ü"}
    assert len(first) == 1 + min(pieces, len("".join(first)))
    second = [each for each in calls if each["index"] == 1]
    assert (second[0]["id"], second[0]["function"]["name"]) == ("x", "read")
    assert "".join(each["function"]["arguments"] for each in second) == "{broken"
    assert events(answer.text)[-2]["choices"][0]["finish_reason"] == "tool_calls"


def test_tool_call_ids_are_unique_in_a_script(client: httpx.Client) -> None:
    with FakeLlm([{"tool_calls": [{"name": "a"}, {"name": "b"}]}, {"tool_calls": [{"name": "c"}]}]) as llm:
        answers = [ask(client, llm).text for _ in range(2)]

    found = [each for answer in answers for delta in deltas(answer) for each in delta.get("tool_calls", ())]
    ids = [each["id"] for each in found if "id" in each]
    assert len(set(ids)) == 3


def test_usage_is_written_as_such_servers_do(client: httpx.Client) -> None:
    usage = {"input": 7, "output": 3, "cacheRead": 4, "cacheWrite": 2, "reasoning": 1}
    answer = run([{"text": "x", "usage": usage}], client)

    assert events(answer.text)[-1]["usage"] == {
        "prompt_tokens": 13,
        "completion_tokens": 3,
        "total_tokens": 16,
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }


def test_finish_usage_and_end_marker_can_be_left_out(client: httpx.Client) -> None:
    answer = run([{"text": "x", "finish": None, "usage": None, "done": False}], client)

    assert 'finish_reason":null' in answer.text
    assert all(word not in answer.text for word in ("stop", "usage", "[DONE]"))


def test_explicit_chunks_come_in_their_order(client: httpx.Client) -> None:
    tools = [{"tool": {"index": i, "id": f"c{i}", "name": "bash"}} for i in (0, 1)]
    parts = [{"args": "{", "index": 1}, {"args": "{"}, {"args": "}", "index": 1}, {"args": "}"}]
    answer = run([{"chunks": [*tools, *parts, {"finish": "length"}, {"event": {"choices": [], "x": 1}}]}], client)

    calls = [each for delta in deltas(answer.text) for each in delta.get("tool_calls", ())]
    assert [(each["index"], each["function"]["arguments"]) for each in calls] == [
        (0, ""), (1, ""), (1, "{"), (0, "{"), (1, "}"), (0, "}")
    ]  # fmt: skip
    *_, finish, event, _usage = events(answer.text)
    assert finish["choices"][0]["finish_reason"] == "length"
    assert event == {"choices": [], "x": 1}


def test_an_error_has_its_status_headers_and_body(client: httpx.Client) -> None:
    error = {"status": 429, "headers": {"Retry-After": "7"}, "body": {"error": {"message": "slow down"}}}
    answer = run([{"error": error}], client)

    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")
    assert answer.json() == {"error": {"message": "slow down"}}


def test_an_error_may_have_any_bytes_and_any_status(client: httpx.Client) -> None:
    answer = run([{"error": {"status": 529, "body": b"\xff<html>"}}], client)

    assert (answer.status_code, answer.content) == (529, b"\xff<html>")


def test_raw_bytes_arrive_as_they_are(client: httpx.Client) -> None:
    answer = run([{"chunks": [{"raw": b": ping\r\n\xff\n\n"}, {"raw": "data: {nonsense\n\n"}]}], client)

    assert b": ping\r\n\xff\n\ndata: {nonsense\n\n" in answer.content


@pytest.mark.parametrize("last", [{"disconnect": "rst"}, {"disconnect": "fin"}, {"socket": "zz\r\nnot a chunk\r\n"}])
def test_a_stream_can_break_in_the_middle(client: httpx.Client, last: dict[str, str]) -> None:
    with (
        FakeLlm([{"chunks": [{"text": "begin"}, {"gate": "read"}, last]}]) as llm,
        client.stream("POST", llm.base_url + PATH, json=body()) as stream,
    ):
        parts = stream.iter_text()
        take_until(parts, "begin")
        llm.release("read")
        # Whether it was a reset or an early end:
        expected = httpx.ReadError if last == {"disconnect": "rst"} else httpx.RemoteProtocolError
        with pytest.raises(expected):
            list(parts)


def take_until(parts: Iterator[str], text: str) -> None:
    seen = ""
    while text not in seen:
        seen += next(parts)


@pytest.mark.parametrize("how", ["rst", "fin"])
def test_a_connection_can_end_before_any_answer(client: httpx.Client, how: str) -> None:
    with FakeLlm([{"refuse": how}]) as llm:
        expected = httpx.ReadError if how == "rst" else httpx.RemoteProtocolError
        with pytest.raises(expected):
            ask(client, llm)


def test_the_stream_stops_at_a_gate_until_it_is_released(client: httpx.Client) -> None:
    with (
        FakeLlm([{"text": ["before", {"gate": "g"}, "after"]}]) as llm,
        client.stream("POST", llm.base_url + PATH, json=body()) as stream,
    ):
        llm.wait_reached("g")
        parts = stream.iter_text()
        take_until(parts, "before")
        connected = stream.extensions["network_stream"].get_extra_info("socket")
        # That nothing comes can only be seen by waiting a little.
        assert select.select([connected], [], [], 0.05)[0] == []
        llm.release("g")

        assert "after" in "".join(parts)


def test_a_gate_released_before_it_is_reached_does_not_stop(client: httpx.Client) -> None:
    with FakeLlm([{"text": "x", "hold": "h", "gate_each": "g"}]) as llm:
        llm.release("h", "g.0", "g.1", "g.2")

        assert {"content": "x"} in deltas(ask(client, llm).text)


def test_every_chunk_can_have_a_gate_of_its_own(client: httpx.Client) -> None:
    with FakeLlm([{"text": ["a", "b"], "gate_each": "g"}]) as llm, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, client, llm)
        for gate in ("g.0", "g.1", "g.2", "g.3"):
            llm.wait_reached(gate)
            llm.release(gate)

        assert {"content": "b"} in deltas(answer.result().text)


@pytest.mark.parametrize(
    ("response", "last_event", "during"),
    [
        ({"text": ["last", {"gate": "g"}]}, b"last", "gate g"),
        ({"hold": "h", "text": "a"}, b"", "gate h"),
        ({"chunks": [{"text": "last"}, {"hang": True}]}, b"last", "hang"),
        ({"text": "a", "delay_ms": 60_000}, b"", "delay"),
        ({"text": "a", "chunk_delay_ms": 60_000}, b"assistant", "delay"),
        ({"chunks": [{"gen": {"n": 10_000_000, "size": 1000}}]}, b"assistant", "write"),
    ],
)
@pytest.mark.parametrize("how", ["rst", "fin"])
def test_a_client_that_leaves_is_noticed_at_once(response: Scripted, last_event: bytes, during: str, how: str) -> None:
    with FakeLlm([response]) as llm:
        connected = request_by_hand(llm)
        llm.wait_requests(1)
        read_until(connected, last_event)
        if how == "rst":
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        left_s = time.monotonic()
        connected.close()
        (departure,) = llm.wait_disconnects(1)

    assert (departure.request_number, departure.during) == (0, during)
    assert departure.time_s - left_s < 30  # not when the delay of a minute is over


def read_until(connected: socket.socket, part: bytes) -> None:
    seen = b""
    while part not in seen:
        data = connected.recv(65_536)
        assert data, f"ended before {part!r}"
        seen += data


def request_by_hand(llm: FakeLlm) -> socket.socket:
    host, port = llm.base_url.removeprefix("http://").split(":")
    connected = socket.create_connection((host, int(port)))
    connected.sendall(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}".encode())
    return connected


def test_a_client_that_leaves_at_the_end_marker_has_not_left_early() -> None:
    with FakeLlm([{"text": "x"}, {"hold": "never"}]) as llm:
        with request_by_hand(llm) as connected:
            read_until(connected, b"[DONE]")
        request_by_hand(llm).close()
        (departure,) = llm.wait_disconnects(1)

    assert departure.request_number == 1


def test_leaving_the_context_ends_whatever_hangs() -> None:
    script: list[Scripted] = [
        {"chunks": [{"hang": True}]},
        {"hold": "never"},
        {"delay_ms": 60_000},
        {"chunks": [{"gen": {"n": 10_000_000, "size": 1000}}]},
    ]
    begun_s = time.monotonic()
    threads_before = set(threading.enumerate())
    with FakeLlm(script) as llm:
        clients = [request_by_hand(llm) for _ in script]
        llm.wait_requests(4)
    for each in clients:
        each.close()

    assert time.monotonic() - begun_s < 30  # as above
    assert set(threading.enumerate()) - threads_before == set()
    assert llm.disconnects == []


def test_many_generated_deltas_arrive_in_full(client: httpx.Client) -> None:
    answer = run([{"gen": {"n": 5000, "size": 20}}], client)

    assert "".join(each.get("content", "") for each in deltas(answer.text)) == generated_delta(20) * 5000


def test_generated_reasoning_can_stand_among_chunks(client: httpx.Client) -> None:
    answer = run([{"chunks": [{"gen": {"n": 3, "size": 4, "kind": "reasoning"}}, {"text": "x"}]}], client)

    assert deltas(answer.text)[1:5] == [{"reasoning_content": "abc "}] * 3 + [{"content": "x"}]


@pytest.mark.parametrize("cut_bytes", [1, 7, None])
@pytest.mark.parametrize("gzip", [False, True])
def test_cutting_and_compressing_change_no_byte_of_the_body(
    client: httpx.Client, gzip: bool, cut_bytes: int | None
) -> None:
    plain: dict[str, object] = {"text": ["grün", "✓"], "reasoning": "r", "chunk_delay_ms": 1}
    form = {**plain, "gzip": gzip, **({} if cut_bytes is None else {"cut_bytes": cut_bytes})}
    with FakeLlm([plain, form]) as llm:
        expected, answer = ask(client, llm), ask(client, llm)

    assert answer.headers.get("content-encoding") == ("gzip" if gzip else None)
    assert answer.content == expected.content


def test_cut_bytes_limits_what_arrives_together(client: httpx.Client) -> None:
    with (
        FakeLlm([{"text": "grün", "cut_bytes": 3}]) as llm,
        client.stream("POST", llm.base_url + PATH, json=body()) as stream,
    ):
        assert max(len(part) for part in stream.iter_raw()) == 3


def test_compressed_chunks_can_be_read_before_the_end(client: httpx.Client) -> None:
    with (
        FakeLlm([{"text": ["early", {"gate": "g"}], "gzip": True}]) as llm,
        client.stream("POST", llm.base_url + PATH, json=body()) as stream,
    ):
        parts = stream.iter_text()
        take_until(parts, "early")
        llm.release("g")


def test_requests_are_recorded_with_body_and_headers(client: httpx.Client) -> None:
    with FakeLlm([{"text": "x"}, {"text": "y"}]) as llm:
        client.post(llm.base_url + PATH, json=body("one"), headers={"Authorization": "Bearer sk-fake"})
        client.post(llm.base_url + PATH, content=iter([b'{"model":', b'"m2"}']))
        first, second = llm.requests

    assert first.body == body("one")
    assert first.headers["authorization"] == "Bearer sk-fake"
    assert (first.number, first.path) == (0, PATH)
    assert second.body == {"model": "m2"}
    assert first.time_s < second.time_s


def test_a_request_takes_the_first_response_that_matches(client: httpx.Client) -> None:
    script: list[Scripted] = [
        {"text": "A", "match": "alpha"},
        {"text": "B", "match": "beta", "repeat": 2},
        {"text": "C", "repeat": -1},
    ]
    with FakeLlm(script) as llm:
        asked = ("beta", "beta", "beta", "alpha", "alpha", "gamma")
        answers = [deltas(ask(client, llm, text).text)[1]["content"] for text in asked]

    assert answers == ["B", "B", "C", "A", "C", "C"]


def test_a_request_aside_takes_no_answer_of_the_script_and_is_not_recorded() -> None:
    with FakeLlm([{"text": "first"}, {"text": "second"}], asides={"make .* title": "A title"}) as llm:
        with httpx.Client(base_url=llm.base_url) as each:
            for content in ("hello", "make a short title", "hello", "make its title"):
                each.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": content}]})
        requests = llm.requests

    assert ["hello", "hello"] == [request.body["messages"][0]["content"] for request in requests]
    assert [] == llm.unscripted


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses", "/v1beta/models/m1:streamGenerateContent"])
def test_no_two_answers_have_the_same_id(path: str) -> None:
    with FakeLlm([{"text": "same"}] * 3) as llm, httpx.Client(base_url=llm.base_url) as each:
        bodies = [each.post(path, json={"model": "m1"}).text for _ in range(3)]

    assert 3 == len({*bodies})


def test_a_request_aside_has_its_own_answer() -> None:
    with FakeLlm(asides={"title": "A title"}) as llm, httpx.Client(base_url=llm.base_url) as each:
        body = each.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "title"}]}).text

    assert "A title" in body


def test_an_exhausted_script_is_answered_with_an_error_that_names_the_harness(client: httpx.Client) -> None:
    with FakeLlm() as llm:
        answer = ask(client, llm)

    assert answer.status_code == 400
    assert "pinnace_fuzz fake LLM: the script has no response left" in answer.json()["error"]["message"]
    assert llm.unscripted == [0]


def test_responses_can_be_added_while_it_runs(client: httpx.Client) -> None:
    with FakeLlm() as llm:
        llm.add({"text": "late"})

        assert {"content": "late"} in deltas(ask(client, llm).text)


def test_other_paths_and_methods_are_not_answers(client: httpx.Client) -> None:
    with FakeLlm([{"text": "x"}]) as llm:
        assert client.get(llm.base_url + "/v1/models").status_code == 404
        assert client.post(llm.base_url + "/v1/embeddings", json={}).status_code == 404

    assert llm.strays == ["GET /v1/models", "POST /v1/embeddings"]
    assert llm.requests == []


def test_a_client_that_does_not_speak_http_is_reported() -> None:
    with FakeLlm() as llm:
        host, port = llm.base_url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connected:
            connected.sendall(b"\n")
            assert b" 400 " in connected.recv(65_536)


def test_one_connection_serves_many_requests(client: httpx.Client) -> None:
    with FakeLlm([{"text": "x", "repeat": -1}]) as llm:
        ports = set[int]()
        for _ in range(3):
            with client.stream("POST", llm.base_url + PATH, json=body()) as stream:
                stream.read()
                ports.add(stream.extensions["network_stream"].get_extra_info("client_addr")[1])

    assert len(ports) == 1


def test_answers_run_side_by_side(client: httpx.Client) -> None:
    with (
        FakeLlm([{"text": ["x", {"gate": "g"}]}, {"text": "y"}]) as llm,
        client.stream("POST", llm.base_url + PATH, json=body()) as first,
    ):
        llm.wait_reached("g")
        assert {"content": "y"} in deltas(ask(client, llm).text)
        llm.release("g")
        assert {"content": "x"} in deltas(first.read().decode())


def test_it_listens_on_one_loopback_address_only() -> None:
    with FakeLlm() as llm:
        port = int(llm.base_url.rpartition(":")[2])
        socket.create_connection(("127.0.0.1", port)).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port))


WAITS: list[Callable[[FakeLlm], object]] = [
    lambda llm: llm.wait_reached("g", 0.01),
    lambda llm: llm.wait_requests(2, 0.01),
    lambda llm: llm.wait_disconnects(1, 0.01),
]


@pytest.mark.parametrize("wait", WAITS)
def test_a_wait_that_fails_shows_what_did_happen(client: httpx.Client, wait: Callable[[FakeLlm], object]) -> None:
    with FakeLlm([{"text": "x"}]) as llm:
        ask(client, llm, "the question")
        with pytest.raises(LlmTimeout, match="the question"):
            wait(llm)


BAD_RESPONSES: list[Scripted] = [
    {"txt": "x"},
    {"text": "x", "chunks": []},
    {"text": 1},
    {"text": ["x", {"gat": "g"}]},
    {"chunks": [{"text": "x", "gate": "g"}]},
    {"chunks": [{}]},
    {"chunks": ["x"]},
    {"chunks": [{"disconnect": True}]},
    {"chunks": [{"gen": {"n": 0, "size": 1}}]},
    {"chunks": [{"gen": {"n": 1, "size": 1, "kind": "song"}}]},
    {"tool_calls": [{"args": {}}]},
    {"tool_calls": [{"name": "bash", "arguments": {}}]},
    {"error": {"code": 500}},
    {"usage": {"prompt": 1}, "text": "x"},
    {"refuse": "politely"},
    {"delay_ms": "1"},
    {"repeat": 0},
    {"cut_bytes": 0},
]


@pytest.mark.parametrize("response", BAD_RESPONSES)
def test_a_response_with_a_typo_is_refused(response: Scripted) -> None:
    with pytest.raises(ScriptError):
        FakeLlm([response])


def test_typed_responses_are_taken_as_they_are(client: httpx.Client) -> None:
    response = Response(pieces=(Text("typed"),))

    assert read_response(response, 0) is response
    assert {"content": "typed"} in deltas(run([response], client).text)


def test_a_fault_of_the_harness_is_not_silent() -> None:
    broken = cast("Piece", "not a piece")
    llm = FakeLlm([Response(pieces=(broken,))])
    with pytest.raises(HarnessFault, match="not a piece"), llm, request_by_hand(llm) as connected:
        while connected.recv(65_536):
            pass
