"""A model server for measuring: a process of its own, so that it shares no lock with whoever reads the agent.

    model_server.py                 prints its address, serves until its stdin closes

What it answers stands in the last prompt, `bench:KIND:N`:

    hello     one short delta, at once, and what it used
    packed    N deltas of 8 characters in HTTP chunks of 64 KiB: as fast as a socket takes them
    framed    N deltas of 8 characters, each in an HTTP chunk of its own, as servers write them; as fast
    paced     the same, one every 2 ms: a fast model
    flood     the same without an end, until the client goes away
    thoughts  as framed, of what a model thinks
    call      as framed, of the arguments of a call that writes a file; what comes after its result is as hello
    shell     a call of the shell tool with the command that stands behind `bench:shell:0 `; then likewise
    hang      one short delta, then nothing until the client goes away

An answer is made once, and is sent with one call but where it says otherwise. Must not know the agent.
"""

import contextlib
import functools
import json
import re
import socket
import sys
import threading
import time
from typing import Final

DELTA: Final = "abcdefg "
CHUNK_BYTES: Final = 64 * 1024
PACE_S: Final = 0.002

FLOOD_DELTAS: Final = 1_000
CHARS_A_TOKEN: Final = 4
# What is told is never so much that a session would be compacted.
MOST_TOKENS: Final = 50_000

_ASKED: Final = re.compile(rb"bench:(\w+):(\d+)")
_RESULT: Final = re.compile(rb'"role": ?"tool"')
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_STALE: Final = b"HTTP/1.1 500 Unknown prompt\r\nContent-Length: 0\r\n\r\n"


def event(fields: object, **more: object) -> bytes:
    """Write one chunk of a chat completion as a server-sent event."""
    head = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m1"}
    return b"data: " + json.dumps(head | {"choices": fields, **more}, separators=(",", ":")).encode() + b"\n\n"


def delta(fields: object, finish_reason: str | None = None) -> bytes:
    """Write one event with one choice."""
    return event([{"index": 0, "delta": fields, "finish_reason": finish_reason}])


def framed(data: bytes) -> bytes:
    """Write one HTTP chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def send_paced(connection: socket.socket, count: int) -> None:
    """Send an answer at the speed of a model; late deltas are made up for."""
    begun_s = time.monotonic()
    connection.sendall(_HEAD)
    for number in range(count):
        connection.sendall(answer("paced", 1))
        time.sleep(max(0.0, begun_s + (number + 1) * PACE_S - time.monotonic()))
    connection.sendall(framed(delta({}, "stop") + b"data: [DONE]\n\n") + framed(b""))


def flood(connection: socket.socket) -> None:
    """Send deltas until the client goes away."""
    connection.sendall(_HEAD)
    block = framed(delta({"content": DELTA})) * FLOOD_DELTAS
    while True:
        connection.sendall(block)


def command_in(body: bytes) -> str:
    """Return what stands behind the mark of the last prompt that asks for a command."""
    texts: list[str] = []
    for message in json.loads(body)["messages"]:
        parts = message["content"]
        texts += [parts] if isinstance(parts, str) else [part.get("text", "") for part in parts or ()]
    return next(text for text in reversed(texts) if text.startswith("bench:shell:")).partition(" ")[2]


def call(name: str, pieces: list[str]) -> bytes:
    """Make an answer that calls a tool, each piece of its arguments in a chunk of its own."""
    begin = {"index": 0, "id": f"call_{time.monotonic_ns()}", "type": "function"}
    events = [delta({"tool_calls": [{**begin, "function": {"name": name, "arguments": ""}}]})]
    events += [delta({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in pieces]
    end = delta({}, "tool_calls") + b"data: [DONE]\n\n"
    return _HEAD + b"".join(map(framed, events)) + framed(end) + framed(b"")


@functools.cache
def answer(kind: str, count: int) -> bytes:
    """Make a whole answer; of one that hangs, the beginning; of a paced one, a delta."""
    begin, one = delta({"role": "assistant", "content": ""}), delta({"content": DELTA})
    end = delta({}, "stop") + b"data: [DONE]\n\n"
    match kind:
        case "hello":
            used = {"prompt_tokens": count, "completion_tokens": 2, "total_tokens": count + 2}
            told = delta({}, "stop") + event([], usage=used) + b"data: [DONE]\n\n"
            return _HEAD + framed(begin + one) + framed(told) + framed(b"")
        case "hang":
            return _HEAD + framed(begin + one)
        case "framed":
            return _HEAD + framed(begin) + framed(one) * count + framed(end) + framed(b"")
        case "paced":
            return framed(one)
        case "thoughts":
            thought = framed(delta({"reasoning_content": DELTA}))
            return _HEAD + framed(begin) + thought * count + framed(one + end) + framed(b"")
        case _:
            body = begin + one * count + end
            chunks = (body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES))
            return _HEAD + b"".join(map(framed, chunks)) + framed(b"")


def serve(connection: socket.socket) -> None:
    """Answer the requests of one connection until it ends."""
    waiting = b""
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            while (end := waiting.find(b"\r\n\r\n")) < 0:
                if not (data := connection.recv(1 << 20)):
                    return
                waiting += data
            length = re.search(rb"content-length: *(\d+)", waiting[:end], re.IGNORECASE)
            size = end + 4 + (int(length[1]) if length else 0)
            parts = [waiting]
            missing = size - len(waiting)
            while missing > 0:
                if not (data := connection.recv(1 << 20)):
                    return
                parts.append(data)
                missing -= len(data)
            waiting = b"".join(parts)
            body, waiting = waiting[end + 4 : size], waiting[size:]
            if not respond(connection, body):
                return


def respond(connection: socket.socket, body: bytes) -> bool:
    """Answer one request; return whether the connection can be used again."""
    asked = list(_ASKED.finditer(body))
    if not asked:
        connection.sendall(_STALE)
        return True
    kind, count = asked[-1][1].decode(), int(asked[-1][2])
    if kind in ("call", "shell") and _RESULT.search(body, asked[-1].end()):
        kind = "hello"
    match kind:
        case "paced":
            send_paced(connection, count)
        case "flood":
            flood(connection)
        case "call":
            connection.sendall(call("write", ['{"path":"bench.txt","content":"', *[DELTA] * count, '"}']))
        case "shell":
            connection.sendall(call("bash", [json.dumps({"command": command_in(body)})]))
        case "hello":
            connection.sendall(answer(kind, min(len(body) // CHARS_A_TOKEN, MOST_TOKENS)))
        case "hang":
            connection.sendall(answer(kind, count))
            connection.recv(1)
            return False
        case _:
            connection.sendall(answer(kind, count))
    return True


def serve_quietly(connection: socket.socket) -> None:
    """Answer; a client that goes away in the middle is what an abort is."""
    with contextlib.suppress(OSError):
        serve(connection)


def listen(listener: socket.socket) -> None:
    """Take connections for ever, each in a thread."""
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve_quietly, args=(connection,), daemon=True).start()


def main() -> None:
    """Serve until stdin closes."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        threading.Thread(target=listen, args=(listener,), daemon=True).start()
        sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
