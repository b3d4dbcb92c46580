"""Logins of a provider that an extension registers, against an authorization server on this machine."""

import base64
import hashlib
import json
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.rpc.conftest import COMMAND, CONVERSATION_TIMEOUT_S, ENVIRONMENT
from tests.rpc.extensions.conftest import EXAMPLES, Extended, MakeExtension, Start, rejected_provider, run_to_end

from pinnace_campaigns.trials.one_shot import OneShotStarter
from pinnace_fuzz.harness.adapters import prepare_pi_home

EXAMPLE = EXAMPLES / "corporate_login.py"
# In every token, so that one that shows up anywhere is found.
MARK = "marker-of-a-token"


class Corporation:
    """An authorization server (authorization code with PKCE, refresh tokens that work once) and its models."""

    def __init__(self) -> None:
        self.challenges: dict[str, str] = {}
        self.number = 0
        self.refreshes = 0
        self.refused = False
        self.asked = threading.Event()
        """Somebody wants to refresh."""
        self.let_go = threading.Event()
        """Refreshes are answered."""
        self.let_go.set()
        self.address = ""

    @property
    def access(self) -> str:
        return f"access-{self.number}-{MARK}"

    @property
    def refresh(self) -> str:
        return f"refresh-{self.number}-{MARK}"

    @property
    def env(self) -> dict[str, str]:
        return {**ENVIRONMENT, "CORPORATE_SSO": self.address, "CORPORATE_AI": f"{self.address}/v1"}

    def login(self, expires_in_s: float = 3600) -> dict[str, object]:
        """Return an entry of auth.json for the tokens of the moment."""
        expires = round((time.time() + expires_in_s) * 1000)
        return {"type": "oauth", "access": self.access, "refresh": self.refresh, "expires": expires}

    def token(self, form: dict[str, str]) -> tuple[int, dict[str, object]]:
        if form["grant_type"] == "authorization_code":
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            if self.challenges.pop(form["code"], None) != challenge:
                return 400, {"error": "invalid_grant"}
        else:
            self.asked.set()
            self.let_go.wait(CONVERSATION_TIMEOUT_S)
            if self.refused or form["refresh_token"] != self.refresh:
                return 400, {"error": "invalid_grant"}
            self.refreshes += 1
        self.number += 1
        return 200, {"access_token": self.access, "refresh_token": self.refresh, "expires_in": 3600}


@pytest.fixture
def corporation() -> Iterator[Corporation]:
    one = Corporation()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            place = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(place.query).items()}
            if place.path == "/authorize":
                code = f"code-{len(one.challenges)}"
                one.challenges[code] = query["code_challenge"]
                self.send_response(302)
                self.send_header("Location", f"{query['redirect_uri']}?code={code}&state={query['state']}")
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                self.answer(200, {"data": [{"id": "c1"}, {"id": "c2"}]})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            if self.path == "/token":
                self.answer(*one.token({name: values[0] for name, values in parse_qs(body).items()}))
            elif self.headers["Authorization"] != f"Bearer {one.access}":
                self.answer(401, {"error": {"message": "no"}})
            else:
                choice = {"index": 0, "delta": {"content": "let in"}, "finish_reason": "stop"}
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(f"data: {json.dumps({'choices': [choice]})}\n\ndata: [DONE]\n\n".encode())

        def answer(self, status: int, value: object) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        one.address = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield one
        one.let_go.set()
        listening.shutdown()
        thread.join()


@pytest.fixture
def started(extended: Start, corporation: Corporation) -> Callable[..., Extended]:
    """Starts an agent with the example; `login` is in auth.json before."""

    def start(*words: str, login: dict[str, object] | None = None, again: Any = None, **options: object) -> Extended:
        extension = EXAMPLE
        if login is not None:
            options["files"] = {"auth.json": {"corporate": login}}
        return extended(extension, (), *words, names_model=False, env=corporation.env, again=again, **options)

    return start


