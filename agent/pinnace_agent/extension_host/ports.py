"""The extension manager as its parts use it. For annotations alone."""

from typing import Protocol

from pinnace_agent.engine.ports import ExtensibleAgent
from pinnace_agent.extensions.ports.host_view import Mode
from pinnace_agent.extensions.registration.registrations import ErrorRecord
from pinnace_agent.extensions.runtime.runner import Runner


class InstanceHost(Protocol):
    """Has the extensions of the current session, and the agent under them."""

    @property
    def agent(self) -> ExtensibleAgent:
        """The agent that runs the current session."""
        ...

    @property
    def mode(self) -> Mode:
        """The mode of the process."""
        ...

    @property
    def runner(self) -> Runner | None:
        """The extensions of the current session; None: none is loaded now."""
        ...

    def report(self, record: ErrorRecord) -> None:
        """Report an error of an extension."""

    def models_changed(self) -> None:
        """Look up the models of the session as they are described now."""
