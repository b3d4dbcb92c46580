"""The other examples: a reload that a tool asks for, questions with a time limit, models of a server."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tests.rpc.extensions.conftest import EXAMPLES, MakeExtension, Start, call

from pinnace_campaigns.trials.one_shot import OneShotStarter

# reload_command.py


def test_a_tool_asks_for_a_reload_that_comes_when_the_agent_has_settled(
    extended: Start, written: MakeExtension
) -> None:
    text = (
        'def extension(pi):\n    pi.on("session_start", lambda ctx, event: ctx.ui.notify(f"{event.reason} {WORD}"))\n'
    )
    other = written(f"WORD = 'before'\n{text}")
    one = extended(["reload_command.py", other], [call("reload_runtime"), {"text": "done"}, {"text": "more"}])
    assert "startup before" == one.notice()
    other.write_text(f"WORD = 'after'\n{text}")
    one.say("go")

    assert "reload after" == one.notice()
    assert [("Everything is loaded again when you have finished.", False)] == one.ends
    one.say("and now")
    assert [] == one.errors


def test_a_reload_that_fails_leaves_the_extension_out_and_the_session_stays(
    extended: Start, written: MakeExtension
) -> None:
    text = """
        def extension(pi):
            pi.command("other")(lambda ctx, args: None)
            pi.on("session_start")(lambda ctx, event: ctx.ui.notify("loaded"))
    """
    other = written(text)
    one = extended(["reload_command.py", other], [{"text": "ok"}])
    one.notice()
    other.write_text("def extension(pi:\n")
    one.command("/reload-runtime")
    names = [each["name"] for each in one.pi.ask("get_commands")["commands"]]
    one.say("still there")

    assert "reload-runtime" in names
    assert "other" not in names


# timed_confirm.py


@pytest.mark.parametrize(
    ("args", "answer", "shown"),
    [("", True, "yes"), ("", False, "no, or too late"), (" scope", True, "yes"), (" scope", False, "no")],
)
def test_an_answer_in_time_counts(extended: Start, args: str, answer: bool, shown: str) -> None:
    one = extended("timed_confirm.py")
    one.begin(f"/timed{args}")
    one.reply(one.asked("confirm"), confirmed=answer)

    assert shown == one.notice()


@pytest.mark.parametrize(("args", "shown"), [("", "no, or too late"), (" scope", "too late")])
def test_silence_is_no(extended: Start, changed: MakeExtension, args: str, shown: str) -> None:
    one = extended(changed("timed_confirm.py", TIMEOUT_S="0.1"))
    one.begin(f"/timed{args}")

    assert shown == one.notice()


# local_models.py


@pytest.fixture
def server() -> Iterator[str]:
    """A server with two models."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"data": [{"id": "sloop-7b"}, {"id": "ketch-70b"}]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}/v1"
        listening.shutdown()
        thread.join()


def test_models_of_a_server_can_be_chosen(extended: Start, server: str) -> None:
    one = extended("local_models.py", env={"LOCAL_MODELS_URL": server})
    models = [each["id"] for each in one.pi.ask("get_available_models")["models"] if each["provider"] == "local"]

    assert ["sloop-7b", "ketch-70b"] == models
    assert "ketch-70b" == one.pi.ask("set_model", provider="local", modelId="ketch-70b")["id"]


def test_models_of_a_server_are_listed(print_agent: OneShotStarter, server: str) -> None:
    words = ["--list-models", "sloop", "-e", str(EXAMPLES / "local_models.py")]
    printed = print_agent(words, env={"LOCAL_MODELS_URL": server}).end()

    assert "sloop-7b" in printed.out


def test_a_server_that_is_not_there_keeps_nothing_from_starting(extended: Start) -> None:
    one = extended("local_models.py", [{"text": "ok"}], env={"LOCAL_MODELS_URL": "http://127.0.0.1:9/v1"})
    one.say("hello")

    assert [] == one.errors
