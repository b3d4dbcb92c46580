"""What a session shows as updates of version 1.

A call is announced by `tool_call` and changed by `tool_call_update`, and has the diff of an edit in its content. What
the client has no capability for is shown by other means: a compaction as a call, a retry in `_meta`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pinnace_rpc.acp.translation import tool_calls
from pinnace_rpc.acp.translation.abilities import Abilities
from pinnace_rpc.acp.translation.parts import RETRYING, chunk, compaction_end, details, info, notice, untitled, usage
from pinnace_rpc.acp.translation.shown import (
    Call,
    CallAnnounced,
    CallDescribed,
    CallEnded,
    CallFailed,
    CallProgressed,
    CallReplayed,
    ChildWorks,
    Command,
    CommandsChanged,
    CompactionBegan,
    CompactionEnded,
    DetailsChanged,
    InfoChanged,
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
from pinnace_rpc.acp.translation.v1.diffs import diffs

_KINDS: Final = {"message": "agent_message_chunk", "thought": "agent_thought_chunk"}
_SUMMARIES: Final = {"compaction": "Compaction", "branch": "Branch summary"}


class Updates:
    """The updates of one session."""

    def __init__(self, cwd: str, abilities: Abilities) -> None:
        """Begin before the first.

        Args:
            cwd: The folder of the session.
            abilities: Of the client.
        """
        self._cwd = cwd
        self._abilities = abilities
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
            CompactionEnded: self._compacted,
            SummaryReplayed: self._summary,
            Retried: self._retried,
            InfoChanged: lambda shown: iter((info(shown),)),
            TitleCleared: lambda shown: iter((untitled(),)),
            DetailsChanged: lambda shown: iter((details(shown.details),)),
            OptionsChanged: self._options,
            ModeChanged: self._mode,
            CommandsChanged: self._commands,
            UsageChanged: self._usage,
            Noticed: self._noticed,
            Remarked: lambda shown: iter((_remark(shown.text),)),
            PlanChanged: self._plan,
            ChildWorks: lambda shown: iter(()),  # the session that has started it shows it
        }

    def of(self, shown: Shown) -> Iterator[Update]:
        """Yield the updates for what a session shows; most things have one."""
        return self._by_type[type(shown)](shown)

    # Messages.

    def _said(self, said: Said) -> Iterator[Update]:
        update = chunk(_KINDS[said.kind], said.entry, said.text)
        if said.custom_type is not None:
            update["_meta"] = {"pinnace": {"customType": said.custom_type}}
        yield update

    def _user_message(self, message: UserMessage) -> Iterator[Update]:
        if not message.is_own:  # a client shows the prompt itself
            for block in message.blocks:
                yield {"sessionUpdate": "user_message_chunk", "messageId": message.entry, "content": block}

    # Calls.

    def _announced(self, shown: CallAnnounced) -> Iterator[Update]:
        call = shown.call
        yield {"sessionUpdate": "tool_call", "toolCallId": call.id, **tool_calls.announced(call.tool)}

    def _described(self, shown: CallDescribed) -> Iterator[Update]:
        yield {**_of(shown.call), "name": shown.call.tool, **self.described(shown.call)}

    def described(self, call: Call) -> Update:
        """Return the fields of a call that follow from its arguments."""
        fields = tool_calls.described(call.tool, call.arguments, self._cwd)
        if edits := list(diffs(call.tool, call.arguments, {}, self._cwd)):
            fields["content"] = edits
        return fields

    def _progressed(self, shown: CallProgressed) -> Iterator[Update]:
        update = _of(shown.call)
        if shown.has_begun:
            update["status"] = "in_progress"
        if content := tool_calls.output(shown.content):
            update["content"] = content
        if len(update) > len(_of(shown.call)):
            yield update

    def _ended(self, shown: CallEnded) -> Iterator[Update]:
        call = shown.call
        is_error = call.status != "completed"
        fields = tool_calls.finished(call.tool, call.arguments, shown.result, self._cwd)
        edits = [] if is_error else list(diffs(call.tool, call.arguments, shown.result, self._cwd))
        status = "failed" if is_error else "completed"
        yield {**_of(call), "status": status, "content": edits or tool_calls.output(shown.result["content"]), **fields}

    def _failed(self, shown: CallFailed) -> Iterator[Update]:
        yield {**_of(shown.call), "status": "failed"}

    def _replayed(self, shown: CallReplayed) -> Iterator[Update]:
        for update in self._announced(CallAnnounced(shown.call)):
            update |= self.described(shown.call)
            if shown.result is not None:
                for ended in self._ended(CallEnded(shown.call, shown.result)):
                    update |= {name: value for name, value in ended.items() if name not in _of(shown.call)}
            elif shown.call.status != "pending":
                update["status"] = "in_progress" if shown.call.status == "in_progress" else "failed"
            yield update

    def _shell(self, shown: ShellReplayed) -> Iterator[Update]:
        arguments = {"command": shown.command}
        update: Update = {"sessionUpdate": "tool_call", "toolCallId": shown.entry, **tool_calls.announced("bash")}
        update["title"] = tool_calls.title("bash", arguments, "/")
        update["rawInput"] = arguments
        update["status"] = "failed" if shown.has_failed else "completed"
        if shown.output:
            update["content"] = tool_calls.text_content(tool_calls.fenced(shown.output))
        yield update

    # Compactions and retries.

    def _compacting(self, shown: CompactionBegan) -> Iterator[Update]:
        if self._abilities.compactions:
            yield {"sessionUpdate": "compaction_update", "compactionId": shown.entry, "status": "in_progress"}
        else:
            yield {**_think(shown.entry, "Compaction"), "status": "in_progress"}

    def _compacted(self, shown: CompactionEnded) -> Iterator[Update]:
        if self._abilities.compactions:
            yield compaction_end(shown)
            return
        update: Update = {"sessionUpdate": "tool_call_update", "toolCallId": shown.entry}
        update["status"] = "failed" if shown.summary is None else "completed"
        if said := shown.summary if shown.summary is not None else shown.error:
            update["content"] = tool_calls.text_content(said)
        yield update

    def _summary(self, shown: SummaryReplayed) -> Iterator[Update]:
        if shown.of == "compaction" and self._abilities.compactions:
            yield compaction_end(CompactionEnded(shown.entry, shown.summary, None))
        else:
            content = tool_calls.text_content(shown.summary)
            yield {**_think(shown.entry, _SUMMARIES[shown.of]), "status": "completed", "content": content}

    def _retried(self, shown: Retried) -> Iterator[Update]:
        if self._abilities.notices:
            yield notice(Noticed("warning", RETRYING, shown.error))
        else:
            yield details({"retry": shown.details})

    # The session.

    def _options(self, shown: OptionsChanged) -> Iterator[Update]:
        yield {"sessionUpdate": "config_option_update", "configOptions": shown.options}

    def _mode(self, shown: ModeChanged) -> Iterator[Update]:
        yield {"sessionUpdate": "current_mode_update", "currentModeId": shown.mode}

    def _commands(self, shown: CommandsChanged) -> Iterator[Update]:
        commands = [_command(each) for each in shown.commands]
        yield {"sessionUpdate": "available_commands_update", "availableCommands": commands}

    def _usage(self, shown: UsageChanged) -> Iterator[Update]:
        yield usage(shown)

    def _noticed(self, shown: Noticed) -> Iterator[Update]:
        if self._abilities.notices:
            yield notice(shown)
        else:
            yield _remark("\n".join(text for text in (shown.title, shown.description) if text))

    def _plan(self, shown: PlanChanged) -> Iterator[Update]:
        # This version has no word for what is cancelled.
        entries = [each for each in shown.entries if each["status"] != "cancelled"]
        if self._abilities.plans:
            yield {"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": shown.id, "entries": entries}}
        else:
            yield {"sessionUpdate": "plan", "entries": entries}


def _of(call: Call) -> Update:
    return {"sessionUpdate": "tool_call_update", "toolCallId": call.id}


def _remark(text: str) -> Update:
    content = {"type": "text", "text": text}
    return {"sessionUpdate": "agent_message_chunk", "content": content, "_meta": {"pinnace": {"notice": True}}}


def _think(identity: str, title: str) -> Update:
    return {"sessionUpdate": "tool_call", "toolCallId": identity, "title": title, "kind": "think"}


def _command(command: Command) -> Update:
    described: Update = {"name": command.name, "description": command.description}
    return {**described, "input": {"hint": command.hint}} if command.hint else described
