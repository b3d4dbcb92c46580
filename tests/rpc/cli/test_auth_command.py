"""`pinnace auth`: keys come in without being seen, and every provider's source is told without its key."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.agent.config.authorization_server import USER_CODE, AuthorizationServer
from tests.source_tree import PYTHONPATH

from pinnace_fuzz.harness.model_server.raw_server import RawServer

COMMAND = (sys.executable, "-P", "-m", "pinnace_rpc", "auth")
KEY = "sk-marker"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def environment(folder: Path, **env: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": PYTHONPATH, "PI_CODING_AGENT_DIR": str(folder), **env}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(*words: str, stdin: str = "", **env: str) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [*COMMAND, *words],
            input=stdin,
            env=environment(tmp_path, **env),
            capture_output=True,
            text=True,
            check=False,
        )
        assert KEY not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    return run


def stored(folder: Path) -> dict[str, dict[str, str]]:
    content: dict[str, dict[str, str]] = json.loads((folder / "auth.json").read_text())
    return content


def test_a_key_is_read_from_stdin_and_kept(run: Run, tmp_path: Path) -> None:
    done = run("login", "openai", stdin=f"{KEY}\n")

    assert (0, f"openai: its key is stored in {tmp_path / 'auth.json'}\n", "") == (
        done.returncode,
        done.stdout,
        done.stderr,
    )
    assert {"openai": {"type": "api_key", "key": KEY}} == stored(tmp_path)


@pytest.mark.parametrize(
    "words", [("auth", "login", "openai"), ("acp", "--provider", "openai", "--login", "openai"), ("acp", "--login")]
)
def test_a_key_is_asked_for_at_a_terminal_that_does_not_show_it(tmp_path: Path, words: tuple[str, ...]) -> None:
    """An editor appends `--login` to the command of its agent."""
    name = [(b"openai:", "openai")] if words[-1] == "--login" else []
    status, shown = typed(tmp_path, words, *name, (b"(not shown): ", KEY))

    assert 0 == status
    assert KEY not in shown
    assert KEY == stored(tmp_path)["openai"]["key"]


@pytest.mark.parametrize(
    ("key", "written"), [("a$HOME$b", "a$$HOME$$b"), ("!rm", "$!rm"), ("a!b", "a!b"), ("${X}", "$${X}")]
)
def test_s7_a_key_is_a_key_whatever_it_looks_like(key: str, written: str, run: Run, tmp_path: Path) -> None:
    run("login", "openai", stdin=key)

    assert written == stored(tmp_path)["openai"]["key"]


def test_s7_a_key_that_would_be_read_as_a_variable_is_refused(run: Run, tmp_path: Path) -> None:
    done = run("login", "openai", stdin="SOME_NAME", SOME_NAME="x")

    assert (1, True) == (done.returncode, "to store the variable's name, use --env" in done.stderr)
    assert not (tmp_path / "auth.json").exists()


@pytest.mark.parametrize("stdin", ["", "  \n", f"{KEY}\n{KEY}", f"{KEY}\u00e9", f"{KEY}\x00", KEY * 10_000])
def test_what_is_no_key_is_refused_without_being_shown(stdin: str, run: Run, tmp_path: Path) -> None:
    assert 1 == run("login", "openai", stdin=stdin).returncode
    assert not (tmp_path / "auth.json").exists()


def test_a_command_or_a_variable_can_be_kept_instead(run: Run, tmp_path: Path) -> None:
    run("login", "openai", "--key-command", f"echo {KEY} >> {tmp_path}/ran")
    done = run("login", "groq", "--env", "GROQ_KEY")

    assert done.stdout.endswith("names the variable GROQ_KEY for its key, which is not set now\n")
    assert [f"!echo {KEY} >> {tmp_path}/ran", "$GROQ_KEY"] == [one["key"] for one in stored(tmp_path).values()]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("login",),
        ("login", "openai", KEY),
        ("login", "openai", "--env", f"{KEY} x"),
        ("login", "openai", "--env", "A", "--key-command", "b"),
        ("login", "openai", "--key-command", " "),
        ("login", " "),
        ("logout",),
        ("check",),
        (),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    """A key as an argument too; click may repeat it then, and everybody could read it anyway."""
    done = subprocess.run([*COMMAND, *words], env=environment(tmp_path), capture_output=True, text=True, check=False)

    assert 2 == done.returncode
    assert "Traceback" not in done.stderr
    assert [] == list(tmp_path.iterdir())


def test_a_provider_that_no_one_knows_is_kept_and_reported(run: Run, tmp_path: Path) -> None:
    assert "no provider nobody in the catalog" in run("login", "nobody", stdin=KEY).stderr
    assert "nobody" in stored(tmp_path)


def test_the_offline_provider_needs_no_key(run: Run) -> None:
    assert (1, "pinnace: offline needs no key\n") == (
        (done := run("login", "offline", stdin=KEY)).returncode,
        done.stderr,
    )


def test_a_key_can_be_taken_back(run: Run, tmp_path: Path) -> None:
    run("login", "openai", stdin=KEY)
    done = run("logout", "openai", OPENAI_API_KEY=KEY)

    assert (0, {}) == (done.returncode, stored(tmp_path))
    assert "openai still has a key: variable OPENAI_API_KEY" in done.stderr
    assert 1 == run("logout", "openai").returncode
    assert not [path for path in tmp_path.iterdir() if KEY in path.read_text()]


def test_s5_a_file_that_others_could_read_is_tightened_and_reported(run: Run, tmp_path: Path) -> None:
    (tmp_path / "auth.json").write_text("{}")
    (tmp_path / "auth.json").chmod(0o644)

    assert "others could read" in run("login", "openai", stdin=KEY).stderr
    assert 0o600 == (tmp_path / "auth.json").stat().st_mode & 0o777


def test_a_damaged_file_is_reported_and_left_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "auth.json").write_text(f'{{"a": "{KEY}')
    done = run("login", "openai", stdin=KEY)

    assert (1, True) == (done.returncode, "line 1, column" in done.stderr)
    assert f'{{"a": "{KEY}' == (tmp_path / "auth.json").read_text()


def test_a_login_of_the_original_is_neither_refreshed_nor_touched(run: Run, tmp_path: Path) -> None:
    """Its refresh token can be used once: who begins a refresh and does not end it has lost the login."""
    login = {"anthropic": {"type": "oauth", "access": KEY, "refresh": KEY, "expires": 1}}
    (tmp_path / "auth.json").write_text(json.dumps(login))
    before = (tmp_path / "auth.json").read_bytes()

    for words in (("login", "anthropic"), ("logout", "anthropic"), ("status",)):
        run(*words, stdin=KEY)
    assert before == (tmp_path / "auth.json").read_bytes()
    assert ["auth.json"] == [path.name for path in tmp_path.iterdir()]
    assert 0 == run("logout", "anthropic", "--force").returncode


MODELS: dict[str, dict[str, object]] = {
    "described": {"apiKey": KEY},
    "headed": {"headers": {"Authorization": KEY}},
    "commanded": {"apiKey": f"!echo {KEY} > ran"},
    "unset": {"apiKey": "$NOT_SET"},
    "empty": {"apiKey": "${EMPTY}"},
}
DESCRIBED: dict[str, object] = {"baseUrl": "http://127.0.0.1:1", "api": "openai-completions", "models": [{"id": "m"}]}


def test_status_reports_where_each_key_comes_from_and_runs_nothing(run: Run, tmp_path: Path) -> None:
    providers = {name: {**DESCRIBED, **more} for name, more in MODELS.items()}
    (tmp_path / "models.json").write_text(json.dumps({"providers": providers}))
    auth = {
        "stored": {"type": "api_key", "key": KEY},
        "own": {"type": "api_key", "key": "$OWN", "env": {"OWN": KEY}},
        "login": {"type": "oauth"},
    }
    (tmp_path / "auth.json").write_text(json.dumps(auth))
    shown = run("status", GROQ_API_KEY=KEY, EMPTY="").stdout.splitlines()
    place = shown.index("No key (variable that may hold one, or: pinnace auth login PROVIDER):")

    assert dict(line.split(maxsplit=1) for line in shown[:place]) == {
        "groq": "variable GROQ_API_KEY",
        "described": "apiKey in models.json",
        "headed": "header in models.json",
        "commanded": "apiKey in models.json: what a command prints (it was not run)",
        "unset": "apiKey in models.json: the variable NOT_SET is not set",
        "empty": "apiKey in models.json: the variable EMPTY is not set",
        "stored": "key in auth.json",
        "own": "key in auth.json",
        "login": "login in auth.json: auth.json has a login for login, which only the extension that registers the "
        "provider can use; without it, use a key.",
    }
    missing = dict(line.split(maxsplit=1) for line in shown[place + 1 :])
    assert ("OPENAI_API_KEY", "GEMINI_API_KEY") == (missing["openai"], missing["google"])
    assert missing["anthropic"].startswith("ANTHROPIC_API_KEY or ")
    assert not (tmp_path / "ran").exists()


def test_login_without_a_provider_lists_them_with_their_variables(run: Run) -> None:
    done = run("login", OPENAI_API_KEY=KEY)

    assert (2, "") == (done.returncode, done.stdout)
    rows = dict(line.split(maxsplit=1) for line in done.stderr.splitlines()[1:])
    assert ("variable OPENAI_API_KEY", "GEMINI_API_KEY") == (rows["openai"], rows["google"])


@pytest.mark.parametrize(("provider", "code"), [("groq", 0), ("openai", 1), ("nobody", 1)])
def test_the_exit_code_says_whether_a_provider_has_a_key(provider: str, code: int, run: Run) -> None:
    assert code == run("status", provider, GROQ_API_KEY=KEY).returncode


def test_status_is_there_for_programs(run: Run) -> None:
    records = [json.loads(line) for line in run("status", "--json", GROQ_API_KEY=KEY).stdout.splitlines()]

    (groq,) = [record for record in records if record["provider"] == "groq"]
    assert {
        "provider": "groq",
        "source": "variable",
        "variable": "GROQ_API_KEY",
        "isUsable": True,
        "needsCommand": False,
        "variables": ["GROQ_API_KEY"],
    } == groq
    assert {"openai", "anthropic", "google"} <= {record["provider"] for record in records if not record["isUsable"]}


def typed(folder: Path, words: tuple[str, ...], *answers: tuple[bytes, str], **env: str) -> tuple[int, str]:
    """Run a command at a terminal; return its exit status, and what was shown.

    Args:
        folder: The agent folder.
        words: Of the command line, behind the program.
        answers: What to wait for, and the line to type then.
        env: More variables.
    """
    pid, terminal = pty.fork()
    if not pid:
        os.execve(sys.executable, [*COMMAND[:-1], *words], environment(folder, **env))
    shown = b""
    for wanted, line in answers:
        while wanted not in shown:
            shown += os.read(terminal, 1000)
        os.write(terminal, f"{line}\n".encode())
    while True:
        try:
            shown += os.read(terminal, 1000)
        except OSError:  # the other end is gone
            break
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return status, shown.decode()


def test_the_account_in_the_address_of_a_provider_is_asked_for(tmp_path: Path) -> None:
    """What the environment or the entry has is not asked for."""
    answers = ((b"(not shown): ", KEY), (b"CLOUDFLARE_ACCOUNT_ID of", "a1b2"), (b"CLOUDFLARE_GATEWAY_ID of", "main"))
    status, shown = typed(tmp_path, ("auth", "login", "cloudflare-ai-gateway"), *answers)
    env = {"CLOUDFLARE_ACCOUNT_ID": "a1b2", "CLOUDFLARE_GATEWAY_ID": "main"}

    assert (0, False) == (status, KEY in shown)
    assert {"cloudflare-ai-gateway": {"type": "api_key", "key": KEY, "env": env}} == stored(tmp_path)
    status, shown = typed(tmp_path, ("auth", "login", "cloudflare-ai-gateway"), (b"(not shown): ", f"{KEY}-2"))
    assert (0, False) == (status, "CLOUDFLARE" in shown)
    assert {"cloudflare-ai-gateway": {"type": "api_key", "key": f"{KEY}-2", "env": env}} == stored(tmp_path)


def test_an_account_that_would_be_another_address_is_refused(tmp_path: Path) -> None:
    answers = ((b"(not shown): ", KEY), (b"CLOUDFLARE_ACCOUNT_ID of", "a/../b"))
    status, shown = typed(tmp_path, ("auth", "login", "cloudflare-workers-ai"), *answers)

    assert (1, True) == (os.waitstatus_to_exitcode(status), "letters, digits, dashes and underscores;" in shown)
    assert not (tmp_path / "auth.json").exists()


def test_settings_of_clouds_are_asked_for_and_may_stand_without_a_key(tmp_path: Path) -> None:
    """What pi asks for, stored as pi stores it; Azure's resource, without which a key leads nowhere."""
    asked: dict[str, tuple[str, dict[str, str]]] = {
        "azure": (KEY, {"AZURE_OPENAI_RESOURCE_NAME": "my-resource"}),
        "amazon-bedrock": ("", {"AWS_PROFILE": "work at home", "AWS_REGION": "eu-west-1"}),
        "google-vertex": ("", {"GOOGLE_CLOUD_PROJECT": "p-1", "GOOGLE_CLOUD_LOCATION": "global"}),
    }
    expected: dict[str, object] = {}
    for provider, (key, env) in asked.items():
        answers = [(b"(not shown", key), *((f"{name} of".encode(), value) for name, value in env.items())]
        status, shown = typed(tmp_path, ("auth", "login", provider), *answers)
        assert (0, False) == (status, KEY in shown), shown
        expected[provider] = {"type": "api_key", **({"key": key} if key else {}), "env": env}
    assert expected == stored(tmp_path)
    status, shown = typed(tmp_path, ("auth", "login", "amazon-bedrock"), (b"(not shown", ""))
    assert (1, True) == (os.waitstatus_to_exitcode(status), "neither a key nor a setting was given" in shown)


