"""One session: a client's requests on one side, an agent's process on the other.

Everything that the agent reports is translated in the callback of its record, so the order of updates is the order of
records, and what precedes the end of a run precedes the end of its turn. Updates are held until the client knows the
session, with the beginnings and ends of work among them. Must not know other sessions, nor how a version of the
protocol writes anything.
"""

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, cast

import trio

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_rpc.acp.client_files import ClientFiles
from pinnace_rpc.acp.core import CoreEnded, EditorAgent, Record
from pinnace_rpc.acp.dialogs import OpenDialogs
from pinnace_rpc.acp.figures import Figures, data_of, read_settings
from pinnace_rpc.acp.outbox import Outbox
from pinnace_rpc.acp.stored_children import read_children
from pinnace_rpc.acp.translation.children import Addressed, ChildReplayed, ChildSessions, StoredChild, with_children
from pinnace_rpc.acp.translation.jsonrpc import INTERNAL_ERROR, RequestError
from pinnace_rpc.acp.translation.mcp_servers import UNUSED, McpServers
from pinnace_rpc.acp.translation.options import EditorOptions, ReportedSettings, mode_change
from pinnace_rpc.acp.translation.params import Params
from pinnace_rpc.acp.translation.prompts import first_text
from pinnace_rpc.acp.translation.replay import active_branch, last_answer, replay, tail
from pinnace_rpc.acp.translation.shown import (
    CallReplayed,
    DetailsChanged,
    InfoChanged,
    Json,
    Noticed,
    Severity,
    Shown,
    Update,
)
from pinnace_rpc.acp.translation.stop_reasons import TurnResult
from pinnace_rpc.acp.translation.titles import session_title
from pinnace_rpc.acp.translation.translator import Translator
from pinnace_rpc.acp.translation.version import Client, OpenedSession
from pinnace_rpc.acp.work import Work
from pinnace_spec.records.messages import DIALOG_METHODS

_log: Final = logging.getLogger("pinnace.acp")

_PROTOCOLS: Final = frozenset({"pi", "1.5"})
"""Those whose records have all that the client is shown."""
_NO_ENTRY: Final = "-"
_SERVERS_S: Final = 3.0
"""How long the opening of a session waits for the servers of its client; they go on connecting behind it."""
_SEVERITIES: Final[dict[object, Severity]] = {"info": "info", "warning": "warning", "error": "error"}


class _Held(NamedTuple):
    """What waits until the client knows the session."""

    act: Callable[[], None]
    is_conversation: bool = False
    """It shows a part of the conversation, which a replay shows, too."""