MODEL = ("--provider", "corporate", "--model", "c1")


def browse(text: str) -> int:
    """Do what a user's browser does with the address in a text."""
    [url] = [word for word in text.split() if word.startswith("http")]
    with urllib.request.urlopen(url) as response:
        return int(response.status)


def kept(one: Extended) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((one.pi.home.agent_dir / "auth.json").read_text())
    entry: dict[str, Any] = content["corporate"]
    return entry


def shows_no_token(one: Extended) -> None:
    written = json.dumps([each.record for each in one.pi.records]) + one.pi.stderr_text
    written += "".join(path.read_text() for path in one.pi.home.sessions.rglob("*.jsonl"))
    assert MARK not in written


def test_a_user_logs_in_by_the_dialogs_of_a_client(started: Callable[..., Extended], corporation: Corporation) -> None:
    one = started(has_session=True)
    assert "corporate" not in {each["provider"] for each in one.pi.ask("get_available_models")["models"]}
    login = one.begin("/login corporate")
    assert 200 == browse(one.notice())
    assert "Corporate AI (SSO): logged in" == one.notice()
    one.accepted(login)
    models = [each["id"] for each in one.pi.ask("get_available_models")["models"] if each["provider"] == "corporate"]
    assert ["c1", "c2"] == models
    one.pi.ask("set_model", provider="corporate", modelId="c2")
    one.say("hello")
    assert "let in" == one.pi.ask("get_last_assistant_text")["text"]

    entry = kept(one)
    assert ("oauth", corporation.access, corporation.refresh) == (entry["type"], entry["access"], entry["refresh"])
    assert 0o600 == (one.pi.home.agent_dir / "auth.json").stat().st_mode & 0o777
    shows_no_token(one)


def test_an_expired_login_is_refreshed_before_a_request(
    started: Callable[..., Extended], corporation: Corporation
) -> None:
    one = started(*MODEL, login={**corporation.login(-1), "team": "blue"}, has_session=True)
    one.say("hello")
    assert ("let in", 1) == (one.pi.ask("get_last_assistant_text")["text"], corporation.refreshes)
    entry = kept(one)
    assert (corporation.access, "blue") == (entry["access"], entry["team"])
    assert entry["expires"] > time.time() * 1000
    shows_no_token(one)


def test_two_processes_that_refresh_at_once_refresh_once(
    started: Callable[..., Extended], corporation: Corporation
) -> None:
    corporation.let_go.clear()
    one = started(*MODEL, login=corporation.login(-1))
    other = started(*MODEL, again=one.pi)
    commands = one.begin("hello"), other.begin("hello")
    assert corporation.asked.wait(CONVERSATION_TIMEOUT_S)
    corporation.let_go.set()
    for each, command in zip((one, other), commands, strict=True):
        each.accepted(command)
        each.pi.wait({"type": "agent_settled"})
        assert "let in" == each.pi.ask("get_last_assistant_text")["text"]
    assert 1 == corporation.refreshes


@pytest.mark.parametrize(
    ("refresh", "expected"),
    [
        ("fails", "refresh_token failed: refused: [redacted]"),
        ("dict", "has expired already"),
        ("str", "must be a dict with access, refresh and expires"),
    ],
)
def test_a_login_that_can_not_be_refreshed_is_kept_and_refused_by_name(
    extended: Start, written: MakeExtension, corporation: Corporation, refresh: str, expected: str
) -> None:
    text = f"""
        def fails(credentials):
            raise RuntimeError("refused: " + credentials["refresh"])


        def extension(pi):
            pi.register_provider(
                "corporate",
                base_url="http://127.0.0.1:9/v1",
                api="openai-completions",
                models=[{{"id": "c1"}}],
                oauth={{"login": fails, "refreshToken": {refresh}, "getApiKey": str}},
            )
    """
    login = corporation.login(-1)
    one = extended(written(text), (), *MODEL, names_model=False, files={"auth.json": {"corporate": login}})
    refused = one.pi.wait_response(one.begin("hello"))
    assert (False, "authentication_failed") == (refused["success"], refused["errorCode"])
    assert 'Authentication failed for "corporate"' in refused["error"]
    assert "Run 'pinnace auth login corporate', or '/login corporate' in the" in refused["error"]
    assert expected in refused["error"]
    assert login == kept(one)
    shows_no_token(one)


