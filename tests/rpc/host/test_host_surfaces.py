"""Surfaces of extensions with several clients of a hosted agent."""

from tests.rpc.host.attached import HostProcess

EXTENSION = """
def extension(pi):
    class Line:
        def render(self, width):
            return [f"{width}"]

    @pi.command("draw", description="draw")
    async def draw(ctx, args):
        ctx.ui.notify(f"{ctx.mode} {await ctx.ui.custom(lambda *_: Line())}")
"""


def test_surfaces_are_drawn_until_the_last_client_that_draws_is_gone(host: HostProcess) -> None:
    """R-UI-11: clients that offer nothing withdraw nothing when they leave."""
    extension = host.folder / "draws.py"
    extension.write_text(EXTENSION)
    with host.attach(start=("-e", str(extension))) as watching:
        with host.attach(start=()) as one:
            one.ask({"id": "1", "type": "hello", "surfaces": True})
            with host.attach(start=()) as other:
                other.ask({"id": "1", "type": "hello", "surfaces": True})
            with host.attach(start=()) as reader:
                reader.ask({"id": "1", "type": "hello", "surfaces": False})
            one.send({"id": "p", "type": "prompt", "message": "/draw"})
            surface = one.until(type="ui_surface_open")[-1]["surface"]
            one.send({"id": "2", "type": "ui_surface_input", "surface": surface, "columns": 7, "rows": 5})
            assert ["7"] == one.until(type="ui_surface_draw")[-1]["lines"]
        watching.until(type="ui_surface_close")
        assert str(watching.until(type="extension_ui_request")[-1]["message"]).endswith("None")