class Session:
    """A session that is open on this connection."""

    def __init__(
        self,
        core: EditorAgent,
        cwd: str,
        outbox: Outbox,
        client: Client,
        settings: ReportedSettings,
        nursery: trio.Nursery,
        files: set[ClientFiles],
    ) -> None:
        """Take an agent that has reported its settings; `open_session` does this."""
        self._nursery = nursery
        self.id = str(settings.state["sessionId"])
        self.cwd = cwd
        self.core = core
        self._outbox = outbox
        translation, self._abilities = client
        self._translation = translation
        self._translator = Translator()
        self._updates = translation.updates(cwd, self._abilities)
        self._lifecycle = translation.lifecycle(outbox, self._emit, self._abilities)
        self._dialogs = OpenDialogs(
            self.id,
            cwd,
            outbox,
            core.post,
            self._emit,
            self._note_waiting,
            self._announce_question,
            client,
        )
        self._files = ClientFiles(self.id, outbox, core.post, files)
        self._held: list[_Held] | None = []
        """What is done once the client knows the session, in this order; None: it does."""
        self._children = ChildSessions(self.id, client, self._translator.id_of_call, offers=True)
        self._figures = Figures(core, settings, self._show, has_switches=self._abilities.switches)
        self._servers = McpServers(settings.state)
        self._has_title = bool(settings.state.get("sessionName") or settings.state.get("messageCount"))
        is_at_work = settings.state.get("isStreaming") is True
        self._work = Work(
            core,
            outbox,
            self._translator,
            self._figures,
            self._lifecycle,
            self._show,
            self._withdraw,
            lambda: bool(self._dialogs),
            is_at_work=is_at_work,
        )
        self._is_joining = is_at_work or core.begins_in_run
        """A run had begun before: what it has done so far is in entries, and its records are not shown until then."""
        if is_at_work:
            self._children.hold()
        self._is_closing = False
        self._has_left = False
        """The client is gone, and the agent is not: nothing is shown any more, and no question is asked."""
        self._kept_options: Sequence[str] = ()
        """Options of the client that the agent, which has run before, could not take over."""
        self._warned: set[str] = set()
        """The warnings of the state at the opening, which a record may repeat."""
        self.over = trio.Event()
        """The agent has ended, and every request is answered that it had."""

    # Opening.

    @property
    def has_model(self) -> bool:
        """Whether there is a model that can be used."""
        return bool(self._figures.settings.models)

    def described(self) -> Json:
        """Return the fields of the response that names the session."""
        details: dict[str, object] = {}
        if servers := self._servers.described():
            details["mcpServers"] = servers
        if self._kept_options:
            details["keptOptions"] = self._kept_options
        figures = self._figures
        commands = figures.commands or ()
        return self._translation.opened(OpenedSession(figures.settings.modes(), figures.options(), commands, details))

    async def use_servers(self, servers: str) -> None:
        """Wait a while for the MCP servers that the client hands over; report those that the agent does not use."""
        if unused := self._servers.request(servers):
            self.notify("warning", f"MCP servers that are not used: {', '.join(unused)}\n{UNUSED}")
        with trio.move_on_after(_SERVERS_S):
            await self._servers.settled()

    async def adopt(self, agent: str, wanted: EditorOptions, others: Sequence[str], directories: Sequence[str]) -> None:
        """Have an agent that has run before do what the client wants now, as far as it can; report what it can't.

        Args:
            agent: Its name in the host.
            wanted: What the command line of the client wants.
            others: The options in which it differs from that of the agent.
            directories: The additional folders of this request.

        Raises:
            CoreEnded: The agent has ended.
            RequestError: It speaks another protocol.
        """
        adoption = self._figures.settings.adoption(wanted, others)
        kept = dict.fromkeys(adoption.kept)
        answer = await self._use_folders(wanted, directories)
        data = as_object(answer.get("data")) or {}
        if answer.get("success") is True and data.get("protocol") not in _PROTOCOLS:
            text = (
                f"the agent {agent} of the host speaks the protocol {data.get('protocol')}, which an editor can't be "
                f"shown; end it with: pinnace agents stop {agent}"
            )
            raise RequestError(INTERNAL_ERROR, text, {"errorCode": "session_unavailable"})
        if "directories" not in data:
            kept["--add-dir"] = None
        for option, change in adoption.changes:
            try:
                await self._figures.change(change.command, change.fields)
            except RequestError as refused:
                _log.warning("%s: %s", option, refused)
                kept[option] = None
        if not kept:
            return
        self._kept_options = tuple(kept)
        text = f"The agent of this session keeps the options that it was started with: {', '.join(kept)}"
        if adoption.is_guarded:
            mode = self._figures.settings.mode
            text += f"\nIt approves tools by the mode {mode!r}; only a choice of another mode lowers that."
        text += f"\nTo start it with the options of now, close the session, or run: pinnace agents stop {agent}"
        _log.warning("%s", text)
        self.notify("warning", text)

    async def use_folders(self, wanted: EditorOptions, directories: Sequence[str]) -> None:
        """Use the additional folders of another request for this session, in place of those of the former one.

        Raises:
            CoreEnded: The agent has ended.
            RequestError: It refuses.
        """
        data_of(await self._use_folders(wanted, directories))

    async def _use_folders(self, wanted: EditorOptions, directories: Sequence[str]) -> Record:
        folders = [os.path.join(self.cwd, each) for each in (*wanted.directories, *directories)]
        return await self.core.ask("hello", directories=folders)

    async def join(self, *, shows: bool) -> None:
        """Take up a session that has entries. What comes live follows them.

        Args:
            shows: Send the updates that show the session so far, and not only the calls that are open.

        Raises:
            CoreEnded: The agent has ended.
            RequestError: It has refused.
        """
        done = trio.Event()
        refused: list[RequestError] = []

        def take(answer: Record) -> None:
            try:
                self._join(data_of(answer), children, shows=shows)
            except RequestError as error:
                refused.append(error)
            done.set()

        if not (shows or self._is_joining):
            return
        children: Sequence[StoredChild] = ()
        try:
            if shows and self._abilities.children:
                self._children.hold()
                listed = await self.core.ask("list_agents")  # an agent of an older release has none
                agents = as_array((as_object(listed.get("data")) or {}).get("agents"))
                if agents:
                    children = await trio.to_thread.run_sync(read_children, agents)
            self.core.send("get_entries", {}, take)
            await self.core.until(done)
        finally:
            self._show_children(self._children.release())  # nothing is left but where this has failed
        if refused:
            raise refused[0]
        await self._outbox.room()

    def _join(self, data: Json, children: Sequence[StoredChild], *, shows: bool) -> None:
        leaf = data.get("leafId")
        branch = active_branch(cast("Sequence[Json]", data["entries"]), leaf if isinstance(leaf, str) else None)
        branch = self._translator.without_unsaved(branch)
        answer = last_answer(branch) if self._work.is_active else None
        self._translator.join(frozenset(str(entry["id"]) for entry in tail(branch)), answer)
        self._is_joining = False
        unfinished = self._translator.unfinished
        replayed = [*replay(branch, unfinished, self._translator.results)]
        if shows:
            self._updates = self._translation.updates(self.cwd, self._abilities)  # the client begins anew
            if self._held is not None:  # what has come of the conversation is in the entries, or is shown at its end
                self._held = [each for each in self._held if not each.is_conversation]
            for shown in (*with_children(replayed, children), *self._translator.begin_again()):
                if isinstance(shown, ChildReplayed):
                    updates = self._children.replay(shown)
                else:
                    updates = ((self.id, update) for update in self._updates.of(shown))
                for session_id, update in updates:
                    self._outbox.update(session_id, update)
        elif self._held is not None:
            # What is open is no history: behind the beginning of the work, before a question about it.
            open_calls = [each for each in replayed if isinstance(each, CallReplayed) and each.call.id in unfinished]
            opened = [update for each in open_calls for update in self._updates.of(each)]
            self._held[1:1] = [_Held(partial(self._outbox.update, self.id, update)) for update in opened]
        self._show_children(self._children.release())

    async def prepare(self) -> None:
        """Read what the response has that opens the session.

        Raises:
            CoreEnded: The agent has ended.
        """
        if self._translation.opens_in_step:
            await self._figures.read()

    def synchronize(self) -> None:
        """The client knows the session before the response that opens it: send what was held, and the state."""
        if self._translation.opens_in_step:
            self._release()
            self._lifecycle.report()
            self._note_waiting()

    def announce(self) -> None:
        """The client knows the session now: send what was held, and what it may want to know first."""
        self._release()
        self._figures.refresh(lambda: None)

    def _release(self) -> None:
        held, self._held = self._held, None
        for each in held or ():
            each.act()

    # Requests.

    @property
    def work(self) -> Work:
        """Its prompts."""
        return self._work

    async def cancel_call(self, params: Params, name: str) -> dict[str, object]:
        """Cancel a call, or the command of a terminal, which has the id of its call.

        Raises:
            RequestError: It is not being carried out.
        """
        call = self._translator.progressing_call(params.text(name))
        if call is None or not call.entry:
            raise params.invalid(name, "must be one that is being carried out")
        answer = await self.core.ask("abort_tool", entryId=call.entry)
        if answer.get("errorCode") == "entry_not_found":  # it has just ended
            raise params.invalid(name, "must be one that is being carried out")
        data_of(answer, {})
        return {}

    def has_child(self, session_id: str) -> bool:
        """Return whether a sub-agent of the session is at work under the id."""
        return session_id in self._children

    def cancel_child(self, session_id: str) -> bool:
        """Cancel a sub-agent alone; False: the session has none at work under the id."""
        if session_id not in self._children:
            return False
        self.core.send("cancel_agent", {"agentId": session_id}, _log_refused_cancellation)
        return True

    async def set_option(self, params: Params) -> dict[str, object]:
        """Change an option and return all of them."""
        self._translation.check_option(params)
        change = self._figures.settings.change(params, has_switches=self._abilities.switches)
        await self._figures.change(change.command, change.fields)
        return {"configOptions": self._translation.options(self._figures.options())}

    def leave(self) -> None:
        """The client is gone: cancel everything, or leave an agent that outlives it at its work."""
        if not self.core.outlives:
            self._work.cancel()
            return
        self._has_left = True
        self._dialogs.withdraw_all()
        text = "the client has left; the agent continues, and session/load shows its work"
        error = RequestError(INTERNAL_ERROR, text, {"errorCode": "detached"})
        self._work.answer_all(error, lost=error)

    async def close(self) -> Sequence[str]:
        """Cancel everything, and end the agent; return the messages that this has kept from the model.

        Those of a turn are in its response.
        """
        self._is_closing = True
        self._work.returned.clear()
        self._work.cancel()
        self.core.close()
        await self.over.wait()
        return self._work.returned

    async def log_out(self, providers: Sequence[str]) -> None:
        """Have the agent know that the logins to providers were removed from auth.json: no request has them now."""
        self._work.expect_keys()  # where an agent of an older release does not know the command
        with suppress(CoreEnded):
            for provider in providers:
                answer = await self.core.ask("logout", provider=provider)
                if answer.get("success") is not True and answer.get("errorCode") != "unknown_command":
                    text = f"The agent of this session may still use the login to {provider}: {answer.get('error')}"
                    self.notify("warning", text)

    async def set_mode(self, params: Params) -> dict[str, object]:
        """Change how calls of tools are approved."""
        change = mode_change(params)
        await self._figures.change(change.command, change.fields)
        return {}

    def notify(self, severity: Severity, text: str) -> None:
        """Show the user a text that belongs to no answer."""
        if text.strip():
            title, _, rest = text.strip().partition("\n")
            self._show(Noticed(severity, title, rest.strip()))

    def warn(self, state: Json) -> None:
        """Show the user the warnings that the agent has when the session is opened."""
        for each in as_array(state.get("warnings")):
            text = _warning_text(as_object(each) or {})
            self._warned.add(text)
            self.notify("warning", text)

    def _warn_of(self, record: Record) -> None:
        """Show the user a warning, or the error of an extension, unless the state at the opening had it."""
        if record["type"] == "extension_error":
            text = str(record.get("error", "")) or "an extension has failed"
            known = f"{record.get('extensionPath')}: {text}"
        else:
            known = text = _warning_text(record)
        if known in self._warned:
            self._warned.remove(known)
        else:
            self.notify("error" if record["type"] == "extension_error" else "warning", text)

    # Records.

    def take(self, record: Record) -> None:
        """Take an event of the agent."""
        if self._has_left:
            return
        self._show_record(record)
        match record["type"]:
            case "tool_execution_start" | "tool_execution_update" | "tool_execution_end":
                self._take_call(record)
            case "agent_start":
                self._work.begin()
            case "message_start":
                self._note_message(record)
            case "session_info_changed":
                self._has_title = True
            case "session_changed" if not self._work.is_taking_back:
                self._take_change(record)
            case "agent_settled":
                self._work.settle(record)
            case "turn_end":
                self._figures.show_usage(lambda: None)
            case "subagent_event":
                self._show_children(self._children.take(record))
            case "extension_ui_request":
                self._take_ui_request(record)
            case "mcp_status":
                self._servers.take(record)
                self._show_servers()
            case "client_request":
                self._later(partial(self._files.ask, record))
            case "extension_ui_resolved":
                self._later(partial(self._dialogs.resolve, str(record.get("id"))))
            case "warning" | "extension_error":
                self._warn_of(record)
            case "thinking_level_changed" if not (self._work.is_active or self._figures.is_changing):
                self._figures.refresh(lambda: None)
            case _:
                pass

    def _show_record(self, record: Record) -> None:
        is_conversation = record["type"] != "session_info_changed"  # no entry of the branch shows a new title
        if not (self._is_joining and is_conversation):
            for shown in self._translator.take(record):
                self._show(shown, is_conversation=is_conversation)

    def _take_change(self, record: Record) -> None:
        """Show that the conversation is another one.

        No version has an update for it, and the client keeps its id of the session; what it shows stays until it loads
        the session again.
        """
        fields = {name: record[name] for name in ("reason", "by", "sessionId", "leafId") if name in record}
        self._show(DetailsChanged({"conversation": fields}))
        who = "An extension" if record.get("by") == "extension" else "Another client"
        match record.get("reason"):
            case "navigate":
                text = f"{who} has moved the session to another place. Load the session again to see the conversation."
            case "takeover":
                text = "Another process has continued the session. Load it again to see the conversation."
            case _:
                text = f"{who} has opened another session. What follows is kept as {record.get('sessionId')}."
        self.notify("warning", text)
        if not self._work.is_active:
            self._figures.refresh(lambda: None)  # else at the end of the turn

    def _take_call(self, record: Record) -> None:
        if record["type"] == "tool_execution_end":
            self._dialogs.end_call(str(record["toolCallId"]))
            self._files.end_call(str(record["toolCallId"]))
        self._note_waiting()

    def ended(self, text: str) -> None:
        """Take the end of the agent's process: answer every prompt and every request to steer."""
        error = RequestError(INTERNAL_ERROR, text, {"errorCode": "agent_ended"})
        self._show_children(self._children.release())
        self._show_children(self._children.close())
        for shown in self._translator.close():
            self._show(shown)
        self._dialogs.withdraw_all()
        self._files.close()
        outcome = TurnResult("cancelled", {}) if self._is_closing else error
        self._work.end(outcome, error, is_in_order=self.core.status == 0)
        self.over.set()

    def _show_servers(self) -> None:
        if self._held is None:  # else the response that opens the session has them
            self._show(DetailsChanged({"mcpServers": self._servers.described()}))

    def _note_waiting(self) -> None:
        self._work.note_questions(self._dialogs.calls, len(self._dialogs))

    def _announce_question(self) -> None:
        self._work.announce_question()

    def _withdraw(self) -> None:
        self._dialogs.withdraw_all()
        self._files.withdraw_all()

    def _note_message(self, record: Record) -> None:
        message = cast("Json", record["message"])
        if message.get("role") != "user":
            return
        self._work.accept(record)
        if not self._has_title and (title := session_title(None, first_text(message.get("content")))):
            self._has_title = True
            self._show(InfoChanged(title=title))

    def _take_ui_request(self, record: Record) -> None:
        method = record["method"]
        if method in DIALOG_METHODS:
            self._later(lambda: self._ask_client(record))
        elif method == "notify":
            severity = _SEVERITIES.get(record.get("notifyType"), "info")
            self.notify(severity, str(record.get("message", "")))
        else:
            self._show(DetailsChanged(_shown(record)))

    def _ask_client(self, record: Record) -> None:
        if self._has_left:  # it came before
            return
        call_id = record.get("toolCallId")
        call = self._translator.call_of(call_id) if isinstance(call_id, str) else None
        self._dialogs.ask(record, call)

    # Reaching the client.

    def _later(self, action: Callable[[], None], *, is_conversation: bool = False) -> None:
        if self._held is None:
            action()
        else:
            self._held.append(_Held(action, is_conversation))

    def _emit(self, update: Update, *, is_conversation: bool = False) -> None:
        self._later(lambda: self._outbox.update(self.id, update), is_conversation=is_conversation)

    def _show_children(self, updates: Iterable[Addressed]) -> None:
        for session_id, update in updates:
            self._later(partial(self._outbox.update, session_id, update), is_conversation=True)

    def _show(self, shown: Shown, *, is_conversation: bool = False) -> None:
        if isinstance(shown, Noticed) and not self._abilities.notices and not self._work.has_turn:
            self._work.show_with_turn(shown)
            return
        for update in self._updates.of(shown):
            self._emit(update, is_conversation=is_conversation)


