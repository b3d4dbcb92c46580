"""`/agent` and `/message`: sub-agents that the user starts, and messages to those that work."""

from typing import Final, cast

import pinnace
from pinnace_tui.completion import Suggestion
from pinnace_tui.content.rows import one_line
from pinnace_tui.content.values import Record, objects, text
from pinnace_tui.screens import EditorDialog, Picker, ask
from pinnace_tui.terminal import Terminal

# Characters of the end of a sub-agent's id, as lists of agents show it.
_SHORT_ID: Final = 8


class SubAgents:
    """The sub-agents of the agent of one terminal."""

    def __init__(self, terminal: Terminal) -> None:
        """Start none yet."""
        self._terminal = terminal

    async def start(self, task: str) -> None:
        """Start a sub-agent, and show its answer when it has ended; others go on meanwhile."""
        terminal = self._terminal
        if not task:
            answer = await ask(terminal.app, EditorDialog("Task of the sub-agent", ""))
            if answer is None or not answer.strip():
                return
            task = answer.strip()
        try:
            started = await terminal.connection.client.start_agent(task)
        except Exception:
            terminal.editor.give_back([task])
            raise
        identity = started["agent"]["agentId"]
        name = f"sub-agent {identity[-_SHORT_ID:]}"
        terminal.transcript.notice(f"{name} works: {one_line(task)}")
        ended = await terminal.connection.client.wait_agent(identity)
        why = ended["agent"].get("error")
        state = ended["agent"]["state"] + (f": {why}" if why else "")
        is_done = state == "completed"
        answered = f"\n{ended['text']}" if ended["text"] else ""
        terminal.transcript.notice(f"{name} {state}: {one_line(task)}{answered}", "info" if is_done else "warning")

    async def give(self, wanted: str) -> None:
        """Give a message to a sub-agent that works: to one that is named, or from the list."""
        terminal, (name, _, message) = self._terminal, wanted.partition(" ")
        agents = await self._working()
        found = [row for row in agents if row[0].startswith(name)]
        if not found:
            terminal.editor.give_back([wanted] if wanted else [])
            terminal.reports.show(f"no sub-agent {name} works" if agents else "no sub-agent works", "error")
            return
        if not name or len(found) > 1:
            choice = await ask(terminal.app, Picker("Sub-agent", [f"{agent}  {task}" for agent, task in found]))
            if choice is None:
                terminal.editor.give_back([message] if message.strip() else [])
                return
            found = [found[choice.index]]
        [(agent, task)] = found
        if not message.strip():
            answer = await ask(terminal.app, EditorDialog(f"Message to the sub-agent: {task}", ""))
            if answer is None or not answer.strip():
                return
            message = answer
        try:
            await terminal.connection.client.message_agent(agent, message.strip())
        except Exception:
            terminal.editor.give_back([message])
            raise
        terminal.transcript.notice(f"message accepted for the sub-agent {task}: {one_line(message)}")

    async def complete(self, prefix: str) -> list[Suggestion]:
        """Return those that a message may be for."""
        if " " in prefix:
            return []
        try:
            agents = await self._working()
        except pinnace.ClientFailure:  # as for extensions
            return []
        return [Suggestion(f"{agent} ", task, agent) for agent, task in agents if agent.startswith(prefix)]

    async def _working(self) -> list[tuple[str, str]]:
        """Return the ids and the tasks of the sub-agents that work."""
        listed = objects(cast("Record", await self._terminal.connection.client.list_agents()), "agents")
        working = [each for each in listed if each.get("state") == "running"]
        return [(text(each, "agentId"), one_line(text(each, "task"))) for each in working]
