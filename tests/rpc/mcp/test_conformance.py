"""The conformance suite of the protocol, against an agent in mode rpc: `@modelcontextprotocol/conformance`.

A part of the scenarios in each run, all of them in long ones (HYPOTHESIS_PROFILE=long). What is left out is in
docs/mcp.md, with the reasons.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from tests.parts import part
from tests.rpc.mcp.conftest import HERE
from tests.source_tree import PYTHONPATH

PAGE: Final = HERE.parents[2] / "docs" / "mcp.md"
LIMIT_S: Final = 120

SCENARIOS: Final = (
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
    "auth/2025-03-26-oauth-endpoint-fallback",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
)
LEFT_OUT: Final = (
    "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/client-credentials-jwt",
    "auth/client-credentials-basic",
    "auth/cross-app-access-complete-flow",
)

pytestmark = [pytest.mark.peer, pytest.mark.slow]


def test_each_client_scenario_of_the_suite_is_played_or_left_out_with_a_reason(
    mcp_conformance: list[str],
) -> None:
    listed = subprocess.run([*mcp_conformance, "list"], capture_output=True, text=True, check=True).stdout
    clients = re.findall(r"^  - (\S+)", listed.partition("Client scenarios")[2], re.MULTILINE)
    assert sorted([*SCENARIOS, *LEFT_OUT]) == sorted(clients)
    page = PAGE.read_text()
    assert [] == [name for name in LEFT_OUT if f"`{name}`" not in page]


# Two at most: each starts node, a client and an agent.
@pytest.mark.parametrize("scenario", [SCENARIOS[place] for place in part(len(SCENARIOS), 11)])
def test_an_agent_passes_a_scenario(scenario: str, mcp_conformance: list[str], tmp_path: Path) -> None:
    driver = f"{sys.executable} {HERE / 'conformance_client.py'}"
    done = subprocess.run(
        [*mcp_conformance, "client", "--command", driver, "--scenario", scenario, "--timeout", f"{LIMIT_S * 1000}"],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S + 10,
        check=False,
    )
    assert "OVERALL: PASSED" in done.stdout + done.stderr, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    assert done.returncode == 0
