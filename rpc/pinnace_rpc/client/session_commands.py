"""The commands about sessions and models, and reads, as typed methods. For the errors see `commands`."""

from typing import cast

from pinnace_rpc.client.answers import data_of, optional_data
from pinnace_rpc.client.commands import WorkCommands
from pinnace_rpc.client.records import replies
from pinnace_spec.records.messages import ApprovalMode, Model, ThinkingLevel


class Commands(WorkCommands):
    """Every command of the published protocol, of the later generations, and of pinnace."""

    async def new_session(self, *, parent_session: str | None = None) -> replies.Replaced:
        """Start a new session."""
        data = await self.request("new_session", parentSession=parent_session)
        return cast("replies.Replaced", data_of("new_session", data))

    async def switch_session(self, session_path: str) -> replies.Replaced:
        """Open another session file."""
        data = await self.request("switch_session", sessionPath=session_path)
        return cast("replies.Replaced", data_of("switch_session", data))

    async def fork(self, entry_id: str) -> replies.Forked:
        """Start a session from before a user's message."""
        data = await self.request("fork", entryId=entry_id)
        return cast("replies.Forked", data_of("fork", data))

    async def clone(self) -> replies.Replaced:
        """Continue in a copy of the session."""
        data = await self.request("clone")
        return cast("replies.Replaced", data_of("clone", data))

    async def set_session_name(self, name: str) -> None:
        """Name the session."""
        await self.request("set_session_name", name=name)

    async def set_tool_approval(self, mode: ApprovalMode) -> None:
        """Choose which tool calls need the user's approval, from the next call on."""
        await self.request("set_tool_approval", mode=mode)

    async def reload(self) -> None:
        """Let the agent read settings, models, keys, resources and extensions again; the session stays."""
        await self.request("reload")

    async def set_label(self, entry_id: str, label: str | None = None) -> None:
        """Label an entry, or remove its label."""
        await self.request("set_label", entryId=entry_id, label=label)

    async def navigate_tree(
        self, entry_id: str | None, *, summarize: bool | None = None, instructions: str | None = None
    ) -> replies.Navigation:
        """Continue the session from another entry, None: from before the first; with a summary of what is left."""
        data = await self.request("navigate_tree", entryId=entry_id, summarize=summarize, instructions=instructions)
        return cast("replies.Navigation", data_of("navigate_tree", data))

    async def list_sessions(
        self, *, cwd: str | None = None, all: bool | None = None, cursor: str | None = None, limit: int | None = None
    ) -> replies.Sessions:
        """Read a page of the saved sessions, those that were written to last first."""
        data = await self.request("list_sessions", cwd=cwd, all=all, cursor=cursor, limit=limit)
        return cast("replies.Sessions", data_of("list_sessions", data))

    async def export_html(self, *, output_path: str | None = None) -> replies.Path:
        """Write the session as a page."""
        data = await self.request("export_html", outputPath=output_path)
        return cast("replies.Path", data_of("export_html", data))

    async def get_state(self) -> replies.State:
        """Read the state of the agent: its work, its settings and its queues."""
        data = await self.request("get_state")
        return cast("replies.State", data_of("get_state", data))

    async def get_messages(self) -> replies.Messages:
        """Read all messages of the context."""
        data = await self.request("get_messages")
        return cast("replies.Messages", data_of("get_messages", data))

    async def get_last_assistant_text(self) -> replies.LastText:
        """Read the text of the newest answer."""
        data = await self.request("get_last_assistant_text")
        return cast("replies.LastText", data_of("get_last_assistant_text", data))

    async def get_session_stats(self) -> replies.Stats:
        """Read the tokens and the cost of the session."""
        data = await self.request("get_session_stats")
        return cast("replies.Stats", data_of("get_session_stats", data))

    async def get_fork_messages(self) -> replies.ForkMessages:
        """Read the messages from which the session can be forked."""
        data = await self.request("get_fork_messages")
        return cast("replies.ForkMessages", data_of("get_fork_messages", data))

    async def get_commands(self) -> replies.Commands:
        """Read the commands that a prompt can name after a slash."""
        data = await self.request("get_commands")
        return cast("replies.Commands", data_of("get_commands", data))

    async def get_queue(self, *, returned: bool | None = None) -> replies.Queue:
        """Read the queued messages; `returned`: also those that were returned to clients."""
        data = await self.request("get_queue", returned=returned)
        return cast("replies.Queue", data_of("get_queue", data))

    async def get_tools(self) -> replies.Tools:
        """Read every tool, and which are active."""
        data = await self.request("get_tools")
        return cast("replies.Tools", data_of("get_tools", data))

    async def set_active_tools(self, names: list[str]) -> None:
        """Select the tools that the next request declares."""
        await self.request("set_active_tools", names=names)

    async def get_entries(self, *, since: str | None = None) -> replies.Entries:
        """Read the session's entries, or those after one of them."""
        data = await self.request("get_entries", since=since)
        return cast("replies.Entries", data_of("get_entries", data))

    async def get_tree(self) -> replies.Tree:
        """Read the session as a tree."""
        data = await self.request("get_tree")
        return cast("replies.Tree", data_of("get_tree", data))

    async def get_available_models(self) -> replies.Models:
        """Read every model that can be selected."""
        data = await self.request("get_available_models")
        return cast("replies.Models", data_of("get_available_models", data))

    async def set_model(self, provider: str, model_id: str) -> Model:
        """Select a model."""
        data = await self.request("set_model", provider=provider, modelId=model_id)
        return cast("Model", data_of("set_model", data))

    async def cycle_model(self) -> replies.CycledModel | None:
        """Select the next model; None if there is no other."""
        data = await self.request("cycle_model")
        return cast("replies.CycledModel | None", optional_data(data))

    async def get_available_thinking_levels(self) -> replies.Levels:
        """Read the levels of the current model."""
        data = await self.request("get_available_thinking_levels")
        return cast("replies.Levels", data_of("get_available_thinking_levels", data))

    async def set_thinking_level(self, level: ThinkingLevel) -> None:
        """Select a thinking level."""
        await self.request("set_thinking_level", level=level)

    async def cycle_thinking_level(self) -> replies.Level | None:
        """Select the next level; None if the model has no other."""
        data = await self.request("cycle_thinking_level")
        return cast("replies.Level | None", optional_data(data))
