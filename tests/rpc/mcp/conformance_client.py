"""What `@modelcontextprotocol/conformance` starts: an agent with one server, whose tools a scripted model calls.

The package appends the server's address, and names the scenario in the environment. Signs in as a user does: with
`/mcp login`, and a browser that follows the address that the agent shows.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import httpx

from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

NAME: Final = "conformance"
PREFIX: Final = f"mcp__{NAME}__"
LIMIT_S: Final = 60.0
MOST_SIGN_INS: Final = 3
PROTOCOL: Final = os.environ.get("MCP_CONFORMANCE_WAY", "handshake")
"""The way in which the version of the protocol is agreed on: as `protocol` of mcp.json."""
OWN_DOCUMENT: Final = "https://conformance-test.local/client-metadata.json"


def entry(url: str, scenario: str, context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of mcp.json for a scenario."""
    oauth: dict[str, Any] = {}
    if scenario == "auth/basic-cimd":
        oauth = {"clientId": OWN_DOCUMENT}
    if "client_id" in context:
        oauth = {"clientId": context["client_id"], "clientSecret": context["client_secret"].replace("$", "$$")}
    return {"url": url, "protocol": PROTOCOL, **({"oauth": oauth} if oauth else {})}


class Client:
    """One agent, from the first prompt to the last."""

    def __init__(self, pi: HomedAgent) -> None:
        self.pi = pi
        self.answered: set[str] = set()

    def prompt(self, text: str) -> list[Mapping[str, Any]]:
        """Send a prompt, answer what is asked until it is done, and return the notices."""
        mark = self.pi.mark()
        self.pi.send({"type": "prompt", "message": text, "id": text})
        deadline_s = time.monotonic() + LIMIT_S
        is_command = text.startswith("/")
        while time.monotonic() < deadline_s:
            notices = self.pi.found({"type": "extension_ui_request", "method": "notify"}, since=mark)
            self.answer(mark)
            is_accepted = bool(self.pi.found({"type": "response", "id": text}, since=mark))
            if is_accepted and (is_command or self.pi.found({"type": "agent_settled"}, since=mark)):
                return list(notices)
            time.sleep(0.02)
        raise TimeoutError(text)

    def answer(self, mark: int) -> None:
        """Do what the user does: take defaults, and open the address of a sign-in."""
        for asked in self.pi.found({"type": "extension_ui_request"}, since=mark):
            if asked["id"] in self.answered:
                continue
            self.answered.add(asked["id"])
            match asked["method"]:
                case "notify" if "in your browser:\n" in asked["message"]:
                    httpx.get(asked["message"].partition("\n")[2], follow_redirects=True, timeout=LIMIT_S)
                case "select":
                    self.pi.send({"type": "extension_ui_response", "id": asked["id"], "value": asked["options"][0]})
                case "input" if "Waiting for sign-in" not in asked["title"]:
                    self.pi.send({"type": "extension_ui_response", "id": asked["id"], "value": ""})
                case _:
                    pass

    def sign_in(self) -> bool:
        """Sign in if the server wants it; return whether it did."""
        notices = self.prompt("/mcp")
        if "needs-auth" not in str(notices[-1]["message"]):
            return False
        notices = self.prompt(f"/mcp login {NAME}")
        print([each["message"] for each in notices], file=sys.stderr)
        return any(str(each["message"]).startswith("Signed in") for each in notices)

    def call_all(self, given_calls: Sequence[Mapping[str, Any]] = ()) -> None:
        """Let the model call every tool that it is offered, or the tools of some calls with their arguments."""
        if given_calls:
            for each in given_calls:
                self.pi.llm.add({"tool_calls": [{"name": PREFIX + each["name"], "args": each["arguments"]}]})
            self.finish_calls()
            return
        tools = [each["function"] for each in self.pi.llm.requests[-1].body.get("tools", ())]
        for tool in tools:
            if tool["name"].startswith(PREFIX):
                given = {name: value_of(field) for name, field in tool["parameters"]["properties"].items()}
                self.pi.llm.add({"tool_calls": [{"name": tool["name"], "args": given}]})
        self.finish_calls()

    def finish_calls(self) -> None:
        """Let the model make its calls, and show what has come of them."""
        self.pi.llm.add({"text": "called"})
        self.prompt("call them")
        for end in self.pi.found({"type": "tool_execution_end"}):
            print(end["toolName"], end["isError"], str(end["result"])[:200], file=sys.stderr)


def value_of(field: Mapping[str, Any]) -> object:
    """Return a value that a field of a tool takes."""
    return {"number": 5, "integer": 5, "boolean": True}.get(field.get("type", ""), "text")


def main() -> int:
    """Talk to the server."""
    url, scenario = sys.argv[-1], os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    files = {"mcp.json": {"mcpServers": {NAME: entry(url, scenario, context)}}}
    command = (sys.executable, "-P", "-m", "pinnace_rpc")
    environment = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    with (
        tempfile.TemporaryDirectory() as folder,
        FakeLlm([{"text": "fine"}, {"text": "fine"}]) as llm,
        AgentStarter(command, Path(folder), environment) as start,
    ):
        client = Client(start(llm, files=files))
        client.prompt("first")
        if client.sign_in():
            client.prompt("again")
        for _ in range(MOST_SIGN_INS):
            client.pi.llm.forget()
            client.call_all(context.get("toolCalls", ()))
            if not client.sign_in():
                break
    return 0


if __name__ == "__main__":
    sys.exit(main())