def test_the_code_that_a_role_of_aws_needs_is_asked_for(run: Run, tmp_path: Path) -> None:
    """After the settings, or without any; not while its keys are good, nor without a terminal."""
    files = {"AWS_CONFIG_FILE": str(tmp_path / "config"), "HOME": str(tmp_path), "AWS_REGION": "eu-west-1"}
    profile = "[profile base]\naws_access_key_id=AKIDBASE\naws_secret_access_key=0123456789\n[profile work]\n"
    (tmp_path / "config").write_text(f"{profile}role_arn=a-role\nsource_profile=base\nmfa_serial=a-device\n")
    members = {"AccessKeyId": "AKIDROLE", "SecretAccessKey": KEY, "SessionToken": KEY}
    given = {**members, "Expiration": "2999-01-01T00:00:00Z"}.items()
    answer = "".join(f"<{name}>{value}</{name}>" for name, value in given).encode()
    words, code = ("auth", "login", "amazon-bedrock"), (b"Enter the code of a-device, which the role a-role", "123456")
    settings = ((b"(not shown", ""), (b"AWS_PROFILE of", "work"))
    refused = run("login", "amazon-bedrock", "--set", "AWS_PROFILE=work", **files)
    assert (1, True) == (refused.returncode, "without a terminal: run this command at one" in refused.stderr)
    (tmp_path / "auth.json").unlink()
    with RawServer(lambda reply: reply.whole(answer)) as server:
        files["AWS_ENDPOINT_URL_STS"] = server.url
        status, shown = typed(tmp_path, words, *settings, code, **files)
        assert (0, True) == (status, "the keys of a-role are good until 2999-01-01 00:00 UTC" in shown), shown
        assert KEY not in shown
        status, shown = typed(tmp_path, words, settings[0], **files)
        assert (1, True) == (os.waitstatus_to_exitcode(status), "neither a key nor a setting was given" in shown)
    assert 1 == len(server.requests)
    assert {"amazon-bedrock": {"type": "api_key", "env": {"AWS_PROFILE": "work"}}} == stored(tmp_path)


