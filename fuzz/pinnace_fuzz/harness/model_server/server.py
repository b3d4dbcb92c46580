"""Answers requests by the script: a listener on the loopback address, one thread for each connection.

Every thread ends with `LlmServer.close`. A fault of the harness itself is recorded in the ledger, never
swallowed. A further provider format is one more row in `FORMATS`.
"""

import json
import selectors
import socket
import threading
import traceback
import zlib
from collections.abc import Callable, Mapping

from pinnace_fuzz.harness.model_server.anthropic_wire import AnthropicMessages
from pinnace_fuzz.harness.model_server.google_wire import GoogleContent
from pinnace_fuzz.harness.model_server.http_connection import (
    BadRequest,
    ClientGone,
    HttpConnection,
    HttpRequest,
    Stopping,
)
from pinnace_fuzz.harness.model_server.ledger import HARNESS_NAME, Ledger, ReceivedRequest
from pinnace_fuzz.harness.model_server.openai_wire import OpenAiChat, WireFormat
from pinnace_fuzz.harness.model_server.responses_wire import OpenAiResponses
from pinnace_fuzz.script import (
    Content,
    Disconnect,
    Farewell,
    Gate,
    Generated,
    Hang,
    Reasoning,
    Refusal,
    Response,
    Sleep,
    SocketBytes,
    Text,
)

LOOPBACK = "127.0.0.1"
# An agent has a handful; more means that it leaks them, and then the test should fail, not the machine.
MAX_CONNECTIONS = 256
# Generated deltas are written in blocks of about this size, so that memory does not grow with their number.
BLOCK_BYTES = 65_536
JOIN_TIMEOUT_S = 30.0

FORMATS: Mapping[str, Callable[[str, int], WireFormat]] = {
    "/chat/completions": OpenAiChat,
    "/v1/messages": AnthropicMessages,
    "/responses": OpenAiResponses,
    ":streamGenerateContent": GoogleContent,
}
"""How the path of a request ends -> the format of its answer, made with the model's name and the request's number."""


class _AnswerEnded(Exception):
    """The script ended the connection."""


