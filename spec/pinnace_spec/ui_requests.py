"""What an extension asks of the client's user, or shows him: `extension_ui_request` by method.

Dialogs wait for an `extension_ui_response` with their id; the others wait for nothing. Types only. Source: R-UI-01, the
published protocol.
"""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from pinnace_spec.output_model import NonEmpty, OutputModel, Positive


class _Request(OutputModel):
    type: Literal["extension_ui_request"]
    id: NonEmpty


class _Dialog(_Request):
    toolCallId: NonEmpty | None = None
    """The call that the question is about, if it is about one."""


class Select(_Dialog):
    """Choose one of some texts."""

    method: Literal["select"]
    title: str
    options: list[str]
    timeout: Positive | None = None


class Confirm(_Dialog):
    """Say yes or no."""

    method: Literal["confirm"]
    title: str
    message: str
    timeout: Positive | None = None


class Input(_Dialog):
    """Enter one line."""

    method: Literal["input"]
    title: str
    placeholder: str | None = None
    timeout: Positive | None = None


class Editor(_Dialog):
    """Edit a text."""

    method: Literal["editor"]
    title: str
    prefill: str | None = None


class Notify(_Request):
    """Show a message."""

    method: Literal["notify"]
    message: str
    notifyType: Literal["info", "warning", "error"] | None = None


class SetStatus(_Request):
    """Show a text under a key; without a text, show none."""

    method: Literal["setStatus"]
    statusKey: str
    statusText: str | None = None


class SetWidget(_Request):
    """Show lines under a key; without lines, show none."""

    method: Literal["setWidget"]
    widgetKey: str
    widgetLines: list[str] | None = None
    widgetPlacement: Literal["aboveEditor", "belowEditor"] | None = None


class SetTitle(_Request):
    """Name the client's window."""

    method: Literal["setTitle"]
    title: str


class SetEditorText(_Request):
    """Put a text into the client's input."""

    method: Literal["set_editor_text"]
    text: str


AnyUiRequest: TypeAlias = Annotated[
    Select | Confirm | Input | Editor | Notify | SetStatus | SetWidget | SetTitle | SetEditorText,
    Field(discriminator="method"),
]
