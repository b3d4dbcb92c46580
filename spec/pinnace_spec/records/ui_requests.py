"""What an extension asks of the client's user, or shows him: `extension_ui_request` by method.

Dialogs wait for an `extension_ui_response` with their id; the others wait for nothing. Types only. Source: R-UI-01, the
published protocol.
"""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from pinnace_spec.records.output_model import NonEmpty, OutputModel, Positive

OptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class _Request(OutputModel):
    type: Literal["extension_ui_request"]
    id: NonEmpty


class _Dialog(_Request):
    toolCallId: NonEmpty | None = None
    """The call that the question is about, if it is about one."""


class SeedSelect(_Dialog):
    """Choose one of several options."""

    method: Literal["select"]
    title: str
    options: list[str]
    timeout: Positive | None = None


class Select(SeedSelect):
    """Choose one of several options, each of which may say whether it allows or refuses."""

    method: Literal["select"]
    optionKinds: list[OptionKind] | None = None
    """Of a question whether something may happen: what each option means, in the order of `options`."""
    url: str | None = None
    """The address that the user is asked to open; the first option says that it was opened, the second declines."""
    loginProvider: NonEmpty | None = None
    """The provider of the `login` that the question belongs to."""

    @model_validator(mode="after")
    def _has_a_kind_for_each_option(self) -> Self:
        if self.optionKinds is not None and len(self.optionKinds) != len(self.options):
            raise ValueError("optionKinds must have one kind for each option")
        return self


class Confirm(_Dialog):
    """Confirm or deny."""

    method: Literal["confirm"]
    title: str
    message: str
    timeout: Positive | None = None


class SeedInput(_Dialog):
    """Enter one line."""

    method: Literal["input"]
    title: str
    placeholder: str | None = None
    timeout: Positive | None = None


class Input(SeedInput):
    """Enter one line, such as what a browser was sent to at a login."""

    method: Literal["input"]
    loginProvider: NonEmpty | None = None
    """The provider of the `login` that the question belongs to. With the method `browser` another answer than a text
    does not end it."""


class Editor(_Dialog):
    """Edit text."""

    method: Literal["editor"]
    title: str
    prefill: str | None = None


class Notify(_Request):
    """Show a message."""

    method: Literal["notify"]
    message: str
    notifyType: Literal["info", "warning", "error"] | None = None


class SetStatus(_Request):
    """Show a status text under a key; without text, remove it."""

    method: Literal["setStatus"]
    statusKey: str
    statusText: str | None = None


class SetWidget(_Request):
    """Show lines under a key; without lines, remove them."""

    method: Literal["setWidget"]
    widgetKey: str
    widgetLines: list[str] | None = None
    widgetPlacement: Literal["aboveEditor", "belowEditor"] | None = None


class SetTitle(_Request):
    """Name the client's window."""

    method: Literal["setTitle"]
    title: str


class SeedSetEditorText(_Request):
    """Put text into the client's input."""

    method: Literal["set_editor_text"]
    text: str


class SetEditorText(SeedSetEditorText):
    """Put text into the client's input."""

    method: Literal["set_editor_text"]
    paste: Literal[True] | None = None
    """Whether it is inserted at the cursor; absent: it takes the place of what is written there."""


AnyUiRequest: TypeAlias = Annotated[
    Select | Confirm | Input | Editor | Notify | SetStatus | SetWidget | SetTitle | SetEditorText,
    Field(discriminator="method"),
]
SeedUiRequest: TypeAlias = Annotated[
    SeedSelect | Confirm | SeedInput | Editor | Notify | SetStatus | SetWidget | SetTitle | SeedSetEditorText,
    Field(discriminator="method"),
]
