"""Changes user messages before they reach the model, or answers them without a model.

    pinnace --mode rpc -e examples/extensions/input_transform.py

Handlers of `input` receive messages as typed: `/skill:name` and templates are expanded later, and commands of
extensions (`/name`) do not fire the event.
"""

from pinnace.extensions import Context, Continue, ExtensionAPI, Handled, Transform
from pinnace.extensions import events as ev


def extension(pi: ExtensionAPI) -> None:
    @pi.on("input")
    def rewrite(ctx: Context, event: ev.Input) -> Continue | Transform | Handled:
        # Messages of other extensions pass unchanged.
        if event.source == "extension":
            return Continue()
        if event.text.startswith("?quick "):
            question = event.text.removeprefix("?quick ")
            return Transform(f"Answer in one sentence: {question}")  # images stay, since none are given
        if event.text.strip().lower() == "ping":
            ctx.ui.notify("pong")
            return Handled()  # no run starts, and nothing is stored
        return Continue()
