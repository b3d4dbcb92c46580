"""A connection of an editor to one adapter, from its start to its end: requests, their answers, and questions.

It ends in order, with the end of the adapter's stdin, by a crash of the adapter, or since the editor itself is gone.
Each message in both directions is held to the schema and to the observer of the version.
"""

import json
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import trio

from pinnace_fuzz.acp.agent import OBSERVERS
from pinnace_fuzz.acp.conversation import text_of
from pinnace_fuzz.acp.schema import NotOfTheSchema, check_call, check_result
from pinnace_fuzz.records import LineSplitter
from pinnace_fuzz.simulation.editors.adapters import AdapterProcess
from pinnace_fuzz.simulation.editors.answers import Answers, Sent, is_of
from pinnace_fuzz.simulation.editors.prompts import EditorMessage, Messages
from pinnace_fuzz.simulation.editors.questions import Asks, Questions, draw_answer
from pinnace_fuzz.simulation.editors.views import SessionView
from pinnace_fuzz.simulation.parts import Parts
from pinnace_fuzz.simulation.trace import Trace

Json: TypeAlias = dict[str, Any]  # Any: JSON

PATIENCE_S: Final = 300.0
"""How long an editor waits when nothing happens; then its user cancels what runs."""
_END_S: Final = 60.0
"""In which an adapter ends after its stdin."""
_METHODS: Final = ("confirm", "select", "input")
_BARRIER: Final = "_simulation/barrier"
"""A method that no adapter has: the error comes behind what was done before."""
_INFO: Final = {"name": "simulation", "version": "0"}
# Of the process that simulates, and of a real clock: in texts about sessions that are in use.
_REAL: Final = re.compile(r"process \d+, for \d+ \w+")


class Surroundings(NamedTuple):
    """What the editors of a history share."""

    trace: Trace
    messages: Messages
    report: Callable[[str, str], None]
    """Takes the source and the text of a finding."""
    parts: Parts
    folder: str
    flags: tuple[str, ...]
    """Of each adapter."""
    asks: Asks


class Lost(Exception):
    """The adapter has ended before what was waited for."""


class Stalled(Exception):
    """The adapter owes something, and nothing happens; it was reported."""


class Person(Protocol):
    """What a connection knows of its editor."""

    name: str
    version: int
    views: dict[str, SessionView]
    questions: Questions
    is_disturbed: bool


