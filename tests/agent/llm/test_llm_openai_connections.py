"""Chat completions and their connections: cancellation, silence, back-pressure, reuse, addresses, proxies."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest
import trio
from tests.agent.samples import served_model, text_of
from trio.testing import MockClock, wait_all_tasks_blocked

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.openai_chat.provider import OpenAICompletionsProvider
from pinnace_agent.llm.request import IDLE_TIMEOUT_S, LlmRequest
from pinnace_agent.llm.transport.client import CONNECT_TIMEOUT_S, client_for, close_clients
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_spec.records.messages import AssistantMessage

PROVIDER = OpenAICompletionsProvider()
FINISHED = b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n'


class Gate:
    """A sink whose `room` can be closed, and that signals when it was asked for room after an update."""

    def __init__(self) -> None:
        self.starts = 0
        self.updates = 0
        self.asked_behind_update = trio.Event()
        self.is_open = trio.Event()
        self.is_open.set()

    def started(self, message: AssistantMessage) -> None:
        self.starts += 1

    def update(self, event: Mapping[str, object], builder: MessageBuilder) -> None:
        self.updates += 1

    async def room(self) -> None:
        if self.updates:
            self.asked_behind_update.set()
            await self.is_open.wait()


def request_at(base_url: str, **compat: object) -> LlmRequest:
    model = served_model(baseUrl=base_url, compat=compat)
    return LlmRequest(model, "Be brief.", (), (), "off", "sk-0123456789abcdef", {}, "s1")


def builder_for(request: LlmRequest, sink: Gate | None = None) -> MessageBuilder:
    return MessageBuilder(request.model, sink or Gate(), 0)


async def ask(base_url: str) -> AssistantMessage:
    request = request_at(base_url)
    builder = builder_for(request)
    await PROVIDER.stream(request, builder)
    return builder.message


async def failure_at(base_url: str) -> str:
    message = await ask(base_url)
    assert message["stopReason"] == "error"
    assert message["content"] == []
    return message.get("errorMessage", "")


async def finished(builder: MessageBuilder) -> None:
    """Let everything go on that does not wait for the clock or the network."""
    for _ in range(1_000):
        if builder.is_finished:
            return
        await wait_all_tasks_blocked()
    raise AssertionError("still waiting")


# A server of raw bytes


class Server:
    """Hands each connection to a function; counts them."""

    def __init__(self, answer: Callable[[trio.SocketStream], Awaitable[None]]) -> None:
        self.url = ""
        self.connections = 0
        self.requests = 0
        self._answer = answer

    async def serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        async with stream:
            with suppress(trio.ClosedResourceError):  # an answer may well end the connection
                while await read_request(stream):
                    self.requests += 1
                    await self._answer(stream)


async def read_request(stream: trio.SocketStream) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = await stream.receive_some()
        if not piece:
            return b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    size = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    while len(body) < size:
        body += await stream.receive_some()
    return data


@asynccontextmanager
async def serving(answer: Callable[[trio.SocketStream], Awaitable[None]]) -> AsyncIterator[Server]:
    server = Server(answer)
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, server.serve, 0, host="127.0.0.1"))
        server.url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        yield server
        await close_clients()
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def faking(*responses: Mapping[str, object]) -> AsyncIterator[FakeLlm]:
    """Serve a script; afterwards no connection is left."""
    with FakeLlm(responses) as llm:
        yield llm
        await close_clients()


def whole(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


# Cancellation


@pytest.mark.parametrize(
    ("response", "gate", "starts", "text"),
    [
        ({"text": "never", "hold": "g"}, "g", 0, ""),
        ({"chunks": [{"text": "half"}, {"gate": "g"}, {"text": "never"}]}, "g", 1, "half"),
        (
            {"chunks": [{"text": "half"}, {"gate": "g"}, {"text": "never"}], "gzip": True, "cut_bytes": 3},
            "g",
            1,
            "half",
        ),
    ],
    ids=["before the headers", "in the middle", "in the middle of gzip"],
)
async def test_cancelling_closes_the_connection_and_leaves_the_message_as_it_was(
    response: Mapping[str, object], gate: str, starts: int, text: str
) -> None:
    async with faking(response, {"text": "next"}) as llm:
        request, sink = request_at(llm.base_url), Gate()
        builder = builder_for(request, sink)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(PROVIDER.stream, request, builder)
            await trio.to_thread.run_sync(llm.wait_reached, gate)
            if text:
                await sink.asked_behind_update.wait()
            nursery.cancel_scope.cancel()
        (departure,) = await trio.to_thread.run_sync(llm.wait_disconnects, 1)
        seen = sink.updates

        assert departure.during == f"gate {gate}"
        assert not builder.is_finished
        assert (sink.starts, builder.has_started) == (starts, bool(starts))
        assert text_of(builder.snapshot()) == text
        builder.abort()
        assert builder.message["stopReason"] == "aborted"
        assert sink.updates == seen + bool(text)
        assert text_of(await ask(llm.base_url)) == "next"


async def test_cancelling_while_the_reader_is_slow_closes_the_connection() -> None:
    async with faking({"chunks": [{"text": "a"}, {"hang": True}]}) as llm:
        request, sink = request_at(llm.base_url), Gate()
        sink.is_open = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(PROVIDER.stream, request, builder_for(request, sink))
            await trio.to_thread.run_sync(llm.wait_requests, 1)
            await wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()

        assert len(await trio.to_thread.run_sync(llm.wait_disconnects, 1)) == 1


async def test_cancelling_while_a_refusal_is_read_closes_the_connection() -> None:
    is_reading = trio.Event()
    is_gone = trio.Event()

    async def refuse(stream: trio.SocketStream) -> None:
        await stream.send_all(b"HTTP/1.1 500 Error\r\nContent-Length: 100\r\n\r\npart")
        is_reading.set()
        assert await stream.receive_some() == b""
        is_gone.set()

    async with serving(refuse) as server, trio.open_nursery() as nursery:
        request = request_at(server.url)
        builder = builder_for(request)
        nursery.start_soon(PROVIDER.stream, request, builder)
        await is_reading.wait()
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await is_gone.wait()
        assert not builder.is_finished


# Silence


async def test_a_server_that_says_nothing_is_given_up_after_the_idle_time(mock_clock: MockClock) -> None:
    async with faking({"text": "never", "hold": "g"}, {"chunks": [{"text": "half"}, {"gate": "h"}]}) as llm:
        for gate, text in (("g", ""), ("h", "half")):
            request, sink = request_at(llm.base_url), Gate()
            builder = builder_for(request, sink)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(PROVIDER.stream, request, builder)
                await trio.to_thread.run_sync(llm.wait_reached, gate)
                if text:
                    await sink.asked_behind_update.wait()
                await wait_all_tasks_blocked()
                mock_clock.jump(IDLE_TIMEOUT_S - 1)
                await wait_all_tasks_blocked()
                assert not builder.is_finished
                mock_clock.jump(1.1)
                await finished(builder)

            assert builder.message.get("errorMessage") == (
                f"Request timed out: nothing came from 127.0.0.1 for {IDLE_TIMEOUT_S:.0f} s"
            )
            assert text_of(builder.message) == text


async def test_a_machine_that_does_not_answer_is_given_up_sooner(mock_clock: MockClock) -> None:
    """A listener whose queue is full answers no further connection."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        fillers = [socket.socket() for _ in range(8)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(address)
        request = request_at(f"http://127.0.0.1:{address[1]}")
        builder = builder_for(request)
        await client_for(request.model["baseUrl"])  # in a thread, whose time the clock below does not know
        async with trio.open_nursery() as nursery:
            nursery.start_soon(PROVIDER.stream, request, builder)
            while not builder.is_finished:
                await wait_all_tasks_blocked()
                mock_clock.jump(CONNECT_TIMEOUT_S / 2 + 1)
        for filler in fillers:
            filler.close()

    assert mock_clock.current_time() < IDLE_TIMEOUT_S
    assert builder.message.get("errorMessage") == (
        f"Request timed out: no connection to 127.0.0.1 within {CONNECT_TIMEOUT_S:.0f} s"
    )


