"""What extensions offer for the arguments of their commands (R-UI-20)."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, cast

import trio

from pinnace_agent.core.json_access import as_list, as_object
from pinnace_agent.extensions.api.registering import Completion
from pinnace_agent.extensions.handlers.calling import Caller
from pinnace_agent.extensions.services.error_records import ownership
from pinnace_agent.extensions.services.watchdog import Owner
from pinnace_spec.rules.limits import MAX_COMPLETION_CHARS, MAX_COMPLETIONS

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
