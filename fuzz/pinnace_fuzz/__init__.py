"""Drives any agent that speaks the protocol, and judges its records by the specification.

`FakeLlm` is the model, `Agent` the driver, `AgentStarter` both together in a home of their own.
"""

import sys

# While Python looks for the module that `python -m` names.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:
    sys.exit(
        "pinnace_fuzz: `python -m` imports modules of the current folder, which may be an agent's: run `python -P -m`"
    )

from pinnace_fuzz.harness.adapters import PreparedHome, prepare_pi_home
from pinnace_fuzz.harness.agent_process import AgentGone, DriverTimeout
from pinnace_fuzz.harness.driver import Agent
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm, HarnessFault
from pinnace_fuzz.harness.model_server.ledger import LlmTimeout
from pinnace_fuzz.records import Pattern, Record
from pinnace_fuzz.script import Response, Scripted, ScriptError
from pinnace_fuzz.trials.transcripts import Normaliser, compare
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

__all__ = [
    "Agent",
    "AgentGone",
    "AgentStarter",
    "DriverTimeout",
    "FakeLlm",
    "HarnessFault",
    "HomedAgent",
    "LlmTimeout",
    "Normaliser",
    "Pattern",
    "PreparedHome",
    "Record",
    "Response",
    "ScriptError",
    "Scripted",
    "compare",
    "prepare_pi_home",
]
