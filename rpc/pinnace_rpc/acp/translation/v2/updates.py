"""What a session shows as updates of version 2.

Everything is an upsert by its id: what the client does not know yet is created, fields that are absent stay, and chunks
add to what is there. Messages that stream are chunks, and complete ones are whole; commands have terminals.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_rpc.acp.translation import tool_calls
from pinnace_rpc.acp.translation.parts import (
    RETRYING,
    child_state,
    chunk,
    compaction_end,
    details,
    info,
    notice,
    untitled,
    usage,
)
from pinnace_rpc.acp.translation.shown import (
    Call,
    CallAnnounced,
    CallDescribed,
    CallEnded,
    CallFailed,
    CallProgressed,
    CallReplayed,
    ChildWorks,
    CommandsChanged,
    CompactionBegan,
    CompactionEnded,
    DetailsChanged,
    InfoChanged,
    Json,
    ModeChanged,
    Noticed,
    OptionsChanged,
    PlanChanged,
    Remarked,
    Retried,
    Said,
    ShellReplayed,
    Shown,
    SummaryReplayed,
    TitleCleared,
    Update,
    UsageChanged,
    UserMessage,
)
from pinnace_rpc.acp.translation.v2.diffs import diff, intended
from pinnace_rpc.acp.translation.v2.options import commands, options
from pinnace_rpc.acp.translation.v2.terminals import (
    EndedCommand,
    Terminals,
    anchor,
    ended_command,
    replayed,
    text_of,
)

_COMMAND: Final = "bash"
_CONTROLS: Final[Json] = {"cancel": {}}
_MESSAGES: Final = {"message": "agent_message", "thought": "agent_thought"}
_CHUNKS: Final = {"message": "agent_message_chunk", "thought": "agent_thought_chunk"}
_SUMMARIES: Final = {"compaction": "Compaction", "branch": "Branch summary"}


class Updates:
    """The updates of one session."""

    def __init__(self, cwd: str) -> None:
        """Begin before the first, for a session in the folder `cwd`."""
        self._cwd = cwd
        self._entries: dict[str, str] = {}
        """The entry of the last message of each kind that the client has."""
        self._blocks: dict[str, list[Json]] = {}
        """The blocks of it, if it is shown whole."""
        self._outputs: dict[str, str] = {}
        """What the client has of the output of calls that are no commands."""
        self._terminals = Terminals()
        # Any: each takes the type that it stands for.
        self._by_type: Final[Mapping[type, Callable[[Any], Iterator[Update]]]] = {
            Said: self._said,
            UserMessage: self._user_message,
            CallAnnounced: self._announced,
            CallDescribed: self._described,
            CallProgressed: self._progressed,
            CallEnded: self._ended,
            CallFailed: self._failed,
            CallReplayed: self._replayed,
            ShellReplayed: self._shell,
            CompactionBegan: self._compacting,
            CompactionEnded: lambda shown: iter((compaction_end(shown),)),
            SummaryReplayed: self._summary,
            Retried: self._retried,
            InfoChanged: lambda shown: iter((info(shown),)),
            TitleCleared: lambda shown: iter((untitled(),)),
            DetailsChanged: lambda shown: iter((details(shown.details),)),
            OptionsChanged: self._options,
            ModeChanged: lambda shown: iter(()),  # an option shows it
            CommandsChanged: self._commands,
            UsageChanged: lambda shown: iter((usage(shown),)),
            Noticed: lambda shown: iter((notice(shown),)),
            Remarked: lambda shown: iter((notice(Noticed("info", shown.text)),)),
            PlanChanged: self._plan,
            ChildWorks: lambda shown: iter(({"sessionUpdate": "state_update", **child_state(shown.state)},)),
        }

    def of(self, shown: Shown) -> Iterator[Update]:
        """Yield the updates for what a session shows; most things have one."""
        return self._by_type[type(shown)](shown)

    # Messages.

    def _said(self, said: Said) -> Iterator[Update]:
        is_first = self._entries.get(said.kind) != said.entry
        self._entries[said.kind] = said.entry
        if not said.is_whole:
            self._blocks.pop(said.kind, None)
            yield chunk(_CHUNKS[said.kind], said.entry, said.text)
            return
        if is_first:
            self._blocks[said.kind] = []
        blocks = self._blocks.setdefault(said.kind, [])
        blocks.append({"type": "text", "text": said.text})
        update: Update = {"sessionUpdate": _MESSAGES[said.kind], "messageId": said.entry, "content": [*blocks]}
        if said.custom_type is not None:
            update["_meta"] = {"pinnace": {"customType": said.custom_type}}
        yield update

    def _user_message(self, message: UserMessage) -> Iterator[Update]:
        content = [_with_uri(block) for block in message.blocks]
        yield {"sessionUpdate": "user_message", "messageId": message.entry, "content": content}

    # Calls.

    def _announced(self, shown: CallAnnounced) -> Iterator[Update]:
        yield {**_of(shown.call), **tool_calls.announced(shown.call.tool)}

    def _described(self, shown: CallDescribed) -> Iterator[Update]:
        yield {**_of(shown.call), "name": shown.call.tool, **self.described(shown.call)}

    def described(self, call: Call) -> Update:
        """Return the fields of a call that follow from its arguments."""
        fields = tool_calls.described(call.tool, call.arguments, self._cwd)
        if content := intended(call.tool, call.arguments, self._cwd):
            fields["content"] = content
        return fields

    def _progressed(self, shown: CallProgressed) -> Iterator[Update]:
        call = shown.call
        update = _of(call)
        if shown.has_begun:
            update |= {"status": "in_progress", "capabilities": _CONTROLS}
            if call.tool == _COMMAND:
                yield self._terminals.begin(call.id, str(call.arguments.get("command", "")), self._cwd)
                update["content"] = [anchor(call.id)]
            yield update
        if shown.content is None:
            return
        if call.id in self._terminals:
            if (written := self._terminals.write(call.id, text_of(shown.content))) is not None:
                yield written
        else:
            yield from self._written(call, shown.content)

    def _written(self, call: Call, content: object) -> Iterator[Update]:
        """Yield the output so far of a call that is no command: what is new, if it only has become longer."""
        former, text = self._outputs.get(call.id), text_of(content)
        is_text = len(as_array(content)) == 1 and bool(text)
        if is_text:
            self._outputs[call.id] = text
        else:
            self._outputs.pop(call.id, None)
        if is_text and former is not None and text.startswith(former):
            if more := text[len(former) :]:
                (item,) = tool_calls.text_content(tool_calls.fenced(more))
                yield {"sessionUpdate": "tool_call_content_chunk", "toolCallId": call.id, "content": item}
        elif shown := tool_calls.output(content):
            yield {**_of(call), "content": shown}

    def _ended(self, shown: CallEnded) -> Iterator[Update]:
        call = shown.call
        self._outputs.pop(call.id, None)
        command = ended_command(shown.result, call.status) if call.tool == _COMMAND else None
        if call.id in self._terminals:
            yield self._terminals.end(call.id, command)
        elif command is not None:
            yield replayed(call.id, str(call.arguments.get("command", "")), self._cwd, command)
        yield {**_of(call), **self._outcome(call, shown.result, command), "capabilities": None}

    def _outcome(self, call: Call, result: Json, command: EndedCommand | None) -> Update:
        change = diff(call.tool, call.arguments, result, self._cwd) if call.status == "completed" else None
        if command is not None:
            content: list[Json] = [anchor(call.id)]
        elif change is not None:
            content = [change]
        else:
            content = [*tool_calls.output(result.get("content"))]
        fields = tool_calls.finished(call.tool, call.arguments, result, self._cwd)
        return {"status": call.status, "content": content, **fields}

    def _failed(self, shown: CallFailed) -> Iterator[Update]:
        call = shown.call
        if call.id in self._terminals:
            yield self._terminals.end(call.id, None)
        # What it was going to change, it has not.
        update: Update = {**_of(call), "status": call.status, "capabilities": None}
        if intended(call.tool, call.arguments, self._cwd):
            update["content"] = []
        yield update

    def _replayed(self, shown: CallReplayed) -> Iterator[Update]:
        call, result = shown.call, shown.result
        update = {**_of(call), **tool_calls.announced(call.tool), "status": call.status}
        update |= tool_calls.described(call.tool, call.arguments, self._cwd)
        terminal: Update | None = None
        command = str(call.arguments.get("command", ""))
        if call.status == "in_progress":
            update |= {"capabilities": _CONTROLS, "content": intended(call.tool, call.arguments, self._cwd)}
            if call.tool == _COMMAND:
                terminal = self._terminals.begin(call.id, command, self._cwd)
                update["content"] = [anchor(call.id)]
        elif result is not None:
            ended = ended_command(result, call.status) if call.tool == _COMMAND else None
            if ended is not None:
                terminal = replayed(call.id, command, self._cwd, ended)
            update |= self._outcome(call, result, ended)
        yield update
        if terminal is not None:
            yield terminal

    def _shell(self, shown: ShellReplayed) -> Iterator[Update]:
        yield {
            "sessionUpdate": "tool_call_update",
            "toolCallId": shown.entry,
            **tool_calls.announced(_COMMAND),
            **tool_calls.described(_COMMAND, {"command": shown.command}, self._cwd),
            "status": "failed" if shown.has_failed else "completed",
            "content": [anchor(shown.entry)],
        }
        exit_status = {} if shown.exit_code is None else {"exitCode": shown.exit_code}
        yield replayed(shown.entry, shown.command, self._cwd, EndedCommand(shown.output, exit_status))

    # Compactions and retries.

    def _compacting(self, shown: CompactionBegan) -> Iterator[Update]:
        yield {"sessionUpdate": "compaction_update", "compactionId": shown.entry, "status": "in_progress"}

    def _summary(self, shown: SummaryReplayed) -> Iterator[Update]:
        if shown.of == "compaction":
            yield compaction_end(CompactionEnded(shown.entry, shown.summary, None))
            return
        yield {
            "sessionUpdate": "tool_call_update",
            "toolCallId": shown.entry,
            "title": _SUMMARIES[shown.of],
            "kind": "think",
            "status": "completed",
            "content": tool_calls.text_content(shown.summary),
        }

    def _retried(self, shown: Retried) -> Iterator[Update]:
        # The failed answer is no part of the conversation any more, and is not replayed.
        for kind, entry in self._entries.items():
            if entry == shown.entry:
                yield {"sessionUpdate": _MESSAGES[kind], "messageId": entry, "content": []}
        yield notice(Noticed("warning", RETRYING, shown.error))

    # The session.

    def _options(self, shown: OptionsChanged) -> Iterator[Update]:
        yield {"sessionUpdate": "config_option_update", "configOptions": options(shown.options)}

    def _commands(self, shown: CommandsChanged) -> Iterator[Update]:
        yield {"sessionUpdate": "available_commands_update", "availableCommands": commands(shown.commands)}

    def _plan(self, shown: PlanChanged) -> Iterator[Update]:
        plan = {"type": "items", "planId": shown.id, "entries": shown.entries}
        yield {"sessionUpdate": "plan_update", "plan": plan}


def _of(call: Call) -> Update:
    return {"sessionUpdate": "tool_call_update", "toolCallId": call.id}


def _with_uri(block: Json) -> Json:
    """Return a content block whose resource is named by an address: entries of other programs have paths."""
    resource = as_object(block.get("resource"))
    name = None if resource is None else resource.get("uri")
    if resource is None or not isinstance(name, str) or ":" in name.partition("/")[0]:
        return block
    return {**block, "resource": {**resource, "uri": f"file://{quote(name)}" if name.startswith("/") else quote(name)}}
