"""The hooks of extensions before and after a run: messages that come in, the beginning, the settling; and commands.

Jobs of the statechart, which may wait, and report. The hooks within a run are those of `run_hooks`.
Rules R-EXT-03 to R-EXT-05.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeGuard

import trio

from pinnace_agent.core.jobs import Work
from pinnace_agent.core.json_access import as_object
from pinnace_agent.core.json_values import own_copy
from pinnace_agent.extension_host.messages import MessageInjector, custom_message
from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.events.run_events import InputSource
from pinnace_agent.extensions.hooks.drafts import commit, preview
from pinnace_agent.extensions.ports.host_view import CustomDraft
from pinnace_spec.records.messages import CustomMessage, ImageContent, Message
from pinnace_spec.rules import errors
from pinnace_statechart.triggers import InternalEvent

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.extension_host.ports import InstanceHost

Content = tuple[str, tuple[object, ...]]


class PromptHooks:
    """Performs the effects that ask the extensions of the current session."""

    def __init__(self, host: "InstanceHost", messages: MessageInjector) -> None:
        """Do nothing yet; `messages` has those that follow the next prompt."""
        self._host = host
        self._agent = host.agent
        self._messages = messages
        self._opening: list[CustomMessage] = []
        self.system_prompt: str | None = None
        """The prompt that handlers have set, for the runs until the next prompt of the user."""

    # Messages.

    async def read_pending(self, job: int) -> bool:
        """Let extensions read the prompt in preflight. Returns whether the run is still to be prepared."""
        agent = self._agent
        own = agent.chart.state.pending_prompt
        if own is None or not own.unread:
            return True
        try:
            content = await self._read(own.text, own.blocks, own.ref, None)
        except errors.ClientError as error:  # an invalid answer may have been meant to stop the message
            agent.submit(InternalEvent("preflight_refused", job, text=error.text, code=error.code))
            return False
        if content is None:
            agent.submit(InternalEvent("preflight_handled", job))
            return False
        agent.submit(InternalEvent("prompt_read", job, content=content))
        return True

    async def read(self, job: int) -> None:
        """Let extensions read a message before it is queued."""
        agent = self._agent
        command = agent.chart.state.reading
        assert command is not None
        behavior: Literal["steer", "followUp"] | None = command.behavior
        if command.name != "prompt":
            behavior = "steer" if command.name == "steer" else "followUp"
        try:
            content = await self._read(command.text, command.blocks, command.ref, behavior)
        except errors.ClientError as error:
            agent.submit(InternalEvent("text_failed", job, text=error.text, code=error.code))
            return
        if content is None:
            agent.submit(InternalEvent("text_handled", job))
        else:
            agent.submit(InternalEvent("text_read", job, content=content))

    async def _read(
        self, text: str, blocks: tuple[object, ...], ref: int, behavior: Literal["steer", "followUp"] | None
    ) -> Content | None:
        """Return the content that handlers leave, the context as it was; None: a handler has dealt with the message."""
        runner = self._host.runner
        source: InputSource = "extension" if ref < 0 else "rpc" if self._host.mode == "rpc" else "interactive"
        if runner is not None:
            event = partial(ev.Input, text=text, images=_images(blocks), source=source, streaming_behavior=behavior)
            said = await runner.chains.input(event)
            if said is not None:
                if said.is_handled:
                    return None
                context = (block for block in blocks if not _is_image(block))
                text, blocks = said.text, (*context, *(said.images or ()))
        return self._agent.expand(text), blocks

    # The beginning of a run.

    async def before_run(self) -> None:
        """Let extensions add messages to the prompt that passes preflight, and change the system prompt.

        Raises:
            ClientError: The answer of a handler is invalid, so the run must not begin.
        """
        agent, runner = self._agent, self._host.runner
        self._opening, self.system_prompt = [], None
        own = agent.chart.state.pending_prompt
        if runner is None or own is None:
            return
        resources = agent.profile.resources

        def event() -> ev.BeforeAgentStart:
            return ev.BeforeAgentStart(
                prompt=own.text,
                images=_images(own.blocks),
                system_prompt=agent.system_prompt(),
                system_prompt_options=dict(resources.options(agent.session.cwd)),
            )

        start = await runner.chains.before_agent_start(event, agent.system_prompt)
        await trio.lowlevel.checkpoint_if_cancelled()  # a handler may end after the job was cancelled
        if start is None:
            return
        if start.system_prompt != agent.system_prompt():
            self.system_prompt = start.system_prompt
        now_ms = agent.session.now_ms()
        for each in start.messages:
            draft = CustomDraft(each["customType"], each["content"], each["display"], each.get("details"))
            self._opening.append(custom_message(draft, now_ms))

    def take_opening(self) -> Sequence[Message]:
        """Return the messages that go with the prompt that is delivered."""
        messages = [*self._messages.next_turn, *self._opening]
        self._messages.next_turn.clear()
        self._opening = []
        return messages

    # The end of a run.

    async def settle(self, job: int) -> None:
        """Ask extensions whether the agent may settle."""
        agent, runner = self._agent, self._host.runner
        if runner is None:
            agent.submit(InternalEvent("settle_hook_ok", job))
            return
        session = agent.session

        def event() -> ev.AgentBeforeSettle:
            return ev.AgentBeforeSettle(outcome="error" if agent.has_failed else "completed", context=())

        proposal = await runner.settle_hooks("agent_before_settle", event, partial(preview, session))
        await trio.lowlevel.checkpoint_if_cancelled()  # likewise
        commit(session, agent.emitter, proposal.entries)
        agent.submit(InternalEvent("settle_hook_goes_on" if proposal.continues else "settle_hook_ok", job))

    # Commands.

    def start_command(self, ref: int, text: str, once: Callable[[Work], Work]) -> None:
        """Run the command that a message calls, in a task that no run waits for; `once` decides when it begins."""
        agent, runner = self._agent, self._host.runner
        call = None if runner is None else runner.commands.find(text)

        async def work() -> None:
            if runner is not None and call is not None:
                await runner.commands.run(call)

        def ended(_cancelled: bool, _failure: BaseException | None) -> None:
            agent.submit(InternalEvent("command_ended", ref=ref))

        agent.jobs.start(_name(ref), once(work), ended)

    def cancel_commands(self, refs: Sequence[int]) -> None:
        """End commands that run."""
        for ref in refs:
            self._agent.jobs.cancel(_name(ref))


def _name(ref: int) -> str:
    return f"command:{ref}"


def _images(blocks: tuple[object, ...]) -> list[ImageContent] | None:
    images = [block for block in blocks if _is_image(block)]
    return own_copy(images) if images else None  # a copy: handlers may change them


def _is_image(block: object) -> TypeGuard[ImageContent]:
    return (as_object(block) or {}).get("type") == "image"  # they were validated on the way in
