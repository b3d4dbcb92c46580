"""A client of which a seed decides what it sends, and when; it outlives the agent's processes, as a person does.

It never sends a message id twice but to repeat a message that a crash has left unanswered, as the protocol allows. Each
text is unique, so that a delivery can be recognised. What was accepted, rejected and returned is in its `Ledger`.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import trio

from pinnace_fuzz.records import LineSplitter, NotARecord, Record, encode_record, parse_record
from pinnace_fuzz.simulation.dialogs import Dialogs
from pinnace_fuzz.simulation.pointed import Bursts
from pinnace_fuzz.simulation.streams import Pipe
from pinnace_fuzz.simulation.trace import Trace
from pinnace_spec.observers.edge import as_record, texts
from pinnace_spec.observers.verdicts import Direction, Step

# A person's patience, in simulated seconds: then the run is aborted, and what is not answered then never is.
_PATIENCE_S: Final = 300.0
_ACTIONS: Final = (
    *(("prompt", 5), ("steer", 4), ("follow_up", 4), ("abort", 2), ("get_state", 1), ("get_messages", 1)),
    *(("get_queue", 1), ("clear_queue", 2), ("set_session_name", 1), ("compact", 1), ("abort_retry", 1)),
    *(("new_session", 1), ("set_steering_mode", 1), ("set_follow_up_mode", 1)),
)
_NAMES: Final = [name for name, _ in _ACTIONS]
_WEIGHTS: Final = [weight for _, weight in _ACTIONS]
_REPEATS: Final = 0.7
_SECOND_TRIES: Final = 0.2
"""How often a message that was rejected is sent again to the next process."""
_DIALOGS: Final = 0.25
"""How often a command opens a dialog, where the agent has the extension for it."""
_LEAVING: Final = frozenset({"abort", "new_session"})
_NOT_SAVED: Final = "session_not_saved"
_TEXTS: Final = frozenset({"prompt", "steer", "follow_up"})
_SECOND_ABORTS: Final = 0.3
"""How often an abort follows another one at once."""
_LENGTHS: Final = (0, 0, 0, 0, 5, 5, 400, 1500)


def draw_text(draws: random.Random, number: int) -> str:
    """Draw the text of a message: some words, or several pages of a file."""
    return f"message {number:04}" + " and more" * draws.choice(_LENGTHS)


@dataclass(slots=True)
class SentMessage:
    """A message of the user, and what became of it as its client knows."""

    command: Record
    """As it was sent first."""
    text: str
    is_elsewhere: bool
    """Sent behind a `new_session`: the session that a next process opens does not know it, so it is not repeated."""
    is_astride: bool = False
    """Not answered when a client of a host has replaced the session: repeated, it may be in two of them."""
    is_accepted: bool = False
    is_rejected: bool = False
    """The last answer was an error, and not that its outcome is unknown."""
    is_returned: bool = False
    """An answer has returned it."""
    is_sent_on: bool = False
    """The model has answered behind its delivery."""


@dataclass(slots=True)
class Ledger:
    """All messages of a history, by their ids, and the withdrawals whose answer is missing."""

    messages: dict[str, SentMessage] = field(default_factory=dict[str, SentMessage])
    by_text: dict[str, SentMessage] = field(default_factory=dict[str, SentMessage])
    withdrawals: dict[str, Record] = field(default_factory=dict[str, Record])
    """By their `by`."""
    count: int = 0
    """How many there were."""
    withdrawn: set[str] = field(default_factory=set[str])
    """The `by` of those that were answered with success."""
    open_withdrawals: set[str] = field(default_factory=set[str])
    """The `by` of those of clients of a host that are not answered."""
    astride: set[str] = field(default_factory=set[str])
    """Those that were not answered when the session was replaced: repeated, another session answers them."""
    is_trusted: bool = True
    """Whether no disk has failed until now."""

    def settle(self, command: Record, response: Record) -> str | None:
        """Take an answer; return what is wrong with the texts that it returns."""
        data = as_record(response.get("data"))
        if (message := self.messages.get(command.get("messageId", ""))) is not None:
            message.is_accepted = message.is_accepted or response["success"]
            is_unknown = response.get("outcome") == "unknown" or response.get("errorCode") == "outcome_unknown"
            message.is_rejected = not (response["success"] or is_unknown)
            message.is_returned = message.is_returned or data.get("state") == "returned"
        if command["type"] == "clear_queue" and response["success"]:
            self.withdrawals.pop(command["by"], None)
            self.withdrawn.add(command["by"])
            self.open_withdrawals.discard(command["by"])
        returned = data if command["type"] == "clear_queue" else as_record(data.get("cleared"))
        for text in (*(texts(returned, "steering") or ()), *(texts(returned, "followUp") or ())):
            if (message := self.by_text.get(text)) is None:
                return f"a text was returned that was never sent: {text[:80]!r}"
            message.is_returned = True
        return None

    def leave_session(self) -> None:
        """A command is sent, or answered, that replaces the session."""
        for message in self.messages.values():
            message.is_astride = message.is_astride or not (message.is_accepted or message.is_rejected)
        self.astride |= self.open_withdrawals

    def forget(self, command: Record) -> None:
        """Take notice that a command is not sent, now or later."""
        if (message := self.messages.get(command.get("messageId", ""))) is not None:
            message.is_elsewhere = True
        self.withdrawals.pop(command.get("by", ""), None)


class Deliveries:
    """What has been delivered to the model, as the records of one connection show it."""

    def __init__(self, ledger: Ledger) -> None:
        """Begin outside of a run."""
        self._ledger = ledger
        self._waiting: list[str] = []

    def take(self, record: Record) -> None:
        """Take an event. Without its disk an agent asks the model all the same, so nothing is noted then."""
        match record:
            case {"type": "agent_start" | "agent_settled"}:
                self._waiting.clear()
            case {"type": "message_start", "messageId": str(message_id)}:
                self._waiting.append(message_id)
            case {"type": "message_update"} if self._waiting and self._ledger.is_trusted:
                for message_id in self._waiting:
                    if (message := self._ledger.messages.get(message_id)) is not None:
                        message.is_sent_on = True
                self._waiting.clear()
            case _:
                pass


class Client:
    """The client during one life of the agent."""

    def __init__(  # noqa: PLR0913 - all that it reaches
        self,
        draws: random.Random,
        trace: Trace,
        ledger: Ledger,
        to_agent: Pipe,
        from_agent: Pipe,
        report: Callable[[str, str], None],
        is_sent: Callable[[int], bool] = lambda _: True,
        *,
        has_dialogs: bool = False,
        on_record: Callable[[str], bool],
        bursts: Bursts | None = None,
        tries_again: bool = False,
    ) -> None:
        """Send nothing yet.

        Args:
            draws: Decides.
            trace: Takes what crosses the edge.
            ledger: That of the history.
            to_agent: The agent's stdin.
            from_agent: Its stdout.
            report: Takes the source and the text of a finding.
            is_sent: Whether the command with this number is sent; it is drawn in any case.
            has_dialogs: Whether the agent has the extension that opens dialogs.
            on_record: Takes the type of each record, and returns whether all has crashed before it was read.
            bursts: Decides when several commands are sent in one write; None: never.
            tries_again: Whether a message of a former life that could not be saved is sent again at once.
        """
        self._tries_again = tries_again
        self._is_sent = is_sent
        self.steps: list[Step] = []
        """What has crossed the edge in this life."""
        self._draws = draws
        self._trace = trace
        self._ledger = ledger
        self._to_agent = to_agent
        self._from_agent = from_agent
        self._report = report
        self._on_record = on_record
        self._bursts = bursts
        self._owed: dict[str, Record] = {}
        self._is_running = False
        self._is_elsewhere = False
        self._is_ending = False
        self._changed = trio.Event()
        self._begun_s = trio.current_time()
        self._writing = trio.Lock()
        self._deliveries = Deliveries(ledger)
        self._dialogs = Dialogs(draws, report) if has_dialogs else None
        self._unsaved: Record | None = None
        """A message that could not be saved, and is sent again now."""
        self._former = set(ledger.messages)
        """The ids of messages of former lives that were not sent again because of that."""

    async def read(self) -> None:
        """Read what the agent writes, until it has ended."""
        lines = LineSplitter()
        async with trio.open_nursery() as nursery:
            while data := await self._from_agent.receive_some():
                for line in lines.feed(data):
                    if (answer := self._take(line)) is not None:
                        nursery.start_soon(self._answer, *answer)
                    if (refused := self._unsaved) is not None:
                        self._unsaved = None
                        nursery.start_soon(self._try_again, refused)
            nursery.cancel_scope.cancel()
        if lines.rest:
            self._trace.note("rest", lines.rest.decode("utf-8", "replace"))

    async def _answer(self, delay_s: float, response: Record) -> None:
        """Answer a dialog, after some time."""
        assert self._dialogs is not None
        await trio.sleep(delay_s)
        if not self._is_ending:
            await self._write(self._dialogs.answered(response))

    async def drive(self, count: int) -> None:
        """Repeat what was not answered, send so many commands, wait until all is quiet, and close stdin."""
        for message in tuple(self._ledger.messages.values()):
            if message.is_accepted or message.is_elsewhere:
                continue
            if self._draws.random() < (_SECOND_TRIES if message.is_rejected else _REPEATS):
                message.is_rejected = False  # until the answer to this
                await self._send(dict(message.command))
        for withdrawal in tuple(self._ledger.withdrawals.values()):
            if self._draws.random() < _REPEATS:
                await self._send(dict(withdrawal))
        for number in range(1, count + 1):
            await self._pause()
            command = self._command()
            if not self._is_sent(number):
                self._ledger.forget(command)
                continue
            await self._send(command)
            if command["type"] == "abort" and self._draws.random() < _SECOND_ABORTS:
                await self._send({"type": "abort", "queue": command["queue"]})
            if self._bursts is not None and (names := self._bursts.next()):
                burst = [self._of_burst(name, self._bursts.draws) for name in names]
                if self._is_sent(-number):
                    await self._send(*burst)
                for each in () if self._is_sent(-number) else burst:
                    self._ledger.forget(each)
        await self._quiet()
        self._is_ending = True
        if self._dialogs is not None:
            self._dialogs.leave()
        self._to_agent.end()

    async def _pause(self) -> None:
        match self._draws.randrange(5):
            case 0 | 1:
                await trio.sleep(self._draws.choice((0.0, 0.001, 0.02, 0.3, 3.0)))
            case 2:
                with trio.move_on_after(5.0):
                    await self._changed.wait()
            case 3:
                with trio.move_on_after(20.0):
                    while self._is_running or self._owed:
                        await self._changed.wait()
            case _:
                pass

    async def _quiet(self) -> None:
        """Wait until nothing is owed and no run is in progress; abort once, and report what is owed behind that."""
        for attempt in range(2):
            with trio.move_on_after(_PATIENCE_S):
                while self._owed or self._is_running or (self._dialogs is not None and self._dialogs.is_open):
                    await self._changed.wait()
                return
            if attempt == 0:
                await self._send({"type": "abort", "queue": "hold"})
        owed = ", ".join(f"{command['type']} {key}" for key, command in self._owed.items())
        self._report("stalled", f"nothing happens, and owed are: {owed or 'the end of the run'}")

    async def _try_again(self, command: Record) -> None:
        """Send a message of a former life again that could not be saved; once."""
        self._former.remove(message_id := command["messageId"])
        self._ledger.messages[message_id].is_rejected = False  # until the answer to this
        await self._send({key: value for key, value in command.items() if key != "id"})

    def _of_burst(self, name: str, draws: random.Random) -> Record:
        kind, _, queue = name.partition(":")
        if queue:
            return {"type": kind, "queue": queue}
        return self._message(kind, draws) if kind in _TEXTS else {"type": kind}

    def _command(self) -> Record:
        draws = self._draws
        if self._dialogs is not None and draws.random() < _DIALOGS:
            return self._dialogs.command()
        name = draws.choices(_NAMES, _WEIGHTS)[0]
        match name:
            case "prompt" | "steer" | "follow_up":
                return self._message(name, draws)
            case "abort":
                return {"type": name, "queue": draws.choice(("hold", "clear", "continue"))}
            case "clear_queue":
                self._ledger.count += 1
                withdrawal = {"type": name, "by": f"w{self._ledger.count}"}
                self._ledger.withdrawals[withdrawal["by"]] = withdrawal
                return dict(withdrawal)
            case "set_session_name":
                return {"type": name, "name": f"name {draws.randrange(100)}"}
            case "set_steering_mode" | "set_follow_up_mode":
                return {"type": name, "mode": draws.choice(("all", "one-at-a-time"))}
            case _:
                return {"type": name}

    def _replacing(self) -> list[str]:
        """Return the ids of the commands that replace the session, and are not answered."""
        return [key for key, command in self._owed.items() if command["type"] == "new_session"]

    def _message(self, name: str, draws: random.Random) -> Record:
        number = len(self._ledger.messages)
        text = draw_text(draws, number)
        command: Record = {"type": name, "message": text, "messageId": f"m{number}"}
        if name == "prompt" and draws.random() < 0.7:
            command["streamingBehavior"] = draws.choice(("steer", "followUp"))
        message = SentMessage(command, text, self._is_elsewhere)
        self._ledger.messages[command["messageId"]] = self._ledger.by_text[text] = message
        return dict(command)

    async def _send(self, *commands: Record) -> None:
        """Send commands in one write."""
        for number, command in enumerate(commands):
            draws = self._draws if len(commands) == 1 or self._bursts is None else self._bursts.draws
            command["id"] = f"c{len(self.steps) + number}-{draws.getrandbits(16):04x}"
            self._owed[command["id"]] = command
            self._is_elsewhere = self._is_elsewhere or command["type"] == "new_session"
            if self._dialogs is not None and command["type"] in _LEAVING:
                self._dialogs.leave()
            if self._dialogs is not None and command.get("message", "").startswith("/ask "):
                self._dialogs.follow(command, self._replacing())
        await self._write(*commands)

    async def _write(self, *records: Record) -> None:
        lines = [encode_record(record) for record in records]
        for line, record in zip(lines, records, strict=True):
            self._step("in", line, record)
            self._trace.note("in", line.decode().rstrip("\n"))
        async with self._writing:
            await self._to_agent.send_all(b"".join(lines))

    def _step(self, direction: Direction, line: bytes, record: Record | None) -> None:
        text, at_s = line.decode("utf-8", "surrogateescape").removesuffix("\n"), trio.current_time() - self._begun_s
        self.steps.append(Step(len(self.steps) + 1, direction, text, record, at_s, 0))

    def _take(self, line: bytes) -> tuple[float, Record] | None:
        """Take a line; return what is answered to it by itself, and after how many seconds."""
        answer = None
        self._trace.note("out", line.decode("utf-8", "replace"))
        try:
            record = parse_record(line)
        except NotARecord as error:
            self._step("out", line, None)
            self._report("framing", f"not a record: {error}: {line[:200]!r}")
            return None
        if self._on_record(str(record.get("type"))):
            return None
        self._step("out", line, record)
        self._deliveries.take(record)
        match record.get("type"):
            case "agent_start":
                self._is_running = True
            case "agent_settled":
                self._is_running = False
            case "response":
                self._settle(record)
            case "extension_ui_request" if self._dialogs is not None:
                answer = self._dialogs.take(record)
            case _:
                pass
        self._changed.set()
        self._changed = trio.Event()
        return answer

    def _settle(self, response: Record) -> None:
        command = self._owed.pop(str(response.get("id")), None)
        if command is None:
            self._report("answers", f"a response that nothing asked for: {response}")
            return
        if self._dialogs is not None and command["type"] in _LEAVING:
            self._dialogs.leave(is_answered=True)
            self._dialogs.replaced(command["id"])
        if response.get("errorCode") == _NOT_SAVED and command.get("messageId") in self._former:
            self._unsaved = command if self._tries_again and not self._is_ending else None
        if (problem := self._ledger.settle(command, response)) is not None:
            self._report("deliveries", problem)