@pytest.mark.parametrize(
    "words",
    [("auth", "login", "corporate", "-e", str(EXAMPLE)), ("acp", "-e", str(EXAMPLE), "--login", "corporate")],
    ids=["auth", "acp"],
)
def test_a_login_at_the_terminal(words: tuple[str, ...], tmp_path: Path, corporation: Corporation) -> None:
    home = prepare_pi_home(tmp_path / "home", "http://127.0.0.1:9/v1", env=corporation.env)
    with subprocess.Popen(
        [*COMMAND, *words],
        env=home.env,
        cwd=home.work,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        browse(process.stderr.readline())
        out, err = process.communicate(timeout=CONVERSATION_TIMEOUT_S)
    auth = home.agent_dir / "auth.json"
    assert (0, f"corporate: logged in; the login is stored in {auth}\n") == (process.returncode, out)
    assert corporation.access == json.loads(auth.read_text())["corporate"]["access"]
    assert MARK not in out + err


def test_a_login_with_an_extension_that_has_none_is_refused(tmp_path: Path, written: MakeExtension) -> None:
    home = prepare_pi_home(tmp_path / "home", "http://127.0.0.1:9/v1", env=ENVIRONMENT)
    path = written("def extension(pi):\n    pass\n")
    done = run_to_end(home, "auth", "login", "corporate", "-e", str(path))
    assert 1 == done.returncode
    assert "none of the named extensions has logins for corporate" in done.stderr
    assert not (home.agent_dir / "auth.json").exists()


ASKS = """
def login_of(name):
    async def login(callbacks):
        choice = await callbacks.on_select("Which account?", {"a": "Account A", "b": "Account B"})
        callbacks.on_device_code("ABCD", "http://127.0.0.1/device", 60)
        callbacks.on_progress("waiting")
        code = await callbacks.on_prompt("Code:", "six digits")
        if code == "raise":
            raise RuntimeError("no such code")
        if code == "wrong":
            return {"access": "x", "refresh": "", "expires": 3600}
        return {"access": f"{choice}-{code}", "refresh": "", "expires": 9e15}
    return login


def extension(pi):
    for name in ("x", "y"):
        pi.register_provider(
            name,
            base_url="http://127.0.0.1:9/v1",
            api="openai-completions",
            models=[{"id": "m"}],
            oauth={
                "name": "The " + name,
                "login": login_of(name),
                "refreshToken": lambda credentials: credentials,
                "getApiKey": lambda credentials: credentials["access"],
            },
        )
"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("123456", "The x: logged in"),
        (None, "The x: the login was cancelled"),
        ("raise", "The x: not logged in: login failed: no such code"),
        ("wrong", "expires must count milliseconds"),
    ],
)
def test_login_callbacks_ask_through_dialogs(
    extended: Start, written: MakeExtension, code: str | None, expected: str
) -> None:
    one = extended(written(ASKS), ())
    one.begin("/login x")
    choice = one.asked("select")
    assert ["Account A", "Account B"] == choice["options"]
    one.reply(choice, value="Account B")
    assert "enter the code ABCD at http://127.0.0.1/device within 60 s" in one.notice()
    assert "waiting" == one.notice()
    prompt = one.asked("input")
    assert ("Code:", "six digits") == (prompt["title"], prompt["placeholder"])
    one.reply(prompt, **({"cancelled": True} if code is None else {"value": code}))
    assert expected in one.notice()
    file = one.pi.home.agent_dir / "auth.json"
    assert file.exists() is (code == "123456")
    if file.exists():
        assert "b-123456" == json.loads(file.read_text())["x"]["access"]


def test_a_login_names_the_providers_that_have_one(extended: Start, written: MakeExtension) -> None:
    one = extended(written(ASKS), ())
    assert ["login"] == [each["name"] for each in one.pi.ask("get_commands")["commands"]]
    one.command("/login")
    assert "/login takes the id of a provider: x, y" == one.notice()


# Models that a provider is asked for.

REFRESHES = """
import json
import pathlib

MODELS = pathlib.Path(__file__).with_name("models.json")


async def refresh_models(context):
    assert (context.provider, context.api_key, context.base_url) == ("x", "k", "http://127.0.0.1:9/v1"), context
    return json.loads(MODELS.read_text())


def extension(pi):
    pi.register_provider(
        "x",
        base_url="http://127.0.0.1:9/v1",
        api="openai-completions",
        api_key="k",
        models=[{"id": "static"}],
        refresh_models=refresh_models,
    )

    @pi.command("again")
    async def again(ctx, args):
        await ctx.reload()
"""


def models_of(one: Extended) -> list[str]:
    return [each["id"] for each in one.pi.ask("get_available_models")["models"] if each["provider"] == "x"]


def test_refreshed_models_can_be_chosen_at_the_start(extended: Start, written: MakeExtension) -> None:
    path = written(REFRESHES)
    path.with_name("models.json").write_text('[{"id": "live"}]')
    one = extended(path, (), "--model", "x/live", names_model=False)
    assert (["live"], "live") == (models_of(one), one.pi.ask("get_state")["model"]["id"])
    one.pi.ask("new_session")
    assert (["live"], "live") == (models_of(one), one.pi.ask("get_state")["model"]["id"])
    path.with_name("models.json").write_text('[{"id": "live", "contextWindow": 5000}, {"id": "more"}]')
    one.command("/again")
    assert ["live", "more"] == models_of(one)
    assert 5000 == one.pi.ask("get_state")["model"]["contextWindow"]


def test_refreshed_models_are_listed(print_agent: OneShotStarter, written: MakeExtension) -> None:
    path = written(REFRESHES)
    path.with_name("models.json").write_text('[{"id": "live-sloop"}]')
    assert "live-sloop" in print_agent(["--list-models", "sloop", "-e", str(path)]).end().out


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "Expecting property name"),
        ("7", "it must return a list of models"),
        ('[{"name": "no id"}]', "models[0].id"),
    ],
)
def test_models_stay_as_they_are_when_they_can_not_be_refreshed(
    extended: Start, written: MakeExtension, content: str, expected: str
) -> None:
    path = written(REFRESHES)
    path.with_name("models.json").write_text(content)
    one = extended(path, ())
    assert ["static"] == models_of(one)
    [(event, text)] = one.errors
    assert "refresh_models" == event
    assert 'provider "x"' in text
    assert expected in text


@pytest.mark.parametrize(
    ("oauth", "text"),
    [
        ("7", "must be an OAuth or a dict"),
        ("{'login': lambda callbacks: 1}", "refreshToken is missing"),
        ("{**GOOD, 'login': 7}", "login"),
        ("{**GOOD, 'refresh_token': lambda: 1}", "(credentials)"),
        ("{**GOOD, 'modifyModels': 7}", "there is no field 'modifyModels'"),
        ("{**GOOD, 'name': 7}", "name must be a string"),
    ],
)
def test_wrong_logins_are_refused_where_they_are_registered(
    extended: Start, written: MakeExtension, oauth: str, text: str
) -> None:
    good = "{'login': lambda callbacks: 1, 'refreshToken': lambda credentials: 1, 'getApiKey': lambda credentials: 'k'}"
    extension = written(rejected_provider(f"oauth={oauth.replace('GOOD', good)}"))
    assert text in extended(extension, ()).notice()
