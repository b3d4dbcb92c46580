"""The comparison that each module of tests of one tool makes once."""

import pytest
from tests.rpc.tools.recorded_tool import Comparison, RecordedTool

from pinnace_fuzz.trials.workbench import AgentStarter


@pytest.fixture(scope="module")
def comparison(request: pytest.FixtureRequest, module_agent: AgentStarter) -> Comparison:
    """The module's `TOOL`, with every call made once."""
    tool: RecordedTool = request.module.TOOL
    return tool.comparison(module_agent)
