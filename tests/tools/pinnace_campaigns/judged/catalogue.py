"""Which agents are judged: how each is started, by which protocol, and with which adapter.

`scripts/peers judged` installs them, in these releases. Programs are below the root of the repository; `node` is the
one that is installed there, and the program of ours is the one of this environment.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

REPOSITORY: Final = Path(__file__).parents[4]
NODE: Final = REPOSITORY / ".tools" / "node22" / "bin"
"""First on the path of each agent: programs of packages look for it there."""
Protocol = Literal["rpc", "acp"]


class Agent(NamedTuple):
    """One row of the page."""

    name: str
    """With its release."""
    command: Sequence[str]
    adapter: str = "pi"
    protocol: Protocol = "rpc"


_OURS: Final = str(Path(sys.executable).with_name("pinnace"))
_PI: Final = ".tools/pi-1.5.2/package/dist/bundle/cli.js"
AGENTS: Final = (
    Agent("pinnace", (_OURS,)),
    Agent("pi 0.80.2", ("node", ".tools/pi-0.80.2/node_modules/.bin/pi")),
    Agent("pi 0.87.1", ("node", ".tools/pi-0.87.1/node_modules/.bin/pi")),
    Agent("pi 1.5.2", ("node", _PI)),
    Agent("pp 0.2.2", (".tools/pp-0.2.2/bin/pp",)),
    Agent("omp 18.2.3", (".tools/omp-18.2.3/bin/omp",), "omp"),
    Agent("aelix 0.1.0b2", (".tools/aelix-0.1.0b2/bin/aelix",), "aelix"),
    Agent("tau 0.4.8", (".tools/tau-0.4.8/bin/tau",), "tau"),
    Agent("pinnace --mode json", (_OURS,), "json"),
    Agent("pi 1.5.2 --mode json", ("node", _PI), "json"),
    Agent("pinnace acp", (_OURS, "acp"), protocol="acp"),
    Agent(
        "claude-agent-acp 0.101.0",
        ("node", ".tools/claude-agent-acp-0.101.0/node_modules/.bin/claude-agent-acp"),
        "claude-agent-acp",
        "acp",
    ),
    Agent("codex-acp 2.6.0", ("node", ".tools/codex-acp-2.6.0/node_modules/.bin/codex-acp"), "codex-acp", "acp"),
    Agent("gemini-cli 0.61.0", ("node", ".tools/gemini-cli-0.61.0/node_modules/.bin/gemini"), "gemini-cli", "acp"),
    Agent("opencode 1.18.33", (".tools/opencode-1.18.33/bin/opencode",), "opencode", "acp"),
    Agent(
        "pi-acp 0.0.34 with pi 1.5.2",
        (
            "env",
            f"PI_ACP_PI_COMMAND={REPOSITORY / _PI}",
            "node",
            ".tools/pi-acp-0.0.34/node_modules/pi-acp/dist/index.js",
        ),
        "pi",
        "acp",
    ),
    Agent("qwen-code 0.24.4", ("node", ".tools/qwen-code-0.24.4/cli-entry.js"), "qwen-code", "acp"),
)
