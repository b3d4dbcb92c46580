"""All sub-agents of one agent: how many there may be, what each reports, and what the session keeps of it.

A sub-agent is begun in the session before it is started, and ended in it, with its usage, when its process has ended:
so nothing is lost or counted twice, wherever a crash cuts. It ends with the call that has started it; one that a client
has started ends with the session that was current then. Rules R-SUB-01 to R-SUB-06, R-SUB-08 to R-SUB-10, R-SUB-12,
R-SUB-13.
"""

import math
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import trio

from pinnace_agent.config.configuration import Configuration
from pinnace_agent.core.json_access import as_array, as_object
from pinnace_agent.core.ports.children import (
    MESSAGE_WORDS,
    TASK_WORDS,
    ChildNotSaved,
    ChildRefused,
    ChildReport,
    ChildRequest,
    OnStarted,
)
from pinnace_agent.core.surroundings import environment, is_embedded, system
from pinnace_agent.core.trace_context import TRACE_VARIABLES
from pinnace_agent.session.child_agents import (
    ChildBegun,
    ChildEnd,
    ChildMessage,
    MessageState,
    child_ended,
    child_file,
    child_remains,
    drop_child_begun,
    drop_child_message,
    ended_messages,
    keep_child_begun,
    keep_child_message,
    shown_child,
    take_back,
    usage_of,
)
from pinnace_agent.session.conversation import Session
from pinnace_agent.session.identity import new_session_id
from pinnace_agent.session.library import create_session_file
from pinnace_agent.session.store.file import SaveError
from pinnace_agent.session.totals import file_totals
from pinnace_agent.tools.validation import number_text
from pinnace_rpc.options.options import Options, StartupError
from pinnace_rpc.subagents.mailbox import Mailbox
from pinnace_rpc.subagents.process import ChildGone, ChildProcess, Record, child_process, is_too_long
from pinnace_rpc.subagents.progress import Progress
from pinnace_rpc.subagents.rights import (
    DEPTH_VARIABLE,
    WITHHELD_VARIABLES,
    ChildStart,
    ParentState,
    check_state,
    child_start,
)
from pinnace_spec.records.messages import ASKED_BY, ApprovalMode, Model
from pinnace_spec.rules import errors
from pinnace_spec.rules.limits import MAX_QUEUED_MESSAGES
from pinnace_spec.wire.framing import MAX_RECORD_BYTES

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.engine.interpreter import EffectInterpreter

MOST_AT_ONCE: Final = 4
MOST_DEPTH: Final = 1
"""The usual limits: a sub-agent starts none itself."""
_TOO_DEEP: Final = 1 << 30
_KEPT_TASK_CHARS: Final = 500
_STRICTNESS: Final[Mapping[ApprovalMode, int]] = {"never": 0, "ask": 1, "read-only": 2}
_SHOWN_RECORDS: Final[Collection[object]] = frozenset(
    {
        *("message_start", "message_update", "message_end"),
        *("tool_execution_start", "tool_execution_update", "tool_execution_end"),
        *("compaction_start", "compaction_end", "auto_retry_start", "auto_retry_end", "subagent_event"),
    }
)
"""Of a sub-agent, for a client that is shown what it does."""


@dataclass(slots=True)
class _Running:
    begun: ChildBegun
    approval: ApprovalMode
    changed: trio.Event
    cancellation: trio.CancelScope
    reserved: float
    """What it may cost."""
    mailbox: Mailbox
    has_task: trio.Event
    """Set when it has accepted its task, which precedes every message."""
    outgoing: "trio.MemorySendChannel[str]"
    """Ids of the messages that it is to be sent."""
    incoming: "trio.MemoryReceiveChannel[str]"
    session: Session
    """The one that has started it."""
    start: ChildStart
    has_begun: bool = False
    """Whether its beginning is on the disk: clients see it from then on."""
    has_ended: bool = False
    limit_s: float | None = None
    """After how many seconds it is ended; None: its call decides."""
    over: trio.Event = field(default_factory=trio.Event)
    """Set when nothing of it works any more."""
    on_started: Callable[[], None] | None = None
    """Called when its beginning is on the disk."""
    is_cancelled: bool = False
    """Whether its end was asked for."""

    @property
    def is_of_client(self) -> bool:
        """Whether a client has started it."""
        return "toolCallId" not in self.begun

    def cancel(self) -> None:
        """End it."""
        self.is_cancelled = True
        self.mailbox.close()
        self.cancellation.cancel()

    @property
    def why_cancelled(self) -> str:
        """Why it was ended where that was not asked for: its time is over."""
        is_late = self.limit_s is not None and not self.is_cancelled
        return f"it did not end within {number_text(self.limit_s or 0)} seconds" if is_late else ""


