"""The chain of `project_trust`, before there is a session: the first decision counts.

The extension host chooses the extensions, and decides if none of them does.
"""

from collections.abc import Sequence
from functools import partial
from typing import cast

from pinnace_agent.extensions.api.contexts import Context, TrustContext
from pinnace_agent.extensions.events import events as ev
from pinnace_agent.extensions.events import results as rs
from pinnace_agent.extensions.events.result_reader import read_result
from pinnace_agent.extensions.handlers.calling import Caller
from pinnace_agent.extensions.registration.registrations import ErrorSink, Extension, Generation
from pinnace_agent.extensions.services.watchdog import Watchdog


async def ask_for_trust(
    extensions: Sequence[Extension], generation: Generation, context: TrustContext, report: ErrorSink
) -> rs.Trust | None:
    """Return the first decision; None: no handler decided.

    A handler that fails or returns None is reported, and the next one is called.
    """
    # TrustContext has the members that these handlers may use, and none that need a session.
    limited = cast("Context", context)
    caller = Caller(extensions, generation, lambda _extension: limited, Watchdog(), report)
    bounds = caller.bound("project_trust")
    if not bounds:
        return None
    event = ev.ProjectTrust(cwd=str(context.cwd))
    for bound in bounds:
        try:
            value = await caller.call(bound, event)
            result = read_result("project_trust", value, partial(caller.report_unknown, bound.owner))
        except BaseException as error:
            caller.failed(bound, error)
            continue
        if isinstance(result, rs.Trust) and result.trusted != "undecided":
            return result
    return None
