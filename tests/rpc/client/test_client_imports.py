"""What the client loads: nothing of the agent, so that it serves where there is none; and nothing before it is used."""

import json
import subprocess
import sys

import pytest

import pinnace

SCRIPT = """
import json, sys
{0}
print(json.dumps(sorted(sys.modules)))
"""


def loaded(statement: str, environment: dict[str, str]) -> set[str]:
    command = [sys.executable, "-c", SCRIPT.format(statement)]
    return set(json.loads(subprocess.run(command, env=environment, capture_output=True, check=True).stdout))


def test_the_facade_alone_loads_nothing(our_environment: dict[str, str]) -> None:
    added = loaded("import pinnace", our_environment) - loaded("import importlib, typing", our_environment)

    assert {"pinnace"} == added


def test_the_client_loads_neither_the_agent_nor_what_only_the_agent_needs(our_environment: dict[str, str]) -> None:
    found = loaded("from pinnace import BlockingClient, Client", our_environment)

    packages = {name.split(".")[0] for name in found}
    assert set() == packages & {
        "pinnace_agent",
        "pinnace_statechart",
        "pinnace_fuzz",
        "pydantic",
        "httpx",
        "click",
        "jiter",
        "asyncio",
        "trio",
    }
    assert {"pinnace_rpc", "pinnace_rpc.client"} <= found
    assert [] == [
        name for name in found if name.startswith("pinnace_rpc.") and not name.startswith("pinnace_rpc.client")
    ]


@pytest.mark.parametrize("name", pinnace.__all__)
def test_every_name_of_the_facade_is_there(name: str) -> None:
    assert getattr(pinnace, name) is not None
