"""The commands of clients that an agent has not answered, over all its processes.

Those of a named client are in its table: begun before the process gets them, answered before the client sees it. What a
process has left without an answer is asked of the next one where that has no second effect, else answered as unknown.
"""

import json
from typing import Final, NamedTuple

from pinnace_rpc.host import routing
from pinnace_rpc.host.attached import AttachedConnections
from pinnace_rpc.host.named_clients import NamedClient
from pinnace_rpc.host.profiles import WITHOUT_NAMES
from pinnace_rpc.host.routing import OpenCommand, RoutedCommand, RoutedResponse, Router, open_command
from pinnace_spec.wire.json_text import JsonValue

_NOT_SAVED: Final = b'"errorCode":"session_not_saved"'
_RUN_TEXT: Final = "the agent's process ended before it answered; whether the command took effect is unknown"


class _Kept(NamedTuple):
    """An open command that is in the table of its client."""

    client: NamedClient
    identity: JsonValue


class OpenCommands:
    """Those of one agent. It is true if there are any."""

    def __init__(self, router: Router, connections: AttachedConnections, profile: str) -> None:
        """Begin with none.

        Args:
            router: Has those that are in the process.
            connections: Get the answers.
            profile: Of the agent.
        """
        self._router = router
        self._connections = connections
        self._has_names = profile not in WITHOUT_NAMES
        self._kept: dict[int, _Kept] = {}
        """Those that are in tables, by the host's number."""
        self._left: list[tuple[OpenCommand, _Kept | None]] = []
        """Commands that a process has not answered, which has ended."""
        self._asked_again: set[int] = set()
        """Those of them that the current process has been asked, by the host's number."""
        self._long: RoutedResponse | None = None
        """The response that is being read, which is too long for the memory."""

    def __bool__(self) -> bool:
        return bool(self._router.open or self._left)

    # On the way to the process.

    async def begin(self, connection: int, client: NamedClient, command: RoutedCommand) -> bool:
        """Note a command of a named client before it is executed; return whether it is to be executed.

        The connection in `waiting` of the client gets the response then. Else this one has got it, or will.
        """
        table, identity = client.table, command.identity
        is_decided = self.is_decided_by_session(command.name)
        is_lasting = command.name in routing.REPEATABLE or command.name in routing.SAFE
        match table.look_up(identity, command.fields, is_lasting=is_lasting):
            case "answered":
                try:
                    answer = table.response(identity)
                except OSError as error:
                    text = f"the response can't be read any more: {error.strerror}"
                    answer = routing.failure(open_command(connection, command), text, "outcome_unknown")
                self._connections.answer(connection, answer)
                return False
            case "in progress":
                self._await_response(client, identity, connection)
                return False
            case "reused":
                self.refuse(connection, command, "another command of this client had this id", "id_reused")
                return False
            case "begun":
                if is_decided:
                    table.reopen(identity)
                    client.waiting[json.dumps(identity)] = connection
                    return True
                answer = routing.failure(open_command(connection, command), _RUN_TEXT, "outcome_unknown")
                table.answer(identity, answer)
                self._connections.answer(connection, answer)
                return False
            case "new":
                client.waiting[json.dumps(identity)] = connection  # first: a repetition may come while this waits
                try:
                    await table.begin(identity, command.fields, is_synced=not is_decided)
                except OSError as error:
                    connection = client.waiting.pop(json.dumps(identity), connection)
                    text = f"the command can't be kept, and so is not executed: {error.strerror}"
                    self.refuse(connection, command, text, "io_error")
                    return False
                return True

    def given(self, number: int, client: NamedClient, identity: JsonValue) -> None:
        """Take notice that a command which was begun goes to the process under a number."""
        self._kept[number] = _Kept(client, identity)

    def refuse(
        self, connection: int, command: RoutedCommand, text: str, code: str, client: NamedClient | None = None
    ) -> None:
        """Answer a command without the agent; with a client, it was begun."""
        answer = routing.failure(open_command(connection, command), text, code)
        if client is not None:
            client.table.answer(command.identity, answer)
        self._connections.answer(connection, answer)

    def is_decided_by_session(self, name: str) -> bool:
        """Return whether the agent recognises a command of this name that is sent to its next process again."""
        return name in routing.REPEATABLE and self._has_names

    def _await_response(self, client: NamedClient, identity: JsonValue, connection: int) -> None:
        """Let a connection get the response to a command in progress, which it has repeated: it, and no other one."""
        kept = _Kept(client, identity)
        for number, each in self._kept.items():
            if each == kept:
                if (long := self._long) is not None and long.number == number:  # it is being read
                    self._long = long._replace(command=long.command._replace(connection=connection))
                else:
                    self._router.give_to(number, connection)
                return
        for place, (command, each_left) in enumerate(self._left):
            if each_left == kept:
                self._left[place] = command._replace(connection=connection), each_left
                return
        client.waiting[json.dumps(identity)] = connection  # it waits for the agent to take commands

    # Answers of the process.

    def take(self, line: bytes) -> RoutedResponse | None:
        """Return the response that a line of the agent is, as its client gets it; None: it is an event."""
        response = self._router.take(line)
        if response is None:
            return None
        if response.number in self._asked_again:
            response = self._decided(response)
        self.note_answer(response, response.line)
        return response

    def begin_long(self, head: bytes) -> RoutedResponse | None:
        """Return the response that a line is which is too long for the memory, by its beginning; None: it is none."""
        self._long = self._router.take(head)
        return self._long

    def end_long(self) -> RoutedResponse | None:
        """Return the same at the end of the line: its command may have been repeated by another connection."""
        response, self._long = self._long, None
        return response

    def note_answer(self, response: RoutedResponse, line: bytes) -> None:
        """Note what its client gets as the response to a command, if that is in a table."""
        if response.number in self._kept:
            kept = self._kept.pop(response.number)
            kept.client.table.answer(kept.identity, line)

    def _decided(self, response: RoutedResponse) -> RoutedResponse:
        """Return what the client is answered to a command that a former process was asked, too.

        A message that this process can't bring to the disk may be in the session: the former one may have taken it.
        """
        assert response.number is not None
        self._asked_again.discard(response.number)
        if _NOT_SAVED not in response.line:
            return response
        if (kept := self._kept.pop(response.number, None)) is not None:
            kept.client.table.interrupt(kept.identity)  # a repetition is decided by the session
        return response._replace(line=routing.failure(response.command, _RUN_TEXT, "outcome_unknown"))

    # Ends of processes.

    def process_ended(self) -> None:
        """Take over what the process has not answered, or not to the end."""
        left = self._router.give_up()
        if (cut := self.end_long()) is not None:
            left.append((cut.number, cut.command))
        for number, command in left:
            self._left.append((command, None if number is None else self._kept.pop(number, None)))

    def process_began(self) -> None:
        """Take notice of a new process, which was asked nothing yet."""
        self._asked_again.clear()

    def will_be_replaced(self) -> None:
        """Keep what the next process can be asked again, and answer the rest."""
        left, self._left = self._left, []
        for command, kept in left:
            if command.line is None:
                self._give_up(command, kept, is_last=False)
            elif kept is not None or command.connection in self._connections:  # else no client waits for the answer
                self._left.append((command, kept))

    def give_up(self) -> None:
        """Answer what was left: no process follows."""
        left, self._left = self._left, []
        for command, kept in left:
            self._give_up(command, kept, is_last=True)

    def ask_again(self) -> tuple[int, OpenCommand] | None:
        """Return the next command that the current process is to be asked again, with its number; None: that was all.

        What is not reached before this process ends, too, is left for the next one.
        """
        if not self._left:
            return None
        command, kept = self._left.pop(0)
        number = self._router.reserve(command)
        self._asked_again.add(number)
        if kept is not None:
            self._kept[number] = kept
        return number, command

    def _give_up(self, command: OpenCommand, kept: _Kept | None, *, is_last: bool) -> None:
        """Answer a command whose process has ended."""
        if is_last:
            answer = routing.failure(command, _RUN_TEXT, "agent_restarted", outcome="unknown")
        else:
            answer = routing.failure(command, _RUN_TEXT, "outcome_unknown")
        if kept is not None:
            if self.is_decided_by_session(command.name):
                kept.client.table.interrupt(kept.identity)  # a repetition is decided by the session
            else:
                kept.client.table.answer(kept.identity, answer)
        self._connections.answer(command.connection, answer)
