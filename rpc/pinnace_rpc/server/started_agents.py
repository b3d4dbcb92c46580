"""The sub-agents that clients start, and the clients that wait for one.

Both commands are answered later, while others go on: a start when its beginning is on the disk, a wait when the
sub-agent has ended or the time for it is over. Has no access to lines and ids of commands. Rules R-SUB-13, R-SUB-14.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from pinnace_agent.core.ports.children import ChildNotSaved, ChildRefused, ChildRequest
from pinnace_agent.session.child_agents import read_child
from pinnace_rpc.options.options import StartupError
from pinnace_rpc.server.agent_messages import OnAnswer, shown_agent, shown_agents_of
from pinnace_spec.rules import errors

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.core.ports.children import ChildAgents
    from pinnace_agent.engine.ports import AgentReads
    from pinnace_agent.session.store.save_error import SaveError
    from pinnace_spec.records import commands as cmd

Outcome = Mapping[str, object] | errors.ProtocolError


class StartedAgents:
    """The sub-agents of one process that clients have started, and all that wait for one."""

    def __init__(self, agent: "AgentReads", *, is_ending: bool) -> None:
        """Start nothing yet.

        Args:
            agent: The agent that starts them.
            is_ending: Whether it ends already, other than in a drain.
        """
        self._agent = agent
        self._numbers = count(1)
        self._starting: dict[str, list[OnAnswer]] = {}
        """What answers those that have named the same task, by its name."""
        self._waiting = 0
        self._is_ending = is_ending
        self._done: Callable[[], None] | None = None

    def start(self, ref: int, command: "cmd.StartAgent", answer: OnAnswer) -> None:
        """Start a sub-agent; for a task that was named and has one, none is started again.

        Args:
            ref: The command.
            command: Its fields.
            answer: Takes the data of the answer, or the error. Perhaps at once.

        Raises:
            ClientError: It is not started.
        """
        agent, name = self._agent, command.messageId
        if self._is_ending:
            raise errors.ClientError(errors.SHUTTING_DOWN, errors.ErrorCode.SHUTTING_DOWN)
        if name is not None and (waiting := self._starting.get(name)) is not None:
            waiting.append(answer)
            return
        if name is not None:
            agent.session.claim()  # a process that had the session, and has ended, may have begun it
        known = () if name is None else shown_agents_of(agent, agent.session)
        if (found := next((each for each in known if each.get("messageId") == name), None)) is not None:
            agent.sessions.queue.when_saved(ref, partial(_answer_known, found, answer))
            return
        if not command.task.strip():
            raise errors.ClientError(errors.invalid_field("start_agent", "task", errors.NO_TEXT))
        children = self._made_children()
        if (refusal := agent.toolbox.refusal) is not None:
            raise errors.ClientError(errors.tool_not_executed(refusal), errors.ErrorCode.REFUSED_BY_EXTENSION)
        request = ChildRequest(
            command.task, None, command.model, command.tools, command.cwd, command.maxTurns, name, command.timeout
        )
        answers = [answer]
        if name is not None:
            self._starting[name] = answers

        def started(result: Mapping[str, object] | ChildRefused | None) -> None:
            if name is not None:
                self._starting.pop(name, None)
            outcome = _outcome(result, is_ending=self._is_ending)
            for each in answers:
                each(outcome)

        try:
            children.start(request, started)
        except ChildRefused as error:
            if name is not None:
                del self._starting[name]
            raise _error(error) from None

    def _made_children(self) -> "ChildAgents":
        try:
            children = self._agent.made_children()
        except StartupError as error:
            raise errors.ClientError(str(error), errors.ErrorCode.AGENT_REFUSED) from None
        if children is None:
            raise errors.ClientError(errors.NO_AGENTS, errors.ErrorCode.AGENT_REFUSED)
        return children

    def wait(self, command: "cmd.WaitAgent", answer: OnAnswer) -> None:
        """Answer when a sub-agent has ended, or the time of the command is over.

        Args:
            command: Its fields.
            answer: Takes the data of the answer, once.

        Raises:
            ClientError: The session has started no such sub-agent.
        """
        agent, identity = self._agent, command.agentId
        session, children = agent.session, agent.profile.children
        if shown_agent(agent, session, identity) is None:
            raise errors.ClientError(errors.agent_not_started(identity), errors.ErrorCode.AGENT_NOT_FOUND)
        outcome: list[Outcome] = [errors.ClientError(errors.SHUTTING_DOWN, errors.ErrorCode.SHUTTING_DOWN)]
        timeout_s = math.inf if command.timeout is None else command.timeout

        async def work() -> None:
            if children is not None:
                with trio.move_on_after(timeout_s):
                    await children.ended(identity)
            shown = shown_agent(agent, session, identity)
            assert shown is not None
            file = shown.get("sessionFile")
            if isinstance(file, str):
                text = await trio.to_thread.run_sync(_last_answer, file)
            else:
                text = (children and children.answer_of(identity)) or None
            outcome.append({"agent": shown, "text": text})

        def over(_cancelled: bool, failure: BaseException | None) -> None:
            self._waiting -= 1
            answer(outcome[-1] if failure is None else errors.InternalError(f"Internal error: {failure}"))
            self._check_done()

        self._waiting += 1
        agent.jobs.start(f"wait_agent:{next(self._numbers)}", work, over)

    def hurry(self) -> None:
        """Start no more, and end those that clients have started: what waits for them is answered then."""
        self._is_ending = True
        if (children := self._agent.profile.children) is not None:
            children.cancel_started()

    def when_over(self, done: Callable[[], None]) -> None:
        """Call `done` once none works that a client has started, and all that wait are answered; perhaps at once."""
        self._done = done
        children = self._agent.profile.children
        if children is not None and children.started:
            self._waiting += 1
            self._agent.jobs.start("started agents", children.until_over, self._none_works)
        self._check_done()

    def _none_works(self, _cancelled: bool, _failure: BaseException | None) -> None:
        self._waiting -= 1
        self._check_done()

    def _check_done(self) -> None:
        if self._done is not None and not self._waiting:
            done, self._done = self._done, None
            done()


def _last_answer(file: str) -> str | None:
    """Return the last answer in the file of a sub-agent; None: there is none, or the file can't be read."""
    try:
        session = read_child(Path(file))
    except errors.ClientError:
        return None
    answers = (each for each in session.newest_first() if each["role"] == "assistant")
    texts = ("".join(block["text"] for block in each["content"] if block["type"] == "text") for each in answers)
    return next((text for text in texts if text), None)


def _answer_known(found: Mapping[str, object], answer: OnAnswer, failure: "SaveError | None") -> None:
    if failure is None:
        answer({"agent": found})
    else:
        answer(errors.ClientError(failure.text, errors.ErrorCode.SESSION_NOT_SAVED))


def _outcome(result: Mapping[str, object] | ChildRefused | None, *, is_ending: bool) -> Outcome:
    if isinstance(result, ChildRefused):
        return _error(result)
    if result is not None:
        return {"agent": result}
    if is_ending:
        return errors.ClientError(errors.SHUTTING_DOWN, errors.ErrorCode.SHUTTING_DOWN)
    return errors.ClientError(errors.AGENT_NOT_BEGUN, errors.ErrorCode.ABORTED)


def _error(refused: ChildRefused) -> errors.ClientError:
    is_unsaved = isinstance(refused, ChildNotSaved)
    return errors.ClientError(
        str(refused), errors.ErrorCode.SESSION_NOT_SAVED if is_unsaved else errors.ErrorCode.AGENT_REFUSED
    )
