"""The client's own commands (`/model`, `/tree` …) and the lists they open, over the commands of the protocol.

A command that replaces the conversation has it loaded again. Others with a slash, which are the agent's (of
extensions, templates, skills), are prompts. Must not know widgets but the questions.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Final, cast

from pinnace_tui.completion import Suggestion
from pinnace_tui.content.rows import cache_lines, count_line, session_row, tree_rows
from pinnace_tui.content.transcript import warning_line
from pinnace_tui.content.values import Record, mapping, objects, text
from pinnace_tui.extensions import Extensions
from pinnace_tui.footer import HOW_TO_GET_A_MODEL
from pinnace_tui.logins import Logins
from pinnace_tui.queueing import (
    Change,
    HasPictures,
    Queued,
    change_queue,
    moved,
    queued,
    queued_texts,
    with_text,
    without,
)
from pinnace_tui.screens import EditorDialog, InputDialog, Picker, ask
from pinnace_tui.session import Session
from pinnace_tui.sub_agents import SubAgents
from pinnace_tui.terminal import Terminal

# Of extensions, templates and skills (`skill:name`), and not the beginning of a path.
_COMMAND_NAME: Final = re.compile(r"/([\w:.-]+)(?:\s|$)")
# Those of an extension take precedence: it may bring a provider's login, or have had its command first.
_YIELDING: Final = frozenset({"login", "logout", "message", "agent"})
# A page of `list_sessions`, and how many of them a list has.
_SESSIONS_A_PAGE: Final = 100
_MOST_PAGES: Final = 20


class Commands:
    """The client's own commands, by name."""

    def __init__(self, terminal: Terminal, session: Session, extensions: Extensions) -> None:
        """Serve a client.

        Args:
            terminal: Shows what commands ask and report.
            session: The one that they change.
            extensions: Complete the arguments of their commands.
        """
        self._terminal = terminal
        self._session = session
        self._extensions = extensions
        self.logins = Logins(terminal, session)
        self._sub_agents = SubAgents(terminal)
        self._commands: Mapping[str, tuple[str, Callable[[str], Awaitable[None]]]] = {
            "model": ("select a model", self.model),
            "thinking": ("select a thinking level", self.thinking),
            "new": ("start a new session", self.new),
            "resume": ("open another session", self.resume),
            "name": ("name the session", self.name),
            "session": ("show the session's file and counts", self.session),
            "tree": ("continue from another place of the session", self.tree),
            "fork": ("start a session from before a message", self.fork),
            "clone": ("continue in a copy of the session", self.clone),
            "compact": ("summarise the conversation", self.compact),
            "queue": ("edit, move or remove a queued message", self.queue),
            "approval": ("choose which tool calls ask first", self.approval),
            "agent": ("have a sub-agent do a task beside the conversation", self._sub_agents.start),
            "message": ("give a message to a sub-agent that works", self._sub_agents.give),
            "export": ("write the session as a page", self.export),
            "copy": ("copy the last answer", self.copy),
            "find": ("search the conversation", self.find_words),
            "reload": ("read settings, extensions, skills and templates again", self.reload),
            "warnings": ("show what the agent warns of, and what to do", self.warnings),
            "settings": ("change a setting of the agent", self.settings),
            "login": ("store a key of a provider, or log in to it", self.logins.log_in),
            "logout": ("remove the stored key or login of a provider", self.logins.log_out),
            "theme": ("select a theme", self.theme),
            "hotkeys": ("show the keys", self.hotkeys),
            "quit": ("leave", self.quit),
        }

    def listed(self) -> list[tuple[str, str]]:
        """Return names and descriptions."""
        return [(name, description) for name, (description, _) in self._commands.items()]

    def find(self, message: str) -> Callable[[], Awaitable[None]] | None:
        """Return what a message with a slash does, if it is a command of the client."""
        if not message.startswith("/"):
            return None
        name, _, argument = message[1:].strip().partition(" ")
        found = self._commands.get(name)
        if found is None or (name in _YIELDING and name in self._of_agent()):
            return None
        return lambda: found[1](argument.strip())

    def doubt(self, message: str) -> str | None:
        """Return what to ask about a message that looks like a command and is none; None: it is a command or a text."""
        found = _COMMAND_NAME.match(message)
        of_agent = self._of_agent()
        if found is None or found[1] in of_agent:
            return None
        near = get_close_matches(found[1], [*self._commands, *of_agent], n=1)
        return f"There is no command /{found[1]}.{f' Did you mean /{near[0]}?' if near else ''}"

    async def complete(self, command: str, prefix: str) -> list[Suggestion]:
        """Return what may stand for the arguments of a command: of the agent, or of the client."""
        if not self._terminal.connection.is_ready.is_set():
            return []
        if command in self._of_agent():
            return (await self._extensions.complete(command, prefix))[1]
        return await self._sub_agents.complete(prefix) if command == "message" else []

    def _of_agent(self) -> set[str]:
        """Return the names of the agent's commands."""
        return {name for name, _ in self._session.commands}

    # --- models ----------------------------------------------------------------------------------------------------

    async def model(self, wanted: str) -> None:
        """Select a model: one that is named, or from the list."""
        terminal = self._terminal
        models = cast("list[Record]", (await terminal.connection.client.get_available_models())["models"])
        if not models:
            terminal.reports.show(f"no model can be used: no provider has a key. {HOW_TO_GET_A_MODEL}", "error")
            return
        names = [f"{text(model, 'provider')}/{text(model, 'id')}" for model in models]
        state = cast("Record", await terminal.connection.client.get_state())
        current = mapping(state, "model")
        now = f"{text(current, 'provider')}/{text(current, 'id')}"
        if wanted:
            if wanted not in names:
                terminal.reports.show(f"no model {wanted}: /model lists those that there are", "error")
                return
            index = names.index(wanted)
        else:
            rows = [f"{name}  {text(model, 'name')}" for name, model in zip(names, models, strict=True)]
            choice = await ask(terminal.app, Picker("Model", rows, current=names.index(now) if now in names else 0))
            if choice is None:
                return
            index = choice.index
        await terminal.connection.client.set_model(text(models[index], "provider"), text(models[index], "id"))
        await self._session.refresh()

    async def thinking(self, wanted: str) -> None:
        """Select a thinking level: one that is named, or from the list."""
        terminal = self._terminal
        levels = (await terminal.connection.client.get_available_thinking_levels())["levels"]
        if not wanted:
            now = (await terminal.connection.client.get_state())["thinkingLevel"]
            current = levels.index(now) if now in levels else 0
            choice = await ask(terminal.app, Picker("Thinking level", levels, current=current))
            if choice is None:
                return
            wanted = levels[choice.index]
        await terminal.connection.client.request("set_thinking_level", level=wanted)
        await self._session.refresh()

    async def approval(self, wanted: str) -> None:
        """Choose which calls of tools ask first."""
        terminal = self._terminal
        modes = ["never", "ask", "read-only"]
        if not wanted:
            now = text(cast("Record", await terminal.connection.client.get_state()), "toolApproval")
            choice = await ask(
                terminal.app, Picker("Tool approval", modes, current=modes.index(now) if now in modes else 0)
            )
            if choice is None:
                return
            wanted = modes[choice.index]
        await terminal.connection.client.request("set_tool_approval", mode=wanted)
        await self._session.refresh()

    async def queue(self, _: str) -> None:
        """Edit, move or remove one of the queued messages."""
        terminal, place = self._terminal, 0
        actions = {"ctrl+r": "remove", "ctrl+up": "up", "ctrl+down": "down"}
        hint = "Enter: edit · Ctrl+Up, Ctrl+Down: move · Ctrl+R: remove"
        while True:
            try:
                messages = await queued(terminal.connection.client)
            except HasPictures as problem:
                terminal.reports.show(str(problem), "error")
                return
            if not messages:
                terminal.reports.show("no message is queued")
                return
            rows = [f"{'steering' if each.kind == 'steer' else 'follow-up'}: {each.text}" for each in messages]
            place = min(place, len(rows) - 1)
            choice = await ask(terminal.app, Picker("Queued messages", rows, current=place, actions=actions, hint=hint))
            if choice is None:
                return
            place = choice.index
            change = await self._queue_change(messages[place], choice.action)
            if change is None:
                continue
            terminal.editor.give_back(await change_queue(terminal.connection.client, change))
            chosen = messages[place].identity
            place = next((row for row, each in enumerate(change(messages)) if each.identity == chosen), place)

    async def _queue_change(self, message: Queued, action: str) -> Change | None:
        match action:
            case "remove":
                return without(message.identity)
            case "up" | "down":
                return moved(message.identity, -1 if action == "up" else 1)
            case _:
                wanted = await ask(self._terminal.app, EditorDialog("Queued message", message.text))
                return None if wanted is None else with_text(message.identity, wanted) if wanted.strip() else None

    # --- sessions --------------------------------------------------------------------------------------------------

    async def new(self, _: str) -> None:
        """Start a new session."""
        await self._replace(cast("Record", await self._terminal.connection.client.new_session()))

    async def resume(self, _: str) -> None:
        """Open another session, from the list of this folder's; Ctrl+A lists all."""
        terminal, is_all = self._terminal, False
        while True:
            sessions = await self._sessions(is_all=is_all)
            if not sessions and not is_all:
                is_all = True
                continue
            if not sessions:
                terminal.reports.show("there is no session yet")
                return
            hint = "Enter: open" if is_all else "Enter: open · Ctrl+A: sessions of all folders"
            rows = [session_row(each, with_folder=is_all) for each in sessions]
            choice = await ask(terminal.app, Picker("Sessions", rows, actions={"ctrl+a": "all"}, hint=hint))
            if choice is None:
                return
            if choice.action == "all":
                is_all = True
                continue
            path = text(sessions[choice.index], "path")
            await self._replace(cast("Record", await terminal.connection.client.switch_session(path)))
            return

    async def _sessions(self, *, is_all: bool) -> list[Record]:
        found: list[Record] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self._terminal.connection.client.list_sessions(
                all=True if is_all else None, cursor=cursor, limit=_SESSIONS_A_PAGE
            )
            found += cast("list[Record]", page["sessions"])
            cursor = page.get("nextCursor")
            if cursor is None:
                break
        return found

    async def name(self, wanted: str) -> None:
        """Name the session."""
        terminal = self._terminal
        if not wanted:
            now = text(cast("Record", await terminal.connection.client.get_state()), "sessionName")
            answer = await ask(terminal.app, InputDialog("Name of the session", value=now))
            if not answer:
                return
            wanted = answer
        await terminal.connection.client.set_session_name(wanted)
        await self._session.refresh()

    async def session(self, _: str) -> None:
        """Show the session's file and counts, and what a prompt cache gave and missed."""
        stats = cast("Record", await self._terminal.connection.client.get_session_stats())
        lines = [text(stats, "sessionFile") or "not in a file", count_line(stats), *cache_lines(stats)]
        self._terminal.transcript.notice("\n".join(lines))

    async def tree(self, _: str) -> None:
        """Continue from another entry; or fork before it, or label it."""
        terminal = self._terminal
        while True:
            tree = await terminal.connection.client.get_tree()
            rows = tree_rows(cast("list[Record]", tree["tree"]), tree["leafId"])
            if not rows:
                terminal.reports.show("the session has no entries yet")
                return
            ids = [identity for identity, _, _ in rows]
            current = ids.index(leaf) if (leaf := tree["leafId"]) in ids else len(ids) - 1
            choice = await ask(
                terminal.app,
                Picker(
                    "Session",
                    [row for _, row, _ in rows],
                    current=current,
                    actions={"ctrl+l": "label", "ctrl+f": "fork", "ctrl+s": "summarize"},
                    hint="Enter: continue here · Ctrl+S: with a summary of the rest · Ctrl+F: fork · Ctrl+L: label",
                ),
            )
            if choice is None:
                return
            identity, _, label = rows[choice.index]
            if choice.action == "label":
                wanted = await ask(terminal.app, InputDialog("Label, or nothing to remove it", value=label))
                if wanted is not None:
                    await terminal.connection.client.set_label(identity, label=wanted or None)
                continue
            if choice.action == "fork":
                await self._fork(identity)
                return
            moved = await terminal.connection.client.navigate_tree(
                identity, summarize=choice.action == "summarize" or None
            )
            if not moved["cancelled"]:
                await self._session.follow(None, moved.get("leafId"))
                if content := moved.get("editorText"):
                    terminal.editor.put(content)
            return

    async def fork(self, _: str) -> None:
        """Start a session from before a message of the user."""
        terminal = self._terminal
        messages = (await terminal.connection.client.get_fork_messages())["messages"]
        rows = [message["text"] for message in messages]
        if not rows:
            terminal.reports.show("there is no message to fork before")
            return
        choice = await ask(terminal.app, Picker("Fork before", rows, current=len(rows) - 1))
        if choice is not None:
            await self._fork(messages[choice.index]["entryId"])

    async def _fork(self, entry: str) -> None:
        forked = await self._terminal.connection.client.fork(entry)
        await self._replace(cast("Record", forked))
        if not forked["cancelled"]:
            self._terminal.editor.put(forked["text"])

    async def clone(self, _: str) -> None:
        """Continue in a copy of the session."""
        await self._replace(cast("Record", await self._terminal.connection.client.clone()))

    async def compact(self, instructions: str) -> None:
        """Summarise the conversation; events report the outcome."""
        await self._terminal.connection.client.compact(custom_instructions=instructions or None)
        await self._session.refresh()

    async def export(self, path: str) -> None:
        """Write the session as a page."""
        written = await self._terminal.connection.client.export_html(output_path=path or None)
        self._terminal.transcript.notice(f"written: {written['path']}")

    async def _replace(self, answer: Record) -> None:
        """Take another session, and what was queued in the last one."""
        if answer.get("cancelled") is True:
            self._terminal.reports.show("an extension has kept the session", "warning")
            return
        await self._session.refresh()
        cleared = mapping(answer, "cleared")
        self._terminal.editor.give_back(queued_texts(cleared))

    # --- the client ------------------------------------------------------------------------------------------------

    async def copy(self, _: str) -> None:
        """Copy the last answer."""
        answer = (await self._terminal.connection.client.get_last_assistant_text())["text"]
        if answer:
            self._terminal.app.copy_to_clipboard(answer)
        self._terminal.reports.show("copied" if answer else "there is no answer yet")

    async def find_words(self, words: str) -> None:
        """Search the conversation."""
        self._terminal.search.open(words)

    async def reload(self, _: str) -> None:
        """Let the agent read its files again."""
        await self._terminal.connection.client.reload()
        await self._session.reload()

    async def warnings(self, _: str) -> None:
        """Show what the agent warns of, and what to do."""
        state = cast("Record", await self._terminal.connection.client.get_state())
        lines = [warning_line(warning) for warning in objects(state, "warnings")]
        self._terminal.transcript.notice("\n".join(lines) or "there are no warnings", "warning" if lines else "info")

    async def settings(self, _: str) -> None:
        """Change one of the settings that the protocol changes, again and again."""
        terminal, place = self._terminal, 0
        while True:
            client, state = terminal.connection.client, cast("Record", await terminal.connection.client.get_state())
            compacts = state.get("autoCompactionEnabled") is True
            steering, follow_up = (_other_mode(text(state, name)) for name in ("steeringMode", "followUpMode"))
            settings: list[tuple[str, str, Callable[[], Awaitable[object]]]] = [
                ("Model", text(mapping(state, "model"), "id"), lambda: self.model("")),
                ("Thinking level", text(state, "thinkingLevel"), lambda: self.thinking("")),
                ("Tool approval", text(state, "toolApproval"), lambda: self.approval("")),
                (
                    "Compact by itself",
                    "yes" if compacts else "no",
                    partial(client.request, "set_auto_compaction", enabled=not compacts),
                ),
                (
                    "Steering messages",
                    text(state, "steeringMode"),
                    partial(client.request, "set_steering_mode", mode=steering),
                ),
                (
                    "Follow-ups",
                    text(state, "followUpMode"),
                    partial(client.request, "set_follow_up_mode", mode=follow_up),
                ),
                ("Theme", "", lambda: self.theme("")),
            ]
            rows = [f"{name}: {value}" if value else name for name, value, _ in settings]
            hint = "Enter: change · other settings: settings.json, then /reload"
            choice = await ask(terminal.app, Picker("Settings", rows, current=place, hint=hint))
            if choice is None:
                return
            place = choice.index
            await settings[place][2]()
            await self._session.refresh()

    async def theme(self, wanted: str) -> None:
        """Select a theme."""
        terminal = self._terminal
        names = terminal.looks.names()
        if not wanted:
            choice = await ask(terminal.app, Picker("Theme", names))
            if choice is None:
                return
            wanted = names[choice.index]
        if not terminal.looks.use(wanted):
            terminal.reports.show(f"no theme {wanted}; there are {', '.join(names)}", "error")

    async def hotkeys(self, _: str) -> None:
        """Show the keys."""
        hint = "keybindings.json in the agent folder changes them, by the names in brackets"
        await ask(self._terminal.app, Picker("Keys", self._terminal.keys.table(), hint=hint))

    async def quit(self, _: str) -> None:
        """End the client."""
        await self._terminal.leave()


def _other_mode(mode: str) -> str:
    return "all" if mode == "one-at-a-time" else "one-at-a-time"
