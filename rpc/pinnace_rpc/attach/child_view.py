"""A view of one sub-agent: the attach to its agent, of which a client sees the sub-agent alone, as an agent of its own.

The client sends commands of the protocol. A message becomes `message_agent`, `abort` becomes `cancel_agent`, and an
answer to a question is passed on where the sub-agent has asked it. What reads the conversation is answered from the
sub-agent's file; other commands are refused, so that a client has no more of a sub-agent than that agent gives any
client. The records are those that `subagent_event` brings, in the form of the profile 1.5, with the questions about its
calls; when it has ended, `agent_settled` follows. No input or output but for reading that file. Rule R-HST-09.
"""

import json
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_agent.session.child_agents import read_child
from pinnace_agent.session.conversation import Session
from pinnace_rpc.server.queries import entries_since, last_assistant_text, session_stats
from pinnace_spec.records.command_table import CLIENT_ANSWERS
from pinnace_spec.records.messages import ASKED_BY
from pinnace_spec.records.parsing import CommandError, parse_command
from pinnace_spec.rules import errors
from pinnace_spec.wire.framing import LineDecoder, TooLong
from pinnace_spec.wire.json_text import JsonValue, WireError, decode_line, encode_record

if TYPE_CHECKING:  # for annotations alone
    from pinnace_rpc.options.words import AttachWords

Record = Mapping[str, object]
Data = Mapping[str, object] | None

_MESSAGES: Final = frozenset({"prompt", "steer", "follow_up", "queue_message"})
_FROM_FILE: Final = frozenset({"get_messages", "get_entries", "get_last_assistant_text", "get_session_stats"})
_TAKEN: Final = frozenset(
    {*_MESSAGES, *_FROM_FILE, *CLIENT_ANSWERS, "hello", "abort", "get_state", "get_queue", "get_commands"}
)
"""Commands of the client; the others are refused."""
_MESSAGE_RECORDS: Final = frozenset({"message_start", "message_update", "message_end"})
_OFFERS: Final = frozenset({"surfaces", "delegate", "directories", "themes", "theme", "toolsExpanded"})
"""Fields of `hello` that the agent above would take for itself."""
_NOT_ITS_OWN: Final = frozenset(
    {"sessionName", "warnings", "interrupted", "extensionsAtWork", "itemRenderers", "extensionsLeftOut"}
)
"""Fields of the state of the agent above that say nothing of the sub-agent."""


def why_not_viewed(asked: "AttachWords", subagent: Record) -> str | None:
    """Return why the words of an attach are none for a view of a sub-agent; None: they are.

    Args:
        asked: The words.
        subagent: As the host has it.
    """
    named = f"{asked.agent or asked.session} is a sub-agent of {subagent['agent']}"
    if asked.flags:
        return f"{named}, which runs: leave the flags of an agent out"
    if asked.on_eof == "end":
        return f"{named}: --on-eof end would end that; leave it out"
    return None


