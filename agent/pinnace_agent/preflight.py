"""Job: what is checked between a prompt and its run.

The order is the protocol's (R-PRM-02): is a model selected, can its provider be spoken to, are there credentials. Must
not change anything: a refused prompt leaves no trace. Cancelling it is safe at any point.
"""

import trio

from pinnace_agent.profile import AgentProfile
from pinnace_agent.session import Session
from pinnace_spec import errors


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
        return errors.ClientError(credentials.problem, errors.ErrorCode.NO_API_KEY)
    return None
