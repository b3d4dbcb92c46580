"""What scripts do to show a finding of an agent of the Agent Client Protocol again, with `sh` and the agent alone.

Ids of sessions, messages, calls and terminals are the agent's: the script takes them from what it has written, by the
id of the response and the name of the field. It answers what the agent asks as the client of the scenario does, where
the scenario waits for the question. A start of the agent behind a restart is a further one in the same home. What a
script can't show so (logins, ids of sub-agents, fields that are not the first of their name) is named in its place.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pinnace_fuzz.acp import scenario as steps
from pinnace_fuzz.acp.playing import greeting
from pinnace_fuzz.acp.reading import read_scenario
from pinnace_fuzz.judge.adapter import LaunchOptions
from pinnace_fuzz.judge.reports.reproducing import MODEL, CanNotStandAlone, Play, filled, kept, quoted, written
from pinnace_fuzz.judge.scenarios.holes import Holes
from pinnace_fuzz.judge.scenarios.shapes import as_object

HELPERS: Final = "; ".join(
    [
        # The first field of a name in the lines that come in; and its value.
        """one() { grep -o '"'"$1"'": *"[^"]*"' | head -n 1; }""",
        """value() { one "$1" | sed 's/.*": *"//; s/"$//'; }""",
        # got ID FIELD NAME, shown KIND FIELD NAME: keep a field of a response, or of an update.
        """got() { quiet; grep '"id": *'"$1"'[,}]' "$t/out" | value "$2" > "$t/kept-$3"; }""",
        """shown() { quiet; grep '"sessionUpdate": *"'"$1"'"' "$t/out" | value "$2" > "$t/kept-$3"; }""",
        # reply METHOD ANSWER: answer the last request of a method. allow KIND: that for a permission.
        """asked() { quiet; grep '"method": *"'"$1"'"' "$t/out" | tail -n 1; }""",
        """reply() { i=$(asked "$1" | grep -o '"id": *[0-9"][^,}]*' | head -n 1 | sed 's/.*: *//')""",
        """[ -z "$i" ] || printf '{"jsonrpc":"2.0","id":%s,%s}\\n' "$i" "$2"; }""",
        """allow() { o=$(asked session/request_permission | grep -o '{[^{}]*"kind": *"'"$1"'"[^{}]*}')""",
        """o=$(printf %s "$o" | one optionId)""",
        """reply session/request_permission '"result":{"outcome":{"outcome":"selected",'"$o"'}}'; }""",
    ]
)
"""Functions of the shell that inputs of `play_of` need, in one line."""


def play_of(scenario: Mapping[str, Any]) -> Play:
    """Read a scenario as a report has it.

    Raises:
        CanNotStandAlone: A script can't play it.
        FieldError: It is none.
    """
    found = read_scenario(scenario)
    if found.login is not None:
        raise CanNotStandAlone("needs a server of logins")
    options = LaunchOptions(session="new", files=found.files, arguments=found.arguments)
    return Play(options, [each.answer for each in found.llm], _Client(found).starts, tuple(steps.FOLDERS[1:]))


_HOLE: Final = re.compile(r"\$\{([\w.\-]+)\}")


class _Client:
    """The client of one scenario, as commands of the shell."""

    def __init__(self, scenario: steps.AcpScenario) -> None:
        self._scenario = scenario
        self._holes = Holes({"work": Path()}, "")
        self._count = 0
        self._ids: dict[str, int] = {}

    def starts(self, holes: Holes) -> Sequence[str]:
        """Return what it does, for each start of the agent."""
        self._holes, self._count = holes, 0
        holes.keep("llm", MODEL)
        found = [[":"]]
        for step in self._scenario.client:
            if isinstance(step, steps.Kill):
                raise CanNotStandAlone("kills the agent")
            if isinstance(step, steps.Restart):
                found.append([":"])
            else:
                found[-1] += self._step(step)
        return ["; ".join(each) for each in found]

    def _step(self, step: steps.Step) -> Iterable[str]:
        """Return what the client does in a step: it writes, or waits."""
        match step:
            case steps.Initialize(capabilities):
                return [*self._call("call", "initialize", greeting(self._scenario.version, capabilities)), "quiet"]
            case steps.NewSession(servers=[_, *_]):
                raise CanNotStandAlone("serves an MCP server")
            case steps.NewSession(name, folder):
                made = self._call("call", "session/new", {"cwd": f"${{{folder}}}", "mcpServers": []})
                self._holes.keep(name, kept(name))
                return [*made, f"got {self._ids['call']} sessionId {name}"]
            case steps.Send(messages):
                return written(b"".join(self._message(*each) for each in messages))
            case steps.Raw(data):
                return written(self._raw(data))
            case steps.Open(gate):
                return [f': > "$t/open-{gate}"']
            case steps.Reached(gate):
                return [f"at {quoted(gate)}"]
            case _:
                return self._awaited(step)

    def _awaited(self, step: steps.Step) -> Iterable[str]:
        match step:
            case steps.Response(of=of, keep=keep):
                found = [self._keep(of or "", name, path) for name, path in keep.items()]
                return [*(command for each in found for command in each), "quiet"]
            case steps.Named(name, kind, key, _):
                if kind == "subagent_update":  # its session has the same field
                    raise CanNotStandAlone("sends the id of a sub-agent")
                self._holes.keep(name, kept(name))
                return [f"shown {kind} {key} {name}"]
            case steps.Update(like) | steps.Ever(like, _):
                return self._answer(str((as_object(like) or {}).get("method")))
            case steps.Mark() | steps.Never() | steps.Before() | steps.Keep() | steps.Same() | steps.Disk():
                return []
            case _:
                return ["quiet"]

    def _keep(self, of: str, name: str, path: str) -> list[str]:
        first, *rest = path.split(".")
        if any(each.isdecimal() and each != "0" for each in rest):
            raise CanNotStandAlone(f"sends a value of an earlier record, at {path}")
        self._holes.keep(name, kept(name))
        return [f"got {self._ids[of]} {rest[-1] if rest else first} {name}"]

    def _call(self, name: str, method: str, params: Mapping[str, Any]) -> list[str]:
        return written(self._message(name, method, params))

    def _message(self, name: str, method: str, params: Mapping[str, Any]) -> bytes:
        message: dict[str, Any] = {"jsonrpc": "2.0"}
        if name:
            self._count += 1
            self._ids[name] = message["id"] = self._count
            self._holes.keep(f"id-of-{name}", self._count)
        message |= {"method": method, "params": params}
        line = json.dumps(filled(self._holes, message))
        if (missing := _HOLE.search(line)) is not None:
            raise CanNotStandAlone(f"sends a value of an earlier record, {missing[1]}")
        return line.encode() + b"\n"

    def _raw(self, data: bytes) -> bytes:
        try:
            text: str = self._holes.filled(data.decode())
        except UnicodeDecodeError:
            return data
        return text.encode()

    def _answer(self, method: str) -> list[str]:
        """Return the answer to a request of the agent, once it has come; none for an update."""
        scenario = self._scenario
        match method:
            case "session/request_permission" if scenario.consent == "none":
                return ["quiet"]
            case "session/request_permission":
                return [f"allow {scenario.consent}"]
            case "elicitation/create" if scenario.leaves_forms:
                return ["quiet"]
            case "elicitation/create":
                form = scenario.form
                return _reply(method, {"action": "decline"} if form is None else {"action": "accept", "content": form})
            case "fs/read_text_file":
                return _reply(method, {"content": next(iter(scenario.serves.values()), "")})
            case "fs/write_text_file" if scenario.refuses_writes:
                error = {"code": -32603, "message": "the user has refused"}
                return [f"reply {method} {quoted(json.dumps({'error': error})[1:-1])}"]
            case "fs/write_text_file":
                return _reply(method, {})
            case _:
                return ["quiet"]


def _reply(method: str, result: Mapping[str, Any]) -> list[str]:
    return [f"reply {method} {quoted(json.dumps({'result': result})[1:-1])}"]
