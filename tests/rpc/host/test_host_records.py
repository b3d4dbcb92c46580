"""The records that a host writes beside those of its agents, as the specification publishes them."""

import os
import signal

from tests.rpc.host.attached import OFFLINE, HostProcess

from pinnace_spec.host.records import HOST_RECORDS

DIALOG = """
def extension(pi):
    async def ask(ctx, args):
        await ctx.ui.input("Name?")
    pi.register_command("ask", handler=ask)
"""


def test_the_records_of_a_host_are_as_published(host: HostProcess) -> None:
    """R-HST-05: an attach, a dialog, a crash, and an attach to the agent that has crashed."""
    extension = host.folder / "ask.py"
    extension.write_text(DIALOG)
    with host.attach(has_cursors=True, start=(*OFFLINE, "-e", str(extension))) as connection:
        attached = connection.record()
        pid = connection.ask({"id": "1", "type": "get_state"})["data"]["pid"]
        connection.send({"id": "2", "type": "prompt", "message": "/ask"})
        dialog = connection.until(type="extension_ui_request")[-1]
        connection.send({"type": "extension_ui_response", "id": dialog["id"], "value": "x"})
        resolved = connection.until(type="extension_ui_resolved")[-1]
        os.kill(pid, signal.SIGKILL)
        restarted = connection.until(type="agent_restarted")[-1]
        with host.attach(since=f"{attached['journal']}.1:0", start=()) as late:
            seen = [attached, resolved, restarted, late.record()]
    for record in seen:
        HOST_RECORDS[record["type"]].model_validate(record)
