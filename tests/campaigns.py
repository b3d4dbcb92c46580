"""Which files of tests are campaigns: `scripts/check` leaves them to `scripts/check all`.

A campaign searches a promise widely, or compares with other programs. Each promise also has tests that are none:
whoever adds a file here makes sure of that. A single test is marked `campaign` where it stands.
"""

from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent

# The files of tests in these folders, at any depth, and these files.
CAMPAIGNS = (
    # Spin, the faults of models, and mutants of the program.
    "fuzz/model_check",
    "fuzz/test_mutants.py",
    "spec/generate/test_promela_bodies.py",
    # Foreign agents and adapters; the judge on whole agents.
    "fuzz/acp/test_acp_judge.py",
    "fuzz/judge/test_attach_adapter.py",
    "fuzz/judge/test_distribution.py",
    "fuzz/judge/test_foreign_agents.py",
    "fuzz/judge/test_our_agent.py",
    # The deep search of the statechart.
    "statechart/test_chart_model.py",
    # Commands and programs of the pages, and the site.
    "docs/test_documentation_site.py",
    "docs/test_pages.py",
    # A browser.
    "agent/export/test_export_browser.py",
    "fuzz/judge/test_html_browser.py",
    "rpc/batch/test_summary_page.py",
    # Chaos and soak.
    "rpc/extensions/test_extension_chaos.py",
    "rpc/host/test_hosted_chaos.py",
    "rpc/server/test_chaos.py",
    "rpc/server/test_soak.py",
    # Conformance of MCP, and hostile servers.
    "rpc/mcp/test_conformance.py",
    "rpc/mcp/test_hostile_servers.py",
    "rpc/mcp/test_like_the_original.py",
    # Collectors.
    "rpc/telemetry/test_grpc.py",
    "rpc/telemetry/test_phoenix.py",
    # The original beside this program.
    "agent/config/test_model_choice_like_the_original.py",
    "fuzz/trials/test_with_the_original.py",
    "rpc/client/test_client_original.py",
    "rpc/client/test_original_client.py",
    "rpc/configuration/test_settings_beside_the_original.py",
    "rpc/configuration/test_settings_like_the_original.py",
    "rpc/configuration/test_templates_like_the_original.py",
    "rpc/print_mode/test_print_mode_like_the_original.py",
    "rpc/tools/test_bash_like_the_original.py",
    "rpc/tools/test_edit_like_the_original.py",
    "rpc/tools/test_read_like_the_original.py",
    "rpc/tools/test_search_tools_like_the_original.py",
    # Editors, engines of batches, terminals, and installs.
    "rpc/acp/test_acp_clients.py",
    "rpc/batch/test_engines.py",
    "rpc/batch/test_evaluations.py",
    "rpc/tui/test_tui_terminal.py",
    "test_packaging.py",
    "test_setup.py",
)
_PATHS = frozenset(ROOT / name for name in CAMPAIGNS)


@cache
def is_campaign(path: Path) -> bool:
    """Whether the tests of the file `path` are left to `scripts/check all`."""
    return path in _PATHS or not _PATHS.isdisjoint(path.parents)