class Children:
    """Implements `ChildAgents`."""

    def __init__(
        self,
        options: Options,
        start_folder: str,
        *,
        is_project_trusted: bool,
        key_provider: Callable[[], str | None],
        withheld: Mapping[str, str],
        most: int | None,
        depth: int | None,
    ) -> None:
        """Start nothing yet.

        Args:
            options: Those of this process.
            start_folder: The folder that it was started in.
            is_project_trusted: Whether that has brought files of a project, and they were trusted.
            key_provider: Returns the provider that the key of the command line is for.
            withheld: Variables that it gets although they are not in the environment of this process any more.
            most: How many may work at the same time; None: as usual.
            depth: How many may be below each other; None: as usual.
        """
        self._options = options
        self._start_folder = start_folder
        self._is_project_trusted = is_project_trusted
        self._key_provider = key_provider
        self._withheld = withheld
        self._most = MOST_AT_ONCE if most is None else most
        self._max_depth = MOST_DEPTH if depth is None else depth
        self._depth = _depth()
        self._running: dict[str, _Running] = {}
        self._answers: dict[str, str] = {}
        """The last answers of those whose sessions are in memory."""
        self._is_shown = False
        """Whether the client is sent what each does."""
        self._agent: EffectInterpreter | None = None

    def follow(self, agent: "EffectInterpreter") -> None:
        """Take the agent that starts them."""
        self._agent = agent

    async def run(self, request: ChildRequest, on_report: Callable[[ChildReport], None]) -> ChildReport:
        """Start an agent, have it do its task, and end it; see the port.

        Raises:
            ChildRefused: It was not started, or has other rights than it was to get.
        """
        return await self._carry_out(request, self._admit(request), on_report)

    def start(self, request: ChildRequest, on_started: OnStarted) -> None:
        """Start an agent for a client; see the port.

        Raises:
            ChildRefused: It is not started.
        """
        agent = self._agent
        assert agent is not None
        if agent.approval_mode == "read-only":
            raise ChildRefused("this session is read-only (--tool-approval read-only), so it starts no sub-agent")
        session = agent.session
        if (problem := session.claim()) is not None:
            raise ChildNotSaved(problem)
        running = self._admit(request)
        limits = [each for each in (request.timeout_s, agent.profile.limits.max_run_s) if each is not None]
        outcome: list[Mapping[str, object] | ChildRefused | None] = []

        def report(result: Mapping[str, object] | ChildRefused | None) -> None:
            if not outcome:
                outcome.append(result)
                on_started(result)

        running.on_started = lambda: report(shown_child(running.begun, session.path))

        async def work() -> None:
            if limits:
                running.limit_s = min(limits)
                running.cancellation.deadline = trio.current_time() + min(limits)
            try:
                last = await self._carry_out(request, running, lambda _: None)
            except ChildRefused as error:
                report(None if running.is_cancelled else error)
                return
            if session.path is None:
                self._answers[last.agent_id] = last.text

        def ended(_cancelled: bool, _failure: BaseException | None) -> None:
            self._forget(running)  # also where the work had no first step
            session.users -= 1
            agent.sessions.close_unused()
            report(None)

        session.users += 1  # the end is appended to it
        agent.jobs.start(f"agent:{running.begun['agentId']}", work, ended)

    def _admit(self, request: ChildRequest) -> _Running:
        """Decide what an agent is started with, and count it.

        Raises:
            ChildRefused: It may not be started, or not so.
        """
        agent = self._agent
        assert agent is not None
        if self._depth >= self._max_depth:
            raise ChildRefused(
                f"tools.maxSubagentDepth is {self._max_depth}: this agent is a sub-agent that may start none"
            )
        if len(self._running) >= self._most:
            raise ChildRefused(f"tools.maxSubagents is {self._most}, and so many sub-agents work: wait until one ends")
        if is_too_long(f"{TASK_WORDS}{request.task}"):
            raise ChildRefused(f"task: it is longer than a sub-agent may be sent, {MAX_RECORD_BYTES} bytes of JSON")
        session = agent.session
        start = self._start(agent, request)
        agent_id = new_session_id()
        begun: ChildBegun = {
            "agentId": agent_id,
            "parentId": session.id,
            "task": request.task[:_KEPT_TASK_CHARS],
            "provider": start.provider,
            "model": start.model,
            "cwd": start.session_folder,
        }
        if request.call_id is not None:
            begun["toolCallId"] = request.call_id
        if request.message_id is not None:
            begun["messageId"] = request.message_id
        # What may wait is limited where it is taken; those that were dropped are sent, too.
        outgoing, incoming = trio.open_memory_channel[str](math.inf)
        running = self._running[agent_id] = _Running(
            begun,
            start.approval,
            trio.Event(),
            trio.CancelScope(),
            start.max_cost or 0,
            Mailbox(),
            trio.Event(),
            outgoing,
            incoming,
            session,
            start,
        )
        agent.approval.on_mode = self._change_modes
        return running

    def _forget(self, running: _Running) -> None:
        self._running.pop(running.begun["agentId"], None)
        running.over.set()

    async def _carry_out(
        self, request: ChildRequest, running: _Running, on_report: Callable[[ChildReport], None]
    ) -> ChildReport:
        """Start an agent that was admitted, have it do its task, and end it."""
        session, begun, start = running.session, running.begun, running.start
        try:
            file = await self._begin(running)
            if self._is_shown:
                self._show_state(session, begun)
            if running.on_started is not None:
                running.on_started()
            progress = Progress(begun, file, running.mailbox, on_report)
            outcome: ChildEnd = "cancelled"
            try:
                with running.cancellation:
                    outcome = await self._work(request, start, progress, running)
                # Also where it came to its end meanwhile: that it is cancelled was accepted.
                if running.is_cancelled or running.cancellation.cancelled_caught:
                    outcome, progress.error = "cancelled", running.why_cancelled
            finally:
                running.has_ended = True
                last = self._ended(session, running, progress, outcome)
                if self._is_shown:
                    more = {"error": last.error} if last.error else {}
                    messages = {"messages": last.messages} if last.messages else {}
                    self._show_state(session, begun, state=outcome, usage=last.usage, **more, **messages)
                progress.show(last)
            return progress.state
        finally:
            self._forget(running)

    async def _begin(self, running: _Running) -> str | None:
        """Bring the beginning of one to the disk, and return the path of its file; None: its session is in memory.

        Cancelled, it is ended in the session as one that was, unless a client has started it: what the client is
        answered is then decided by the disk.

        Raises:
            ChildRefused: That can't be done, or its end was asked for before; nothing is left of it.
        """
        session, begun = running.session, running.begun
        path = None if session.path is None else child_file(session.path, begun["agentId"])
        if path is not None:
            await _make_file(path, session, begun, running.start)
        failure: SaveError | None = None
        try:
            if running.cancellation.cancel_called:
                why = running.why_cancelled
                raise ChildRefused("the sub-agent was ended before it had begun" + (why and f": {why}"))
            if (failure := keep_child_begun(session, begun)) is not None:
                raise _not_saved(failure) from failure
            try:
                with trio.CancelScope(shield=running.is_of_client):
                    await session.sync()
            except SaveError as error:
                drop_child_begun(session, begun["agentId"])
                raise _not_saved(error) from error
            except trio.Cancelled:
                session.keep_usage(child_ended(begun, usage_of(file_totals(())), "cancelled"))
                raise
        except ChildRefused:
            if path is not None:
                with suppress(OSError):
                    system().unlink(path)
            raise
        running.has_begun = True
        return None if path is None else str(path)

    @property
    def started(self) -> int:
        """How many work that clients have started."""
        return sum(each.is_of_client for each in self._running.values())

    def cancel_started(self) -> None:
        """End those that clients have started; see the port."""
        for running in self._running.values():
            if running.is_of_client:
                running.cancel()

    async def until_over(self) -> None:
        """Wait until none works that a client has started; see the port."""
        while works := [each for each in self._running.values() if each.is_of_client]:
            await works[0].over.wait()

    async def ended(self, agent_id: str) -> None:
        """Wait until an agent does not work; see the port."""
        if (running := self._running.get(agent_id)) is not None:
            await running.over.wait()

    def is_beginning(self, agent_id: str) -> bool:
        """Return whether the beginning of an agent is not on the disk yet; see the port."""
        running = self._running.get(agent_id)
        return running is not None and not running.has_begun

    def answer_of(self, agent_id: str) -> str | None:
        """Return the last answer of one whose session is in memory; see the port."""
        return self._answers.get(agent_id)

    def show(self, *, is_wanted: bool) -> None:
        """Have the client be sent what each does, or no more; see the port."""
        self._is_shown = is_wanted
        for running in self._running.values():
            if is_wanted and running.has_begun and not running.has_ended:
                self._show_state(running.session, running.begun)

    def _show_state(self, session: Session, begun: ChildBegun, **end: object) -> None:
        assert self._agent is not None
        shown = {**shown_child(begun, session.path), **end}
        self._agent.emitter.emit({"type": "subagent_event", "agentId": begun["agentId"], "agent": shown})

    def _take(self, progress: Progress, record: Record) -> None:
        """Take a record of one: show it to a client that asks for it, and follow it."""
        assert self._agent is not None
        if self._is_shown and record.get("type") in _SHOWN_RECORDS:
            agent_id = progress.state.agent_id
            self._agent.emitter.emit({"type": "subagent_event", "agentId": agent_id, "event": record})
        progress.take(record)

    async def _room(self) -> None:
        """Wait until the client has taken enough of what it is shown."""
        assert self._agent is not None
        if self._is_shown:
            await self._agent.emitter.room()

    def cancel(self, agent_id: str) -> bool:
        """End one alone; see the port."""
        running = self._running.get(agent_id)
        if running is None or not running.has_begun or running.has_ended:
            return False
        running.cancel()
        return True

    def take_message(self, agent_id: str, message_id: str, text: str) -> None:
        """Take a message to one that works; see the port.

        Raises:
            ClientError: See the port.
        """
        running = self._running.get(agent_id)
        if running is None or not running.has_begun:
            raise errors.ClientError(errors.agent_not_found(agent_id), errors.ErrorCode.AGENT_NOT_FOUND)
        if not running.mailbox.is_open:
            refusal = errors.agent_not_running(agent_id, "ending")
            raise errors.ClientError(refusal, errors.ErrorCode.AGENT_NOT_FOUND)
        if is_too_long(f"{MESSAGE_WORDS}{text}"):
            problem = f"must not be longer than a sub-agent may be sent, {MAX_RECORD_BYTES} bytes of JSON"
            raise errors.ClientError(errors.invalid_field("message_agent", "message", problem))
        if running.mailbox.waiting >= MAX_QUEUED_MESSAGES:
            raise errors.ClientError(errors.QUEUE_FULL, errors.ErrorCode.QUEUE_FULL)
        session = running.session
        kept: ChildMessage = {"agentId": agent_id, "parentId": session.id, "messageId": message_id, "text": text}
        if (failure := keep_child_message(session, kept)) is not None:
            raise errors.ClientError(failure.text, errors.ErrorCode.SESSION_NOT_SAVED)
        running.mailbox.take(message_id, text)

    def decide_message(self, agent_id: str, message_id: str, *, is_saved: bool) -> None:
        """Accept a message that was taken, or drop it; see the port."""
        running = self._running.get(agent_id)
        if running is None or running.has_ended:
            return
        if is_saved:
            running.mailbox.accept(message_id)
        else:
            running.mailbox.drop(message_id)
            drop_child_message(running.session, agent_id, message_id)
        running.outgoing.send_nowait(message_id)

    def messages(self, agent_id: str) -> Mapping[str, MessageState] | None:
        """Return what became of the messages to one that works; see the port."""
        running = self._running.get(agent_id)
        return None if running is None else running.mailbox.states()

    async def _work(self, request: ChildRequest, start: ChildStart, progress: Progress, running: _Running) -> ChildEnd:
        """Run the process from its start to its end, once its beginning is on the disk, and return how it went."""
        env = {**environment(), **self._withheld, **TRACE_VARIABLES.get(), DEPTH_VARIABLE: str(self._depth + 1)}
        file = progress.state.session_file
        words = (*start.words, *(("--no-session",) if file is None else ("--session", file)))
        beside = (
            partial(self._answer, progress, request.call_id),
            partial(self._follow_mode, running),
            partial(_send_messages, running),
        )
        outcome: ChildEnd = "failed"
        try:
            take = partial(self._take, progress)
            async with child_process(
                words, start.process_folder, env, start.api_key, take, self._room, beside
            ) as process:
                try:
                    check_state(await process.ask("get_state"), start)
                    if self._is_shown:  # it may start some of its own
                        await process.ask("hello", subagents=True)
                    progress.show(progress.state)
                    await process.ask("prompt", message=f"{TASK_WORDS}{request.task}")
                    running.has_task.set()
                    await process.until(running.mailbox.close_if_over)
                    outcome = "completed" if progress.is_complete else "failed"
                    if progress.is_aborted and not progress.error:
                        progress.error = "it was aborted"
                except (ChildGone, ChildRefused) as error:
                    progress.error = str(error)
                finally:
                    running.mailbox.close()  # its process ends from here on
        except ChildRefused as error:
            progress.error = str(error)
        return outcome

    def _ended(self, session: Session, running: _Running, progress: Progress, outcome: ChildEnd) -> ChildReport:
        """Keep the end in the session, which counts the usage there, and return the last report."""
        assert self._agent is not None
        file, mailbox = progress.state.session_file, running.mailbox
        mailbox.close()
        remains = None if file is None else child_remains(file)
        usage = progress.usage if remains is None else remains.usage
        returned = mailbox.not_delivered(None if remains is None else remains.message_ids)
        if file is not None:
            returned = take_back(file, returned)
        error = "" if outcome == "completed" else progress.error
        session.keep_usage(child_ended(running.begun, usage, outcome, returned, error))
        self._agent.spend(usage)
        messages = ended_messages(mailbox.texts, returned)
        return progress.state._replace(activity="", usage=usage, outcome=outcome, error=error, messages=messages)

    def _start(self, agent: "EffectInterpreter", request: ChildRequest) -> ChildStart:
        profile, session = agent.profile, agent.session
        parent = ParentState(
            self._options,
            self._start_folder,
            session.cwd,
            session.model,
            session.thinking_level,
            tuple(agent.toolbox),
            agent.approval_mode,
            self._is_project_trusted,
            None if profile.sandbox is None else profile.sandbox.record(),
            agent.extensions is not None,
            self._key_provider(),
            self._depth,
            profile.limits.max_turns,
            self._cost_share(agent.cost_left),
        )
        return child_start(request, parent, self._model(agent, request.model), self._max_depth)

    def _cost_share(self, left: float | None) -> float | None:
        """Return what one may cost that is started now: an equal share, so that all together keep the limit.

        How many an answer will start is not known, so those that may work at the same time are counted. What one has
        not used is free again when it ends.
        """
        if left is None:
            return None
        return (left - sum(each.reserved for each in self._running.values())) / (self._most - len(self._running))

    def _model(self, agent: "EffectInterpreter", wanted: str | None) -> Model:
        """Return the model of a request, one that this agent may use.

        Raises:
            ChildRefused: There is none.
        """
        if wanted is None:
            if agent.session.model is None:
                raise ChildRefused("model: this agent has none, and the call names none")
            return agent.session.model
        provider, _, model_id = wanted.partition("/")
        model = agent.profile.registry.find(provider, model_id)
        if model is None or not agent.profile.registry.is_usable(model):
            raise ChildRefused(f'model: "{wanted}" is no provider/id of a model that this agent has a key for')
        scope = [each.model for each in agent.profile.scope]
        if scope and not any(each["provider"] == provider and each["id"] == model_id for each in scope):
            raise ChildRefused(f'model: "{wanted}" is none of the models that this agent may use (--models)')
        if (refusal := agent.profile.registry.price_refusal(model)) is not None:
            raise ChildRefused(f"model: {refusal.text}")
        return model

    async def _answer(self, progress: Progress, call_id: str | None, process: ChildProcess) -> None:
        """Let the user of this agent approve the calls of one that it has started; refuse every other question."""
        assert self._agent is not None
        async for asked in progress.dialogs:
            answer: str | None = None
            kinds = as_array(asked.get("optionKinds"))
            if asked.get("method") == "select" and kinds and self._agent.approval.mode != "read-only":
                title = f"{asked.get('title')}{ASKED_BY}{progress.state.agent_id}"
                options = [str(each) for each in as_array(asked.get("options"))]
                about = {} if call_id is None else {"toolCallId": call_id}
                answer = await self._agent.approval.ask_for(
                    title, options, {**about, "optionKinds": kinds}, is_lasting=call_id is None
                )
            reply = {"cancelled": True} if answer is None else {"value": answer}
            try:
                await process.send({"type": "extension_ui_response", "id": asked.get("id"), **reply})
            except ChildGone:
                return

    def _change_modes(self) -> None:
        for running in self._running.values():
            running.changed.set()

    async def _follow_mode(self, running: _Running, process: ChildProcess) -> None:
        """Have an agent follow a mode of approval that allows less than its own; one that allows more is not for it."""
        assert self._agent is not None
        while True:
            await running.changed.wait()
            running.changed = trio.Event()
            mode = self._agent.approval_mode
            if _STRICTNESS[mode] > _STRICTNESS[running.approval]:
                running.approval = mode
                try:
                    await process.ask("set_tool_approval", mode=mode)
                except ChildGone:
                    return


