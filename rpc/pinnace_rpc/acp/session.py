"""One session: a client's requests on one side, an agent's process on the other.

Everything that the agent reports is translated in the callback of its record, so the order of updates is the order of
records, and what precedes the end of a run precedes the response of its prompt. Updates are held until the response
that names the session is written. Must not know other sessions.
"""

import logging
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final, cast

import trio

from pinnace_agent.core.json_access import as_amount, as_array, as_object
from pinnace_rpc.acp.client_files import ClientFiles
from pinnace_rpc.acp.core import CoreEnded, EditorAgent, Record
from pinnace_rpc.acp.dialogs import DIALOGS, OpenDialogs
from pinnace_rpc.acp.outbox import Outbox
from pinnace_rpc.acp.translation.jsonrpc import INTERNAL_ERROR, RequestError, RequestId
from pinnace_rpc.acp.translation.mcp_servers import UNUSED, McpServers
from pinnace_rpc.acp.translation.options import EditorOptions, ReportedSettings, mode_change
from pinnace_rpc.acp.translation.params import Params
from pinnace_rpc.acp.translation.prompts import PromptMessage, first_text, read_prompt
from pinnace_rpc.acp.translation.replay import active_branch, last_answer, replay, tail
from pinnace_rpc.acp.translation.stop_reasons import TurnResult, ending, failure, is_refusal, refusal
from pinnace_rpc.acp.translation.titles import date_text, session_title
from pinnace_rpc.acp.translation.tool_calls import Json
from pinnace_rpc.acp.translation.updates import ClientFeatures, Translator, Update, notice
from pinnace_rpc.acp.turns import PromptTurn, Turns

_log: Final = logging.getLogger("pinnace.acp")

_COMPACT: Final = "/compact"
_NOTHING_DONE: Final = frozenset({"nothing_to_compact", "already_compacted"})
"""Answers to a compaction that say that none was needed."""
_PROTOCOLS: Final = frozenset({"pi", "1.5"})
"""Those whose records have all that the client is shown."""
_NO_ENTRY: Final = "-"
_SERVERS_S: Final = 3.0
"""How long the opening of a session waits for the servers of its client; they go on connecting behind it."""
_NOTICE_SEVERITIES: Final = frozenset({"info", "warning", "error"})


class ClientAbilities(ClientFeatures):
    """What the client has said of itself."""

    def __init__(self, capabilities: Params) -> None:
        """Read the capabilities of `initialize`; what is malformed counts as absent."""
        super().__init__(
            notices=capabilities.has("session", "notices"), compactions=capabilities.has("session", "compaction")
        )
        self.terminals = (as_object(capabilities.fields.get("auth")) or {}).get("terminal") is True
        """It can run the agent's program at a terminal, for a login."""
        self.forms = capabilities.has("elicitation", "form")
        self.switches = capabilities.has("session", "configOptions", "boolean")
        files = as_object(capabilities.fields.get("fs")) or {}
        served = (("readTextFile", "read_text_file"), ("writeTextFile", "write_text_file"))
        self.files = [method for name, method in served if files.get(name) is True]
        """What the client does with files, as the agent calls it."""


