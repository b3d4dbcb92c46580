"""Job: what is checked between a prompt and its run.

The order is the protocol's (R-PRM-02): is a model selected, can its provider be spoken to, are there credentials. Must
not change anything: a refused prompt leaves no trace. Cancelling it is safe at any point.
"""

from typing import TYPE_CHECKING

import trio

from pinnace_agent.profile import AgentProfile
from pinnace_agent.session import Session
from pinnace_spec import errors
from pinnace_statechart.effects import StartJob
from pinnace_statechart.triggers import Happening

if TYPE_CHECKING:  # it starts this
    from pinnace_agent.host import Host


async def preflight(host: "Host", effect: StartJob) -> None:
    """Check the prompt that is pending, and report what was found.

    Extensions read its text first and have their say about the run last.
    """
    if host.seat is not None and not await host.seat.desk.read_own(effect.job):
        return
    problem = await check_prompt(host.session, host.profile)
    is_enabled = host.chart.state.auto_compaction and effect.check_threshold
    if problem is None and host.compactor.is_due_before(host.session, is_enabled=is_enabled):
        host.submit(Happening("threshold_due", effect.job))
        return
    try:
        if problem is None and host.seat is not None:
            await host.seat.desk.before_run()
    except errors.ClientError as error:
        problem = error
    if problem is None:
        host.submit(Happening("preflight_ok", effect.job))
    else:
        host.submit(Happening("preflight_refused", effect.job, text=problem.text, code=problem.code))


async def check_prompt(session: Session, profile: AgentProfile) -> errors.ClientError | None:
    """Return why no prompt can be run now, or None."""
    await trio.lowlevel.checkpoint()
    model = session.model
    if model is None:
        return errors.ClientError(errors.NO_MODEL, errors.ErrorCode.NO_MODEL)
    if (refusal := profile.registry.refusal(model)) is not None:
        return refusal
    credentials = await profile.registry.check_credentials(model)
    if credentials.problem is not None:
        is_refused = credentials.is_login_refused
        code = errors.ErrorCode.AUTHENTICATION_FAILED if is_refused else errors.ErrorCode.NO_API_KEY
        return errors.ClientError(credentials.problem, code)
    return None