def test_settings_are_given_by_an_option(run: Run, tmp_path: Path) -> None:
    """They are added to those of the entry; without a key they take the place of one."""
    done = run("login", "azure", "--set", "AZURE_OPENAI_BASE_URL=https://a.example", stdin=KEY)
    assert (0, "") == (done.returncode, done.stderr)
    run("login", "azure", "--set", "AZURE_OPENAI_DEPLOYMENT_NAME_MAP=gpt=a, b=c", stdin=f"{KEY}2")
    env = {
        "AZURE_OPENAI_BASE_URL": "https://a.example",
        "AZURE_OPENAI_DEPLOYMENT_NAME_MAP": "gpt=a, b=c",
    }
    run("login", "amazon-bedrock", stdin=KEY)
    done = run("login", "amazon-bedrock", "--set", "AWS_PROFILE=work", "--set", "AWS_REGION=us-east-1", stdin="")
    assert "amazon-bedrock: its settings are stored in" in done.stdout
    assert {
        "azure": {"type": "api_key", "key": f"{KEY}2", "env": env},
        "amazon-bedrock": {"type": "api_key", "env": {"AWS_PROFILE": "work", "AWS_REGION": "us-east-1"}},
    } == stored(tmp_path)
    assert "AWS_PROFILE in auth.json" in run("status", "amazon-bedrock").stdout

    before = stored(tmp_path)
    for provider, words, problem in (
        ("azure", ["AZURE_OPENAI_RESOURCE_NAME=a.b"], "AZURE_OPENAI_RESOURCE_NAME must be the name of the resource"),
        ("azure", ["AWS_PROFILE=a"], "a setting of azure must be one of AZURE_OPENAI_RESOURCE_NAME, "),
        ("openai", ["A=b"], "a setting of openai must be left out: it has none"),
        ("amazon-bedrock", ["AWS_REGION"], "AWS_REGION must be a region"),
        ("amazon-bedrock", [], "neither a key nor a setting was given"),
    ):
        done = run("login", provider, *(each for word in words for each in ("--set", word)), stdin="")
        assert (1, True) == (done.returncode, problem in done.stderr), done.stderr
    done = run("login", "azure", "--device-code", "--set", "AZURE_OPENAI_RESOURCE_NAME=a")
    assert (2, before) == (done.returncode, stored(tmp_path))


