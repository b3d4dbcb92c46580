"""`pinnace agents`: lists the agents of the host, and stops, restarts or removes one.

A table for people, or JSON: one line `{"agents": [...]}`, with `--watch` one more at each change. Starts no host. Exit
codes: 0; 1 if the host refuses or is lost; 2 usage error; 69 if no host runs.
"""

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, cast

from pinnace_rpc.attach.asking import NoAnswer, answers
from pinnace_rpc.attach.finding import NoHost
from pinnace_rpc.host.protocol import AgentAction, AgentActionName, ListAgents
from pinnace_rpc.options.parser import Argument, CommandError, Option, Subcommand, parse
from pinnace_rpc.options.shown.tables import JSON, age, echo_json, lay_out
from pinnace_rpc.options.streams import echo

_NAME: Final = [Argument("agent", "NAME")]
_ACTIONS: Final[Mapping[AgentActionName, Subcommand]] = {
    "stop": Subcommand(
        "pinnace agents stop",
        "End the process of an agent, which the next attach starts again; or a sub-agent, named by the end of its id.",
        arguments=_NAME,
    ),
    "restart": Subcommand(
        "pinnace agents restart", "Restart the process of an agent, also after it has failed.", arguments=_NAME
    ),
    "remove": Subcommand(
        "pinnace agents remove", "End an agent and delete its journal. Its session file stays.", arguments=_NAME
    ),
}
COMMAND: Final = Subcommand(
    "pinnace agents",
    "List the agents of the host.",
    [
        JSON,
        Option(("--watch",), "watches", "Print the list again at each change."),
    ],
    subcommands=list(_ACTIONS.values()),
)

Row = Mapping[str, object]
"""One agent, as the host describes it."""


class HostUnavailable(CommandError):
    """The host can't be reached."""

    def __init__(self, error: NoHost) -> None:
        """Take text and exit code over."""
        super().__init__(str(error))
        self.exit_code = error.exit_code


def main(words: Sequence[str]) -> int:
    """Run `pinnace agents` with these words and return the exit code."""
    for action, command in _ACTIONS.items():
        if words[:1] == [action]:
            name: str = parse(command, words[1:])["agent"]
            for _ in _answers(AgentAction(action, name)):
                return 0
            raise CommandError("the host has ended without an answer")
    given = parse(COMMAND, words)
    for answer in _answers(ListAgents(given["watches"])):
        agents = cast("list[Row]", answer.get("agents", []))
        if given["as_json"]:
            echo_json({"agents": agents})
        else:
            echo(table(agents))
        if not given["watches"]:
            return 0
    raise CommandError("the host has ended")


def _answers(request: ListAgents | AgentAction) -> Iterator[Mapping[str, object]]:
    """Yield the answers of the host to one request.

    Raises:
        CommandError: It refuses, or there is none.
    """
    # Ctrl-C ends a watch like any other program.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield from answers(os.environ, request)
    except NoHost as error:
        raise HostUnavailable(error) from None
    except NoAnswer as error:
        raise CommandError(str(error)) from None


_COLUMNS: Final[Mapping[str, Callable[[Row], str]]] = {
    "NAME": lambda row: _text(row, "name"),
    "STATE": lambda row: "needs input" if row.get("needsInput") is True else _text(row, "state"),
    "CLIENTS": lambda row: _text(row, "clients"),
    "QUEUE": lambda row: _text(row, "queue"),
    "MODEL": lambda row: _text(row, "model"),
    "TOKENS": lambda row: _count(row.get("tokens")),
    "COST": lambda row: f"${cost:.2f}" if isinstance(cost := row.get("cost"), int | float) else "",
    "MEMORY": lambda row: f"{size / 2**20:.0f} MiB" if isinstance(size := row.get("memory"), int | float) else "",
    "ACTIVE": lambda row: age(row.get("lastActivity")),
    "RELEASE": lambda row: _text(row, "release"),
    "SESSION": lambda row: _text(row, "sessionId")[:8],
    "FOLDER": lambda row: _text(row, "cwd"),
}


def table(agents: Sequence[Row]) -> str:
    """Lay the agents out for people; a column that would be empty is left out."""
    if not agents:
        return "no agents"
    failures = [f"{_text(row, 'name')}: {_text(row, 'error')}" for row in agents if row.get("error")]
    return "\n".join([lay_out([*_with_children(agents)], _COLUMNS), *failures])


def _with_children(agents: Sequence[Row]) -> Iterator[Row]:
    """Yield each agent, and below it the sub-agents that work for it."""
    for row in agents:
        yield row
        for child in cast("Sequence[Row]", row.get("subagents") or ()):
            # The end of the id: those that begin together begin alike.
            yield {**child, "name": f"└ {_text(child, 'agentId')[-8:]}"}


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    return "" if value is None else str(value) if str(value).isprintable() else ascii(value)


def _count(number: object) -> str:
    """Return a number with a unit, as large as fits."""
    if not isinstance(number, int):
        return ""
    for unit, size in (("M", 1_000_000), ("k", 1000)):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)