class Session:
    """A session that is open on this connection."""

    def __init__(
        self,
        core: EditorAgent,
        cwd: str,
        outbox: Outbox,
        abilities: ClientAbilities,
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
        self._abilities = abilities
        self._translator = Translator(cwd, abilities)
        self._turns = Turns()
        self._dialogs = OpenDialogs(self.id, outbox, core.post, self._emit, has_forms=abilities.forms)
        self._files = ClientFiles(self.id, outbox, core.post, files)
        self._held: list[Callable[[], None]] | None = []
        """What is done once the client knows the session; None: it does."""
        self._settings = settings
        self._models = settings.models
        self._servers = McpServers(settings.state)
        self._known_levels = settings.levels
        self._stored_as = self.id
        """The session that the agent has now, which an extension may have changed."""
        self._commands: Sequence[Json] | None = None
        self._usage: Update = {}
        self._has_title = bool(settings.state.get("sessionName") or settings.state.get("messageCount"))
        self._is_changing = False
        """The client changes an option, and learns of the result by the response."""
        self._is_at_work = settings.state.get("isStreaming") is True
        """A run is active, begun by a prompt or by the agent itself."""
        self._shows_work = False
        """The client knows that one is active."""
        self._is_joining = self._is_at_work
        """It has begun before this: what it has done so far is in entries, and its records are not shown until then."""
        self._has_new_keys = False
        self._steering: set[RequestId] = set()
        """The requests to steer that the agent has not answered."""
        self._finishing: Callable[[], None] | None = None
        """Responds to the prompt whose turn is over but for the answers of aborts."""
        self._kept_options: Sequence[str] = ()
        """Options of the client that the agent, which has run before, could not take over."""
        self._notices: list[str] = []
        """For a client without notices: shown with the next turn."""
        self._warned: set[str] = set()
        """The warnings of the state at the opening, which a record may repeat."""

    # Opening.

    @property
    def has_model(self) -> bool:
        """Whether there is a model that can be used."""
        return bool(self._settings.models)

    def described(self) -> dict[str, object]:
        """Return the fields of the response that names the session."""
        details: dict[str, object] = {}
        if servers := self._servers.described():
            details["mcpServers"] = servers
        if self._kept_options:
            details["keptOptions"] = self._kept_options
        return {
            "modes": self._settings.modes(),
            "configOptions": self._settings.options(has_switches=self._abilities.switches),
            **({"_meta": {"pinnace": details}} if details else {}),
        }

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
        adoption = self._settings.adoption(wanted, others)
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
                await self._change(change.command, change.fields)
            except RequestError as refused:
                _log.warning("%s: %s", option, refused)
                kept[option] = None
        if not kept:
            return
        self._kept_options = tuple(kept)
        text = f"The agent of this session keeps the options that it was started with: {', '.join(kept)}"
        if adoption.is_guarded:
            text += (
                f"\nIt approves tools by the mode {self._settings.mode!r}; only a choice of another mode lowers that."
            )
        text += f"\nTo start it with the options of now, close the session, or run: pinnace agents stop {agent}"
        _log.warning("%s", text)
        self.notify("warning", text)

    async def use_folders(self, wanted: EditorOptions, directories: Sequence[str]) -> None:
        """Use the additional folders of another request for this session, in place of those of the former one.

        Raises:
            CoreEnded: The agent has ended.
            RequestError: It refuses.
        """
        _data(await self._use_folders(wanted, directories))

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
                self._join(_data(answer), shows=shows)
            except RequestError as error:
                refused.append(error)
            done.set()

        if not (shows or self._is_joining):
            return
        self.core.send("get_entries", {}, take)
        await self.core.until(done)
        if refused:
            raise refused[0]
        await self._outbox.room()

    def _join(self, data: Json, *, shows: bool) -> None:
        leaf = data.get("leafId")
        branch = active_branch(cast("Sequence[Json]", data["entries"]), leaf if isinstance(leaf, str) else None)
        answer = last_answer(branch) if self._is_at_work else None
        self._translator.join(frozenset(str(entry["id"]) for entry in tail(branch)), answer)
        self._is_joining = False
        unfinished = self._translator.unfinished
        updates = replay(branch, self.cwd, self._abilities, unfinished)
        if shows:
            for update in chain(updates, self._translator.begin_again()):
                self._outbox.update(self.id, update)
        elif self._held is not None:
            # What is open is no history, and a question about it may be held.
            open_calls = [update for update in updates if update.get("toolCallId") in unfinished]
            self._held[:0] = [partial(self._outbox.update, self.id, update) for update in open_calls]

    def announce(self) -> None:
        """The client knows the session now: send what was held, and what it may want to know first."""
        held, self._held = self._held, None
        self._show_work()
        for each in held or ():
            each()
        self._refresh(lambda: None)

    # Requests.

    def prompt(self, request: RequestId, params: Params) -> None:
        """Take a prompt; its response comes when its turn is over.

        Raises:
            RequestError: It can't be taken.
        """
        self._turns.add(request, read_prompt(params))
        self._advance()

    def cancel(self) -> None:
        """Cancel all prompts that have come, and work that no prompt has begun."""
        for turn in self._turns.cancel():
            self._respond(turn, TurnResult("cancelled", {"started": False}))
        self._abort()

    def cancel_request(self, request: RequestId) -> None:
        """Cancel one prompt."""
        if (turn := self._turns.cancel_request(request)) is not None:
            self._respond(turn, TurnResult("cancelled", {"started": False}))
        elif self._turns.needs_abort:
            self._abort()

    def steer(self, request: RequestId, params: Params) -> None:
        """Take a message for the active run.

        Raises:
            RequestError: It can't be taken.
        """
        message = read_prompt(params)
        said = _inner(params, "_meta")
        is_idle = not self._is_at_work and self._turns.active is None
        if is_idle:
            idle = _inner(said, "steering").optional_text("idleBehavior")
            if idle == "promptRequired":
                self._outbox.respond(request, {"outcome": "promptRequired", "reason": "noRunningTurn"})
                return
            if idle is not None:
                raise _inner(said, "steering").invalid("idleBehavior", 'must be "promptRequired" or absent')

        def take(answer: Record) -> None:
            self._steering.discard(request)
            if answer.get("success") is not True:
                self._outbox.refuse(request, refusal(answer))
            else:
                self._outbox.respond(request, {"outcome": "startedNewTurn" if is_idle else "injected"})

        self._steering.add(request)
        if is_idle:
            self.core.send("prompt", {**self._named(message), "streamingBehavior": "steer"}, take)
        else:
            is_follow_up = _inner(said, "pinnace").optional_text("deliverAs") == "followUp"
            self.core.send("follow_up" if is_follow_up else "steer", self._named(message), take)

    def expect_keys(self) -> None:
        """Have the agent read its keys again before the next prompt: there are others."""
        self._has_new_keys = True

    async def set_option(self, params: Params) -> dict[str, object]:
        """Change an option and return all of them."""
        change = self._settings.change(params, has_switches=self._abilities.switches)
        await self._change(change.command, change.fields)
        return {"configOptions": self._settings.options(has_switches=self._abilities.switches)}

    def leave(self) -> None:
        """The client is gone: cancel everything, or leave an agent that outlives it at its work."""
        if not self.core.outlives:
            self.cancel()
            return
        if self._is_at_work:
            self._show_work()
        text = "the client has left; the agent continues, and session/load shows its work"
        self._answer_all(RequestError(INTERNAL_ERROR, text, {"errorCode": "detached"}))

    async def close(self) -> None:
        """Cancel everything, and end the agent."""
        self.cancel()
        self.core.close()
        await self.core.ended.wait()

    async def set_mode(self, params: Params) -> dict[str, object]:
        """Change how calls of tools are approved."""
        change = mode_change(params)
        await self._change(change.command, change.fields)
        return {}

    def notify(self, severity: str, text: str) -> None:
        """Show the user a text that belongs to no answer; without notices, it is shown in the next turn."""
        if not text.strip():
            return
        if self._abilities.notices:
            title, _, rest = text.strip().partition("\n")
            self._emit(notice(severity, title, rest.strip()))
        elif self._turns.active is None:
            self._notices.append(text)
        else:
            self._show_text(text)

    def warn(self, state: Json) -> None:
        """Show the user the warnings that the agent has when the session is opened."""
        for each in as_array(state.get("warnings")):
            text = _warning_text(as_object(each) or {})
            self._warned.add(text)
            self.notify("warning", text)

    def _warn_of(self, record: Record) -> None:
        """Show the user a warning, or the error of an extension, unless the state at the opening had it."""
        if record["type"] == "extension_error":
            text, severity = str(record.get("error", "")) or "an extension has failed", "error"
            known = f"{record.get('extensionPath')}: {text}"
        else:
            known, severity = (text := _warning_text(record)), "warning"
        if known in self._warned:
            self._warned.remove(known)
        else:
            self.notify(severity, text)

    # Turns.

    def _advance(self) -> None:
        turn = self._turns.begin()
        if turn is None:
            return
        if self._notices:
            for text in self._notices:
                self._show_text(text)
            self._notices.clear()
        if self._has_new_keys:
            self._has_new_keys = False
            self.core.send("reload", {}, _log_refused_reload)
            self._ask("get_available_models", self._take_models)
        self._translator.answer = None
        text = turn.message.text
        if text == _COMPACT or text.startswith(f"{_COMPACT} "):
            instructions = text.removeprefix(_COMPACT).strip()
            fields: dict[str, object] = {"customInstructions": instructions} if instructions else {}
            self.core.send("compact", fields, lambda answer: self._compacted(turn, answer))
            return
        fields = {**self._named(turn.message), "streamingBehavior": "followUp"}
        self.core.send("prompt", fields, lambda answer: self._prompted(turn, answer))

    def _named(self, message: PromptMessage) -> dict[str, object]:
        """Return the fields of a message with an id, by which it is known when it comes back."""
        message_id = str(uuid.uuid4())
        self._translator.expect(message_id)
        return {**message.fields(), "messageId": message_id}

    def _compacted(self, turn: PromptTurn, answer: Record) -> None:
        if answer.get("success") is True:
            self._settle(turn, TurnResult("end_turn", {}))
        elif answer.get("errorCode") in _NOTHING_DONE:
            self._show_text(str(answer.get("error")))
            self._settle(turn, TurnResult("end_turn", {}))
        elif answer.get("errorCode") == "compaction_cancelled":
            self._settle(turn, TurnResult("cancelled", {"abortedBy": "agent"}))
        else:
            self._settle(turn, refusal(answer))

    def _prompted(self, turn: PromptTurn, answer: Record) -> None:
        if answer.get("success") is not True:
            self._settle(turn, refusal(answer))
            return
        data = as_object(answer.get("data")) or {}
        if data.get("disposition") == "handled":
            turn.state = "commanding"
            self._ask("get_state", lambda state: self._commanded(turn, state))
        else:
            turn.state = "running"

    def _commanded(self, turn: PromptTurn, state: Json) -> None:
        if state.get("isStreaming") is True:
            turn.state = "running"
            if turn.is_cancelled:
                self._abort()
        else:
            self._settle(turn, TurnResult("end_turn", {}))

    def _settle(self, turn: PromptTurn, outcome: TurnResult | RequestError) -> None:
        """Read the last figures, which belong to the turn, and respond."""
        turn.state = "settling"
        self._emit({"sessionUpdate": "session_info_update", "updatedAt": date_text(time.time())})
        self._refresh(lambda: self._finish(turn, outcome))

    def _finish(self, turn: PromptTurn, outcome: TurnResult | RequestError) -> None:
        if self._turns.active is not turn:
            return  # answered without its end
        if turn.aborts:
            # What an abort returns is saved before it is answered, which takes longer than the figures.
            self._finishing = partial(self._finish, turn, outcome)
            return
        for update in self._translator.close():
            self._emit(update)
        self._turns.end()
        self._show_work()  # a steered message may have begun some behind the run of the turn
        self._respond(turn, TurnResult("cancelled", {}) if turn.is_cancelled else outcome)
        self._advance()

    def _respond(self, turn: PromptTurn, outcome: TurnResult | RequestError) -> None:
        if isinstance(outcome, RequestError):
            self._outbox.refuse(turn.request, outcome)
            return
        result: dict[str, object] = {"stopReason": outcome.reason}
        details = dict(outcome.details)
        if turn.entry is not None:
            details["entryId"] = turn.entry
        if turn.returned:
            details["returned"] = turn.returned
        if details:
            result["_meta"] = {"pinnace": details}
        self._outbox.respond(turn.request, result)

    def _abort(self) -> None:
        if self._turns.needs_abort or self._is_at_work:
            self._dialogs.withdraw_all()
            self._files.withdraw_all()
            turn = self._turns.active
            if turn is not None:
                turn.aborts += 1
            self.core.send("abort", {"queue": "clear"}, lambda answer: self._take_returned(turn, answer))

    def _take_returned(self, turn: PromptTurn | None, answer: Record) -> None:
        """Take the steered messages that an abort has kept from the model: the user gets them back."""
        cleared = as_object((as_object(answer.get("data")) or {}).get("cleared")) or {}
        texts = [str(text) for name in ("steering", "followUp") for text in as_array(cleared.get(name))]
        if texts:
            self.notify("warning", "\n".join(["Not delivered:", *texts]))
        if turn is not None:
            turn.returned += texts
            turn.aborts -= 1
            if turn.aborts:
                return
            if (finish := self._finishing) is not None:
                self._finishing = None
                finish()
            elif self._turns.active is turn and turn.state == "running" and not self._is_at_work:
                # Queued behind work that no prompt had begun, and returned with it: no run of it will settle.
                self._settle(turn, TurnResult("cancelled", {}))

    # Records.

    def take(self, record: Record) -> None:
        """Take an event of the agent."""
        if not self._is_joining:
            for update in self._translator.take(record):
                self._emit(update)
        match record["type"]:
            case "agent_start":
                self._set_at_work(is_at_work=True)
            case "message_start":
                self._note_message(record)
            case "session_info_changed":
                self._has_title = True
            case "agent_settled":
                self._settled(record)
            case "turn_end":
                self._show_usage(lambda: None)
            case "tool_execution_end":
                self._dialogs.end_call(str(record["toolCallId"]))
                self._files.end_call(str(record["toolCallId"]))
            case "extension_ui_request":
                self._take_ui_request(record)
            case "mcp_status":
                self._servers.take(record)
                if self._held is None:  # the response that opens the session has them
                    meta = {"pinnace": {"mcpServers": self._servers.described()}}
                    self._emit({"sessionUpdate": "session_info_update", "_meta": meta})
            case "client_request":
                self._later(partial(self._files.ask, record))
            case "extension_ui_resolved":
                self._dialogs.resolve(str(record.get("id")))
            case "warning" | "extension_error":
                self._warn_of(record)
            case "thinking_level_changed" if not (self._is_at_work or self._is_changing):
                self._refresh(lambda: None)
            case _:
                pass

    def ended(self, text: str) -> None:
        """Take the end of the agent's process: answer every prompt and every request to steer."""
        error = RequestError(INTERNAL_ERROR, text, {"errorCode": "agent_ended"})
        for update in self._translator.close():
            self._emit(update)
        self._dialogs.withdraw_all()
        self._files.close()
        self._answer_all(error)
        for request in self._steering:
            self._outbox.refuse(request, error)
        self._steering.clear()

    def _answer_all(self, error: RequestError) -> None:
        """Answer every prompt without its end."""
        turn = self._turns.active
        if turn is not None:
            self._respond(turn, TurnResult("cancelled", {}) if turn.is_cancelled else error)
        for waiting in self._turns.cancel():
            self._outbox.refuse(waiting.request, error)
        self._turns.end()

    def _settled(self, record: Record) -> None:
        turn = self._turns.active
        if turn is None or turn.state != "running":
            self._set_at_work(is_at_work=False)
            self._refresh(lambda: None)
            return
        self._is_at_work = False
        answer = self._translator.answer
        if answer is not None and is_refusal(answer) and turn.entry is not None and not turn.is_cancelled:
            self._take_back(turn, turn.entry, answer)
        else:
            self._settle(turn, ending(record, answer))

    def _take_back(self, turn: PromptTurn, entry: str, answer: Json) -> None:
        """Continue before a prompt that the model has refused: it is no part of the next request."""

        def take(moved: Record) -> None:
            if moved.get("success") is True:
                self._settle(turn, TurnResult("refusal", {}))
            else:
                self._settle(turn, failure(answer))

        self.core.send("navigate_tree", {"entryId": entry}, take)

    def _set_at_work(self, *, is_at_work: bool) -> None:
        self._is_at_work = is_at_work
        if self._turns.active is None:
            self._show_work()

    def _show_work(self) -> None:
        """Show work that no prompt has begun: a client that shows turns learns where it begins and ends."""
        if self._shows_work == self._is_at_work:
            return
        self._shows_work = self._is_at_work
        self._emit({"sessionUpdate": "session_info_update", "_meta": {"pinnace": {"running": self._is_at_work}}})

    def _note_message(self, record: Record) -> None:
        turn = self._turns.active
        message = cast("Json", record["message"])
        if message.get("role") != "user":
            return
        if turn is not None and turn.entry is None:
            turn.entry = str(record.get("entryId", "")) or None
        if not self._has_title and (title := session_title(None, first_text(message.get("content")))):
            self._has_title = True
            self._emit({"sessionUpdate": "session_info_update", "title": title})

    def _take_ui_request(self, record: Record) -> None:
        method = record["method"]
        if method in DIALOGS:
            self._later(lambda: self._ask_client(record))
        elif method == "notify":
            severity = str(record.get("notifyType", "info"))
            self.notify(severity if severity in _NOTICE_SEVERITIES else "info", str(record.get("message", "")))
        else:
            self._emit({"sessionUpdate": "session_info_update", "_meta": {"pinnace": _shown(record)}})

    def _ask_client(self, record: Record) -> None:
        call_id = record.get("toolCallId")
        call = self._translator.call_fields(call_id) if isinstance(call_id, str) else None
        self._dialogs.ask(record, call)
        timeout_ms = as_amount(record.get("timeout"))
        if timeout_ms is not None:
            self._nursery.start_soon(self._dialogs.expire, str(record["id"]), timeout_ms / 1000)

    # Figures.

    def _refresh(self, then: Callable[[], None]) -> None:
        """Read options, commands and usage again, show the client what has changed, and continue."""
        self._ask("get_available_thinking_levels", self._take_levels)
        self._ask("get_state", self._take_state)
        self._ask("get_commands", self._take_commands)
        self._show_usage(then)

    def _take_levels(self, data: Json) -> None:
        # They are those of the model, which an extension may have changed. Shown with the state, which follows.
        self._known_levels = _levels(data)

    def _take_state(self, state: Json) -> None:
        former = self._settings
        self._settings = ReportedSettings(state, self._models, self._known_levels)
        if (stored_as := str(state.get("sessionId", self._stored_as))) != self._stored_as:
            # The protocol has no word for it, and the client keeps its id.
            self._stored_as = stored_as
            self.notify("warning", f"An extension has opened another session. What follows is kept as {stored_as}.")
        has_switches = self._abilities.switches
        if self._settings.options(has_switches=has_switches) != former.options(has_switches=has_switches):
            options = self._settings.options(has_switches=has_switches)
            self._emit({"sessionUpdate": "config_option_update", "configOptions": options})
        if self._settings.mode != former.mode:
            self._emit({"sessionUpdate": "current_mode_update", "currentModeId": self._settings.mode})

    def _take_models(self, data: Json) -> None:
        # A difference is shown with the next state, at the end of the turn.
        self._models = cast("Sequence[Json]", as_array(data.get("models")))

    def _take_commands(self, data: Json) -> None:
        commands = [_command(each) for each in cast("Sequence[Json]", data["commands"])]
        if all(each["name"] != "compact" for each in commands):
            hint = {"hint": "instructions"}
            commands.append({"name": "compact", "description": "Summarise the conversation so far", "input": hint})
        if commands != self._commands:
            self._commands = commands
            self._emit({"sessionUpdate": "available_commands_update", "availableCommands": commands})

    def _show_usage(self, then: Callable[[], None]) -> None:
        def take(data: Json) -> None:
            usage = as_object(data.get("contextUsage")) or {}
            used, size = usage.get("tokens"), usage.get("contextWindow")
            if isinstance(used, int) and isinstance(size, int):
                update: Update = {"sessionUpdate": "usage_update", "used": used, "size": size}
                if (cost := as_amount(data.get("cost"))) is not None:
                    update["cost"] = {"amount": cost, "currency": "USD"}
                if update != self._usage:
                    self._usage = update
                    self._emit(update)
            then()

        self._ask("get_session_stats", take)

    # Reaching both sides.

    def _ask(self, command: str, then: Callable[[Json], None]) -> None:
        """Read something; what the agent refuses to say counts as nothing."""

        def take(answer: Record) -> None:
            if answer.get("success") is True:
                then(cast("Json", answer["data"]))
            else:
                _log.warning("%s: %s", command, answer.get("error"))
                then({"commands": []} if command == "get_commands" else {})

        self.core.send(command, {}, take)

    async def _change(self, command: str, fields: Mapping[str, object]) -> None:
        self._is_changing = True
        try:
            answer = await self.core.ask(command, **fields)
            if answer.get("success") is not True:
                raise refusal(answer)
            answers = await self.core.ask_all("get_state", "get_available_thinking_levels")
            state, levels = (_data(each) for each in answers)
            self._settings = ReportedSettings(state, self._models, _levels(levels))
        finally:
            self._is_changing = False

    def _later(self, action: Callable[[], None]) -> None:
        if self._held is None:
            action()
        else:
            self._held.append(action)

    def _emit(self, update: Update) -> None:
        self._later(lambda: self._outbox.update(self.id, update))

    def _show_text(self, text: str) -> None:
        content = {"type": "text", "text": text}
        meta = {"pinnace": {"notice": True}}
        self._emit({"sessionUpdate": "agent_message_chunk", "content": content, "_meta": meta})


async def open_session(
    core: EditorAgent,
    cwd: str,
    outbox: Outbox,
    abilities: ClientAbilities,
    nursery: trio.Nursery,
    files: set[ClientFiles],
) -> Session:
    """Return the session of an agent that has just begun.

    Args:
        core: The agent.
        cwd: The folder of the session.
        outbox: Takes what is written for the client.
        abilities: Of the client.
        nursery: Gets the tasks that withdraw the session's questions.
        files: Those of all sessions of the client.

    Raises:
        CoreEnded: It has ended.
        RequestError: It has refused.
    """
    settings = await _read_settings(core)
    if settings.state.get("model") is None:
        # Reads are answered while extensions load, which may bring a model or end the start. A move to an entry that
        # does not exist is answered when that is over: refused, or withdrawn by an agent that ends.
        if (await core.ask("navigate_tree", entryId=_NO_ENTRY)).get("success") is True:
            await core.ended.wait()
            raise CoreEnded(core.end_text)
        settings = await _read_settings(core)
    session = Session(core, cwd, outbox, abilities, settings, nursery, files)
    session.warn(settings.state)
    core.listen(session.take)
    if abilities.files:
        core.send("hello", {"delegate": abilities.files}, _log_refused_offer)
    return session


def _warning_text(warning: Mapping[str, object]) -> str:
    """Return a warning of the agent as a user reads it: what is wrong, and below what to do."""
    return "\n".join(str(warning[name]) for name in ("text", "remedy") if warning.get(name))


async def _read_settings(core: EditorAgent) -> ReportedSettings:
    reads = ("get_state", "get_available_models", "get_available_thinking_levels")
    state, models, levels = (_data(answer) for answer in await core.ask_all(*reads))
    return ReportedSettings(state, cast("Sequence[Json]", models["models"]), _levels(levels))


def _log_refused_offer(answer: Record) -> None:
    if answer.get("success") is not True:
        _log.warning("the agent takes no files of the client: %s", answer.get("error"))


def _log_refused_reload(answer: Record) -> None:
    if answer.get("success") is not True:
        _log.warning("the agent has not read its keys again: %s", answer.get("error"))


def _data(answer: Record) -> Json:
    if answer.get("success") is not True:
        raise refusal(answer)
    return cast("Json", answer["data"])


def _levels(data: Json) -> Sequence[str]:
    return [str(level) for level in as_array(data.get("levels"))]


def _inner(params: Params, name: str) -> Params:
    return Params(as_object(params.fields.get(name)) or {}, f"{params.path}.{name}")


def _command(record: Json) -> Update:
    command: Update = {"name": record["name"], "description": str(record.get("description") or record["name"])}
    if isinstance(hint := record.get("argumentHint"), str) and hint:
        command["input"] = {"hint": hint}
    return command


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
