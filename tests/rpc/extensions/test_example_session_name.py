"""A name for the session, in the real program."""

from tests.rpc.extensions.conftest import Start

NAME = "session_name.py"


def test_a_command_names_the_session(extended: Start) -> None:
    one = extended(NAME)
    one.command("/name-session")
    assert "It has no name yet" == one.notice()
    one.command("/name-session  the long voyage ")
    changed = one.pi.wait({"type": "session_info_changed"}, since=0)
    one.command("/name-session")

    assert "the long voyage" == changed["name"]
    assert "the long voyage" == one.pi.ask("get_state")["sessionName"]
    assert "This session is called the long voyage" == one.notice()
    assert "the long voyage" == one.frames("setTitle")[-1]["title"]


def test_renaming_by_the_client_fires_an_event(extended: Start) -> None:
    one = extended(NAME)
    one.pi.ask("set_session_name", name="of the client")

    assert "of the client" == one.asked("setTitle")["title"]


def test_the_name_is_there_after_a_restart(extended: Start) -> None:
    one = extended(NAME, [{"text": "ok"}], has_session=True)
    one.say("hello")
    one.command("/name-session the long voyage")
    one.pi.check_end()
    path = next(one.pi.home.sessions.rglob("*.jsonl"))
    again = extended(NAME, (), "--session", str(path), again=one.pi)
    again.command("/name-session")

    assert "This session is called the long voyage" == again.notice()