async def open_session(
    core: EditorAgent,
    cwd: str,
    outbox: Outbox,
    client: Client,
    nursery: trio.Nursery,
    files: set[ClientFiles],
) -> Session:
    """Return the session of an agent that has just begun.

    Args:
        core: The agent.
        cwd: The folder of the session.
        outbox: Takes what is written for the client.
        client: The client.
        nursery: Gets the tasks that withdraw the session's questions.
        files: Those of all sessions of the client.

    Raises:
        CoreEnded: It has ended.
        RequestError: It has refused.
    """
    settings = await read_settings(core)
    if settings.state.get("model") is None:
        # Reads are answered while extensions load, which may bring a model or end the start. A move to an entry that
        # does not exist is answered when that is over: refused, or withdrawn by an agent that ends.
        if (await core.ask("navigate_tree", entryId=_NO_ENTRY)).get("success") is True:
            await core.ended.wait()
            raise CoreEnded(core.end_text)
        settings = await read_settings(core)
    session = Session(core, cwd, outbox, client, settings, nursery, files)
    session.warn(settings.state)
    core.listen(session.take)
    offers: dict[str, object] = {}
    if client.abilities.files:
        offers["delegate"] = client.abilities.files
    if client.abilities.children:
        offers["subagents"] = True
    if offers:
        core.send("hello", offers, _log_refused_offer)
    return session


def _warning_text(warning: Json) -> str:
    """Return a warning of the agent as a user reads it: what is wrong, and below what to do."""
    return "\n".join(str(warning[name]) for name in ("text", "remedy") if warning.get(name))


def _log_refused_offer(answer: Record) -> None:
    if answer.get("success") is not True:
        _log.warning("the agent takes nothing of what the client offers: %s", answer.get("error"))


def _log_refused_cancellation(answer: Record) -> None:
    if answer.get("success") is not True:  # it has just ended
        _log.info("a sub-agent was not cancelled: %s", answer.get("error"))


def _shown(record: Record) -> Json:
    """Return what an extension shows that has no place in the protocol of the client."""
    match record["method"]:
        case "setStatus":
            return {"status": {str(record.get("statusKey")): record.get("statusText")}}
        case "setWidget":
            return {"widget": {str(record.get("widgetKey")): record.get("widgetLines")}}
        case "setTitle":
            return {"terminalTitle": record.get("title")}
        case _:
            return {"editorText": record.get("text")}
