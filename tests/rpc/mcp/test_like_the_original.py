"""Servers by others under the original and under this program: the same tools, and the same results for the model.

What differs is in spec/deviations.toml, and nothing else does. One server a run, all of them in long runs.
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from tests.parts import part
from tests.rpc.mcp.conftest import Start

from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

pytestmark = [pytest.mark.peer, pytest.mark.slow]

REPOSITORY: Final = "REPOSITORY"
CLOCK: Final = re.compile(r"\d+:\d\d:\d\d [AP]M")
OF_THE_CLIENT: Final = frozenset(
    {
        # Offered to a client that can ask its user, which the original can't.
        "mcp__everything__trigger_elicitation_request",
        "mcp__everything__trigger_url_elicitation",
    }
)


class Peer(NamedTuple):
    """One server, and what the model calls."""

    name: str
    arguments: tuple[str, ...]
    """REPOSITORY stands for one."""
    calls: tuple[tuple[str, Mapping[str, Any]], ...]
    said: tuple[str, ...]
    """Parts of the results, in order."""


PEERS: Final = (
    Peer(
        "everything",
        (),
        (
            ("echo", {"message": "one"}),
            ("get-sum", {"a": 2, "b": 3}),
            ("get-tiny-image", {}),
            ("get-structured-content", {"location": "New York"}),
            ("get-annotated-message", {"messageType": "error", "includeImage": False}),
            ("get-resource-links", {"count": 2}),
            ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
            ("get-sum", {"a": "x", "b": 3}),
        ),
        ("Echo: one", "The sum of 2 and 3 is 5."),
    ),
    Peer(
        "time",
        ("--local-timezone", "Asia/Tokyo"),
        (
            ("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}),
            ("convert_time", {"source_timezone": "Nowhere/At_All", "time": "12:00", "target_timezone": "UTC"}),
        ),
        ("T21:00:00+09:00", "Nowhere"),
    ),
    Peer(
        "git",
        ("--repository", REPOSITORY),
        (("git_log", {"repo_path": REPOSITORY, "max_count": 1}), ("git_status", {"repo_path": REPOSITORY})),
        ("The first commit", "nothing to commit"),
    ),
)


def repository(folder: Path) -> Path:
    """Return a repository with one commit, the same each time."""
    folder.mkdir()
    date = "2026-01-02T03:04:05+00:00"
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    for words in (["init", "-q", "-b", "main"], [*who, "commit", "-q", "--allow-empty", "-m", "The first commit"]):
        subprocess.run(["git", *words], cwd=folder, env=env, check=True)
    return folder


def conversation(
    start: Callable[..., HomedAgent], peer: Peer, command: list[str], work: Path
) -> tuple[set[str], list[Any]]:
    """Let a model call the tools; return the names that it was offered and the results that it was shown."""
    program, *arguments = [*command, *(str(work) if word == REPOSITORY else word for word in peer.arguments)]
    entry = {"command": program, "args": arguments, "exposure": "direct"}
    calls = [
        {"tool_calls": [{"name": tool_name(peer, tool), "args": filled(given, work)}]} for tool, given in peer.calls
    ]
    pi = start([{"text": "ready"}, *calls, {"text": "fine"}], {peer.name: entry})
    for text in ("first", "second"):
        mark = pi.mark()
        assert pi.request({"type": "prompt", "message": text})["success"]
        pi.wait({"type": "agent_settled"}, since=mark)
    last = pi.llm.requests[-1].body
    names = {each["function"]["name"] for each in last["tools"] if each["function"]["name"].startswith("mcp__")}
    return names, shown(last["messages"])


def shown(messages: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return what stands between the second prompt and the end: results, and images, which follow them."""
    found = [each for each in messages if each["role"] != "assistant"]
    return [each["content"] for each in found[found.index(next(each for each in found if "second" in str(each))) + 1 :]]


def filled(given: Mapping[str, Any], work: Path) -> dict[str, Any]:
    return {name: str(work) if value == REPOSITORY else value for name, value in given.items()}


def tool_name(peer: Peer, tool: str) -> str:
    return f"mcp__{peer.name}__{tool.replace('-', '_')}"


@pytest.mark.parametrize("peer", [PEERS[place] for place in part(len(PEERS), len(PEERS))], ids=lambda peer: peer.name)
def test_a_server_is_the_same_for_the_model_as_under_the_original(
    peer: Peer, with_servers: Start, original_pi: list[str], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if peer.name == "everything":
        command: list[str] = request.getfixturevalue("mcp_everything")
    else:
        command = [str(request.getfixturevalue("mcp_python_servers") / f"mcp-server-{peer.name}")]
    work = repository(tmp_path / "repository")

    def ours(script: Iterable[Any], servers: Mapping[str, Any]) -> HomedAgent:
        return with_servers(servers, script)

    with AgentStarter(original_pi, tmp_path / "original") as start:

        def theirs(script: Iterable[Any], servers: Mapping[str, Any]) -> HomedAgent:
            return start(script, files={"mcp.json": {"mcpServers": servers}}, is_checked=False)

        their_names, their_results = conversation(theirs, peer, command, work)
    our_names, our_results = conversation(ours, peer, command, work)
    assert their_names == our_names - OF_THE_CLIENT
    theirs_text, text = (CLOCK.sub("now", json.dumps(each, indent=1)) for each in (their_results, our_results))
    assert theirs_text == text
    assert [] == [said for said in peer.said if said not in text]
