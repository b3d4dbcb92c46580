"""Two agents in one program, without a child process of either: each in its own folder, both at work at once.

    python two_agents.py FOLDER FOLDER [FLAG ...]

Flags are those of `pinnace --mode rpc`. Prints what each agent's tools did and what it answered.
"""

import sys

import anyio

from pinnace import RunFailed, open_agent

TASK = "Please run `ls`"


async def work(folder: str, flags: list[str], found: dict[str, list[str]]) -> None:
    """Give one agent the task, and keep what it says."""
    lines = found[folder] = []
    async with open_agent(flags, cwd=folder) as agent:
        events = agent.events()
        try:
            run = await agent.run(TASK)
        except RunFailed as failure:
            lines.append(f"failed: {failure}")
            return
    async for event in events:  # those that came until the agent was left
        if event["type"] == "tool_execution_end":
            lines.append(f"{event['toolName']}: {'failed' if event['isError'] else 'done'}")
    lines.append(run.text)


async def main() -> None:
    """Run both; an exception of one of them ends the other in order."""
    folders, flags = sys.argv[1:3], sys.argv[3:]
    found: dict[str, list[str]] = {}
    async with anyio.create_task_group() as tasks:
        for folder in folders:
            tasks.start_soon(work, folder, flags, found)
    for folder in folders:
        sys.stdout.write(f"{folder}:\n")
        for line in found[folder]:
            sys.stdout.write(f"  {line}\n")


if __name__ == "__main__":
    anyio.run(main)
