"""The way of a client's command to the agent's process: what is kept before, what is changed, and how long it waits."""

import json
from collections.abc import Callable, Mapping

import trio

from pinnace_rpc.host import routing
from pinnace_rpc.host.attached import AttachedConnections
from pinnace_rpc.host.dialogs import OpenDialogs
from pinnace_rpc.host.named_clients import NamedClient
from pinnace_rpc.host.offers import Offers, are_folders
from pinnace_rpc.host.open_commands import OpenCommands
from pinnace_rpc.host.own_commands import OwnCommands
from pinnace_rpc.host.process_input import ProcessInput
from pinnace_rpc.host.read_slots import ReadSlots
from pinnace_rpc.host.routing import RoutedCommand, Router
from pinnace_rpc.host.table import lasting_id


class ClientCommands:
    """The way to one agent, over all its processes."""

    def __init__(  # noqa: PLR0913 - by name
        self,
        profile: str,
        random_bytes: Callable[[int], bytes],
        *,
        connections: AttachedConnections,
        router: Router,
        open_commands: OpenCommands,
        process: ProcessInput,
        own_commands: OwnCommands,
        dialogs: OpenDialogs,
        offers: Offers,
    ) -> None:
        """Begin without a command.

        Args:
            profile: Of the agent.
            random_bytes: Returns so many.
            connections: Those that commands may come from.
            router: Numbers the commands.
            open_commands: Those that are not answered.
            process: Takes commands.
            own_commands: Those of the host.
            dialogs: Are answered.
            offers: What the process has of clients.
        """
        self._profile = profile
        self._random_bytes = random_bytes
        self._connections = connections
        self._router = router
        self._open = open_commands
        self._process = process
        self._own = own_commands
        self._dialogs = dialogs
        self.reads = ReadSlots()
        """Those that the process has."""
        self.offers = offers

    async def send(self, connection: int, named: NamedClient | None, command: RoutedCommand, line: bytes) -> None:
        """Give a command of a connection to the process; wait while there is none yet, or the pipe is full.

        Args:
            connection: Where it comes from.
            named: The client, if it has given its name.
            command: As it was read.
            line: As it came, without its LF.
        """
        if command.name == "extension_ui_response":
            await self._answer_dialog(command, line)
            return
        if command.name == "client_response":
            if connection == self.offers.serves_files:  # the others have offered nothing
                await self._process.send(line + b"\n")
            return
        members: dict[str, object] = {}
        if command.name == "hello" and (profile := command.fields.get("protocol")) is not None:
            if profile != self._profile:
                text = f"the protocol of this agent is {self._profile}, fixed at its start"
                self._open.refuse(connection, command, text, "profile_fixed")
                return
            # It is no longer the process's first command.
            members["protocol"] = None
        client = named if command.is_object and command.identity is not None else None
        # A key is not pressed again, so it need not be kept.
        if client is None or command.name in routing.SAFE or command.name == "ui_surface_input":
            if command.name == "clear_queue" and command.fields.get("by") is None:
                # Not the host's id, which will be used again.
                members["by"] = lasting_id(self._random_bytes(16).hex(), None)
            await self._give(connection, None, command, line, members)
            return
        # What is kept as begun is executed, whatever becomes of the connection: a repetition counts on that.
        with trio.CancelScope(shield=True):  # until the process takes commands, or there is none
            if await self._open.begin(connection, client, command):
                name = "messageId" if command.name in routing.MESSAGES else "by"
                if command.name in routing.REPEATABLE and command.fields.get(name) is None:
                    members[name] = lasting_id(client.table.client, command.identity)
                await self._give(connection, client, command, line, members)

    async def ask_again(self) -> None:
        """Give a new process what the former one has not answered."""
        while (left := self._open.ask_again()) is not None:
            number, command = left
            assert command.line is not None
            before, members = self._offered(command.connection, routing.read_command(command.line))
            sent = routing.with_members(command.line, {**members, "id": routing.own_id(number)})
            await self._process.send(before + sent)

    async def withdraw(self) -> None:
        """Withdraw what no client offers any more; one may have offered it meanwhile."""
        if self._process.process is not None and (fields := self.offers.withdrawal()):
            await self._process.send(self._own.hello(fields))

    async def _give(
        self,
        connection: int,
        client: NamedClient | None,
        command: RoutedCommand,
        line: bytes,
        members: Mapping[str, object],
    ) -> None:
        """Give a command to the process as soon as that takes commands; with a client, it is in the client's table."""
        is_taken = command.name != "hello" or await are_folders(command.fields.get("directories"))
        has_slot = command.name in routing.SAFE and command.name != routing.WAIT and await self.reads.take()
        try:
            is_open = await self._process.wait_open()
        except trio.Cancelled:
            if has_slot:
                self.reads.give_back()
            raise
        if client is not None:  # another connection may have repeated it meanwhile
            connection = client.waiting.pop(json.dumps(command.identity), connection)
        if not is_open:
            if has_slot:
                self.reads.give_back()
            self._open.refuse(connection, command, "the agent has ended", "shutting_down", client)
            return
        is_repeatable = command.name in routing.SAFE or (
            client is not None and self._open.is_decided_by_session(command.name)
        )
        before, changed = self._offered(connection, command, is_taken=is_taken)
        number, sent = self._router.add(connection, command, line, {**members, **changed}, is_repeatable=is_repeatable)
        if client is not None and number is not None:
            self._open.given(number, client, command.identity)
        if has_slot:
            self.reads.hold(number)
        await self._process.send(before + sent)

    def _offered(
        self, connection: int, command: RoutedCommand, *, is_taken: bool = True
    ) -> tuple[bytes, Mapping[str, object]]:
        """Take what a command that is about to be sent offers.

        Returns what is sent before it, and members that replace its own.
        """
        is_hello = command.name == "hello" and command.is_object
        if not (is_hello and is_taken) or connection not in self._connections:
            return b"", {}
        before, changed = self.offers.take(connection, command.fields)
        return self._own.hello(before) if before else b"", changed

    async def _answer_dialog(self, command: RoutedCommand, line: bytes) -> None:
        """Forward the first answer; later ones are ignored."""
        identity = command.fields.get("id")
        if self._dialogs.close(identity):
            await self._process.send(line + b"\n")
            self._dialogs.report_answered(identity)
