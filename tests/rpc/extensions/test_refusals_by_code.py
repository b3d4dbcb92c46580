"""What a client is refused because of an extension, by the code that programs read."""

from tests.rpc.extensions.conftest import MakeExtension, Start

REFUSING = """
def extension(pi):
    @pi.on("user_bash")
    async def refuse(ctx, event):
        raise RuntimeError("not on my watch")

    @pi.command("greet")
    async def greet(ctx, args):
        ctx.ui.notify("hello")
"""


def test_a_shell_command_that_an_extension_refuses(extended: Start, written: MakeExtension) -> None:
    """R-EXT-02: nothing was executed."""
    one = extended(written(REFUSING))
    answer = one.pi.request({"type": "bash", "command": "touch made"})

    assert (False, "refused_by_extension") == (answer["success"], answer["errorCode"])
    assert not (one.work / "made").exists()


def test_a_command_of_an_extension_is_never_queued(extended: Start, written: MakeExtension) -> None:
    """R-EXT-03: a prompt runs it, a steer or follow_up that calls it is refused."""
    one = extended(written(REFUSING))
    answers = [one.pi.request({"type": kind, "message": "/greet"}) for kind in ("steer", "follow_up")]
    one.command("/greet")

    assert [(False, "not_queueable")] * 2 == [(each["success"], each["errorCode"]) for each in answers]
    assert all("/greet" in each["error"] for each in answers)
    assert "hello" == one.notice()