async def test_a_stream_that_stays_open_behind_its_finish_reason_is_not_waited_for(mock_clock: MockClock) -> None:
    async def never_end(stream: trio.SocketStream) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\n\r\n" + FINISHED)
        assert await stream.receive_some() == b""

    async with serving(never_end) as server:
        request, sink = request_at(server.url), Gate()
        builder = builder_for(request, sink)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(PROVIDER.stream, request, builder)
            await sink.asked_behind_update.wait()
            await wait_all_tasks_blocked()
            mock_clock.jump(11)
            await finished(builder)

    assert (text_of(builder.message), builder.message["stopReason"]) == ("a", "stop")


async def test_a_refusal_whose_body_never_ends_keeps_what_came_of_it(mock_clock: MockClock) -> None:
    is_sent = trio.Event()

    async def stall(stream: trio.SocketStream) -> None:
        await stream.send_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 100\r\n\r\nbusy")
        is_sent.set()
        assert await stream.receive_some() == b""

    async with serving(stall) as server, trio.open_nursery() as nursery:
        request = request_at(server.url)
        builder = builder_for(request)
        nursery.start_soon(PROVIDER.stream, request, builder)
        await is_sent.wait()
        await wait_all_tasks_blocked()
        mock_clock.jump(11)
        await finished(builder)

    assert builder.message.get("errorMessage") == "503 busy"


async def test_a_refusal_whose_body_breaks_off_keeps_what_came_of_it() -> None:
    async def break_off(stream: trio.SocketStream) -> None:
        await stream.send_all(b"HTTP/1.1 503 Busy\r\nContent-Length: 100\r\n\r\nbusy")
        await stream.aclose()

    async with serving(break_off) as server:
        assert await failure_at(server.url) == "503 busy"


