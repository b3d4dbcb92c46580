"""Uses every dialog and display once: for writing and testing clients.

    pinnace --mode rpc -e examples/extensions/rpc_demo.py

`/demo` opens four dialogs and shows the answers; the displays need no answer. The table in docs/extensions.md lists the
behaviour of each without a terminal.
"""

from pinnace.extensions import CommandContext, Context, ExtensionAPI
from pinnace.extensions import events as ev


def extension(pi: ExtensionAPI) -> None:
    @pi.on("session_start")
    def start(ctx: Context, event: ev.SessionStart) -> None:
        ctx.ui.set_status("demo", ctx.ui.theme.plain.fg("accent", "ready"))

    @pi.command("demo", description="Every dialog, then everything that is shown")
    async def demo(ctx: CommandContext, args: str) -> None:
        ui = ctx.ui
        # Each waits for the client without a limit; other events are handled meanwhile.
        colour = await ui.select("Which colour?", ["red", "green"], timeout=10)
        is_sure = await ui.confirm("Sure?", "This asks only once.")
        name = await ui.input("Your name?", "Ann")
        text = await ui.editor("Edit this", "first line\nsecond line")
        ui.notify(f"{colour} {is_sure} {name} {text!r}", "info")

        # Sent without waiting.
        ui.set_status("demo", "asked")
        ui.set_widget("demo", ["one", "two"], placement="below_editor")
        ui.set_title("demo")
        ui.set_editor_text("/demo")
        ui.paste_to_editor(" again")
        ui.set_status("demo")  # without a text: removes it
        ui.set_widget("demo")

    @pi.command("demo-terminal", description="What needs a terminal, and does nothing without one")
    async def terminal(ctx: CommandContext, args: str) -> None:
        ui = ctx.ui
        ui.set_widget("drawn", lambda *_: ["never drawn"])
        ui.set_working_message("working")
        ui.set_working_visible(False)
        ui.set_working_indicator()
        ui.set_hidden_thinking_label("thinking")
        ui.set_footer(None)
        ui.set_header(None)
        ui.set_editor_component(None)
        ui.add_autocomplete_provider(lambda *_: None)
        ui.on_terminal_input(lambda *_: None)()  # the result removes the handler
        ui.set_tools_expanded(True)
        ui.get_editor_component()
        ui.get_theme("dark")
        await ui.custom(lambda *_: None)
        seen = (ui.get_editor_text(), ui.get_all_themes(), ui.set_theme("dark").success, ui.get_tools_expanded())
        ui.notify(f"{seen}")

    @pi.command("demo-error", description="What an error looks like")
    def error(ctx: CommandContext, args: str) -> None:
        raise RuntimeError("on purpose")
