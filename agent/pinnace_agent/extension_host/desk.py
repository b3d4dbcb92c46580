"""What extensions have a say in at the edges of a run: texts that come in, the beginning, the end, and their commands.

Jobs of the chart, which take their time, and report. What happens within a run is the run's own to ask about. E16,
E17, E20; rules R-EXT-03 to R-EXT-05.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, cast

import trio

from pinnace_agent.extension_host.speech import custom_message
from pinnace_agent.extensions import events as ev
from pinnace_agent.extensions.drafts import commit, preview
from pinnace_agent.extensions.host_view import CustomDraft
from pinnace_agent.extensions.json_values import own_copy
from pinnace_agent.extensions.run_events import InputSource
from pinnace_spec import errors
from pinnace_spec.messages import CustomMessage, ImageContent, Message
from pinnace_statechart.triggers import Happening

if TYPE_CHECKING:
    from pinnace_agent.extension_host.seat import ExtensionSeat

Content = tuple[str, tuple[object, ...]]


class Desk:
    """Carries out what the chart asks of the extensions in force."""

    def __init__(self, seat: "ExtensionSeat") -> None:
        """Do nothing yet."""
        self._seat = seat
        self._opening: list[CustomMessage] = []
        self.system_prompt: str | None = None
        """What handlers have made of the prompt, for the runs until the next prompt of the user."""

    # Texts.

    async def read_own(self, job: int) -> bool:
        """Let extensions read the prompt in preflight. Returns whether a model is still to be asked."""
        host = self._seat.host
        own = host.chart.state.own
        if own is None or not own.unread:
            return True
        try:
            content = await self._read(own.text, own.images, own.ref, None)
        except errors.ClientError as error:  # a handler's answer can't be used, and it may have been to stop the text
            host.submit(Happening("preflight_refused", job, text=error.text, code=error.code))
            return False
        if content is None:
            host.submit(Happening("preflight_handled", job))
            return False
        host.submit(Happening("own_read", job, content=content))
        return True

    async def read(self, job: int) -> None:
        """Let extensions read a text before it is queued."""
        host = self._seat.host
        command = host.chart.state.reading
        assert command is not None
        behavior: Literal["steer", "followUp"] | None = command.behavior
        if command.name != "prompt":
            behavior = "steer" if command.name == "steer" else "followUp"
        try:
            content = await self._read(command.text, command.images, command.ref, behavior)
        except errors.ClientError as error:
            host.submit(Happening("text_failed", job, text=error.text, code=error.code))
            return
        if content is None:
            host.submit(Happening("text_handled", job))
        else:
            host.submit(Happening("text_read", job, content=content))

    async def _read(
        self, text: str, images: tuple[object, ...], ref: int, behavior: Literal["steer", "followUp"] | None
    ) -> Content | None:
        """Return what a text has become; None: it is dealt with."""
        host, runner = self._seat.host, self._seat.runner
        source: InputSource = "extension" if ref < 0 else "rpc" if self._seat.plan.mode == "rpc" else "interactive"
        if runner is not None:
            event = partial(ev.Input, text=text, images=_images(images), source=source, streaming_behavior=behavior)
            said = await runner.chains.input(event)
            if said is not None:
                if said.is_handled:
                    return None
                text, images = said.text, tuple(said.images or ())
        return host.expand(text), images

    # The beginning of a run.

    async def before_run(self) -> None:
        """Let extensions add messages to the prompt that passes preflight, and change the system prompt (E17).

        Raises:
            ClientError: The answer of one can't be used, so the run must not begin.
        """
        host, runner = self._seat.host, self._seat.runner
        self._opening, self.system_prompt = [], None
        own = host.chart.state.own
        if runner is None or own is None:
            return
        prompt = host.system_prompt()
        resources = host.profile.resources

        def event() -> ev.BeforeAgentStart:
            return ev.BeforeAgentStart(
                prompt=own.text,
                images=_images(own.images),
                system_prompt=prompt,
                system_prompt_options=dict(resources.options(host.session.cwd)),
            )

        start = await runner.chains.before_agent_start(event)
        await trio.lowlevel.checkpoint_if_cancelled()  # a handler may end when nothing waits for it any more
        if start is None:
            return
        if start.system_prompt != prompt:
            self.system_prompt = start.system_prompt
        now_ms = host.session.now_ms()
        for each in start.messages:
            draft = CustomDraft(each["customType"], each["content"], each["display"], each.get("details"))
            self._opening.append(custom_message(draft, now_ms))

    def take_opening(self) -> Sequence[Message]:
        """Return the messages that go with the prompt that is delivered."""
        speech = self._seat.speech
        messages = [*speech.next_turn, *self._opening]
        speech.next_turn.clear()
        self._opening = []
        return messages

    # The end of a run.

    async def boundary(self, job: int) -> None:
        """Ask extensions whether the agent may settle (E20)."""
        host, runner = self._seat.host, self._seat.runner
        if runner is None:
            host.submit(Happening("boundary_ok", job))
            return
        session = host.session

        def event() -> ev.AgentBeforeSettle:
            return ev.AgentBeforeSettle(outcome="error" if host.has_failed else "completed", context=())

        proposal = await runner.boundary("agent_before_settle", event, partial(preview, session))
        await trio.lowlevel.checkpoint_if_cancelled()  # likewise
        commit(session, host.emitter, proposal.entries)
        host.submit(Happening("boundary_goes_on" if proposal.goes_on else "boundary_ok", job))

    # Commands.

    def start_command(self, ref: int, text: str) -> None:
        """Run the command that a text calls, in a task that no run waits for."""
        host, runner = self._seat.host, self._seat.runner
        call = None if runner is None else runner.commands.find(text)

        async def work() -> None:
            if runner is not None and call is not None:
                await runner.commands.run(call)

        def ended(_cancelled: bool, _failure: BaseException | None) -> None:
            host.submit(Happening("command_ended", ref=ref))

        host.jobs.start(_name(ref), work, ended)

    def cancel_commands(self, refs: Sequence[int]) -> None:
        """End commands that run."""
        for ref in refs:
            self._seat.host.jobs.cancel(_name(ref))


def _name(ref: int) -> str:
    return f"command:{ref}"


def _images(images: tuple[object, ...]) -> list[ImageContent] | None:
    # cast: they were validated on the way in. Copies: handlers may do with them as they like.
    return own_copy(cast("list[ImageContent]", list(images))) if images else None
