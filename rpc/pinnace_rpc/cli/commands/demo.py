"""`pinnace demo`: a conversation with the real program, over pipes, without a network, printed readably.

Starts the agent as any client would, with the offline model, asks it to run a command, steers it while the command
runs, and prints the records as they arrive. Also the shortest example of a client: send lines, read lines.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import IO, Any, Final

from pinnace_rpc.options.parser import Subcommand, parse
from pinnace_rpc.options.streams import echo

# The edge of JSON: what another process wrote.
Record = dict[str, Any]

PROMPT: Final = "Please run `echo hello from the shell; sleep 1` and show me what it printed."
STEER: Final = "One more thing: answer in a single sentence."
FLAGS: Final = ("--mode", "rpc", "--no-session", "--provider", "offline", "--protocol", "1.5")
# -P: modules in the current folder must not be imported.
AGENT: Final = (sys.executable, "-P", "-m", "pinnace_rpc", *FLAGS)
COMMAND: Final = Subcommand(
    "pinnace demo",
    "Show a short conversation with the offline model: a prompt, a tool call, a steering message. Needs no key and no "
    "network.",
)

# Escape codes of styles.
_BOLD, _DIM, _RED, _GREEN, _YELLOW, _MAGENTA, _CYAN = 1, 2, 31, 32, 33, 35, 36


def main(words: Sequence[str]) -> int:
    """Run `pinnace demo` with these words, and return the agent's exit code."""
    parse(COMMAND, words)
    _print(f"$ pinnace {' '.join(FLAGS)}", _BOLD)
    with subprocess.Popen(AGENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
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
    _print(f"\nstdin closed; the agent exited with code {agent.returncode}", _DIM)
    return agent.returncode


def _print(text: str, style: int) -> None:
    """Print a line, with a style if stdout is a terminal."""
    echo(f"\033[{style}m{text}\033[0m" if sys.stdout.isatty() else text)


def _send(stdin: IO[bytes], record: Record) -> None:
    _print(f"\n→ {json.dumps(record)}", _CYAN)
    stdin.write(json.dumps(record).encode() + b"\n")
    stdin.flush()


def _records(stdout: IO[bytes]) -> Iterator[Record]:
    for line in stdout:  # binary, so that only LF ends a line
        yield json.loads(line)


def _show(record: Record) -> None:
    match record:
        case {"type": "response", "command": command, "success": True, **rest}:
            data = rest.get("data")
            _print(f"← {command}: ok{f' {json.dumps(data)}' if data else ''}", _GREEN)
        case {"type": "response", "command": command, "error": error}:
            _print(f"← {command}: {error}", _RED)
        case {
            "type": "message_update",
            "assistantMessageEvent": {"type": "text_delta" | "thinking_delta", "delta": delta},
        }:
            sys.stdout.write(str(delta))
            sys.stdout.flush()
        case {"type": "message_update", "assistantMessageEvent": {"type": "text_end" | "thinking_end"}}:
            echo("")
        case {"type": "message_end", "message": {"role": "user", "content": [{"text": text}, *_]}}:
            _print(f"  user: {text}", _MAGENTA)
        case {"type": "tool_execution_start", "toolName": name, "args": arguments}:
            _print(f"  {name} {json.dumps(arguments)}", _YELLOW)
        case {"type": "tool_execution_end", "result": {"content": [{"text": text}, *_]}}:
            _print("\n".join(f"  | {line}" for line in str(text).splitlines()), _YELLOW)
        case {"type": "queue_update", "steering": steering}:
            _print(f"  queued: {json.dumps(steering)}", _DIM)
        case {"type": "agent_start" | "agent_end" | "agent_settled" as kind}:
            _print(f"  [{kind}]", _DIM)
        case _:
            pass