def test_the_status_shows_logins_of_installed_extensions(run: Run, tmp_path: Path) -> None:
    """Not for a provider of the catalog, whose state needs no extension."""
    (tmp_path / "extensions").mkdir()
    marker = tmp_path / "loaded"
    (tmp_path / "extensions" / "corp.py").write_text(
        f"""
def extension(pi):
    open({str(marker)!r}, "w").close()
    oauth = {{"name": "Corp", "login": lambda c: None, "refresh_token": lambda c: c, "get_api_key": lambda c: "k"}}
    models = [{{"id": "c1"}}]
    pi.register_provider("corp", {{"baseUrl": "http://127.0.0.1:1", "api": "openai-completions", "models": models,
                                  "oauth": oauth}})
"""
    )
    run("status", "openai")
    assert not marker.exists()
    assert (1, True) == (run("status", "corp").returncode, marker.exists())
    login = {"type": "oauth", "access": "a", "refresh": "r", "expires": 1}
    (tmp_path / "auth.json").write_text(json.dumps({"corp": login}))
    (tmp_path / "auth.json").chmod(0o600)
    for words in (["status", "corp"], ["status"]):
        done = run(*words)
        assert (0, True) == (done.returncode, "corp                        login in auth.json" in done.stdout), done
    assert run("status").stderr == ""


