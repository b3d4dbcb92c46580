"""What most parts of the client work with. Made by the app, which alone knows all parts."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from textual.app import App

from pinnace_tui.connection import Connection
from pinnace_tui.content.transcript import Transcript
from pinnace_tui.conversation import ConversationView
from pinnace_tui.editor import Editor
from pinnace_tui.input.keys import Keys
from pinnace_tui.lines import Lines
from pinnace_tui.looks import Looks
from pinnace_tui.reporting import Reports
from pinnace_tui.search import SearchLine


@dataclass(frozen=True, slots=True)
class Terminal:
    """The screen, what is on it, and the connection to the agent."""

    app: App[str]
    connection: Connection
    transcript: Transcript
    """What the events have made of the conversation."""
    view: ConversationView
    editor: Editor
    search: SearchLine
    lines: Lines
    keys: Keys
    looks: Looks
    reports: Reports
    leave: Callable[[], Awaitable[None]]
    """Ends the client; a running agent of the host goes on."""
