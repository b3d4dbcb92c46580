"""`pinnace host`: runs the host of this agent folder in the foreground, asks a running one what it does, or ends it.

Exit codes: 0; 1 if the host can't start or can't be reached; 2 for a usage error; 69 if none runs.
"""

import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Final

from pinnace_agent.files.paths import agent_dir
from pinnace_rpc.host import locations
from pinnace_rpc.host.protocol import (
    EXIT_UNAVAILABLE,
    Answer,
    AskStatus,
    FrameDecoder,
    HostProtocolError,
    StopHost,
    encode_request,
    parse_host_control,
)
from pinnace_rpc.options.parser import CommandError, Option, Subcommand, parse
from pinnace_rpc.options.release import program_version
from pinnace_rpc.options.shown.tables import JSON
from pinnace_rpc.options.streams import echo
from pinnace_rpc.options.values import amount, number, one_of

_TIMEOUT_S: Final = 30.0
_READ_BYTES: Final = 64 * 1024
_LEAST_MEMORY_MIB: Final = 256
"""Twice what an agent maps that has only begun."""
_LEAST_JOURNAL_BYTES: Final = 4 * 2**20
"""Room for several of the longest lines that a host holds in memory."""
ON_CRASH: Final = ("pause", "continue")

STATUS: Final = Subcommand("pinnace host status", "Print what the running host is and does, as JSON.", [JSON])
STOP: Final = Subcommand("pinnace host stop", "End the running host and its agents in order.")
COMMAND: Final = Subcommand(
    "pinnace host",
    "Keep agents running between clients, in the foreground; `pinnace attach` starts one by itself.",
    [
        Option(("--socket",), "socket", "The socket. Default: in XDG_RUNTIME_DIR or the temporary files.", "PATH"),
        Option(
            ("--max-agents",),
            "max_agents",
            "The most agents. Default: 100.",
            "NUMBER",
            read=number(1, 10_000),
        ),
        Option(
            ("--max-clients",),
            "max_clients",
            "The most clients at once, of all agents together. Default: 1000.",
            "NUMBER",
            read=number(1, 10_000),
        ),
        Option(
            ("--idle-minutes",),
            "idle_minutes",
            "Put an agent to sleep after this time without clients and work. Default: 30.",
            "MINUTES",
            read=amount,
        ),
        Option(
            ("--agent-memory",),
            "agent_memory",
            "The largest address space of an agent. Default: no limit.",
            "MIB",
            read=number(_LEAST_MEMORY_MIB),
        ),
        Option(
            ("--journal-bytes",),
            "journal_bytes",
            "The largest size of an agent's journal, whose oldest records are then removed. Default: 67108864.",
            "BYTES",
            read=number(_LEAST_JOURNAL_BYTES),
        ),
        Option(
            ("--on-crash",),
            "on_crash",
            "After a crash of an agent, its queued messages: keep them until the next message (pause, the default), "
            "or deliver them (continue).",
            "pause|continue",
            completed=ON_CRASH,
            read=one_of(ON_CRASH, " or ".join(ON_CRASH)),
        ),
    ],
    subcommands=[STATUS, STOP],
)


class NoHost(CommandError):
    """No host runs for this agent folder."""

    exit_code = EXIT_UNAVAILABLE


def main(words: Sequence[str]) -> int:
    """Run `pinnace host` with these words and return the exit code."""
    match words:
        case ["status", *rest]:
            indent = None if parse(STATUS, rest)["as_json"] else 2
            echo(json.dumps(_ask(AskStatus()), indent=indent, ensure_ascii=False))
            return 0
        case ["stop", *rest]:
            parse(STOP, rest)
            _ask(StopHost(), waits=True)
            return 0
        case _:
            return _run(words)


def _run(words: Sequence[str]) -> int:
    given = parse(COMMAND, words)
    path: str = given["socket"] or locations.default_socket(os.environ)
    names = ("max_agents", "max_clients", "journal_bytes", "on_crash")
    limits = {name: given[name] for name in names if given[name] is not None}
    if (minutes := given["idle_minutes"]) is not None:
        limits["idle_s"] = minutes * 60
    if (memory := given["agent_memory"]) is not None:
        limits["agent_memory"] = memory * 2**20

    import trio

    from pinnace_rpc.host.server import Host, HostSettings

    settings = HostSettings(str(agent_dir(os.environ)), os.path.abspath(path), program_version(), **limits)
    os.umask(0o077)
    try:
        trio.run(Host(settings).run)
    except (locations.LocationError, locations.HostRuns) as error:
        raise CommandError(str(error)) from None
    return 0


def _ask(request: AskStatus | StopHost, *, waits: bool = False) -> Mapping[str, object]:
    """Return a host's answer; with `waits`, once the host has ended."""
    folder = str(agent_dir(os.environ))
    try:
        holder = locations.running_host(folder)
        if holder is None:
            raise NoHost(f"no host runs for {folder}")
        locations.check_folder(os.path.dirname(holder.socket))
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_TIMEOUT_S)
            connection.connect(holder.socket)
            locations.check_peer(connection)
            connection.sendall(encode_request(request))
            answer = _receive(connection)
            while waits and connection.recv(_READ_BYTES):
                pass
        while waits and (left := locations.running_host(folder)) is not None and left.pid == holder.pid:
            locations.pause()
    except (locations.LocationError, HostProtocolError) as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"the host can't be reached: {error.strerror or error}") from None
    return answer


def _receive(connection: socket.socket) -> Mapping[str, object]:
    decoder = FrameDecoder()
    while data := connection.recv(_READ_BYTES):
        for frame in decoder.receive_data(data):
            answer = parse_host_control(frame.payload)
            if isinstance(answer, Answer):
                return answer.record
            raise CommandError(getattr(answer, "error", None) or "the host has refused")
    raise HostProtocolError("the host has closed the connection without an answer")
