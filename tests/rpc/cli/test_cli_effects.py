"""What options do to the agent: to its state, and to what the model is sent."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_agent.tools import builtin_tools
from pinnace_fuzz.harness.adapters import pi_models, prepare_pi_home
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

ENVIRONMENT = {"PYTHONPATH": PYTHONPATH}
COMMAND = (sys.executable, "-P", "-m", "pinnace_rpc")
# Only a process that is stuck takes so long.
TIMEOUT_S = 60.0

MakeLlm = Callable[[Iterable[Scripted]], FakeLlm]
ANSWER: Scripted = {"text": "hello"}


def state(pi: HomedAgent) -> Record:
    data: Record = pi.request({"type": "get_state"})["data"]
    return data


def request_of(pi: HomedAgent, text: str = "go") -> Record:
    """Prompt the agent; return the body of the request that this caused."""
    assert pi.request({"type": "prompt", "message": text})["success"]
    pi.wait({"type": "agent_settled"})
    return pi.llm.requests[-1].body


def system_prompt(request: Record) -> str:
    [system] = [message["content"] for message in request["messages"] if message["role"] in {"system", "developer"}]
    return system if isinstance(system, str) else "".join(block["text"] for block in system)


def tool_names(request: Record) -> list[str]:
    return [tool["function"]["name"] for tool in request.get("tools", [])]


def provider(llm: FakeLlm, **changes: object) -> dict[str, object]:
    """models.json with the provider `fake` changed; a change to None takes the field out."""
    described = pi_models(llm.base_url)["providers"]
    assert isinstance(described, dict)
    changed: dict[str, object] = {**described["fake"], **changes}
    return {"providers": {"fake": {name: value for name, value in changed.items() if value is not None}}}


# The session.


def test_name_and_id_of_the_session_are_those_of_the_flags(agent: AgentStarter) -> None:
    data = state(agent([], "--name", "Überblick \u2028", "--session-id", "2026.a_b-c"))

    assert ("Überblick", "2026.a_b-c") == (data["sessionName"], data["sessionId"])


def test_a_session_without_a_name_has_none(agent: AgentStarter) -> None:
    assert "sessionName" not in state(agent())


def test_bytes_that_are_no_text_are_replaced(agent: AgentStarter) -> None:
    odd = os.fsdecode(b"caf\xe9")
    pi = agent([ANSWER], "--name", odd, "--model", odd, "--append-system-prompt", odd)

    data, request = state(pi), request_of(pi)
    assert ["caf\ufffd"] * 3 == [data["sessionName"], data["model"]["id"], request["model"]]
    assert "\ncaf\ufffd\n" in system_prompt(request)


# The protocol.


@pytest.mark.parametrize(
    ("flags", "env", "protocol"),
    [
        ((), {}, "pi"),
        ((), {"PINNACE_PROTOCOL": "seed"}, "seed"),
        (("--protocol", "1.5"), {}, "1.5"),
        (("--protocol", "1.5"), {"PINNACE_PROTOCOL": "seed"}, "1.5"),
        (("--protocol", "pi"), {"PINNACE_PROTOCOL": "nonsense"}, "pi"),
    ],
)
def test_the_flag_chooses_the_protocol_before_the_variable(
    flags: tuple[str, ...], env: Mapping[str, str], protocol: str, agent: AgentStarter
) -> None:
    assert protocol == agent([], *flags, env=env).request({"type": "hello"})["data"]["protocol"]


# The model.


def test_the_model_and_its_level_are_those_of_the_flags(agent: AgentStarter) -> None:
    data = state(agent([], "--model", "m2:low"))

    assert ("fake", "m2", "low") == (data["model"]["provider"], data["model"]["id"], data["thinkingLevel"])


def test_a_level_of_its_own_goes_before_the_one_of_the_model(agent: AgentStarter) -> None:
    pi = agent([ANSWER], "--model", "m2:low", "--thinking", "high")

    assert "high" == state(pi)["thinkingLevel"]
    assert "high" == request_of(pi)["reasoning_effort"]


def test_a_model_that_does_not_think_is_off_whatever_is_asked_for(agent: AgentStarter) -> None:
    pi = agent([ANSWER], "--model", "m1", "--thinking", "high")

    assert "off" == state(pi)["thinkingLevel"]
    assert "reasoning_effort" not in request_of(pi)


def test_an_id_that_the_provider_does_not_describe_is_sent_as_it_is(agent: AgentStarter) -> None:
    pi = agent([ANSWER], "--model", "nope")

    model = state(pi)["model"]
    assert ("nope", "nope", 4096) == (model["id"], model["name"], model["maxTokens"])
    assert "nope" == request_of(pi)["model"]
    assert 'pinnace: Model "nope" is not described for the provider "fake"' in pi.stderr_text


def test_the_scope_is_what_is_cycled_between(agent: AgentStarter, llm: MakeLlm) -> None:
    fake = llm([])
    models = [{"id": name} for name in ("a", "b", "c")]
    pi = agent(fake, "--model", "a", "--models", "c,a", models=provider(fake, models=models))

    cycled = [pi.request({"type": "cycle_model"})["data"] for _ in range(3)]
    assert ["c", "a", "c"] == [data["model"]["id"] for data in cycled]
    assert all(data["isScoped"] for data in cycled)


# Keys.


def test_a_key_of_the_command_line_is_sent_where_none_is_described(agent: AgentStarter, llm: MakeLlm) -> None:
    fake = llm([ANSWER])
    pi = agent(fake, "--api-key", "$HOME!", models=provider(fake, apiKey=None))

    assert ["m1", "m2"] == [model["id"] for model in pi.request({"type": "get_available_models"})["data"]["models"]]
    request_of(pi)
    assert "Bearer $HOME!" == fake.requests[0].headers["authorization"]


def test_without_a_key_the_process_lives_and_a_prompt_says_what_is_missing(agent: AgentStarter, llm: MakeLlm) -> None:
    fake = llm([])
    pi = agent(fake, models=provider(fake, apiKey=None))
    refused = pi.request({"type": "prompt", "message": "go"})

    assert "no_api_key" == refused["errorCode"]
    assert refused["error"].startswith("No API key found for fake.")
    assert {"models": []} == pi.request({"type": "get_available_models"})["data"]
    assert 0 == state(pi)["messageCount"]
    assert [] == fake.requests


@pytest.mark.parametrize("models", [None, '{"providers": {}}', '{"providers": {"p": {"apiKey": "k"}}}', "{"])
def test_without_any_model_a_prompt_says_so_and_other_commands_work(
    models: str | None, llm: MakeLlm, tmp_path: Path
) -> None:
    home = prepare_pi_home(tmp_path, "http://127.0.0.1:9", env=ENVIRONMENT)
    (home.agent_dir / "models.json").unlink()
    if models is not None:
        (home.agent_dir / "models.json").write_text(models)
    with HomedAgent([*COMMAND, "--mode", "rpc", "--no-session"], home, llm([]), profile="pi") as pi:
        refused = pi.request({"type": "prompt", "message": "go"})
        assert ("no_model", True) == (refused["errorCode"], refused["error"].startswith("No model selected."))
        data = state(pi)
        assert (None, "off", 0) == (data.get("model"), data["thinkingLevel"], data["messageCount"])
        assert {"models": []} == pi.request({"type": "get_available_models"})["data"]
        assert pi.request({"type": "cycle_model"})["data"] is None
        assert "ok" == pi.request({"type": "bash", "command": "printf ok"})["data"]["output"]
        pi.check_end()


@pytest.mark.parametrize(
    ("auth", "env"),
    [
        ({"type": "api_key", "key": "sk-marker"}, {}),
        ({"type": "api_key", "key": "!echo sk-marker"}, {}),
        ({"type": "api_key", "key": "$MINE", "env": {"MINE": "sk-marker"}}, {"MINE": "other"}),
        ({"type": "api_key", "key": "$MISSING sk-marker"}, {"OPENAI_API_KEY": "sk-marker"}),
        ({"type": "oauth", "access": "sk-marker"}, {"OPENAI_API_KEY": "sk-marker"}),
        ({"type": "sk-marker", "key": "sk-marker"}, {"OPENAI_API_KEY": "sk-marker"}),
    ],
)
def test_a_key_that_models_json_does_not_have_is_sent_and_said_nowhere(
    auth: object, env: Mapping[str, str], llm: MakeLlm, tmp_path: Path
) -> None:
    fake = llm([{"error": {"status": 401, "body": {"error": {"message": "the key sk-marker is wrong"}}}}])
    models = {"openai": {"baseUrl": f"{fake.base_url}/v1", "api": "openai-completions", "models": [{"id": "m"}]}}
    home = prepare_pi_home(tmp_path, fake.base_url, models={"providers": models}, env={**ENVIRONMENT, **env})
    (home.agent_dir / "auth.json").write_text(json.dumps({"openai": auth}))
    command = [*COMMAND, "--mode", "rpc", "--no-session", "--verbose", "--model", "openai/m"]
    with HomedAgent(command, home, fake, profile="pi") as pi:
        request_of(pi)
        for query in ("get_state", "get_messages", "get_available_models", "get_session_stats"):
            pi.request({"type": query})
        pi.check_end()
        said = json.dumps([each.record for each in pi.records]) + pi.stderr_text
    assert "Bearer sk-marker" == fake.requests[0].headers["authorization"]
    assert "401" in said
    assert "sk-marker" not in said
    assert "" == "".join(path.name for folder in (home.home, home.work) for path in folder.iterdir())


# The prompt.


def test_a_system_prompt_stands_in_for_the_built_in_one(agent: AgentStarter, tmp_path: Path) -> None:
    file = tmp_path / "more.md"
    file.write_text("From a file.\n")
    flags = ("--system-prompt", "Be brief.", "--append-system-prompt", str(file), "--append-system-prompt", "-- Last.")
    pi = agent([ANSWER], *flags)

    text = system_prompt(request_of(pi))
    assert text.startswith(
        f"Be brief.\n\n<addendum>\nFrom a file.\n\n-- Last.\n</addendum>\n\n<cwd>\n{pi.home.work}\n</cwd>\n\n<date>\n"
    )


def test_what_is_appended_follows_the_built_in_prompt(agent: AgentStarter) -> None:
    text = system_prompt(request_of(agent([ANSWER], "--append-system-prompt", "Be brief.")))

    assert text.index("You are a coding agent.") < text.index("- bash: ") < text.index("\nBe brief.\n</addendum>")


# Tools.


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ((), "read bash edit write"),
        (("--tools", "write,read"), "read write"),
        (("-t", "*i*"), "edit write find"),
        (("--tools", "read,ls,grep,find"), "read grep find ls"),
        (("--tools", "+grep,-bash"), "read edit write grep"),
        (("--tools", "-bash"), "read edit write"),
        (("-xt", "bash,edit"), "read write"),
        (("--no-tools",), ""),
        (("-nt", "--tools", "read"), "read"),
        (("-nbt",), ""),
        (("--tools", ""), ""),
    ],
)
def test_the_model_is_offered_the_tools_of_the_flags_and_the_prompt_names_them(
    flags: tuple[str, ...], names: str, agent: AgentStarter
) -> None:
    request = request_of(agent([ANSWER], *flags))

    assert names.split() == tool_names(request)
    lines = system_prompt(request).splitlines()
    assert names.split() == [name for name in builtin_tools() if any(f"- {name}:" in x for x in lines)]


def test_a_pattern_that_fits_no_tool_is_reported(agent: AgentStarter) -> None:
    pi = agent([], "--tools", "read,lint*", "-xt", "fmt*")

    state(pi)
    assert 'pinnace: there is no tool named "lint*"\npinnace: there is no tool named "fmt*"\n' == pi.stderr_text


# The start.


# Loaded by the interpreter before the program: the reading of one file waits.
HOLDING = """
import os, time
really_open = os.open
def held(path, *arguments, **options):
    if os.fspath(path).endswith(os.environ["HELD_FILE"]):
        os.close(really_open(os.environ["HELD_FILE"] + ".reached", os.O_WRONLY | os.O_CREAT))
        time.sleep(600)
    return really_open(path, *arguments, **options)