class ChildView:
    """The state of one view. Implements the `View` of a pump."""

    def __init__(self, subagent: Record) -> None:
        """Show one.

        Args:
            subagent: What the list of agents has of it, with the name of the agent above it as `agent`.
        """
        self._id = str(subagent["agentId"])
        self._above = str(subagent["agent"])
        self._file = str(subagent["sessionFile"]) if subagent.get("sessionFile") else None
        self._cwd: str | None = None
        self._known: tuple[int, Session] | None = None
        """What was read of its file, with the size that it had."""
        self._model: tuple[object, object] | None = None
        """Its provider and its id."""
        self._models: Sequence[Record] = ()
        self.is_ready = False
        self.failure: str | None = None
        self.to_host = bytearray()
        self.to_client = bytearray()
        self._client_lines = LineDecoder()
        self._host_lines = LineDecoder()
        self._sent: dict[str, deque[Callable[[Record], None]]] = {}
        """What takes the responses to commands that were sent, by id: a client may use one again."""
        self._count = 0
        self._own = f"view-{os.urandom(6).hex()}"
        """Of the view's own commands: the host knows those of earlier views of a named client."""
        self._questions: set[str] = set()
        self._has_ended = False
        self._is_compacting = False
        self._shows_children = False
        self._begun: set[object] = set()
        """Entries of messages that the client has the beginning of, but not the end."""
        self._read: set[object] = set()
        """Entries that the client has read, and whose records it does not need."""

    def begin(self) -> None:
        """Ask for what the sub-agent does, and for what is not in its records."""
        self._ask({"type": "hello", "subagents": True}, self._take_offer)
        self._ask({"type": "get_available_models"}, self._take_models)

    def _take_offer(self, response: Record) -> None:
        if "subagent_event" not in as_array((as_object(response.get("data")) or {}).get("events")):
            self.failure = (
                f"{self._id} is a sub-agent of {self._above}, whose protocol has no records of sub-agents: attach to "
                f"{self._above}"
            )

    def _take_models(self, response: Record) -> None:
        models = as_array((as_object(response.get("data")) or {}).get("models"))
        self._models = [as_object(each) or {} for each in models]
        self._ask({"type": "list_agents"}, self._take_agents)

    def _take_agents(self, response: Record) -> None:
        agent = self._found(response)
        if isinstance(folder := agent.get("cwd"), str):
            self._cwd = folder
        self._model = (agent.get("provider"), agent.get("model"))
        self.is_ready = True
        if agent.get("state") != "running":
            self._end(agent)

    def _found(self, response: Record) -> Record:
        """Return the sub-agent in an answer to `list_agents`."""
        agents = [as_object(each) or {} for each in as_array((as_object(response.get("data")) or {}).get("agents"))]
        found = [each for each in agents if each.get("agentId") == self._id]
        return found[0] if found else {}

    # What the agent above writes.

    def take_host(self, data: bytes) -> None:
        """Take bytes of the agent above."""
        self._host_lines.receive_data(data)
        for line in self._host_lines.lines():
            if isinstance(line, TooLong):
                continue
            try:
                record = as_object(decode_line(line))
            except WireError:
                continue
            if record is not None:
                self._take_record(record)

    def _take_record(self, record: Record) -> None:
        match record.get("type"):
            case "response":
                self._take_response(record)
            case "attached":
                file = {} if self._file is None else {"sessionFile": self._file}
                rest = {name: value for name, value in record.items() if name != "sessionFile"}
                self._write({**rest, "agent": self._id, "sessionId": self._id, **file})
            case "truncated":
                self._write(record)
            case "agent_restarted":
                self._write(record)
                self._end({"state": "interrupted"})
            case "subagent_event" if record.get("agentId") == self._id:
                self._take_child(record)
            case "extension_ui_request" if str(record.get("title")).endswith(f"{ASKED_BY}{self._id}"):
                self._questions.add(str(record.get("id")))
                # The call that it names is one of the agent above.
                self._write({name: value for name, value in record.items() if name != "toolCallId"})
            case "extension_ui_resolved" if record.get("id") in self._questions:
                self._questions.discard(str(record.get("id")))
                self._write(record)
            case _:
                pass

    def _take_child(self, record: Record) -> None:
        if (agent := as_object(record.get("agent"))) is not None:
            if agent.get("state") != "running":
                self._end(agent)
            return
        event = as_object(record.get("event")) or {}
        kind, entry = event.get("type"), event.get("entryId")
        if kind == "subagent_event" and not self._shows_children:
            return
        if kind in ("compaction_start", "compaction_end"):
            self._is_compacting = kind == "compaction_start"
        if kind in _MESSAGE_RECORDS:
            if entry in self._read:
                if kind == "message_end":
                    self._read.remove(entry)
                return
            (self._begun.discard if kind == "message_end" else self._begun.add)(entry)
        self._write(event)

    def _end(self, agent: Record) -> None:
        if not self._has_ended:
            self._has_ended = True
            is_cut = agent.get("state") in ("cancelled", "interrupted")
            self._write({"type": "agent_settled", "aborted": is_cut})

    def _take_response(self, response: Record) -> None:
        key = _key(response.get("id"))
        waiting = self._sent.get(key)
        if waiting:
            waiting.popleft()(response)
            if not waiting:
                del self._sent[key]

    # What the client writes.

    def take_client(self, data: bytes) -> None:
        """Take bytes of the client."""
        self._client_lines.receive_data(data)
        for line in self._client_lines.lines():
            if isinstance(line, TooLong):
                text = errors.parse_error(errors.record_too_long(line.limit_bytes))
                self._refuse(errors.PARSE_COMMAND, {}, errors.ClientError(text, errors.ErrorCode.PARSE_ERROR))
                continue
            try:
                self._take_command(line)
            except CommandError as error:
                if error.command not in CLIENT_ANSWERS:  # those are answers themselves
                    self._refuse(error.command, {"id": error.id} if error.has_id else {}, error)
            except WireError as error:
                refused = errors.ClientError(errors.parse_error(error.text), errors.ErrorCode.PARSE_ERROR)
                self._refuse(errors.PARSE_COMMAND, {}, refused)

    def _take_command(self, line: bytes) -> None:
        """Carry out one command.

        Raises:
            WireError: The line is no JSON.
            CommandError: It is no command.
        """
        value = decode_line(line)
        command: Any = parse_command(value)  # Any: of the class of its name
        name: str = command.command_name
        fields = cast("dict[str, JsonValue]", value)  # cast: a command is an object
        identity: Record = {"id": command.id} if command.has_id else {}
        if name == "extension_ui_response":
            if command.id in self._questions:
                self.to_host += encode_record(fields)
        elif name == "client_response":
            return
        elif name not in _TAKEN:
            text = f"{name}: a view of a sub-agent has no such command; attach to its agent, {self._above}"
            self._refuse(name, identity, errors.ClientError(text, errors.ErrorCode.UNKNOWN_COMMAND))
        elif name == "hello":
            self._shows_children = fields.get("subagents") is True
            offer = {key: each for key, each in fields.items() if key not in _OFFERS}
            self._pass(name, identity, {**offer, "subagents": True}, _hello)
        elif name in _MESSAGES:
            self._give(name, identity, command)
        elif name == "abort":
            if self._has_ended:
                self._answer(name, identity, None)
            else:
                self._pass(name, identity, {"type": "cancel_agent", "agentId": self._id})
        elif name == "get_state":
            self._pass(name, identity, {"type": "get_state"}, self._state)
        elif name == "get_queue":
            self._pass(name, identity, {"type": "list_agents"}, self._queue)
        elif name == "get_commands":
            self._answer(name, identity, {"commands": []})
        else:
            try:
                self._answer(name, identity, self._from_file(name, command))
            except errors.ClientError as error:
                self._refuse(name, identity, error)

    def _give(self, name: str, identity: Record, command: Any) -> None:  # Any: one of the commands with a message
        if command.content_blocks:
            text = f"{name}: a sub-agent is given a text alone: leave images and context out"
            self._refuse(name, identity, errors.ClientError(text))
            return
        message = {"type": "message_agent", "agentId": self._id, "message": command.message}
        if (message_id := getattr(command, "messageId", None)) is not None:
            message["messageId"] = message_id
        self._pass(name, identity, message, None if name == "queue_message" else _disposition)

    # The conversation.

    def _session(self) -> Session:
        """Return the session as it is now, read anew where its file has grown.

        Raises:
            ClientError: The file can't be read.
        """
        if self._file is None:
            return Session(self._cwd or "/", session_id=self._id)
        try:
            size = os.path.getsize(self._file)
        except OSError:
            size = -1
        if self._known is None or self._known[0] != size:
            self._known = size, read_child(self._file)
        return self._known[1]

    def _message_count(self) -> int:
        try:
            return len(self._session().messages)
        except errors.ClientError:  # the questions for its messages have the error
            return 0

    def _from_file(self, name: str, command: Any) -> Data:  # Any: the command of this name
        """Read the conversation; what the client gets is not shown to it again.

        A message that it has the beginning of is shown to its end, and left out here.

        Raises:
            ClientError: The file can't be read, or has no such entry.
        """
        session = self._session()
        entries = session.tree.entries
        match name:
            case "get_last_assistant_text":
                return last_assistant_text(session)
            case "get_session_stats":
                file = {} if self._file is None else {"sessionFile": self._file}
                return {**session_stats(session, lambda _provider, _model: None), **file}
            case "get_messages":
                open_messages = [each.get("message") for each in entries if each["id"] in self._begun]
                messages = [each for each in session.messages if not any(each is other for other in open_messages)]
                data: Record = {"messages": messages}
            case _:
                wanted = entries_since(session.tree, command.since_entry)
                shown = [each for each in entries if each["id"] not in self._begun]
                data = {
                    "entries": [each for each in wanted if each["id"] not in self._begun],
                    "leafId": shown[-1]["id"] if shown else None,
                }
        self._read.update(each["id"] for each in entries if each["id"] not in self._begun)
        return data

    def _state(self, data: Record) -> Data:
        """Return the state of the sub-agent, of which the agent above decides most."""
        known = [*self._models, as_object(data.get("model")) or {}]
        own: dict[str, object] = {
            "model": next((each for each in known if (each.get("provider"), each.get("id")) == self._model), None),
            "isStreaming": not self._has_ended,
            "isCompacting": self._is_compacting,
            "isBashRunning": False,
            "sessionId": self._id,
            "sessionStatus": {"saved": self._file is not None},
            "messageCount": self._message_count(),
            "pendingMessageCount": 0,
            "queuedMessageCount": 0,
            "queuePaused": False,
        }
        own |= {} if self._cwd is None else {"cwd": self._cwd}
        state = {name: each for name, each in data.items() if name not in (*_NOT_ITS_OWN, "sessionFile")}
        state |= {name: each for name, each in own.items() if name in data or name == "model"}
        return state if self._file is None else {**state, "sessionFile": self._file}

    def _queue(self, data: Record) -> Data:
        messages = [as_object(each) or {} for each in as_array(self._found({"data": data}).get("messages"))]
        waiting = [
            {"messageId": each["messageId"], "kind": "steer", "text": each["text"], "imageCount": 0}
            for each in messages
            if each.get("state") == "accepted"
        ]
        return {"messages": waiting, "paused": False}

    # Writing.

    def _ask(self, command: Record, take: Callable[[Record], None]) -> None:
        """Send a command of the view's own."""
        self._count += 1
        self._send({**command, "id": f"{self._own}-{self._count}"}, take)

    def _pass(self, name: str, identity: Record, command: Record, data: Callable[[Record], Data] | None = None) -> None:
        """Send a command of the client's, as it is for the agent above.

        Args:
            name: The client's name for it.
            identity: The client's id, if it has one: a host knows by it what was sent before.
            command: What is sent.
            data: Returns the data of the answer; None: it has none.
        """

        def take(response: Record) -> None:
            answer = {key: each for key, each in response.items() if key not in ("id", "command", "data")}
            found = as_object(response.get("data")) or {}
            if response.get("success") is True and data is not None and (made := data(found)) is not None:
                answer["data"] = made
            self._write({**identity, "type": "response", "command": name, **answer})

        if identity.get("id") is None:
            self._ask({key: each for key, each in command.items() if key != "id"}, take)
        else:
            self._send({**command, **identity}, take)

    def _send(self, command: Record, take: Callable[[Record], None]) -> None:
        self._sent.setdefault(_key(command["id"]), deque()).append(take)
        self.to_host += encode_record(command)

    def _answer(self, name: str, identity: Record, data: Data) -> None:
        found = {} if data is None else {"data": data}
        self._write({**identity, "type": "response", "command": name, "success": True, **found})

    def _refuse(self, name: str, identity: Record, error: errors.ProtocolError) -> None:
        response: Record = {**identity, "type": "response", "command": name, "success": False, "error": error.text}
        self._write({**response, "errorCode": error.code})

    def _write(self, record: Record) -> None:
        self.to_client += encode_record(record)


def _key(identity: object) -> str:
    return json.dumps(identity)


def _hello(data: Record) -> Data:
    return {**data, "commands": [each for each in as_array(data.get("commands")) if each in _TAKEN]}


def _disposition(data: Record) -> Data:
    if data.get("state") == "accepted":
        return {"disposition": "queued"}
    return {"disposition": "duplicate", "state": data.get("state")}
