"""Built-in models through a whole process: which are offered, which can be chosen, what is said without a key."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_fuzz.harness import coverage

# drain: a prompt is looked at to its end, although nothing else comes.
COMMAND = [sys.executable, "-P", "-m", "pinnace_rpc", "--mode", "rpc", "--no-session", "--on-eof", "drain"]
KEYS = {"XAI_API_KEY": "sk-marker-x", "CEREBRAS_API_KEY": "sk-marker-c"}
XAI = ["grok-4.3", "grok-4.5", "grok-4.6", "grok-4.7"]


class Conversation:
    """What a process answers to commands, one after the other, until stdin ends."""

    def __init__(self, folder: Path, *arguments: str, env: dict[str, str] | None = None) -> None:
        self._folder = folder
        self._arguments = arguments
        self._env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONPATH": PYTHONPATH,
            **(KEYS if env is None else env),
        }

    def hold(self, *commands: dict[str, object]) -> list[dict[str, Any]]:
        """Return the responses; nothing else of what is written is kept."""
        done = subprocess.run(
            [*COMMAND, *self._arguments],
            cwd=self._folder,
            env=self._env,
            input="".join(f"{json.dumps(command)}\n" for command in commands),
            capture_output=True,
            text=True,
            check=True,
        )
        assert "sk-marker" not in done.stdout + done.stderr
        records = [json.loads(line) for line in done.stdout.splitlines()]
        coverage.note_records(records)
        return [record for record in records if record["type"] == "response"]


def chosen(response: dict[str, Any]) -> str:
    model = response["data"]["model"]
    return f"{model['provider']}/{model['id']}"


def test_the_models_of_providers_with_a_key_are_offered(tmp_path: Path) -> None:
    [response] = Conversation(tmp_path).hold({"type": "get_available_models"})
    models = response["data"]["models"]
    assert {"cerebras", "xai"} == {model["provider"] for model in models}
    assert XAI == [model["id"] for model in models if model["provider"] == "xai"]


def test_a_model_with_a_key_can_be_set_and_another_is_not_found(tmp_path: Path) -> None:
    wanted, other, state = Conversation(tmp_path).hold(
        {"type": "set_model", "provider": "xai", "modelId": "grok-4.5"},
        {"type": "set_model", "provider": "openai", "modelId": "gpt-5"},
        {"type": "get_state"},
    )
    assert (True, "grok-4.5") == (wanted["success"], wanted["data"]["id"])
    assert (False, "model_not_found") == (other["success"], other["errorCode"])
    assert "xai/grok-4.5" == chosen(state)


def test_models_with_a_key_are_cycled_through_in_the_order_of_the_catalog(tmp_path: Path) -> None:
    cycle: dict[str, object] = {"type": "cycle_model"}
    responses = Conversation(tmp_path, "--model", "xai/grok-4.5").hold(cycle, cycle, cycle, cycle, cycle, cycle)
    cerebras = [chosen(response) for response in responses[2:4]]
    assert ["cerebras", "cerebras"] == [name.split("/")[0] for name in cerebras]
    assert [f"xai/{one}" for one in ("grok-4.6", "grok-4.7")] == [chosen(response) for response in responses[:2]]
    assert ["xai/grok-4.3", "xai/grok-4.5"] == [chosen(response) for response in responses[4:]]
    assert not any(response["data"]["isScoped"] for response in responses)


def test_a_scope_is_cycled_through_with_its_levels(tmp_path: Path) -> None:
    cycle: dict[str, object] = {"type": "cycle_model"}
    state, *responses = Conversation(tmp_path, "--models", "grok-4.7:low,cerebras/*,openai/gpt-5").hold(
        {"type": "get_state"}, cycle, cycle, cycle
    )
    assert ("xai/grok-4.7", "low") == (chosen(state), state["data"]["thinkingLevel"])
    assert "xai/grok-4.7" == chosen(responses[-1])
    assert "low" == responses[-1]["data"]["thinkingLevel"]
    assert all(response["data"]["isScoped"] for response in responses)


@pytest.mark.parametrize("arguments", [(), ("--model", "anthropic/claude-opus-5-5")])
def test_without_a_key_the_process_lives_and_a_prompt_says_what_is_missing(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    [refused] = Conversation(tmp_path, *arguments, env={}).hold({"type": "prompt", "message": "hi"})
    assert not refused["success"]
    assert not arguments or "ANTHROPIC_API_KEY" in refused["error"]


def test_a_key_of_the_command_line_opens_the_provider_of_the_model(tmp_path: Path) -> None:
    [response] = Conversation(tmp_path, "--model", "xai/grok-4.7", "--api-key", "sk-marker", env={}).hold(
        {"type": "get_available_models"}
    )
    assert XAI == [model["id"] for model in response["data"]["models"]]


@pytest.mark.parametrize("protocol", ["seed", "1.5"])
@pytest.mark.parametrize(
    ("arguments", "in_use"),
    [
        (("--model", "anthropic/claude-opus-5-5"), "anthropic/claude-opus-5-5"),
        (("--provider", "xai", "--model", "grok-of-tomorrow"), "xai/grok-of-tomorrow"),
    ],
    ids=["without a key", "not in the catalog"],
)
def test_a_model_in_use_that_has_no_key_or_no_description_is_not_offered(
    arguments: tuple[str, ...], in_use: str, protocol: str, tmp_path: Path
) -> None:
    """As releases 0.80.2, 0.87.1 and 1.5.2 of the original answer."""
    state, offered = Conversation(tmp_path, *arguments, "--protocol", protocol).hold(
        {"type": "get_state"}, {"type": "get_available_models"}
    )

    assert in_use == chosen(state)
    assert in_use not in {f"{model['provider']}/{model['id']}" for model in offered["data"]["models"]}