@pytest.mark.parametrize("has_reset", [False, True])
async def test_a_connection_that_is_lost_behind_the_finish_reason_spoils_nothing(has_reset: bool) -> None:
    sink = Gate()

    async def leave(stream: trio.SocketStream) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await stream.send_all(b"%x\r\n%b\r\n" % (len(FINISHED), FINISHED))
        await sink.asked_behind_update.wait()  # a reset may overtake what was sent before it
        if has_reset:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await stream.aclose()

    async with serving(leave) as server:
        request = request_at(server.url)
        builder = builder_for(request, sink)
        await PROVIDER.stream(request, builder)

    assert (text_of(builder.message), builder.message["stopReason"]) == ("a", "stop")


# Back-pressure


async def test_no_more_is_read_than_there_is_room_for() -> None:
    count = 200_000
    async with faking({"gen": {"n": count, "size": 8}}) as llm:
        request, sink = request_at(llm.base_url), Gate()
        sink.is_open = trio.Event()
        builder = builder_for(request, sink)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(PROVIDER.stream, request, builder)
            await sink.asked_behind_update.wait()
            await wait_all_tasks_blocked()
            waiting = sink.updates
            sink.is_open.set()

    assert waiting < 5_000
    assert sink.updates == count + 2
    assert len(text_of(builder.message)) == count * 8


# Reuse


async def test_the_next_request_uses_the_same_connection() -> None:
    async def answer(stream: trio.SocketStream) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for data in (FINISHED, b"data: [DONE]\n\n"):
            await stream.send_all(b"%x\r\n%b\r\n" % (len(data), data))
        await stream.send_all(b"0\r\n\r\n")

    async with serving(answer) as server:
        for _ in range(3):
            assert text_of(await ask(server.url)) == "a"

        assert (server.requests, server.connections) == (3, 1)


async def test_a_refused_request_leaves_a_connection_that_can_be_used() -> None:
    async def refuse(stream: trio.SocketStream) -> None:
        await stream.send_all(whole("429 Slow Down", b"later"))

    async with serving(refuse) as server:
        assert [await failure_at(server.url) for _ in range(2)] == ["429 later"] * 2
        assert (server.requests, server.connections) == (2, 1)


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again() -> None:
    is_closed = trio.Event()

    async def answer_once(stream: trio.SocketStream) -> None:
        await stream.send_all(whole("200 OK", FINISHED))
        await stream.aclose()
        is_closed.set()

    async with serving(answer_once) as server:
        assert text_of(await ask(server.url)) == "a"
        await is_closed.wait()
        assert text_of(await ask(server.url)) == "a"
        assert server.connections == 2


async def test_there_is_one_client_until_it_is_closed() -> None:
    first = await client_for("http://a.example")
    assert await client_for("http://b.example/v1") is first

    await close_clients()
    assert first.is_closed
    assert await client_for("http://a.example") is not first


# Addresses


async def test_a_port_without_a_listener_refuses_the_connection() -> None:
    with socket.socket() as bound:  # kept, or another process may listen there
        bound.bind(("127.0.0.1", 0))
        text = await failure_at(f"http://127.0.0.1:{bound.getsockname()[1]}/v1")

    assert text == "Connection error: Connection refused (ECONNREFUSED)"


@pytest.mark.parametrize(
    "url",
    [
        *("", "http://", "http:///v1", "127.0.0.1:8080/v1", "ftp://h/v1", "unix:///s", "http://h:port/v1"),
        *("http://[::1/v1", "http://h\x00/v1", "http://..", "http://.h/v1", f"http://{'h' * 300}/v1", "http://xn--/v1"),
    ],
)
async def test_an_address_that_is_none_is_an_error_that_says_so(url: str) -> None:
    assert (await failure_at(url)).startswith("Invalid baseUrl: ")


async def test_a_server_that_speaks_no_tls_is_an_error_that_says_so() -> None:
    async def answer_at_once(stream: trio.SocketStream) -> None:
        await stream.send_all(whole("400 Bad Request", b""))

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, answer_at_once, 0, host="127.0.0.1"))
        text = await failure_at(f"https://127.0.0.1:{listeners[0].socket.getsockname()[1]}")
        nursery.cancel_scope.cancel()

    assert text.startswith("Connection error: [SSL")
    assert "EPERM" not in text


# Proxies


async def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with faking({"text": "through the proxy"}) as llm:
        monkeypatch.setenv("HTTP_PROXY", llm.base_url)
        message = await ask("http://model.example/v1")

        assert text_of(message) == "through the proxy"
        assert llm.requests[0].path == "http://model.example/v1/chat/completions"


@pytest.mark.parametrize(
    ("proxy", "problem"),
    [
        ("socks5://user:hunter22@127.0.0.1:1", "SOCKS needs the Python package socksio"),
        ("gopher://user:hunter22@127.0.0.1:1", "it is no address of a proxy, such as http://HOST:PORT"),
        ("http://user:hunter22@127.0.0.1:port", "it is no address of a proxy, such as http://HOST:PORT"),
    ],
)
async def test_a_proxy_that_cannot_be_used_is_an_error_that_says_so(
    proxy: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)

    text = await failure_at("http://127.0.0.1:1/v1")
    assert text.endswith(f"cannot be used: {problem}")
    assert "hunter22" not in text