os.open = held
"""


@pytest.mark.parametrize("name", ["settings.json", "models.json", "auth.json"])
def test_an_interrupt_while_files_are_read_ends_it_quietly(name: str, tmp_path: Path) -> None:
    home = prepare_pi_home(tmp_path, "http://127.0.0.1:9", env=ENVIRONMENT)
    (home.agent_dir / name).touch()
    (home.agent_dir / name).write_text((home.agent_dir / name).read_text() or "{}")
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(HOLDING)
    path = os.pathsep.join(filter(None, [str(hook), home.env.get("PYTHONPATH")]))
    with subprocess.Popen(
        [*COMMAND, *home.arguments],
        cwd=home.work,
        env={**home.env, "PYTHONPATH": path, "HELD_FILE": name},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        stuck = threading.Timer(TIMEOUT_S, process.kill)
        stuck.start()
        while not (home.work / f"{name}.reached").exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        said = process.communicate()
        stuck.cancel()
    assert (-signal.SIGINT, (b"", b"")) == (process.returncode, said)


def start_in_shell(tmp_path: Path, script: str, *flags: str) -> subprocess.CompletedProcess[bytes]:
    """Start an agent as a shell does; in the script `"$@"` is its command."""
    home = prepare_pi_home(tmp_path, "http://127.0.0.1:9", env=ENVIRONMENT)
    return subprocess.run(
        ["/bin/sh", "-c", script, "sh", *COMMAND, *home.arguments, *flags],
        cwd=home.work,
        env=home.env,
        input=b'{"id":"s","type":"get_state"}\n',
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_a_folder_that_is_gone_is_reported(tmp_path: Path) -> None:
    ended = start_in_shell(tmp_path, 'mkdir gone; cd gone; rmdir ../gone; exec "$@"')

    assert (1, b"") == (ended.returncode, ended.stdout)
    assert b"pinnace: the current folder does not exist any more: start in another one\n" == ended.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-"])
def test_without_stdin_or_stdout_there_is_no_protocol(closed: str, tmp_path: Path) -> None:
    ended = start_in_shell(tmp_path, f'exec "$@" {closed}')

    assert (1, b"") == (ended.returncode, ended.stdout)
    assert b"pinnace: stdin and stdout must be open: the protocol uses them\n" == ended.stderr


def test_without_stderr_notices_are_lost_and_nothing_else(tmp_path: Path) -> None:
    ended = start_in_shell(tmp_path, 'exec "$@" 2>&-', "--tools", "lint*", "--skill", "s")

    assert 0 == ended.returncode
    assert ended.stdout.startswith(b'{"id":"s","type":"response","command":"get_state","success":true')


def test_what_is_wrong_with_a_file_is_reported_before_what_that_makes_impossible(tmp_path: Path) -> None:
    ended = start_in_shell(tmp_path, 'echo "{" > "$PI_CODING_AGENT_DIR/models.json"; exec "$@"')

    first, second = ended.stderr.decode().splitlines()
    assert "models.json: is not valid JSON" in first
    assert second.startswith('pinnace: Unknown provider "fake". Known here: ')
    assert (1, b"") == (ended.returncode, ended.stdout)


COLLECTING = """
import gc, sys, trio
run = trio.run
def shown(*arguments, **options):
    print("collects:", gc.isenabled(), file=sys.stderr)
    return run(*arguments, **options)
trio.run = shown
from pinnace_rpc.cli.main import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    "arguments",
    ["--mode rpc --no-session --provider offline", "acp", "-p --no-session --provider offline hello"],
)
def test_garbage_is_collected_while_a_mode_runs(arguments: str, tmp_path: Path) -> None:
    """A start makes none, and is quicker without looking for it; what runs for days must not grow."""
    ended = subprocess.run(
        [sys.executable, "-P", "-c", COLLECTING, *arguments.split()],
        stdin=subprocess.DEVNULL,
        env={**ENVIRONMENT, "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )

    assert "collects: True" in ended.stderr.splitlines()
