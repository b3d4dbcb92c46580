"""Shows what the user has to know, and does work beside the conversation, whose failure is shown and ends nothing."""

from collections.abc import Awaitable

from textual.app import App

import pinnace
from pinnace_tui.content.rendering import plain
from pinnace_tui.content.transcript import Level, Transcript
from pinnace_tui.drafts import Drafts


class Reports:
    """What is reported to the user."""

    def __init__(self, app: App[str], transcript: Transcript, drafts: Drafts | None) -> None:
        """Report nothing yet.

        Args:
            app: The client.
            transcript: Has errors and defects.
            drafts: Where defects are logged; None: nowhere.
        """
        self._app = app
        self._transcript = transcript
        self._drafts = drafts
        self.last_failure = ""
        """The defect that was reported last."""

    def show(self, message: str, level: Level = "info") -> None:
        """Show a message for a moment; an error stays in the conversation."""
        if level == "error":
            self._transcript.notice(message, "error")
        else:
            self._app.notify(plain(message), severity="warning" if level == "warning" else "information", markup=False)

    def fail(self, error: Exception) -> None:
        """Report a defect of the client, which costs the key or the event alone."""
        if self._drafts is not None:
            self._drafts.log(error)
        notice = f"The terminal client has a defect ({type(error).__name__}: {error}); it continues."
        if notice != self.last_failure:  # the next key may have the same
            self.last_failure = notice
            self._transcript.notice(notice, "error")

    def perform(self, work: Awaitable[None]) -> None:
        """Do something beside the conversation; report what the agent refuses."""

        async def perform() -> None:
            try:
                await work
            except pinnace.CommandFailed as failure:
                self.show(failure.error, "error")
            except pinnace.ClientFailure as failure:
                self.show(str(failure), "error")
            except Exception as error:
                self.fail(error)

        self._app.run_worker(perform(), group="commands", exit_on_error=True)
