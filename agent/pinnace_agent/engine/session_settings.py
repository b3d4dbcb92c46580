"""The settings of a session: its model, its thinking level, its name, and the models to cycle between.

A change is saved, emitted to clients, and reported to extensions, in this order; one that can't be saved is refused and
changes nothing. Settings change the session, never the user's files (R-SET-03). Never waits.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pinnace_agent.config.models.models import clamp_level
from pinnace_agent.core.ports.emitter import Emitter
from pinnace_agent.engine.session_manager import SessionManager
from pinnace_agent.session.store.file import SaveError
from pinnace_spec.records.messages import Model, ThinkingLevel
from pinnace_spec.rules import errors

if TYPE_CHECKING:  # for annotations alone
    from pinnace_agent.config.models.models import ModelRegistry
    from pinnace_agent.config.models.scope import ScopedModel
    from pinnace_agent.core.ports.extensions import Extensions, ModelSource


class SessionSettings:
    """Changes the settings of the current session."""

    def __init__(
        self,
        sessions: SessionManager,
        emitter: Emitter,
        extensions: "Callable[[], Extensions | None]",
        price_refusal: Callable[[Model], errors.ClientError | None],
        scope: "Sequence[ScopedModel]" = (),
    ) -> None:
        """Change nothing yet.

        Args:
            sessions: Has the current session.
            emitter: Takes the records of changes.
            extensions: Returns those to which changes are reported.
            price_refusal: Returns why a model can't be used under the limit of cost.
            scope: The models to cycle between; empty: all that are available.
        """
        self.scope = scope
        self._price_refusal = price_refusal
        self._sessions = sessions
        self._emitter = emitter
        self._extensions = extensions

    def select_model(self, model: Model, level: ThinkingLevel | None, source: "ModelSource") -> None:
        """Use a model, with this level or the one that was requested last.

        Raises:
            ClientError: It can't be saved, or a limit of cost can't be enforced with it.
        """
        if (refusal := self._price_refusal(model)) is not None:
            raise refusal
        former = self._sessions.session.model
        # DEVIATION D-18: the requested level survives a model that can't have it.
        preferred = level or self._sessions.preferred_level
        self._choose(model, clamp_level(model, preferred))
        self._sessions.preferred_level = preferred
        if (extensions := self._extensions()) is not None:
            extensions.model_selected(model, former, source)

    def select_level(self, level: ThinkingLevel) -> None:
        """Use a level; one that the model does not have becomes the nearest, higher first.

        Raises:
            ClientError: It can't be saved.
        """
        model = self._sessions.session.model
        self._choose(model, clamp_level(model, level) if model is not None else level)
        self._sessions.preferred_level = level

    def models_changed(self, registry: "ModelRegistry", patterns: Sequence[str]) -> None:
        """Look up the active model and the models to cycle between as they are described now.

        An active model that is gone stays until another one is chosen; prompts are refused meanwhile. A pattern that
        matches nothing was reported at the start.
        """
        session = self._sessions.session
        if session.model is not None:
            found = registry.find(session.model["provider"], session.model["id"])
            if found is not None and found != session.model:
                session.model = found
                session.thinking_level = clamp_level(found, self._sessions.preferred_level)
        if patterns or self.scope:
            from pinnace_agent.config.models.scope import resolve_scope  # most users have no patterns

            self.scope = resolve_scope(patterns, registry.available()).models

    def _choose(self, model: Model | None, level: ThinkingLevel) -> None:
        session = self._sessions.session
        former = session.thinking_level
        _saved(lambda: session.choose(model=model, thinking_level=level, name=session.name))
        if level == former:
            return
        self._emitter.emit({"type": "thinking_level_changed", "level": level})
        if (extensions := self._extensions()) is not None and extensions.instance is not None:
            extensions.instance.level_selected(level, former)

    def rename(self, name: str | None) -> None:
        """Name the session, or take its name away.

        Raises:
            ClientError: It can't be saved.
        """
        session = self._sessions.session
        _saved(lambda: session.choose(model=session.model, thinking_level=session.thinking_level, name=name))
        self._emitter.emit({"type": "session_info_changed"} | ({} if name is None else {"name": name}))
        if (extensions := self._extensions()) is not None and extensions.instance is not None:
            extensions.instance.session_renamed(name)

    def label(self, entry_id: str, label: str | None) -> None:
        """Bookmark an entry, or remove its bookmark.

        Raises:
            ClientError: It can't be saved.
        """
        session = self._sessions.session
        _saved(lambda: session.choose_label(entry_id, label))


def _saved(change: Callable[[], None]) -> None:
    try:
        change()
    except SaveError as error:
        raise errors.ClientError(error.text, errors.ErrorCode.SESSION_NOT_SAVED) from None
