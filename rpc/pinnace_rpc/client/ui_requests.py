"""What an extension asks of the client's user, or shows him, as plain dicts by `method`.

Keys are the wire's; a test holds these types to the specification's models. The first four are dialogs: the agent waits
for an answer, which is `dialogs`' matter.
"""

from typing import Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict


class Select(TypedDict):
    """Choose one of some texts."""

    type: Literal["extension_ui_request"]
    id: str
    method: Literal["select"]
    title: str
    options: list[str]
    timeout: NotRequired[int]
    """Milliseconds after which the agent takes it as cancelled."""
    toolCallId: NotRequired[str]
    """The call that the question is about, if it is about one."""


class Confirm(TypedDict):
    """Say yes or no."""

    type: Literal["extension_ui_request"]
    id: str
    method: Literal["confirm"]
    title: str
    message: str
    timeout: NotRequired[int]
    toolCallId: NotRequired[str]


class Input(TypedDict):
    """Enter one line."""

    type: Literal["extension_ui_request"]
    id: str
    method: Literal["input"]
    title: str
    placeholder: NotRequired[str]
    timeout: NotRequired[int]
    toolCallId: NotRequired[str]


class Editor(TypedDict):
    """Edit a text."""

    type: Literal["extension_ui_request"]
    id: str
    method: Literal["editor"]
    title: str
    prefill: NotRequired[str]
    toolCallId: NotRequired[str]


class Notify(TypedDict):
    """Show a message."""

    type: Literal["extension_ui_request"]
    id: str
    method: Literal["notify"]
    message: str
    notifyType: NotRequired[Literal["info", "warning", "error"]]


class SetStatus(TypedDict):
    """Show a text under a key; without a text, show none."""

    type: Literal["extension_ui_request"]
    id: str
    method: Literal["setStatus"]
    statusKey: str
    statusText: NotRequired[str]


class SetWidget(TypedDict):
    """Show lines under a key; without lines, show none."""

    type: Literal["extension_ui_request"]
    id: str
    method: Literal["setWidget"]
    widgetKey: str
    widgetLines: NotRequired[list[str]]
    widgetPlacement: NotRequired[Literal["aboveEditor", "belowEditor"]]


class SetTitle(TypedDict):
    """Name the client's window."""

    type: Literal["extension_ui_request"]
    id: str
    method: Literal["setTitle"]
    title: str


class SetEditorText(TypedDict):
    """Put a text into the client's input."""

    type: Literal["extension_ui_request"]
    id: str
    method: Literal["set_editor_text"]
    text: str


UiRequest: TypeAlias = Select | Confirm | Input | Editor | Notify | SetStatus | SetWidget | SetTitle | SetEditorText
