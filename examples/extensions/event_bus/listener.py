"""Receives the data of `speaker`. Bus listeners receive data only, so the context is kept from an event."""

from typing import cast

from pinnace.extensions import Context, ExtensionAPI
from pinnace.extensions import events as ev


def extension(pi: ExtensionAPI) -> None:
    kept: list[Context] = []

    @pi.on("session_start")
    def start(ctx: Context, event: ev.SessionStart) -> None:
        kept.append(ctx)

    @pi.events.on("announcement")
    def heard(data: object) -> None:
        text = str(cast("dict[str, object]", data)["text"])
        if text == "fail":
            raise ValueError("a failing listener is an error of its own extension only")
        # The context and the subscription belong to this session instance and end together.
        kept[0].ui.notify(f"Heard: {text}")
