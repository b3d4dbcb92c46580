"""A real collector takes what agents export and classifies it: Phoenix, which runs offline (`scripts/peers collector`).

It is no part of CI: 620 MB to install, and half a minute of a processor to start.
"""

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import TOOLS
from tests.ports import unused_port
from tests.waiting import wait_until

from pinnace_campaigns.trials.one_shot import OneShotStarter
from pinnace_fuzz.script import Scripted

PHOENIX = TOOLS / "phoenix" / "bin" / "phoenix"
START_S = 400.0
"""It takes half a minute, and several times that beside other work."""
SPANS = "/v1/projects/default/spans?limit=100"

pytestmark = [
    pytest.mark.peer,
    pytest.mark.slow,
    pytest.mark.skipif(not PHOENIX.exists(), reason="Phoenix is not installed: scripts/peers collector"),
]


@pytest.fixture
def phoenix(tmp_path: Path) -> Iterator[str]:
    """The address of a collector that has started."""
    port = unused_port()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PHOENIX_WORKING_DIR": str(tmp_path / "phoenix"),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(unused_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    with open(tmp_path / "phoenix.log", "wb") as log:
        process = subprocess.Popen([PHOENIX, "serve"], env=environment, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"

    def has_started() -> bool:
        assert process.poll() is None, (tmp_path / "phoenix.log").read_text()
        try:
            return bool(read(address, SPANS) or True)
        except OSError:
            return False

    try:
        wait_until(has_started, limit_s=START_S)
        yield address
    finally:
        process.terminate()
        process.wait()


def read(address: str, path: str) -> Any:  # Any: JSON
    with urllib.request.urlopen(f"{address}{path}", timeout=10) as response:
        return json.load(response)


def test_a_real_collector_takes_and_classifies_spans(phoenix: str, print_agent: OneShotStarter) -> None:
    script: list[Scripted] = [
        {"tool_calls": [{"name": "bash", "args": {"command": "echo done"}}]},
        {"text": "the answer"},
    ]
    ended = print_agent(
        ["-p", "the prompt"],
        script,
        env={
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{phoenix}/v1/traces",
            "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
        },
    ).end()
    assert (0, "the answer\n", "") == ended
    found: list[Mapping[str, Any]] = []

    def has_come() -> bool:
        found[:] = read(phoenix, SPANS)["data"]
        return len(found) == 4

    wait_until(has_come)
    kinds = {span["name"]: span["span_kind"] for span in found}
    assert {"invoke_agent pinnace": "AGENT", "chat m1": "LLM", "execute_tool bash": "TOOL"} == kinds
    [invocation] = [span for span in found if span["span_kind"] == "AGENT"]
    assert {invocation["context"]["span_id"]} == {span["parent_id"] for span in found if span is not invocation}
    answered = [span["attributes"] for span in found if span["span_kind"] == "LLM"]
    assert {"m1"} == {each["llm.model_name"] for each in answered}
    assert {10} == {each["llm.token_count.prompt"] for each in answered}
    assert ["the answer"] == [text for each in answered for name, text in each.items() if is_answer(name)]


def is_answer(name: str) -> bool:
    return name.startswith("llm.output_messages.") and name.endswith("content") and "tool_calls" not in name