def test_an_account_that_can_not_be_asked_for_is_named(run: Run, tmp_path: Path) -> None:
    done = run("login", "cloudflare-workers-ai", stdin=KEY)
    assert (0, True) == (done.returncode, "also needs CLOUDFLARE_ACCOUNT_ID in the environment" in done.stderr)
    done = run("login", "cloudflare-workers-ai", stdin=KEY, CLOUDFLARE_ACCOUNT_ID="a1b2")
    assert "" == done.stderr
    assert {"cloudflare-workers-ai": {"type": "api_key", "key": KEY}} == stored(tmp_path)


def test_a_login_for_editors_uses_a_code_where_the_provider_has_one(tmp_path: Path) -> None:
    """Its user may store a key instead."""
    with AuthorizationServer() as server:
        (tmp_path / "settings.json").write_text(json.dumps({"logins": {"xai": {"url": server.url}}}))
        status, shown = typed(tmp_path, ("acp", "--login", "xai"), (b"or enter key", ""))
        assert (0, True) == (status, USER_CODE in shown)
        assert "oauth" == stored(tmp_path)["xai"]["type"]
        (tmp_path / "auth.json").unlink()
        status, _ = typed(tmp_path, ("acp", "--login", "xai"), (b"or enter key", "key"), (b"(not shown): ", KEY))

    assert (0, {"type": "api_key", "key": KEY}) == (status, stored(tmp_path)["xai"])


def test_a_login_for_editors_uses_a_code_without_a_terminal_where_there_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(json.dumps({"logins": {"openai-codex": {"url": "http://127.0.0.1:1"}}}))
    words = [*COMMAND[:-1], "acp", "--login", "openai-codex"]
    done = subprocess.run(words, input="", env=environment(tmp_path), capture_output=True, text=True, check=False)

    assert 1 == done.returncode
    assert "ChatGPT can't be reached" in done.stderr


def test_status_shows_the_providers_of_extensions(run: Run, tmp_path: Path) -> None:
    (tmp_path / "corporate.py").write_text(
        "def extension(pi):\n"
        "    async def log_in(callbacks): ...\n"
        "    async def refresh(credentials): ...\n"
        "    oauth = {'name': 'Corp', 'login': log_in, 'refresh_token': refresh, 'get_api_key': lambda each: 'x'}\n"
        "    pi.register_provider('corp', {'oauth': oauth})\n"
    )
    named = ("-e", str(tmp_path / "corporate.py"))
    assert "corp " not in run("status").stdout
    assert "corp " in run("status", *named).stdout
    assert 1 == run("status", "corp", *named).returncode
    login = {"type": "oauth", "access": "a", "refresh": "r", "expires": 1}
    (tmp_path / "auth.json").write_text(json.dumps({"corp": login}))
    done = run("status", "corp", *named, "--json")
    assert {"provider": "corp", "source": "login", "isUsable": True}.items() <= json.loads(done.stdout).items()
    assert 1 == run("status", "corp").returncode  # without its extension nothing can use it
