"""The commands that a host itself gives to an agent's process, beside those of clients.

No connection gets the responses: each is taken by what has asked.
"""

import json
import os
from collections.abc import Callable, Mapping
from typing import Final

import trio

from pinnace_rpc.host import routing
from pinnace_rpc.host.process_input import ProcessInput
from pinnace_rpc.host.routing import OpenCommand, RoutedResponse, Router, own_id
from pinnace_spec.wire.json_text import JsonValue

Take = Callable[[Mapping[str, JsonValue]], None]
"""Takes the data of a response."""

_SHUTTING_DOWN: Final = b'"errorCode":"shutting_down"'


class OwnCommands:
    """Those to one agent, over all its processes."""

    def __init__(self, folder: str, nursery: trio.Nursery, router: Router, process: ProcessInput, take: Take) -> None:
        """Ask nothing yet.

        Args:
            folder: The agent's.
            nursery: Gets the tasks that ask.
            router: Numbers the commands.
            process: Takes them.
            take: Gets the data of each `get_state` by which the host follows the session.
        """
        self._folder = folder
        self._nursery = nursery
        self._router = router
        self._process = process
        self._take_state = take
        self.state_number: int | None = None
        """The number of the newest `get_state` of those."""
        self._probe: int | None = None
        """The command that the process answers when it has started."""
        self.has_started = False
        """Whether it has answered that: without its extensions it may not start."""
        self._asked: dict[int, Take] = {}
        """What takes the responses, as records, by the host's number."""

    def process_began(self) -> None:
        """Take notice of a new process."""
        self._probe, self.has_started = None, False

    def process_ended(self) -> None:
        """Take notice that the process answers nothing any more."""
        self._asked.clear()

    def take(self, response: RoutedResponse) -> bool:
        """Take a response if it is to a command of the host; return whether it is."""
        if response.number is not None and response.number == self._probe:
            # One that ends refuses it (R-EOF-03), and may have ended since it can't start: its exit status shows it.
            self.has_started = _SHUTTING_DOWN not in response.line
            self._process.changed.unpark_all()
            return True
        take = None if response.number is None else self._asked.pop(response.number, None)
        if take is None:
            return False
        take(routing.parse_record(response.line))
        return True

    # Questions.

    async def ask_state(self) -> None:
        """Ask for the state by which the host follows the session."""
        self.state_number = self._reserve("get_state", self._take_state)
        await self._send(self.state_number, "get_state")

    def ask_state_soon(self) -> None:
        """Do the same in a task."""
        self._nursery.start_soon(self.ask_state)

    async def ask_totals(self, take: Take) -> None:
        """Ask for what the session has cost."""
        await self._send(self._reserve("get_session_stats", take), "get_session_stats")

    async def may_sleep(self) -> bool:
        """Ask whether an extension has a background task. An agent that does not answer does not sleep."""
        answered = trio.Event()
        state: dict[str, JsonValue] = {}

        def take(data: Mapping[str, JsonValue]) -> None:
            state.update(data)
            answered.set()

        await self._send(self._reserve("get_state", take), "get_state")
        await answered.wait()  # cancelled when the process ends
        return not state.get("extensionsAtWork")

    async def wait_started(self) -> None:
        """Wait until the process has loaded its extensions, without which it may not start, or there is no process.

        It answers reads before. The host sends it a command that waits for them and has no effect: a switch to a file
        that does not exist, as soon as it has answered at all.
        """
        is_open = await self._process.wait_open()
        number = self._probe
        if number is None and is_open:
            number = self._probe = self._router.reserve(OpenCommand(0, "switch_session", None))
            await self._send(number, "switch_session", sessionPath=os.path.join(self._folder, "none"))
        while number is not None and number == self._probe and not (self.has_started or self._process.is_over()):
            await self._process.changed.park()

    # Others.

    def hello(self, fields: Mapping[str, object]) -> bytes:
        """Return the line of a `hello`, which is to be sent."""
        number = self._reserve("hello", lambda _data: None)
        return json.dumps({"type": "hello", "id": own_id(number), **fields}).encode("ascii") + b"\n"

    def hello_soon(self, fields: Mapping[str, object]) -> None:
        """Send a `hello` in a task."""
        self._nursery.start_soon(self._process.send, self.hello(fields))

    def wait_for_child(self, agent_id: str, take: Take, offers: Mapping[str, object]) -> None:
        """Have the process answer when a sub-agent ends, behind a `hello` with these fields, if there are any."""
        before = self.hello(offers) if offers else b""
        line = _line(self._reserve(routing.WAIT, take), routing.WAIT, agentId=agent_id)
        self._nursery.start_soon(self._process.send, before + line)

    async def cancel_child(self, agent_id: str) -> str | None:
        """End a sub-agent that works; return why it was not ended. Ends with the process at the latest."""
        answers: list[Mapping[str, JsonValue]] = []

        def take(record: Mapping[str, JsonValue]) -> None:
            answers.append(record)
            self._process.changed.unpark_all()

        number = self._router.reserve(OpenCommand(0, "cancel_agent", None))
        self._asked[number] = take
        await self._send(number, "cancel_agent", agentId=agent_id)
        while not answers and number in self._asked:
            await self._process.changed.park()
        if not answers:
            return "the process of its agent has ended"
        return None if answers[0].get("success") is True else str(answers[0].get("error"))

    def _reserve(self, name: str, take: Take) -> int:
        """Return a number for a command; `take` gets the data of its response."""
        number = self._router.reserve(OpenCommand(0, name, None))
        self._asked[number] = lambda record: take(routing.member(record, "data"))
        return number

    async def _send(self, number: int, name: str, **fields: str) -> None:
        await self._process.send(_line(number, name, **fields))


def _line(number: int, name: str, **fields: str) -> bytes:
    return json.dumps({"type": name, **fields, "id": own_id(number)}).encode("ascii") + b"\n"
