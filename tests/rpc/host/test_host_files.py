"""Files that one of several clients of a hosted agent serves."""

import os
import signal

from tests.rpc.host.attached import Connection, HostProcess, Record

from pinnace_rpc.host.protocol import ListAgents

BOTH = ["read_text_file", "write_text_file"]


def asked(connection: Connection) -> Record:
    return connection.until(type="client_request")[-1]


def result(connection: Connection) -> str:
    end = connection.until(type="tool_execution_end")[-1]
    connection.until(type="agent_settled")
    return str(end["result"]["content"][0]["text"])


def test_the_client_that_has_offered_it_serves_files_until_it_is_gone(host: HostProcess) -> None:
    """R-FIL-05: the newest offer counts, and no answer of another client; one that is refused changes nothing, and
    neither does the withdrawal by one that has offered nothing."""
    note = host.folder / "note.txt"
    note.write_text("saved")
    prompt = {"id": "p", "type": "prompt", "message": "Please read `note.txt`."}
    with host.attach() as one:
        one.ask({"id": "1", "type": "hello", "delegate": BOTH})
        with host.attach(start=()) as two:
            for wrong in ({"delegate": ["x"]}, {"surfaces": 5}, {"directories": ["none"]}):
                refused = two.ask({"id": "2", "type": "hello", "delegate": BOTH, **wrong})
                assert refused["errorCode"] == "invalid_field"
            assert two.ask({"id": "2", "type": "hello", "delegate": []})["success"]
            one.send(prompt)
            request = asked(one)
            two.send({"type": "client_response", "id": request["id"], "success": True, "content": "of two"})
            two.ask({"id": "2", "type": "get_state"})
            one.send({"type": "client_response", "id": request["id"], "success": True, "content": "of one"})
            assert result(one) == "of one"

            one.send(prompt)
            asked(one)
            two.ask({"id": "2", "type": "hello", "delegate": BOTH})
            assert result(one) == "saved"  # what was open ends with the offer
            one.send(prompt)
            request = asked(one)
            one.send({"type": "client_response", "id": request["id"], "success": True, "content": "of one"})
            one.ask({"id": "1", "type": "get_state"})
            two.send({"type": "client_response", "id": request["id"], "success": True, "content": "of two"})
            assert result(one) == "of two"

            one.send(prompt)
            asked(one)
        assert result(one) == "saved"
        one.send(prompt)
        assert result(one) == "saved"


def test_an_offer_that_a_crash_has_cut_counts_with_the_next_process(host: HostProcess) -> None:
    """R-FIL-05: the next process is asked again, and the host takes the answers of the client that has offered."""
    (host.folder / "note.txt").write_text("saved")
    with host.attach(has_cursors=True) as one:
        one.ask({"id": "0", "type": "get_state"})
        pid = host.ask(ListAgents(watches=False))["agents"][0]["pid"]
        os.kill(pid, signal.SIGSTOP)
        one.send({"id": "1", "type": "hello", "delegate": BOTH})
        answered_by_host = one.ask({"id": "2", "type": "hello", "protocol": "seed"})  # what came before is in the pipe
        os.kill(pid, signal.SIGKILL)
        offered = one.until(type="response", id="1")[-1]["success"]
        one.send({"id": "p", "type": "prompt", "message": "Please read `note.txt`."})
        request = asked(one)
        one.send({"type": "client_response", "id": request["id"], "success": True, "content": "of one"})
        read = result(one)

    assert "profile_fixed" == answered_by_host["errorCode"]
    assert (True, "of one") == (offered, read)
