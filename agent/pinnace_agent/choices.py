"""The choices of a session: its model, its level, its name; who changes them, and who is told.

A change is saved, told to clients, and told to extensions, in this order; one that can't be saved is refused and leaves
everything as it was. They change the session, never the user's files (R-SET-03). Must not know who asks. Never waits.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from pinnace_agent.emitter import Emitter
from pinnace_agent.resources.models import clamp_level
from pinnace_agent.session.file import SaveError
from pinnace_agent.session_keeper import SessionKeeper
from pinnace_spec import errors
from pinnace_spec.messages import Model, ThinkingLevel

if TYPE_CHECKING:  # loaded with the first extension
    from pinnace_agent.extensions.runner import Runner

Source = Literal["set", "cycle", "restore"]


class Choices:
    """Changes the choices of the session in force."""

    def __init__(
        self,
        sessions: SessionKeeper,
        emitter: Emitter,
        runner: "Callable[[], Runner | None]",
        price_refusal: Callable[[Model], errors.ClientError | None],
    ) -> None:
        """Change nothing yet.

        Args:
            sessions: Has the session in force.
            emitter: Takes the records of changes.
            runner: Returns the extensions of the session instance in force.
            price_refusal: Returns why a model can't be used under the limit of cost.
        """
        self._price_refusal = price_refusal
        self._sessions = sessions
        self._emitter = emitter
        self._runner = runner
        self.on_model: Callable[[Model, Model | None, Source], None] | None = None
        """Told of a change of the model, when there are extensions."""

    def select_model(self, model: Model, level: ThinkingLevel | None, source: Source) -> None:
        """Use a model, with this level or the one that was asked for last.

        Raises:
            ClientError: It can't be saved, or a limit of cost can't be enforced with it.
        """
        if (refusal := self._price_refusal(model)) is not None:
            raise refusal
        former = self._sessions.session.model
        # DEVIATION D-18: the level that was asked for survives a model that can't have it.
        preferred = level or self._sessions.preferred_level
        self._choose(model, clamp_level(model, preferred))
        self._sessions.preferred_level = preferred
        if self.on_model is not None:
            self.on_model(model, former, source)

    def select_level(self, level: ThinkingLevel) -> None:
        """Use a level; one that the model does not have becomes the nearest, higher first.

        Raises:
            ClientError: It can't be saved.
        """
        model = self._sessions.session.model
        self._choose(model, clamp_level(model, level) if model is not None else level)
        self._sessions.preferred_level = level

    def _choose(self, model: Model | None, level: ThinkingLevel) -> None:
        session = self._sessions.session
        former = session.thinking_level
        _saved(lambda: session.choose(model=model, thinking_level=level, name=session.name))
        if level == former:
            return
        self._emitter.emit({"type": "thinking_level_changed", "level": level})
        if (runner := self._runner()) is not None:
            from pinnace_agent.extensions.events import ThinkingLevelSelect

            runner.later("thinking_level_select", lambda: ThinkingLevelSelect(level=level, previous_level=former))

    def rename(self, name: str | None) -> None:
        """Name the session, or take its name away.

        Raises:
            ClientError: It can't be saved.
        """
        session = self._sessions.session
        _saved(lambda: session.choose(model=session.model, thinking_level=session.thinking_level, name=name))
        self._emitter.emit({"type": "session_info_changed"} | ({} if name is None else {"name": name}))
        if (runner := self._runner()) is not None:
            from pinnace_agent.extensions.events import SessionInfoChanged

            runner.later("session_info_changed", lambda: SessionInfoChanged(name=name))


def _saved(change: Callable[[], None]) -> None:
    try:
        change()
    except SaveError as error:
        raise errors.ClientError(error.text, errors.ErrorCode.SESSION_NOT_SAVED) from None