class LlmServer:
    """Listens from construction until `close`."""

    def __init__(self, ledger: Ledger, port: int = 0) -> None:
        self._ledger = ledger
        self._listener = socket.create_server((LOOPBACK, port), backlog=64)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._wake, self._waker = socket.socketpair()
        self._lock = threading.Lock()
        self._connections: dict[threading.Thread, HttpConnection] = {}
        self._acceptor = threading.Thread(target=self._accept, name="fake-llm-accept", daemon=True)
        self._acceptor.start()

    def close(self) -> None:
        """End every connection and thread; clients see a reset or the end."""
        self._ledger.stop()
        self._waker.send(b"!")
        self._acceptor.join(JOIN_TIMEOUT_S)
        with self._lock:
            left = list(self._connections.items())
        for _, connection in left:
            connection.cut_off()
        for thread, _ in left:
            thread.join(JOIN_TIMEOUT_S)
            if thread.is_alive():
                self._ledger.note_fault(f"{thread.name} did not end")
        for each in (self._listener, self._wake, self._waker):
            each.close()

    def _accept(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while True:
                selector.select()
                if self._ledger.is_stopping:
                    return
                try:
                    connected, _ = self._listener.accept()
                except (BlockingIOError, ConnectionError):
                    continue  # gone before it was accepted
                self._take_in(connected)

    def _take_in(self, connected: socket.socket) -> None:
        with self._lock:
            if len(self._connections) >= MAX_CONNECTIONS:
                connected.close()
                self._ledger.note_fault(f"more than {MAX_CONNECTIONS} connections")
                return
            connected.setblocking(True)
            connection = HttpConnection(connected, self._ledger)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            thread.name = f"fake-llm-{connected.fileno()}"
            self._connections[thread] = connection
        thread.start()

    def _serve(self, connection: HttpConnection) -> None:
        try:
            with connection:
                self._converse(connection)
        except (ClientGone, Stopping, _AnswerEnded):
            pass  # recorded where it matters
        except Exception:
            self._ledger.note_fault(traceback.format_exc())
        finally:
            with self._lock:
                self._connections.pop(threading.current_thread(), None)

    def _converse(self, connection: HttpConnection) -> None:
        try:
            while (request := connection.read_request()) and not self._ledger.is_stopping:
                self._respond(connection, request)
                if request.headers.get("connection", "").lower() == "close":
                    return
        except BadRequest as error:
            self._ledger.note_stray(f"bad request: {error}")
            _send_whole(connection, 400, {}, {"error": {"message": f"{HARNESS_NAME}: {error}"}})

    def _respond(self, connection: HttpConnection, request: HttpRequest) -> None:
        path = request.path.partition("?")[0]
        make_format = next((make for end, make in FORMATS.items() if path.endswith(end)), None)
        if request.method != "POST" or make_format is None:
            self._ledger.note_stray(f"{request.method} {request.path}")
            message = f"{HARNESS_NAME}: nothing at {request.method} {path}"
            _send_whole(connection, 404, {}, {"error": {"message": message}})
            return
        received, response = self._ledger.admit(request.path, request.headers, request.data)
        wire_format = make_format(str(received.body.get("model", "")), received.number)
        answer = _Answer(connection, self._ledger, received, response, wire_format)
        try:
            answer.run()
        except ClientGone:
            if not (answer.is_complete or self._ledger.is_stopping):
                self._ledger.note_departure(received.number, answer.doing)
            raise


class _Answer:
    """One answer on its way out."""

    def __init__(
        self,
        connection: HttpConnection,
        ledger: Ledger,
        request: ReceivedRequest,
        response: Response,
        wire_format: WireFormat,
    ) -> None:
        self.doing = "write"
        self.is_complete = False
        self._connection = connection
        self._ledger = ledger
        self._request = request
        self._response = response
        self._format = wire_format
        # 16 + the largest window: the gzip container.
        self._gzip = zlib.compressobj(wbits=16 + zlib.MAX_WBITS) if response.gzip else None

    def run(self) -> None:
        """Write the whole answer, or as much of it as the script has.

        Raises:
            ClientGone: The client disconnected; `doing` names the current step.
        """
        response = self._response
        if response.refuse is not None:
            self._end(response.refuse)
        if response.hold is not None:
            self._stop_at(response.hold)
        self._sleep(response.delay_ms)
        if response.error is not None:
            status, fields, body = response.error
            refused = self._format.refusal(status, body) if isinstance(body, Refusal) else body
            _send_whole(self._connection, status, fields, refused)
            return
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        headers |= {"Content-Encoding": "gzip"} if response.gzip else {}
        headers |= {"Transfer-Encoding": "chunked", **(response.headers or {})}
        self._connection.send_head(200, headers)
        self._write(self._format.head())
        self._run_pieces()
        if response.done:
            self._write(self._format.tail())
            self.is_complete = True  # a client may well leave at the end marker
        if self._gzip is not None:
            self._send_chunks(self._gzip.flush())
        self._connection.send(b"0\r\n\r\n")

    def _run_pieces(self) -> None:
        for piece in self._response.pieces:
            match piece:
                case Gate(name):
                    self._stop_at(name)
                case Sleep(delay_ms):
                    self._sleep(delay_ms)
                case Hang():
                    self._pause("hang", lambda: False)
                case Disconnect(how):
                    self._end(how)
                case SocketBytes(data):
                    self._connection.send(data)
                case Generated():
                    self._generate(piece)
                case _:
                    self._sleep(self._response.chunk_delay_ms)
                    self._write(self._format.piece(piece))

    def _stop_at(self, gate: str) -> None:
        self._ledger.reach(gate)
        self._pause(f"gate {gate}", lambda: self._ledger.is_released(gate))

    def _sleep(self, delay_ms: float) -> None:
        if delay_ms > 0:
            self._pause("delay", lambda: False, delay_ms / 1000)

    def _pause(self, doing: str, is_over: Callable[[], bool], timeout_s: float | None = None) -> None:
        self.doing = doing
        self._connection.pause(is_over, timeout_s)
        self.doing = "write"

    def _end(self, how: Farewell) -> None:
        if how == "rst":
            self._connection.reset()
        else:
            self._connection.close()
        raise _AnswerEnded

    def _generate(self, generated: Generated) -> None:
        delta = generated_delta(generated.size)
        piece: Content = Text(delta) if generated.kind == "text" else Reasoning(delta)
        self._write(self._format.piece(piece))  # the first one may have to open a block
        event = self._format.piece(piece)
        in_block = max(1, BLOCK_BYTES // len(event))
        blocks, rest = divmod(generated.deltas - 1, in_block)
        block = event * in_block
        for _ in range(blocks):
            self._write(block)
        if rest:
            self._write(event * rest)

    def _write(self, data: bytes) -> None:
        if self._gzip is not None:
            data = self._gzip.compress(data) + self._gzip.flush(zlib.Z_SYNC_FLUSH)
        self._send_chunks(data)

    def _send_chunks(self, data: bytes) -> None:
        step = self._response.cut_bytes or len(data) or 1
        for at in range(0, len(data), step):
            part = data[at : at + step]
            self._connection.send(b"%x\r\n%b\r\n" % (len(part), part))


def generated_delta(size: int) -> str:
    """Make the text of each delta of a `gen` piece: words, the last character a space."""
    return ("abcdefg" * (size // 7 + 1))[: size - 1] + " "


def _send_whole(connection: HttpConnection, status: int, headers: Mapping[str, str], body: object) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    fixed = {"Content-Type": "application/json", "Content-Length": str(len(data))}
    connection.send_head(status, {**fixed, **headers})
    connection.send(data)
