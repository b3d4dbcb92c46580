"""The agent, as its sessions use it. For annotations alone."""

from typing import Protocol

from pinnace_agent.core.jobs import Jobs, Work
from pinnace_statechart.triggers import InternalEvent


class SessionOwner(Protocol):
    """The agent, as its sessions use it."""

    @property
    def jobs(self) -> Jobs:
        """Where background work runs."""
        ...

    def submit(self, trigger: InternalEvent) -> None:
        """Take an outcome."""

    def start_job(self, job: int, work: Work, failed: str) -> None:
        """Start the job of a busy state; `failed` is the trigger that a defect of it becomes."""

    def open_folder(self, folder: str) -> None:
        """Load extensions that the project of a session brings, if there are none yet."""
