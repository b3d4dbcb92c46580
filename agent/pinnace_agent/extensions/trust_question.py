"""Asks extensions whether a project may configure the agent (E1), before there is a session.

Decides only what they say together: the first yes or no counts. Which extensions may be asked, and what is done when
nobody decides, is the host's. R6.
"""

from collections.abc import Sequence
from functools import partial
from typing import cast

from pinnace_agent.extensions import events as ev
from pinnace_agent.extensions import results as rs
from pinnace_agent.extensions.calling import Caller
from pinnace_agent.extensions.contexts import Context, TrustContext
from pinnace_agent.extensions.registrations import ErrorSink, Extension, Generation
from pinnace_agent.extensions.result_reader import read_result
from pinnace_agent.extensions.watchdog import Watchdog


async def ask_for_trust(
    extensions: Sequence[Extension], generation: Generation, context: TrustContext, tell: ErrorSink
) -> rs.Trust | None:
    """Return the first decision. None: there is none, so the usual question is due.

    A handler that fails, or answers nothing, is told, and the next one is asked.
    """
    # It has what such a handler may use, and nothing that needs a session.
    limited = cast("Context", context)
    caller = Caller(extensions, generation, lambda _extension: limited, Watchdog(), tell)
    bounds = caller.bound("project_trust")
    if not bounds:
        return None
    event = ev.ProjectTrust(cwd=str(context.cwd))
    for bound in bounds:
        try:
            value = await caller.call(bound, event)
            answer = read_result("project_trust", value, partial(caller.tell_unknown, bound.owner))
        except BaseException as error:
            caller.failed(bound, error)
            continue
        if isinstance(answer, rs.Trust) and answer.trusted != "undecided":
            return answer
    return None
