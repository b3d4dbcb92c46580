"""Two extensions that talk to each other, in the real program."""

from tests.rpc.extensions.conftest import Start


def test_one_extension_receives_the_data_of_another(extended: Start) -> None:
    one = extended("event_bus")
    one.command("/announce land ahoy")

    assert "Heard: land ahoy" == one.notice()


def test_a_failing_listener_does_not_affect_others(extended: Start) -> None:
    one = extended("event_bus")
    one.command("/announce fail")
    one.command("/announce again")

    assert "Heard: again" == one.notice()
    assert [] == one.errors  # listeners are not handlers: their errors are in the log


def test_after_a_reload_the_old_listener_is_silent(extended: Start) -> None:
    one = extended(["event_bus", "reload_command.py"])
    one.command("/announce one")
    one.command("/reload-runtime")
    one.command("/announce two")
    one.pi.ask("get_state")

    assert ["Heard: one", "Heard: two"] == [frame["message"] for frame in one.frames("notify")]


def test_a_new_session_receives_an_event_once(extended: Start) -> None:
    one = extended("event_bus")
    one.pi.ask("new_session")
    one.command("/announce one")
    one.pi.ask("get_state")

    assert ["Heard: one"] == [frame["message"] for frame in one.frames("notify")]