class EditorConnection:
    """One adapter, from its start to its end."""

    def __init__(self, editor: Person, adapter: AdapterProcess, draws: random.Random, around: Surroundings) -> None:
        """Send nothing yet.

        Args:
            editor: Of whom it is.
            adapter: A process that has just begun.
            draws: Decides.
            around: What all editors share.
        """
        self._name = editor.name
        self._version = editor.version
        self._adapter = adapter
        self._draws = draws
        self._around = around
        self._editor = editor
        self._observer = OBSERVERS[editor.version]()
        self._sent: dict[object, Sent] = {}
        """Requests without a response."""
        self._count = 0
        self._changed = trio.Event()
        self._is_lost = False
        self._has_ended_stdin = False
        self._writing = trio.Lock()
        self._nursery: trio.Nursery | None = None
        self._has_notices = True
        """Whether the editor shows what belongs to no answer."""
        self._answers = Answers(editor.version, editor.views, around.messages, self._report)

    @property
    def owed(self) -> list[str]:
        """What is not answered, and which sessions are at work."""
        return [
            *(f"{sent.method} {identity}" for identity, sent in self._sent.items()),
            *(f"the end of the work of {view.identity}" for view in self._editor.views.values() if view.is_at_work),
            *self._editor.questions.open,
        ]

    async def run(self, converse: Callable[[], Awaitable[bool]]) -> bool:
        """Have the conversation, and end the adapter; return whether everything is done."""
        is_done = False
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(self._read)
            try:
                is_done = await converse()
                if is_done or self._draws.random() < 0.6:
                    await self._end()
                else:
                    self._editor.is_disturbed = True
                    self._around.trace.note(self._name, "is gone")
                    self._adapter.lose_editor()
                    await self._wait_ended()
            except Stalled:
                is_done = True  # nothing more is expected
                self._adapter.lose_editor()
                await self._wait_ended()
            except (Lost, trio.BrokenResourceError):
                await self._adapter.process.ended.wait()
                self._check_end()
            nursery.cancel_scope.cancel()
        return is_done

    async def _end(self) -> None:
        """End the adapter's stdin: each request that it has read is answered, and it ends."""
        self._has_ended_stdin = True
        self._editor.questions.end_all()
        self._around.trace.note(self._name, "ends stdin")
        async with self._writing:
            self._adapter.stdin.end()
        await self._wait_ended()
        with trio.move_on_after(_END_S):
            while not self._is_lost:
                await self._changed.wait()
        self._check_end()
        if not self._has_notices:
            # Without them a notice comes with the next turn, and there is none.
            self._around.messages.see_returned_of(self._editor.views)
        if not self._adapter.process.has_crashed:
            for fault in self._observer.closed():
                self._report("observer", str(fault))

    async def _wait_ended(self) -> None:
        process = self._adapter.process
        with trio.move_on_after(_END_S) as limit:
            await process.ended.wait()
        if limit.cancelled_caught and not process.has_crashed:
            self._report("stalled", f"the adapter has not ended {_END_S:.0f} s after its stdin")

    def _check_end(self) -> None:
        process = self._adapter.process
        if process.has_crashed:
            return
        if process.error is not None:
            self._report("failure", f"the adapter has raised {process.error!r}")
        elif process.status != 0 or not self._has_ended_stdin:
            self._report("failure", f"the adapter has ended by itself, with the exit code {process.status}")

    def _report(self, source: str, text: str) -> None:
        self._around.report(source, f"{self._name} (version {self._version}): {text}")

    # What it does.

    async def greet(self) -> None:
        """Initialize the adapter."""
        draws = self._draws
        offers: Json = {"elicitation": {"form": {}}} if draws.random() < 0.5 else {}
        if self._version == 1:
            session: Json = {"compaction": {}, **({"notices": {}} if draws.random() < 0.5 else {})}
            self._has_notices = "notices" in session
            params: Json = {"protocolVersion": 1, "clientCapabilities": {**offers, "session": session}}
        else:
            params = {"protocolVersion": 2, "info": _INFO, "capabilities": offers}
        await self._answer(await self.request("initialize", params))

    async def begin_session(self, *, must_succeed: bool) -> None:
        """Open a new session."""
        params: Json = {"cwd": self._around.folder, "mcpServers": []}
        answer = await self._answer(await self.request("session/new", params))
        if must_succeed and "result" not in answer:
            self._report("sessions", f"no session can be opened: {answer['error']}")

    async def open(self, view: SessionView, *, shows: bool, must_succeed: bool = False) -> None:
        """Open a session again, perhaps with what was shown of it."""
        params: Json = {"sessionId": view.identity, "cwd": self._around.folder, "mcpServers": []}
        method = "session/resume"
        if shows and self._version == 1:
            method = "session/load"
        elif shows:
            params["replayFrom"] = {"type": "start"}
        was_at_rest = view.is_open and not view.is_at_work and not self._has_open(view)
        if was_at_rest:
            view.settle()
            self._editor.questions.has_ended(view.identity)
        is_exact = was_at_rest and view.is_whole
        is_mixed = view.is_open and not was_at_rest
        works = view.works
        answer = await self._answer(await self.request(method, params))
        is_mixed = is_mixed or view.works != works
        if is_mixed:
            view.is_ordered = False
        if is_mixed and self._version == 1:
            view.is_whole = False  # chunks that came live can't be distinguished from those of the replay
        if "result" not in answer:
            if must_succeed and view.has_messages:
                self._report("sessions", f"{view.identity} can't be opened: {answer['error']}")
            return
        if shows and not (is_mixed and self._version == 1):
            find = view.find_other if is_exact and not is_mixed else view.find_missing
            for text in find():
                self._report("replay", f"{view.identity}: {text}")

    async def show_again(self, view: SessionView) -> None:
        """Open a session that is at rest again: it shows what was shown live."""
        if not view.is_open:
            return
        await self.open(view, shows=True, must_succeed=True)

    async def prompt(self, view: SessionView) -> None:
        """Send a prompt, or a command of an extension."""
        draws, asks = self._draws, self._around.asks
        if asks.often and draws.random() < asks.often:
            self._count += 1
            method, limit_s = draws.choice(_METHODS), draws.choice(asks.limits_s)
            text = f"/ask {self._count} {method} {limit_s}"
            self._editor.questions.command(view.identity, f"ask {self._count}", has_limit=limit_s > 0)
            await self.request("session/prompt", _said(view, text))
            return
        message = self._around.messages.draw(draws, view.identity)
        await self.request("session/prompt", _said(view, message.text), message)

    async def steer(self, view: SessionView) -> None:
        """Give the model a message during a run."""
        message = self._around.messages.draw(self._draws, view.identity)
        params = _said(view, message.text)
        if self._draws.random() < 0.3:
            params["_meta"] = {"pinnace": {"deliverAs": "followUp"}}
        view.is_cancelled = False  # the work that is being cancelled may go on with this message
        await self.request("_session/steering", params, message)

    async def cancel(self, view: SessionView) -> None:
        """Cancel the work of a session."""
        before = [sent for sent in self._sent.values() if sent.method == "session/prompt" and is_of(sent, view)]
        self._editor.questions.end(view.identity)
        await self._notify("session/cancel", {"sessionId": view.identity})
        await self._answer(await self.request(_BARRIER, {}))
        # What has ended before the barrier was on its way.
        self._answers.cancelled += [sent for sent in before if not sent.answers]
        view.is_cancelled = view.has_turn and self._version == 2

    async def cancel_request(self) -> None:
        """Cancel one request."""
        if self._sent:
            identity = self._draws.choice([*self._sent])
            self._editor.questions.end(self._sent[identity].params.get("sessionId", ""))
            await self._notify("$/cancel_request", {"requestId": identity})

    async def close(self, view: SessionView) -> None:
        """Close a session: its agent ends."""
        self._editor.questions.end(view.identity)
        await self._answer(await self.request("session/close", {"sessionId": view.identity}))
        self._editor.questions.has_ended(view.identity)

    async def rest(self) -> None:
        """Wait until nothing is owed; cancel what does not end."""
        for attempt in range(3):
            with trio.move_on_after(PATIENCE_S):
                while self.owed:
                    await self.changed()
                for view in self._editor.views.values():
                    if view.is_open:
                        view.settle()
                return
            if attempt < 2:
                for view in self._editor.views.values():
                    if view.is_open:
                        self._editor.questions.end(view.identity)
                        await self._notify("session/cancel", {"sessionId": view.identity})
        self._report("stalled", f"owed are: {', '.join(self.owed)}")
        raise Stalled

    # Messages.

    async def request(self, method: str, params: Json, message: EditorMessage | None = None) -> Sent:
        """Send a request."""
        self._count += 1
        identity = self._count
        sent = self._sent[identity] = Sent(method, params, [], message)
        if (view := self._view(sent)) is not None and (method == "session/load" or "replayFrom" in params):
            view.begin_again()
        await self._write({"jsonrpc": "2.0", "id": identity, "method": method, "params": params})
        return sent

    async def changed(self) -> None:
        """Wait for the next message of the adapter.

        Raises:
            Lost: It has ended.
        """
        if self._is_lost:
            raise Lost
        await self._changed.wait()
        if self._is_lost:
            raise Lost

    async def _answer(self, sent: Sent) -> Json:
        with trio.move_on_after(PATIENCE_S):
            while not sent.answers:
                await self.changed()
            return sent.answers[0]
        self._report("stalled", f"{sent.method} has no answer after {PATIENCE_S:.0f} s")
        raise Stalled

    async def _notify(self, method: str, params: Json) -> None:
        await self._write({"jsonrpc": "2.0", "method": method, "params": params})

    async def _write(self, message: Json) -> None:
        line = json.dumps(message, ensure_ascii=False)
        self._around.trace.note(f"{self._name} in", line)
        self._observer.sent(message)
        async with self._writing:
            await self._adapter.stdin.send_all(f"{line}\n".encode())

    async def _read(self) -> None:
        lines = LineSplitter()
        while received := await self._adapter.stdout.receive_some():
            for line in lines.feed(received):
                self._take_line(line)
            self._wake()
        self._is_lost = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _take_line(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\n")
        self._around.trace.note(f"{self._name} out", _REAL.sub("<real>", text))
        try:
            message: Json = json.loads(text)
        except ValueError as error:
            self._report("framing", f"no JSON: {error}: {text[:200]!r}")
            return
        sent = self._sent.get(message.get("id")) if "method" not in message else None
        try:
            if "method" in message:
                check_call(message, "client", self._version)
            elif sent is not None:
                check_result(message, sent.method, "agent", self._version)
        except NotOfTheSchema as error:
            self._report("schema", str(error))
            return
        for fault in self._observer.received(message):
            self._report("observer", str(fault))
        if "method" not in message:
            if sent is not None:
                self._answers.settle(self._sent.pop(message["id"]), message)
        elif "id" in message:
            self._answer_question(message)
        elif message["method"] == "$/cancel_request":
            self._editor.questions.withdraw(message["params"]["requestId"])
        elif message["method"] == "session/update":
            self._show(message)

    def _show(self, message: Json) -> None:
        if (view := self._editor.views.get(message["params"]["sessionId"])) is not None:
            wrong = view.take(message, has_prompt=self._has_prompt(view))
            if wrong is not None and not self._has_ended_stdin:  # else an agent of the host goes on by itself
                self._report("cancellation", wrong)
            self._editor.questions.take(view.identity, message["params"]["update"])
        update: Json = message["params"]["update"]
        if update["sessionUpdate"] in ("user_message", "user_message_chunk"):
            content: Json | list[Json] = update.get("content") or []
            self._around.messages.see(text_of(content if isinstance(content, list) else [content]))
        if "Not delivered" in json.dumps(update):
            self._around.messages.see_returned(json.dumps(message, ensure_ascii=False))

    def _answer_question(self, message: Json) -> None:
        """Answer a question of the adapter: at once, late, or never."""
        self._editor.questions.ask(message)
        answer = draw_answer(message, self._draws)
        if answer is not None and self._nursery is not None:
            self._nursery.start_soon(self._reply, *answer)

    async def _reply(self, delay_s: float, reply: Mapping[str, Any]) -> None:
        await trio.sleep(delay_s)
        if self._has_ended_stdin or self._is_lost:
            return
        self._editor.questions.answer(reply)
        try:
            await self._write(dict(reply))
        except trio.BrokenResourceError:
            self._is_lost = True
            self._wake()

    # Names.

    def _view(self, sent: Sent) -> SessionView | None:
        identity: str = sent.params.get("sessionId", "")
        return self._editor.views.get(identity)

    def _has_prompt(self, view: SessionView) -> bool:
        return any(sent.method == "session/prompt" and is_of(sent, view) for sent in self._sent.values())

    def _has_open(self, view: SessionView) -> bool:
        return any(is_of(sent, view) for sent in self._sent.values())


def _said(view: SessionView, text: str) -> Json:
    return {"sessionId": view.identity, "prompt": [{"type": "text", "text": text}]}
