"""The conformance suite of the protocol, against an agent in mode rpc: `@modelcontextprotocol/conformance`.

A part of the scenarios in each run, all of them in long ones (HYPOTHESIS_PROFILE=long). What is left out is in
docs/mcp.md, with the reasons.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
from tests.parts import part
from tests.rpc.mcp.conftest import HERE
from tests.source_tree import PYTHONPATH

PAGE: Final = HERE.parents[2] / "docs" / "mcp.md"
LIMIT_S: Final = 120

OF_SIGN_INS: Final = (
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
)
SCENARIOS: Final[Mapping[str, Sequence[str]]] = {
    "2025-03-26": ("auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback"),
    "2025-11-25": (
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        *OF_SIGN_INS,
    ),
    "2026-07-28": (
        "tools_call",
        "request-metadata",
        *OF_SIGN_INS,
        "auth/resource-mismatch",
        "auth/offline-access-scope",
        "auth/offline-access-not-supported",
        "auth/authorization-server-migration",
        "auth/iss-supported",
        "auth/iss-not-advertised",
        "auth/iss-supported-missing",
        "auth/iss-wrong-issuer",
        "auth/iss-unexpected",
        "auth/iss-normalized",
        "auth/metadata-issuer-mismatch",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
    ),
}
"""By the version of the protocol that the suite's server speaks."""
WAYS: Final = ("handshake", "auto")
"""How the version is agreed on: `protocol` of mcp.json."""
DISCOVERY_ALONE: Final = ("request-metadata", "http-standard-headers")
"""Judge every request, and so the handshake itself, which their version has not."""
LEFT_OUT: Final = (
    "json-schema-2020-12-preservation",
    "auth/client-credentials-jwt",
    "auth/client-credentials-basic",
    "auth/enterprise-managed-authorization",
    "auth/dpop",
    "auth/dpop-nonce",
    "auth/wif-jwt-bearer",
    "sep-2640-client-no-prefetch",
    "sep-2640-client-verify-digest",
    "sep-2640-client-verify-size",
    "sep-2640-client-verify-frontmatter",
)
CASES: Final = [
    (scenario, version, way)
    for version, scenarios in SCENARIOS.items()
    for scenario in scenarios
    for way in WAYS
    if way == "auto" or scenario not in DISCOVERY_ALONE
]

pytestmark = [pytest.mark.peer, pytest.mark.slow]


def test_each_client_scenario_of_the_suite_is_played_or_left_out_with_a_reason(
    mcp_conformance: list[str],
) -> None:
    listed = subprocess.run([*mcp_conformance, "list"], capture_output=True, text=True, check=True).stdout
    of_clients = listed.partition("Client scenarios")[2].partition("\n\n")[0]
    found = {
        name: versions.split(",") for name, versions in re.findall(r"^  - (\S+) \[(.*)\]", of_clients, re.MULTILINE)
    }
    played = {version: {name for name, in_versions in found.items() if version in in_versions} for version in SCENARIOS}
    page = PAGE.read_text()

    assert set(found) - set(LEFT_OUT) == {scenario for scenario, _, _ in CASES}
    assert {version: set(scenarios) for version, scenarios in SCENARIOS.items()} == {
        version: names - set(LEFT_OUT) for version, names in played.items()
    }
    assert [] == [name for name in (*LEFT_OUT, *DISCOVERY_ALONE) if f"`{name}`" not in page]


# Two at most: each starts node, a client and an agent.
@pytest.mark.parametrize(
    ("scenario", "version", "way"), [CASES[place] for place in part(len(CASES), (len(CASES) + 1) // 2)]
)
def test_an_agent_passes_a_scenario(
    scenario: str, version: str, way: str, mcp_conformance: list[str], tmp_path: Path
) -> None:
    driver = f"{sys.executable} {HERE / 'conformance_client.py'}"
    chosen = ["--scenario", scenario, "--spec-version", version, "--timeout", f"{LIMIT_S * 1000}"]
    done = subprocess.run(
        [*mcp_conformance, "client", "--command", driver, *chosen],
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "MCP_CONFORMANCE_WAY": way},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S + 10,
        check=False,
    )
    assert "OVERALL: PASSED" in done.stdout + done.stderr, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    assert done.returncode == 0
