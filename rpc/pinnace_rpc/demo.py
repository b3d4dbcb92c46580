"""`pinnace demo`: a real conversation with the real binary, over pipes, without a network, printed readably.

Starts the agent as any client would, with the offline model, asks it to run a command, steers it while the command
runs, and prints what comes back as it comes. Also the shortest example of a client: send lines, read lines.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import IO, Any, Final

import click

# The edge of JSON: what another process wrote.
Record = dict[str, Any]

PROMPT: Final = "Please run `echo hello from the shell; sleep 1` and tell me what it printed."
STEER: Final = "One more thing: answer in a single sentence."
FLAGS: Final = ("--mode", "rpc", "--no-session", "--provider", "offline", "--protocol", "1.5")
# -P: what lies in the current folder is the user's, not ours to run.
COMMAND: Final = (sys.executable, "-P", "-m", "pinnace_rpc", *FLAGS)


def main() -> int:
    """Hold the conversation; return the agent's exit code."""
    click.secho(f"$ pinnace {' '.join(FLAGS)}", bold=True)
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        _send(agent.stdin, {"id": "1", "type": "prompt", "message": PROMPT})
        for record in _records(agent.stdout):
            _show(record)
            if record["type"] == "tool_execution_start":
                _send(agent.stdin, {"id": "2", "type": "steer", "message": STEER})
            if record["type"] == "agent_settled":
                break
        _send(agent.stdin, {"id": "3", "type": "get_session_stats"})
        agent.stdin.close()
        for record in _records(agent.stdout):
            _show(record)
    click.secho(f"\nstdin closed; the agent left with exit code {agent.returncode}", dim=True)
    return agent.returncode


def _send(stdin: IO[bytes], record: Record) -> None:
    click.secho(f"\n→ {json.dumps(record)}", fg="cyan")
    stdin.write(json.dumps(record).encode() + b"\n")
    stdin.flush()


def _records(stdout: IO[bytes]) -> Iterator[Record]:
    for line in stdout:  # binary, so that only LF ends a line
        yield json.loads(line)


def _show(record: Record) -> None:
    match record:
        case {"type": "response", "command": command, "success": True, **rest}:
            data = rest.get("data")
            click.secho(f"← {command}: ok{f' {json.dumps(data)}' if data else ''}", fg="green")
        case {"type": "response", "command": command, "error": error}:
            click.secho(f"← {command}: {error}", fg="red")
        case {
            "type": "message_update",
            "assistantMessageEvent": {"type": "text_delta" | "thinking_delta", "delta": delta},
        }:
            click.echo(str(delta), nl=False)
        case {"type": "message_update", "assistantMessageEvent": {"type": "text_end" | "thinking_end"}}:
            click.echo()
        case {"type": "message_end", "message": {"role": "user", "content": [{"text": text}, *_]}}:
            click.secho(f"  user: {text}", fg="magenta")
        case {"type": "tool_execution_start", "toolName": name, "args": arguments}:
            click.secho(f"  {name} {json.dumps(arguments)}", fg="yellow")
        case {"type": "tool_execution_end", "result": {"content": [{"text": text}, *_]}}:
            click.secho("".join(f"  | {line}\n" for line in str(text).splitlines()), fg="yellow", nl=False)
        case {"type": "queue_update", "steering": steering}:
            click.secho(f"  queued: {json.dumps(steering)}", dim=True)
        case {"type": "agent_start" | "agent_end" | "agent_settled" as kind}:
            click.secho(f"  [{kind}]", dim=True)
        case _:
            pass
