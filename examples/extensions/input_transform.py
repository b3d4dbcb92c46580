"""Changes what the user says before the model hears it, or answers it without a model.

    pinnace --mode rpc -e examples/extensions/input_transform.py

Handlers of `input` see texts as they were typed: `/skill:name` and templates are expanded later, and commands of
extensions (`/name`) never get here.
"""

from pinnace.extensions import Context, Continue, ExtensionAPI, Handled, Transform
from pinnace.extensions import events as ev


def extension(pi: ExtensionAPI) -> None:
    @pi.on("input")
    def rewrite(ctx: Context, event: ev.Input) -> Continue | Transform | Handled:
        # What other extensions say in the user's name is passed on as it is: they have said what they meant.
        if event.source == "extension":
            return Continue()
        if event.text.startswith("?quick "):
            question = event.text.removeprefix("?quick ")
            return Transform(f"Answer in one sentence: {question}")  # images stay, since none are given
        if event.text.strip().lower() == "ping":
            ctx.ui.notify("pong")
            return Handled()  # dealt with: no model is asked, nothing is stored
        return Continue()
