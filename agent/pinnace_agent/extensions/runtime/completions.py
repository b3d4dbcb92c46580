"""What extensions offer for the arguments of their commands (R-UI-20), and for the text of the editor (R-UI-41)."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, cast

import trio

from pinnace_agent.core.json_access import as_list, as_object
from pinnace_agent.extensions.api.registering import Completion
from pinnace_agent.extensions.handlers.calling import Caller
from pinnace_agent.extensions.services.error_records import ownership
from pinnace_agent.extensions.services.watchdog import Owner
from pinnace_spec.rules.limits import COMPLETION_S, MAX_COMPLETION_CHARS, MAX_COMPLETIONS

LIMIT_S: Final = 5.0
"""How long a function may take: a user has written on by then."""


async def complete(
    caller: Caller, path: str, function: Callable[..., object], prefix: str
) -> Sequence[Mapping[str, object]]:
    """Return what the function of the extension at `path` offers for the arguments of a command, as on the wire.

    What it raises is reported, as is one that takes too long and each offer of another form: what is left is
    returned. Cancelling ends the function.
    """
    owner = Owner(path, "completion")
    try:
        with trio.move_on_after(LIMIT_S) as limit:
            value = await caller.run(owner, partial(function, prefix), in_thread=False, is_timed=False)
            offered = _items(value)
            made = [_completion(place, each) for place, each in enumerate(offered[:MAX_COMPLETIONS])]
            for each in made:
                if isinstance(each, TypeError):
                    caller.report(owner, each)
            return [each for each in made if not isinstance(each, TypeError)]
    except BaseException as error:
        passing, failure = ownership(error)
        if failure is not None:
            caller.report(owner, failure)
        if passing is not None:
            raise passing from None
        return []
    if limit.cancelled_caught:
        caller.report(owner, TimeoutError(f"the completions took longer than {LIMIT_S:g} s"))
    return []


TextProvider = Callable[..., object]
"""Completes the text of the editor: see `UserInterface.add_autocomplete_provider`."""


class TextProviders:
    """What completes the text of the editor in one session instance."""

    def __init__(self, caller: Caller) -> None:
        """Begin with none; call them with `caller`."""
        self._caller = caller
        self._providers: list[tuple[Owner, TextProvider]] = []
        self._reported: set[Owner] = set()

    def add(self, path: str, function: TextProvider) -> None:
        """Add that of the extension at `path`, which is asked before those that are there."""
        self._providers.append((Owner(path, "completion"), function))

    async def complete(self, before: str, after: str, *, is_forced: bool) -> Mapping[str, object]:
        """Return the answer of the first provider that has something. Cancelling ends the one that is asked.

        Args:
            before: The text before the cursor.
            after: The text behind it.
            is_forced: Whether the user has asked for completions.
        """
        for owner, function in reversed(self._providers):
            offered = await self._ask(owner, partial(function, before, after, is_forced))
            if offered:
                return offered
        return {"completions": []}

    async def _ask(self, owner: Owner, ask: Callable[[], object]) -> Mapping[str, object] | None:
        """Return what one offers; None: nothing. What it does wrong is reported the first time."""
        failure: BaseException | None = None
        limit = trio.move_on_after(COMPLETION_S)
        try:
            with limit:
                return self._read(await self._caller.run(owner, ask, in_thread=False, is_timed=False))
        except BaseException as error:
            passing, failure = ownership(error)
            if passing is not None:
                raise passing from None
        if limit.cancelled_caught:
            failure = TimeoutError(f"the completions of the text took longer than {COMPLETION_S:g} s")
        if failure is not None and owner not in self._reported:
            self._reported.add(owner)
            self._caller.report(owner, failure)
        return None

    @staticmethod
    def _read(value: object) -> Mapping[str, object] | None:
        """Return the answer of what one has returned; None: it offers nothing.

        Raises:
            TypeError: It is something else. The text names what.
        """
        if value is None:
            return None
        pair = as_list(list(cast("tuple[object, ...]", value)) if isinstance(value, tuple) else value)
        if pair is None or len(pair) != 2 or not isinstance(pair[0], str):
            raise TypeError(f"a provider of completions must return None, or a text and a list, not {value!r:.100}")
        made = [_completion(place, each) for place, each in enumerate(_items(pair[1])[:MAX_COMPLETIONS])]
        for each in made:
            if isinstance(each, TypeError):
                raise each
        return {"completions": made, "prefix": pair[0]} if made else None


def _items(value: object) -> Sequence[object]:
    if value is None:
        return []
    if isinstance(value, tuple) and not isinstance(value, Completion):
        return cast("tuple[object, ...]", value)  # cast: the code of an extension is not checked
    found = as_list(value)
    if found is None:
        raise TypeError(f"completions must be a list or None, not {type(value).__name__}")
    return found


def _completion(place: int, given: object) -> Mapping[str, object] | TypeError:
    if isinstance(given, str):
        given = Completion(given)
    fields = given._asdict() if isinstance(given, Completion) else as_object(given)
    if fields is None:
        return TypeError(f"completion {place}: expected a string or an object with value, not {type(given).__name__}")
    shown: dict[str, object] = {}
    for name in Completion._fields:
        text = fields.get(name)
        if text is None and name != "value":
            continue
        if not isinstance(text, str):
            return TypeError(f"completion {place}: {name} must be a string, not {type(text).__name__}")
        if len(text) > MAX_COMPLETION_CHARS:
            return TypeError(f"completion {place}: {name} must have at most {MAX_COMPLETION_CHARS} characters")
        shown[name] = text
    return shown
