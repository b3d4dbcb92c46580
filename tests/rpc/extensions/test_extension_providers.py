"""Providers that extensions register: their models at the start, after a reload and in other sessions."""

from pathlib import Path

import pytest
from tests.rpc.conftest import ENVIRONMENT
from tests.rpc.extensions.conftest import Extended, MakeExtension, Start, run_to_end

from pinnace_fuzz.harness.adapters import prepare_pi_home

DONE: dict[str, object] = {"text": "done"}
MORE: dict[str, object] = {**DONE, "repeat": -1}

# Registers the provider `x` with the fake server's address, with the models that `models.txt` beside it names.
PROVIDER = """
import json
import os
import pathlib

MODELS = pathlib.Path(__file__).with_name("models.txt")


def extension(pi):
    files = json.loads((pathlib.Path(os.environ["PI_CODING_AGENT_DIR"]) / "models.json").read_text())
    [fake] = files["providers"].values()
    names = MODELS.read_text().split() if MODELS.exists() else ["xm", "xn"]
    if names:
        models = [{"id": name, "reasoning": True, "contextWindow": 9000} for name in names]
        pi.register_provider("x", base_url=fake["baseUrl"], api="openai-completions", api_key="k", models=models)

    @pi.command("again")
    async def again(ctx, args):
        await ctx.reload()

    @pi.on("session_start")
    def started(ctx, event):
        ctx.ui.notify(f"{event.reason}: {ctx.model and ctx.model['id']}")
"""


@pytest.fixture
def provider(written: MakeExtension) -> Path:
    return written(PROVIDER)


def model_of(one: Extended) -> tuple[str, str] | None:
    model = one.pi.ask("get_state")["model"]
    return None if model is None else (model["provider"], model["id"])


@pytest.mark.parametrize(
    ("words", "level"),
    [
        (("--provider", "x", "--model", "xm"), "medium"),
        (("--model", "x/xm:high"), "high"),
        (("--models", "x/*:low"), "low"),
    ],
)
def test_a_model_of_an_extension_is_chosen_at_the_start(
    extended: Start, provider: Path, words: tuple[str, ...], level: str
) -> None:
    one = extended(provider, [MORE], *words, names_model=False)
    state = one.pi.ask("get_state")
    assert ("x", "xm", level) == (state["model"]["provider"], state["model"]["id"], state["thinkingLevel"])
    assert "startup: xm" == one.notice()
    one.say("hello")
    assert "xm" == one.pi.llm.requests[-1].body["model"]


def test_the_saved_default_may_be_a_model_of_an_extension(extended: Start, provider: Path) -> None:
    settings = {"defaultProvider": "x", "defaultModel": "xn", "defaultThinkingLevel": "low"}
    one = extended(provider, [MORE], names_model=False, settings=settings)
    state = one.pi.ask("get_state")
    assert ("xn", "low") == (state["model"]["id"], state["thinkingLevel"])
    one.say("hello")
    assert "xn" == one.pi.llm.requests[-1].body["model"]


def test_a_resumed_session_has_its_model_of_an_extension_again(extended: Start, provider: Path) -> None:
    one = extended(provider, [MORE], "--provider", "x", "--model", "xn", names_model=False, has_session=True)
    one.say("hello")
    file = one.pi.ask("get_state")["sessionFile"]
    one.pi.close_stdin()
    again = extended(provider, (), "--session", file, again=one.pi)
    assert ("x", "xn") == model_of(again)


def test_a_session_that_is_switched_to_has_its_model_of_an_extension_again(extended: Start, provider: Path) -> None:
    one = extended(provider, [MORE], "--provider", "x", "--model", "xn", names_model=False, has_session=True)
    one.say("hello")
    file = one.pi.ask("get_state")["sessionFile"]
    one.pi.ask("set_model", provider="fake", modelId="m2")
    one.pi.ask("new_session")
    assert ("fake", "m2") == model_of(one)
    one.pi.ask("set_model", provider="x", modelId="xm")
    one.pi.ask("new_session")
    assert ("x", "xm") == model_of(one)
    one.say("hello")
    assert "xm" == one.pi.llm.requests[-1].body["model"]
    one.pi.ask("switch_session", sessionPath=file)
    assert ("fake", "m2") == model_of(one)


def test_models_are_cycled_between_in_a_scope_of_an_extension(extended: Start, provider: Path) -> None:
    one = extended(provider, [MORE], "--models", "x/*,fake/m2", names_model=False)
    assert ("x", "xm") == model_of(one)
    seen = [one.pi.ask("cycle_model")["model"]["id"] for _ in range(3)]
    assert ["xn", "m2", "xm"] == seen


def test_a_reload_that_drops_the_provider_refuses_its_model_by_name(extended: Start, provider: Path) -> None:
    one = extended(provider, [MORE], "--models", "x/*,fake/m2", names_model=False)
    assert ("x", "xm") == model_of(one)
    provider.with_name("models.txt").write_text("")
    one.command("/again")
    refused = one.pi.wait_response(one.begin("hello"))
    assert not refused["success"]
    assert "x/xm" in refused["error"]
    assert 'provider "x"' in refused["error"]
    assert "x" not in {each["provider"] for each in one.pi.ask("get_available_models")["models"]}
    one.pi.ask("set_model", provider="fake", modelId="m2")
    provider.with_name("models.txt").write_text("xn xo")
    one.command("/again")
    assert ["xn", "xo", "m2"] == [one.pi.ask("cycle_model")["model"]["id"] for _ in range(3)]


@pytest.mark.parametrize("has_extension", [False, True])
@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--provider", "y", "--model", "xm"), 'Unknown provider "y"'),
        (("--model", "zz"), 'Model "zz" not found'),
        (("--provider", "x"), "--provider needs --model"),
    ],
)
def test_a_wrong_model_is_refused_at_the_start(
    provider: Path, tmp_path: Path, words: tuple[str, ...], text: str, has_extension: bool
) -> None:
    home = prepare_pi_home(tmp_path / "home", "http://127.0.0.1:9/v1", names_model=False, env=ENVIRONMENT)
    named = ["-e", str(provider)] if has_extension else []
    for mode in ([], ["--mode", "text", "-p", "hello"]):
        done = run_to_end(home, *home.arguments, *named, *words, *mode)
        assert (1, "") == (done.returncode, done.stdout)
        assert f"pinnace: {text}" in done.stderr
        assert "Traceback" not in done.stderr