async def _send_messages(running: _Running, process: ChildProcess) -> None:
    """Send an agent the messages that were accepted for it, once it has its task, one after the other."""
    await running.has_task.wait()
    mailbox = running.mailbox
    async for message_id in running.incoming:

        def take(answer: Record, message_id: str = message_id) -> None:
            mailbox.answered(message_id, (as_object(answer.get("data")) or {}).get("disposition"))

        if message_id not in mailbox.texts:  # dropped: the end may have waited for it alone
            process.look_again()
            continue
        text = f"{MESSAGE_WORDS}{mailbox.texts[message_id]}"
        try:
            await process.ask("steer", take, message=text, messageId=message_id)
        except ChildGone:
            mailbox.answered(message_id, None)


def children_of(options: Options, configuration: Configuration, cwd: Path, env: Mapping[str, str]) -> Children:
    """Return the sub-agents of an agent.

    Args:
        options: Those of the process.
        configuration: That of its start.
        cwd: The folder that it was started in.
        env: Its environment, before anything was taken out of it.

    Raises:
        StartupError: It shares its process with others.
    """
    if is_embedded():
        raise StartupError("sub-agents need an agent with a process of its own: start it with Client")
    settings = configuration.settings
    return Children(
        options,
        str(cwd),
        is_project_trusted=configuration.has_trusted_files,
        key_provider=lambda: configuration.registry.given_key_provider,
        withheld={**_routes(), **{name: env[name] for name in WITHHELD_VARIABLES if name in env}},
        most=settings.max_subagents,
        depth=settings.max_subagent_depth,
    )


def _routes() -> Mapping[str, str]:
    """Return the variable of the providers' routes: a sub-agent has those of its parent."""
    routes = sys.modules.get("pinnace_agent.config.models.routes")
    return {} if routes is None else routes.taken_variables()


async def _make_file(path: Path, session: Session, begun: ChildBegun, start: ChildStart) -> None:
    """Make the file of a sub-agent.

    Raises:
        ChildRefused: That can't be saved.
    """
    make = partial(create_session_file, path, begun["agentId"], start.session_folder, session.path)
    try:
        await trio.to_thread.run_sync(make)
    except (SaveError, OSError) as error:
        raise _not_saved(error) from error


def _not_saved(error: Exception) -> ChildRefused:
    return ChildNotSaved(f"the sub-agent was not started, since its session can't be saved: {error}")


def _depth() -> int:
    """Return how many agents are above this one; what is no number is deeper than any limit."""
    text = environment().get(DEPTH_VARIABLE, "0")
    return int(text) if text.isascii() and text.isdecimal() else _TOO_DEEP
