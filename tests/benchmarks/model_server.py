"""A model server for measuring: a process of its own, so that it shares no lock with whoever reads the agent.

    model_server.py                 prints its address, serves until its stdin closes

What it answers stands in the last prompt, `bench:KIND:N`:

    hello     one short delta, at once
    packed    N deltas of 8 characters in HTTP chunks of 64 KiB: as fast as a socket takes them
    framed    N deltas of 8 characters, each in an HTTP chunk of its own, as servers write them; as fast
    paced     the same, one every 2 ms: a fast model
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

_ASKED: Final = re.compile(rb"bench:(\w+):(\d+)")
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_STALE: Final = b"HTTP/1.1 500 Unknown prompt\r\nContent-Length: 0\r\n\r\n"


def event(fields: object) -> bytes:
    """Write one chunk of a chat completion as a server-sent event."""
    head = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "m1"}
    return b"data: " + json.dumps(head | {"choices": fields}, separators=(",", ":")).encode() + b"\n\n"


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


@functools.cache
def answer(kind: str, count: int) -> bytes:
    """Make a whole answer; of one that hangs, the beginning; of a paced one, a delta."""
    begin, one = delta({"role": "assistant", "content": ""}), delta({"content": DELTA})
    end = delta({}, "stop") + b"data: [DONE]\n\n"
    match kind:
        case "hello":
            return _HEAD + framed(begin + one) + framed(end) + framed(b"")
        case "hang":
            return _HEAD + framed(begin + one)
        case "framed":
            return _HEAD + framed(begin) + framed(one) * count + framed(end) + framed(b"")
        case "paced":
            return framed(one)
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
            while len(waiting) < size:
                if not (data := connection.recv(1 << 20)):
                    return
                waiting += data
            asked = _ASKED.findall(waiting[:size])
            waiting = waiting[size:]
            if not asked:
                connection.sendall(_STALE)
                continue
            kind, count = asked[-1][0].decode(), int(asked[-1][1])
            if kind == "paced":
                send_paced(connection, count)
                continue
            connection.sendall(answer(kind, count))
            if kind == "hang":
                connection.recv(1)
                return


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
