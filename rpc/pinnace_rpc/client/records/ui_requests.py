"""The requests of extensions to the client's user, as plain dicts by `method`.

Keys are the wire's; a test holds these types to the specification's models. The first four are dialogs: the agent waits
for an answer, see `dialogs`.
"""

from typing import Literal, NotRequired, TypeAlias

from typing_extensions import TypedDict

OptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class Select(TypedDict):
    """Choose one of some texts."""

    type: Literal["extension_ui_request"]
    id: str
    method: Literal["select"]
    title: str
    options: list[str]
    optionKinds: NotRequired[list[OptionKind]]
    """What each option means, in their order, where the question is whether something may happen."""
    timeout: NotRequired[int]
    """Milliseconds after which the agent takes it as cancelled."""
    toolCallId: NotRequired[str]
    """The call that the question is about, if it is about one."""


class Confirm(TypedDict):
    """Confirm or deny."""

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
