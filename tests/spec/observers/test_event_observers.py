"""What the observers say of events: nothing of good traces, the steps that prove it of bad ones."""

from collections.abc import Callable

from pinnace_spec.observers import Report

# Steps 1 to 6: a prompt, its answer, the run, the turn, the text. A whole answer is steps 7 to 11.
BEGUN = "> prompt a hi\n< ok a / agent_start / turn_start / user hi\n"
ENDED = "\n< turn_end / agent_end / settled\n$ exit 0"
WHOLE = BEGUN + "< says hello" + ENDED
FAILED = BEGUN + '< answer error / turn_end / agent_end {"willRetry": true} / retry 1 3\n'  # to step 11
PARTIAL = '{"role": "assistant", "content": [{"type": "text", "text": "%s"}]}'
UPDATE = '< message_update {"assistantMessageEvent": {"type": "%s", "contentIndex": 0%s}}\n'
CALL = '{"type": "toolCall", "id": "c", "name": "x", "arguments": {"a": 2}}'
GROWING = (
    '< message_update {"message": %s, "assistantMessageEvent": {"type": "text_delta", "contentIndex": '
    '0, "delta": "%s"}}'
)


def update(kind: str, **fields: str) -> str:
    return UPDATE % (kind, "".join(f', "{name}": "{value}"' for name, value in fields.items()))


def growing(shown: str, delta: str) -> str:
    return GROWING % (PARTIAL % shown, delta) + "\n"


STREAM = BEGUN + "< begin assistant\n" + update("text_start")  # to step 8
TOOLS = BEGUN + "< calls c1 c2\n"  # to step 8
CALLED = TOOLS + "< tool c1 / tool c2 / tool_end c2 / tool_end c1 / result c1 / result c2 / turn_end\n"  # to step 17
NAMED = "> prompt a hi\n< ok a / agent_start / turn_start\n"  # to step 4


def bracket(kind: str, role: str, entry_id: str, message_id: str = "", more: str = "") -> str:
    """Write the beginning or the end of a message that is named."""
    named = f'"entryId": "{entry_id}"' + (f', "messageId": "{message_id}"' if message_id else "")
    content = f"[{CALL}]" if role == "assistant" else '[{"type": "text", "text": "hi"}]'
    message = f'{{"role": "{role}", "content": {content}, "timestamp": 1{more}}}'
    return f'< message_{kind} {{{named}, "message": {message}}}\n'


def tool(kind: str, entry_id: str) -> str:
    named = f'"toolCallId": "c", "toolName": "x", "entryId": "{entry_id}"'
    return f"< tool_execution_{kind} {{{named}}}\n"


def placed(kind: str, answer_id: str, index: int, more: str = '"args": {}') -> str:
    named = f'"toolCallId": "c", "toolName": "x", "entryId": "e3", "assistantEntryId": "{answer_id}"'
    return f'< tool_execution_{kind} {{{named}, "callIndex": {index}, {more}}}\n'


SAID = bracket("start", "user", "e1", "m1") + bracket("end", "user", "e1", "m1")  # steps 5 and 6
ANSWERED = bracket("start", "assistant", "e2") + bracket("end", "assistant", "e2")  # steps 7 and 8
READ = '> get_entries g\n< ok g {"entries": [{"type": "message", "id": "e1", %s}]}'
ROOM = '< compact overflow / compacted overflow {"willRetry": true}\n'

ASKING = '> hello h {"delegate": ["write_text_file"]}\n< ok h\n' + TOOLS + "< tool c1\n"  # to step 11
DRAWING = '> hello h {"surfaces": true}\n< ok h / ui_surface_open {"surface": "a", "place": "editor"}\n'  # to step 3
SIZED = '> ui_surface_input i {"surface": "a", "columns": 80, "rows": 24}\n'
ITEM = '> ui_surface_input i {"surface": "a", "columns": 80, "item": {"kind": "call", "name": "t", "id": "c"}}\n'
DRAWN = '< ui_surface_draw {"surface": "a", "lines": []}\n'
TYPED = '> ui_surface_input k {"surface": "a", "data": "x", "number": 2, "by": "me"}\n'
TAKEN = '< ui_input {"surface": "a", "by": "me", "taken": %d, "text": "x"}\n'
UNDRAWN = '< ui_surface_close {"surface": "a"}\n'
CHILD_CALL = '{"type": "toolCall", "id": "%s", "name": "subagent", "arguments": {}}'
CHILDREN = BEGUN + f'< calls {{"content": [{CHILD_CALL % "c1"}, {CHILD_CALL % "c2"}]}}\n'  # to step 8
CHILD_NAMED = '"toolCallId": "%s", "toolName": "subagent", '
LIST = '> list_agents l\n< ok l {"agents": [%s]}\n'
CONFIRMED = '> client_response w {"success": true}\n'
REFUSED = '> client_response w {"success": false, "error": "no"}\n'


def asked(identity: str, method: str = "write_text_file", call: str = "c1") -> str:
    return f'< client_request {{"id": "{identity}", "method": "{method}", "toolCallId": "{call}", "content": ""}}\n'


def child(kind: str, identity: str = "", state: str = "running", call: str = "c1") -> str:
    """Write a record of a call that has a sub-agent."""
    result = {"update": "partialResult", "end": "result"}.get(kind)
    agent = f'"details": {{"agent": {{"agentId": "{identity}", "state": "{state}"}}}}' if identity else ""
    more = f'"{result}": {{"content": []{", " if agent else ""}{agent}}}' if result else '"args": {}'
    return f"< tool_execution_{kind} {{{CHILD_NAMED % call}{more}}}\n"


def listed(*children: tuple[str, str]) -> str:
    """Write a question for all sub-agents, and its answer."""
    return LIST % ", ".join(f'{{"agentId": "{name}", "state": "{state}"}}' for name, state in children)


def started(identity: str, state: str = "running", task: str = "") -> str:
    """Write a start of a sub-agent by the client, and its answer."""
    name = f', "messageId": "{task}"' if task else ""
    return (
        f'> start_agent s {{"task": "T"{name}}}\n'
        f'< ok s {{"agent": {{"agentId": "{identity}", "task": "T", "state": "{state}"{name}}}}}\n'
    )


def waited(identity: str, state: str, limit: str = "") -> str:
    """Write a wait for a sub-agent, and its answer."""
    timeout = f', "timeout": {limit}' if limit else ""
    return (
        f'> wait_agent w {{"agentId": "{identity}"{timeout}}}\n'
        f'< ok w {{"agent": {{"agentId": "{identity}", "task": "T", "state": "{state}"}}, "text": null}}\n'
    )


def shown(identity: str, state: str = "") -> str:
    """Write what a client is shown of a sub-agent: its state, or something that it does."""
    agent = f'"agent": {{"agentId": "{identity}", "toolCallId": "c1", "state": "{state}"}}'
    event = '"event": {"type": "message_end"}'
    return f'< subagent_event {{"agentId": "{identity}", {agent if state else event}}}\n'


def messaged(state: str = "accepted", identity: str = "k", message: str = "m1") -> str:
    """Write a message to a sub-agent, and its answer."""
    command = f'> message_agent a {{"agentId": "{identity}", "message": "M", "messageId": "{message}"}}\n'
    return command + f'< ok a {{"messageId": "{message}", "state": "{state}"}}\n'


def with_messages(record: str, *messages: tuple[str, str]) -> str:
    """Add the messages to a sub-agent to a record that names it alone."""
    items = ", ".join(f'{{"messageId": "{name}", "text": "M", "state": "{state}"}}' for name, state in messages)
    return record.replace('"agentId": "k"', f'"agentId": "k", "messages": [{items}]')


def delivered(message: str = "m1") -> str:
    """Write that a sub-agent is shown to have a message."""
    event = f'{{"type": "message_end", "messageId": "{message}"}}'
    return f'< subagent_event {{"agentId": "k", "event": {event}}}\n'


def login(kind: str, provider: str = "a", error: str = "") -> str:
    """Write a record of a login."""
    began = '"url": "https://a/", "userCode": "C", "expiresAt": 1'
    ended = f'"success": false, "error": "{error}"' if error else '"success": true'
    return f'< login_{kind} {{"provider": "{provider}", {began if kind == "start" else ended}}}\n'


LOGIN = '> login l {"provider": "a", "method": "device-code"}\n' + login("start")  # to step 2
KEYED = '> login k {"provider": "a", "method": "key", "key": "0123456789abcdef"}\n'
ENDED_CHILD = '"agentId": "k", "toolCallId": "c1", "state": "completed"'
SHOWING = '> hello h {"subagents": true}\n< ok h\n' + CHILDREN + child("start")  # to step 11
ONE_CHILD = CHILDREN + child("start") + child("update", "k")  # to step 10
TWO_CHILDREN = ONE_CHILD + child("start", call="c2") + child("update", "m", call="c2")  # to step 12

GOOD: list[tuple[str, str, str]] = [
    (
        "sub-agents that are listed while they work and when they have ended",
        "I-SUB-1",
        TWO_CHILDREN
        + listed(("k", "running"), ("m", "running"))
        + child("end", "m", "completed", call="c2")
        + listed(("k", "running"), ("m", "completed"))
        + child("end", "k", "cancelled")
        + listed(("older", "interrupted"), ("k", "cancelled"), ("m", "completed")),
    ),
    (
        "a sub-agent that another session does not have",
        "I-SUB-1",
        TWO_CHILDREN
        + child("end", "k", "completed")
        + child("end", "m", "failed", call="c2")
        + '< result c1 {"toolName": "subagent"} / result c2 {"toolName": "subagent"} / turn_end / turn_start'
        + " / says done / turn_end / agent_end / settled\n"
        + '> new_session n\n< session_changed {"reason": "new", "by": "client"} / ok n {"cancelled": false}\n'
        + listed(),
    ),
    (
        "a sub-agent that the client has started and waited for, as a task that it has named",
        "I-SUB-1",
        started("k", task="t")
        + waited("k", "running", "0")
        + listed(("k", "running"))
        + waited("k", "completed")
        + started("k", "completed", "t")
        + started("m")
        + listed(("k", "completed"), ("m", "running")),
    ),
    (
        "a wait that is answered when the session of its sub-agent has been left",
        "I-SUB-1",
        started("k")
        + '> wait_agent w {"agentId": "k"}\n'
        + '> new_session n\n< session_changed {"reason": "new", "by": "client"} / ok n {"cancelled": false}\n'
        + '< ok w {"agent": {"agentId": "k", "task": "T", "state": "cancelled"}, "text": null}\n'
        + listed(),
    ),
    (
        "a sub-agent of an earlier process, which another one may have",
        "I-SUB-1",
        waited("k", "running") + listed(("k", "running")),
    ),
    (
        "a sub-agent that is shown from its beginning to its end",
        "I-SUB-1",
        SHOWING + shown("k", "running") + shown("k") + shown("k", "completed") + child("end", "k", "completed"),
    ),
    (
        "a sub-agent that is shown no more",
        "I-SUB-1",
        SHOWING + shown("k", "running") + '> hello i {"subagents": false}\n< ok i\n' + child("end", "k", "completed"),
    ),
    (
        "messages to a sub-agent, one of which it was not given",
        "I-SUB-2",
        ONE_CHILD
        + messaged()
        + messaged(message="m2")
        + messaged("delivered")
        + with_messages(listed(("k", "running")), ("m1", "delivered"), ("m2", "accepted"))
        + with_messages(child("end", "k", "failed"), ("m1", "delivered"), ("m2", "returned"))
        + messaged("returned", message="m2"),
    ),
    (
        "a message to a sub-agent that is shown where it is delivered",
        "I-SUB-2",
        SHOWING
        + shown("k", "running")
        + messaged()
        + delivered()
        + with_messages(f'< subagent_event {{"agentId": "k", "agent": {{{ENDED_CHILD}}}}}\n', ("m1", "delivered")),
    ),
    (
        "logins of two providers, one of which is given up, and a key",
        "I-KEY-1",
        LOGIN
        + '> login m {"provider": "b", "method": "device-code"}\n'
        + login("start", "b")
        + login("end", "b", "no")
        + "< no m refused\n"
        + login("end")
        + "< ok l {}\n"
        + KEYED
        + "< ok k {}\n",
    ),
    ("a surface that is drawn and closed", "I-UI-2", DRAWING + SIZED + DRAWN + UNDRAWN),
    ("an input that is taken", "I-UI-2", DRAWING + TYPED + TAKEN % 1 + TAKEN % 2 + TAKEN % 2 + UNDRAWN),
    ("an item that is drawn, closed, and drawn again", "I-UI-2", ITEM + DRAWN + UNDRAWN + ITEM + DRAWN),
    ("a write that is confirmed", "I-FIL-1", ASKING + asked("w") + CONFIRMED + "< tool_end c1"),
    (
        "a write that the client can't do",
        "I-FIL-1",
        ASKING + asked("w") + REFUSED.replace('"no"', '"no", "errorCode": "unsupported"') + "< tool_end c1",
    ),
    (
        "a prompt that takes along what an abort has left",
        "I-EVT-11",
        BEGUN
        + "> abort x\n> steer s S\n> prompt b B\n< queue S | / ok s / answer aborted / turn_end / agent_end / ok x\n"
        + "< ok b / agent_start / turn_start / user B / queue | / user S / says hello"
        + ENDED,
    ),
    (
        "an abort between whose run and the next a second one was sent",
        "I-ABT-1",
        BEGUN
        + "> abort x\n> steer s S\n> abort y\n"
        + "< queue S | / ok s / answer aborted / turn_end / agent_end / ok x / agent_start / turn_start / queue |"
        + " / user S / answer aborted / turn_end / agent_end / settled / ok y\n$ exit 0",
    ),
    (
        "a prompt that was on its way when what an abort has left was taken away",
        "I-EVT-11",
        BEGUN
        + "> abort x\n> steer s S\n> prompt b B\n> clear_queue c\n"
        + "< queue S | / ok s / answer aborted / turn_end / agent_end / ok x"
        + ' / queue | / ok c {"steering": ["S"], "followUp": []}\n'
        + "< ok b / agent_start / turn_start / user B / says hello"
        + ENDED,
    ),
    ("a run", "I-EVT-1", WHOLE),
    ("two turns", "I-EVT-1", CALLED + "< turn_start / says done" + ENDED),
    (
        "a run after room was made",
        "I-EVT-1",
        BEGUN + "< answer error / turn_end / agent_end\n" + ROOM + "< agent_start / turn_start / says x" + ENDED,
    ),
    ("updates", "I-EVT-2", WHOLE),
    (
        "deltas",
        "I-EVT-3",
        STREAM
        + update("text_delta", delta="a")
        + update("text_delta", delta="b")
        + update("text_end", content="ab")
        + (
            '< message_end {"message": {"role": "assistant", "content": [{"type": "text", "text": "ab"}], '
            '"stopReason": "stop"}}'
        ),
    ),
    ("a message that grows", "I-EVT-4", STREAM + growing("a", "a") + growing("ab", "b")),
    ("no ids", "I-EVT-5", '< agent_start / bash_execution_update {"id": "a", "delta": "x"}'),
    ("tools", "I-EVT-6", CALLED + "< turn_start / says done" + ENDED),
    (
        "calls that were cut",
        "I-EVT-6",
        BEGUN
        + (
            '< calls c1 {"stopReason": "length"} / tool c1 / tool_end c1 {"isError": true} / '
            'result c1 {"isError": true} / '
            "turn_end / turn_start / says x"
        )
        + ENDED,
    ),
    ("calls of an answer that failed", "I-EVT-6", BEGUN + '< calls c1 {"stopReason": "error"}' + ENDED),
    ("output that grows", "I-EVT-7", TOOLS + "< tool c1 / tool_update c1 a / tool_update c1 ab / tool_update c1 ab"),
    ("sums", "I-EVT-8", WHOLE),
    (
        "a field of its own in one of them",
        "I-EVT-8",
        BEGUN
        + '<< {"type": "message_start", "message": {"role": "assistant", "content": []}}\n'
        + '<< {"type": "message_end", "message": {"role": "assistant", "content": [], "completedAt": 5}}\n'
        + '<< {"type": "turn_end", "message": {"role": "assistant", "content": []}, "toolResults": []}',
    ),
    ("a retry", "I-EVT-9", FAILED + "@ 2\n< agent_start / turn_start / answer stop / retry_end 1 ok" + ENDED),
    (
        "a retry that is given up",
        "I-EVT-9",
        FAILED
        + "@ 2\n< agent_start / turn_start / answer error / turn_end / agent_end / retry_end 1 no / settled\n$ exit 0",
    ),
    ("a retry that is cancelled", "I-EVT-9", FAILED + "< retry_end 1 no / settled\n$ exit 0"),
    (
        "two retries",
        "I-EVT-9",
        FAILED
        + (
            '@ 2\n< agent_start / turn_start / answer error / turn_end / agent_end {"willRetry": true} / '
            "retry 2 3\n@ 4\n< agent_start / turn_start / answer stop / retry_end 2 ok"
        )
        + ENDED,
    ),
    ("a compaction", "I-EVT-10", "< compact manual / compacted manual\n$ exit 0"),
    (
        "an overflow",
        "I-EVT-10",
        BEGUN + "< answer error / turn_end / agent_end\n" + ROOM + "< agent_start / turn_start / says x" + ENDED,
    ),
    (
        "settled once a piece of work",
        "I-EVT-11",
        WHOLE.replace("$ exit 0", "> prompt b no\n< no b refused / settled\n$ exit 0"),
    ),
    ("times", "I-EVT-12", WHOLE),
    (
        "results of calls side by side",
        "I-EVT-12",
        BEGUN
        + "< calls c1 c2 / tool c1 / tool c2 / tool_end c2 / tool_end c1\n"
        + '< result c1 {"timestamp": 9000} / result c2 {"timestamp": 8000}',
    ),
    (
        "names that agree",
        "I-EVT-13",
        NAMED
        + SAID
        + ANSWERED
        + tool("start", "e3")
        + tool("end", "e3")
        + bracket("start", "toolResult", "e3", more=', "toolCallId": "c"')
        + bracket("end", "toolResult", "e3", more=', "toolCallId": "c"')
        + READ % '"messageId": "m1", "message": {"role": "user"}',
    ),
    (
        "a call that was not refused",
        "I-EVT-13",
        NAMED
        + SAID
        + ANSWERED
        + placed("start", "e2", 0, '"gated": true')
        + placed("update", "e2", 0)
        + placed("end", "e2", 0, '"isError": false'),
    ),
    (
        "a call that was refused",
        "I-EVT-13",
        NAMED + SAID + ANSWERED + placed("start", "e2", 0, '"gated": true') + placed("end", "e2", 0, '"isError": true'),
    ),
]

BAD: list[tuple[str, str, str, list[tuple[int, ...]]]] = [
    ("a sub-agent that a client has started and is not listed", "I-SUB-1", started("k") + listed(), [(2, 4)]),
    ("two sub-agents for one task", "I-SUB-1", started("k", task="t") + started("m", task="t"), [(2, 4)]),
    ("a wait that ends while its sub-agent works", "I-SUB-1", started("k") + waited("k", "running"), [(2, 4)]),
    (
        "a wait after which its sub-agent works again",
        "I-SUB-1",
        started("k") + waited("k", "completed") + listed(("k", "running")),
        [(4, 6)],
    ),
    ("a sub-agent that is not listed", "I-SUB-1", TWO_CHILDREN + listed(("k", "running")), [(12, 14)]),
    ("a sub-agent that is listed twice", "I-SUB-1", ONE_CHILD + listed(*[("k", "running")] * 2), [(12,)]),
    (
        "a sub-agent that works when its call has ended",
        "I-SUB-1",
        ONE_CHILD + child("end") + listed(("k", "running")),
        [(11, 13)],
    ),
    ("a call that ends with a sub-agent that works", "I-SUB-1", ONE_CHILD + child("end", "k"), [(11,)]),
    (
        "a sub-agent that ends twice",
        "I-SUB-1",
        ONE_CHILD + child("end", "k", "completed") + listed(("k", "interrupted")),
        [(11, 13)],
    ),
    (
        "a sub-agent that goes on after its end",
        "I-SUB-1",
        ONE_CHILD + child("update", "k", "failed") + child("update", "k"),
        [(11, 12)],
    ),
    (
        "a sub-agent of two calls",
        "I-SUB-1",
        ONE_CHILD + child("start", call="c2") + child("update", "k", call="c2"),
        [(10, 12)],
    ),
    ("a sub-agent that is shown and was not asked for", "I-SUB-1", CHILDREN + shown("k", "running"), [(9,)]),
    ("what a sub-agent does before it has begun", "I-SUB-1", SHOWING + shown("k"), [(12,)]),
    (
        "what a sub-agent does when it has ended",
        "I-SUB-1",
        SHOWING + shown("k", "running") + shown("k", "failed") + shown("k"),
        [(14,)],
    ),
    (
        "a call that ends before the end of its sub-agent is shown",
        "I-SUB-1",
        SHOWING + shown("k", "running") + child("end", "k", "completed"),
        [(12, 13)],
    ),
    (
        "a message to a sub-agent that is not listed",
        "I-SUB-2",
        ONE_CHILD + messaged() + listed(("k", "running")),
        [(12, 14)],
    ),
    (
        "a message to a sub-agent that has ended",
        "I-SUB-2",
        ONE_CHILD + child("end", "k", "completed") + messaged(),
        [(11, 13)],
    ),
    (
        "a message to a sub-agent of which nothing became",
        "I-SUB-2",
        ONE_CHILD + messaged() + with_messages(child("end", "k", "failed"), ("m1", "accepted")),
        [(13,)],
    ),
    (
        "a message that is delivered to a sub-agent, and returned",
        "I-SUB-2",
        ONE_CHILD + messaged() + messaged("delivered") + with_messages(child("end", "k", "failed"), ("m1", "returned")),
        [(14, 15)],
    ),
    (
        "a message that a sub-agent has twice",
        "I-SUB-2",
        SHOWING + shown("k", "running") + messaged() + delivered() * 2,
        [(15, 16)],
    ),
    ("a login that is announced twice", "I-KEY-1", LOGIN + login("start"), [(2, 3)]),
    ("a login that ends twice", "I-KEY-1", LOGIN + login("end") * 2, [(4,)]),
    ("a login that is answered before its end", "I-KEY-1", LOGIN + "< ok l {}\n" + login("end"), [(2, 3)]),
    ("a login that an orderly end leaves open", "I-KEY-1", LOGIN + "< ok l {}\n$ exit 0", [(2, 3), (2,)]),
    ("a key that is said", "I-KEY-1", KEYED + "< no k 0123456789abcdef\n", [(1, 2)]),
    ("a surface that is not offered any more", "I-UI-2", DRAWING.replace("true", "false"), [(3,)]),
    ("a surface that is opened twice", "I-UI-2", DRAWING + DRAWING, [(3, 6)]),
    ("a drawing before the size is known", "I-UI-2", DRAWING + DRAWN, [(3, 4)]),
    ("a drawing on a surface that is closed", "I-UI-2", DRAWING + SIZED + UNDRAWN + DRAWN, [(6,)]),
    ("a drawing of an item that is closed", "I-UI-2", ITEM + DRAWN + UNDRAWN + DRAWN, [(4,)]),
    ("a surface that is closed twice", "I-UI-2", DRAWING + SIZED + UNDRAWN + UNDRAWN, [(6,)]),
    ("an input that was not sent", "I-UI-2", DRAWING + TYPED + TAKEN % 3, [(5,)]),
    ("an input that is taken back", "I-UI-2", DRAWING + TYPED + TAKEN % 2 + TAKEN % 1, [(6,)]),
    ("an input of an editor that is closed", "I-UI-2", DRAWING + TYPED + UNDRAWN + TAKEN % 2, [(6,)]),
    ("a request that was not offered", "I-FIL-1", ASKING.replace("write", "read") + asked("w"), [(12,)]),
    ("a request of no call", "I-FIL-1", ASKING + asked("w", call="c9"), [(12,)]),
    ("a request with the id of another", "I-FIL-1", ASKING + asked("w") + asked("w"), [(12, 13)]),
    ("a write that is not answered", "I-FIL-1", ASKING + asked("w") + "< tool_end c1", [(12, 13)]),
    ("a write that is refused", "I-FIL-1", ASKING + asked("w") + REFUSED + CONFIRMED + "< tool_end c1", [(12, 15)]),
    ("a run in a run", "I-EVT-1", BEGUN + "< agent_start / turn_start / user ho / says x" + ENDED, [(3, 7)]),
    ("a turn outside of a run", "I-EVT-1", "< turn_start", [(1,)]),
    ("a turn in a turn", "I-EVT-1", BEGUN + "< turn_start / says x" + ENDED, [(4, 7)]),
    ("a message outside of a turn", "I-EVT-1", "< agent_start / user hi", [(2,)]),
    ("a text behind the answer", "I-EVT-1", BEGUN + "< says x / user ho" + ENDED, [(7, 12)]),
    ("two answers in a turn", "I-EVT-1", BEGUN + "< says x / answer stop" + ENDED, [(7, 12)]),
    (
        "a message that changes",
        "I-EVT-1",
        BEGUN + '< begin user / message_end {"message": {"role": "user", "content": "x"}}',
        [(7, 8)],
    ),
    ("the end of nothing", "I-EVT-1", "< agent_start / turn_start / turn_end / turn_end / agent_end", [(4,)]),
    ("a turn that ends in a message", "I-EVT-1", BEGUN + "< begin assistant / turn_end / agent_end", [(4, 7, 8)]),
    ("a run for nothing", "I-EVT-1", "< agent_start / turn_start / says x" + ENDED, [(1, 3)]),
    ("a tool before the answer is complete", "I-EVT-1", BEGUN + "< begin assistant / tool c1", [(7, 8)]),
    ("an update outside", "I-EVT-2", WHOLE.replace("$ exit 0", update("text_delta", delta="x")), [(11, 15)]),
    ("an update of a user's message", "I-EVT-2", BEGUN + "< begin user\n" + update("text_start"), [(7, 8)]),
    (
        "a delta that is lost",
        "I-EVT-3",
        STREAM + update("text_delta", delta="a") + update("text_end", content="ab"),
        [(8, 9, 10)],
    ),
    (
        "a block that was not begun",
        "I-EVT-3",
        BEGUN + "< begin assistant\n" + update("text_delta", delta="a"),
        [(7, 8)],
    ),
    (
        "a block that had ended",
        "I-EVT-3",
        STREAM + update("text_end", content="") + update("text_delta", delta="a"),
        [(9, 10)],
    ),
    ("a block of another kind", "I-EVT-3", STREAM + update("thinking_delta", delta="a"), [(8, 9)]),
    (
        "another text in the end",
        "I-EVT-3",
        BEGUN
        + "< says hello"
        + "\n< turn_end / turn_start / begin assistant\n"
        + update("text_start")
        + update("text_delta", delta="a")
        + update("text_end", content="a")
        + (
            '< message_end {"message": {"role": "assistant", "content": [{"type": "text", "text": "b"}], '
            '"stopReason": "stop"}}'
        ),
        [(16, 18)],
    ),
    (
        "other arguments than were reported",
        "I-EVT-3",
        BEGUN
        + "< begin assistant\n"
        + update("toolcall_start")
        + update("toolcall_delta", delta='{\\"a\\": 1}')
        + UPDATE % ("toolcall_end", f', "toolCall": {CALL}'),
        [(8, 9, 10)],
    ),
    (
        "a block that never ends",
        "I-EVT-3",
        STREAM
        + update("text_delta", delta="a")
        + (
            '< message_end {"message": {"role": "assistant", "content": [{"type": "text", "text": "a"}], '
            '"stopReason": "stop"}}'
        ),
        [(8, 10)],
    ),
    ("a message that shrinks", "I-EVT-4", STREAM + growing("ab", "ab") + growing("b", ""), [(9, 10)]),
    ("a message that is not what was reported", "I-EVT-4", STREAM + growing("ax", "a"), [(8, 9)]),
    ("an event with an id", "I-EVT-5", '> prompt a x\n< agent_start {"id": "a"}', [(2,)]),
    ("a message with the id of its command", "I-EVT-5", BEGUN.replace("turn_start", 'turn_start {"id": "a"}'), [(4,)]),
    ("a call that is none", "I-EVT-6", TOOLS + "< tool c3", [(8, 9)]),
    ("a call that is executed twice", "I-EVT-6", TOOLS + "< tool c1 / tool_end c1 / tool c1", [(9, 11)]),
    ("calls out of order", "I-EVT-6", TOOLS + "< tool c2 / tool c1", [(8, 10)]),
    (
        "a failure whose result is none",
        "I-EVT-6",
        TOOLS + '< tool c1 / tool_end c1 {"isError": true} / result c1',
        [(10, 12)],
    ),
    ("the end of no execution", "I-EVT-6", TOOLS + "< tool_end c1", [(8, 9)]),
    (
        "a result that lacks",
        "I-EVT-6",
        TOOLS + "< tool c1 / tool c2 / tool_end c1 / tool_end c2 / result c1 / turn_end",
        [(8, 14, 15)],
    ),
    (
        "results out of order",
        "I-EVT-6",
        TOOLS + "< tool c1 / tool c2 / tool_end c1 / tool_end c2 / result c2 / result c1 / turn_end",
        [(8, 14, 16, 17)],
    ),
    (
        "a result before its end",
        "I-EVT-6",
        TOOLS + "< tool c1 / tool c2 / tool_end c2 / result c1 / tool_end c1 / result c2 / turn_end",
        [(9, 12)],
    ),
    ("a call of an answer that failed", "I-EVT-6", BEGUN + '< calls c1 {"stopReason": "error"} / tool c1', [(8, 9)]),
    (
        "a call of an answer that failed, carried out",
        "I-EVT-6",
        BEGUN + '< calls c1 {"stopReason": "aborted"} / tool c1 / tool_end c1',
        [(8, 9), (8, 10)],
    ),
    (
        "a call of an answer that was cut",
        "I-EVT-6",
        BEGUN + '< calls c1 {"stopReason": "length"} / tool c1 / tool_end c1',
        [(8, 10)],
    ),
    ("output that is lost", "I-EVT-7", TOOLS + "< tool c1 / tool_update c1 ab / tool_update c1 b", [(10, 11)]),
    ("output that changes", "I-EVT-7", TOOLS + "< tool c1 / tool_update c1 ab / tool_update c1 xbc", [(10, 11)]),
    (
        "another answer in turn_end",
        "I-EVT-8",
        BEGUN + '< says x / turn_end {"message": {"role": "assistant"}} / agent_end',
        [(11, 12)],
    ),
    (
        "a message that agent_end lacks",
        "I-EVT-8",
        BEGUN + '< says x / turn_end / agent_end {"messages": []}',
        [(6, 13)],
    ),
    (
        "a result that turn_end lacks",
        "I-EVT-8",
        CALLED.replace("/ turn_end", '/ turn_end {"toolResults": []}'),
        [(14, 17)],
    ),
    (
        "a message that nobody reported",
        "I-EVT-8",
        BEGUN + '< says x / turn_end {"toolResults": [{"role": "toolResult"}]} / agent_end',
        [(12,)],
    ),
    ("a retry that was not announced", "I-EVT-9", BEGUN + "< answer error / turn_end / agent_end / retry 1 3", [(11,)]),
    (
        "a retry that does not come",
        "I-EVT-9",
        BEGUN + '< answer error / turn_end / agent_end {"willRetry": true} / settled',
        [(10, 11)],
    ),
    ("an attempt that is left out", "I-EVT-9", FAILED.replace("retry 1 3", "retry 2 3"), [(11,)]),
    ("an attempt too many", "I-EVT-9", FAILED.replace("retry 1 3", "retry 1 0"), [(11,)]),
    ("too early", "I-EVT-9", FAILED + "@ 1\n< agent_start", [(11, 12)]),
    ("too late", "I-EVT-9", FAILED + "@ 9\n< agent_start", [(11, 12)]),
    ("another attempt ends", "I-EVT-9", FAILED + "< retry_end 2 no", [(11, 12)]),
    ("the end of no retry", "I-EVT-9", WHOLE.replace("$ exit 0", "< retry_end 1 ok"), [(15,)]),
    (
        "success with an answer that failed",
        "I-EVT-9",
        FAILED + "@ 2\n< agent_start / turn_start / answer error / retry_end 1 ok",
        [(11, 16)],
    ),
    ("settled in a retry", "I-EVT-9", FAILED + "@ 2\n< agent_start / turn_start / answer stop" + ENDED, [(11, 18)]),
    ("a compaction in a delay", "I-EVT-9", FAILED + "< compact manual", [(11, 12)]),
    ("two compactions", "I-EVT-10", "< compact manual / compact manual / compacted manual", [(1, 2)]),
    ("a compaction in a run", "I-EVT-10", BEGUN + "< compact threshold / compacted threshold", [(3, 7)]),
    ("a run in a compaction", "I-EVT-10", "< compact manual / agent_start", [(1, 2)]),
    ("another reason", "I-EVT-10", "< compact manual / compacted threshold", [(1, 2)]),
    ("the end of none", "I-EVT-10", "< compacted overflow", [(1,)]),
    (
        "a run for a threshold",
        "I-EVT-10",
        '< compact threshold / compacted threshold {"willRetry": true} / agent_start',
        [(1, 2)],
    ),
    ("a run that does not come", "I-EVT-10", ROOM + "< settled", [(2, 3)]),
    ("a run that never comes", "I-EVT-10", ROOM + "$ exit 0", [(2,)]),
    (
        "new work before the former has settled",
        "I-EVT-11",
        BEGUN
        + "< says x / turn_end / agent_end\n> prompt b B\n< ok b / agent_start / turn_start / user B / says y"
        + ENDED,
        [(3, 15)],
    ),
    ("settled in a run", "I-EVT-11", BEGUN + "< settled", [(4, 7)]),
    (
        "settled twice, and between nothing was queued",
        "I-EVT-11",
        WHOLE.replace("$ exit 0", "< queue | / settled"),
        [(14, 16)],
    ),
    ("settled twice", "I-EVT-11", WHOLE.replace("$ exit 0", "< settled"), [(14, 15)]),
    ("work that nobody asked for", "I-EVT-11", WHOLE.replace("$ exit 0", "< agent_start"), [(14, 15)]),
    (
        "work that never settles",
        "I-EVT-11",
        WHOLE.replace(
            "$ exit 0",
            "> prompt b ho\n< ok b / agent_start / turn_start / user ho / says x / turn_end / agent_end\n$ exit 0",
        ),
        [(17,)],
    ),
    ("an answer before its question", "I-EVT-12", BEGUN + '< answer stop {"timestamp": 3}', [(5, 7)]),
    (
        "an answer before a result",
        "I-EVT-12",
        TOOLS + '< result c1 {"timestamp": 9000} / turn_end / turn_start / answer stop',
        [(9, 13)],
    ),
    (
        "an end of another entry",
        "I-EVT-13",
        NAMED + SAID + bracket("start", "assistant", "e2") + bracket("end", "assistant", "e3"),
        [(7, 8)],
    ),
    (
        "an update of another entry",
        "I-EVT-13",
        NAMED + SAID + bracket("start", "assistant", "e2") + '< message_update {"entryId": "e3"}',
        [(7, 8)],
    ),
    (
        "an end with another messageId",
        "I-EVT-13",
        NAMED + bracket("start", "user", "e1", "m1") + bracket("end", "user", "e1", "m2"),
        [(5, 6)],
    ),
    (
        "an end without the entry",
        "I-EVT-13",
        NAMED + bracket("start", "user", "e1") + '< message_end {"message": {"role": "user"}}',
        [(5, 6)],
    ),
    ("an answer with a messageId", "I-EVT-13", NAMED + SAID + bracket("start", "assistant", "e2", "m2"), [(7,)]),
    ("two messages that are one entry", "I-EVT-13", NAMED + SAID + bracket("start", "assistant", "e1"), [(5, 7)]),
    ("a message delivered twice", "I-EVT-13", NAMED + SAID + bracket("start", "user", "e2", "m1"), [(5, 7)]),
    ("a call of two entries", "I-EVT-13", NAMED + tool("start", "e3") + tool("end", "e4"), [(5, 6)]),
    (
        "a result of another entry than its call",
        "I-EVT-13",
        NAMED + tool("start", "e3") + bracket("start", "toolResult", "e4", more=', "toolCallId": "c"'),
        [(5, 6)],
    ),
    (
        "an entry that is another message",
        "I-EVT-13",
        NAMED + SAID + READ % '"messageId": "m1", "message": {"role": "assistant"}',
        [(5, 8)],
    ),
    (
        "an entry with another messageId",
        "I-EVT-13",
        NAMED + SAID + READ % '"messageId": "m2", "message": {"role": "user"}',
        [(5, 8)],
    ),
    ("a call of another answer", "I-EVT-13", NAMED + SAID + ANSWERED + placed("start", "e9", 0), [(8, 9)]),
    ("a call of another place", "I-EVT-13", NAMED + SAID + ANSWERED + placed("start", "e2", 1), [(8, 9)]),
    (
        "a call whose execution was not reported",
        "I-EVT-13",
        NAMED
        + SAID
        + ANSWERED
        + placed("start", "e2", 0, '"gated": true')
        + placed("end", "e2", 0, '"isError": false'),
        [(9, 10)],
    ),
    (
        "a compaction of two entries",
        "I-EVT-13",
        '< compaction_start {"reason": "manual", "entryId": "e1"} / compaction_end {"entryId": "e2"}',
        [(1, 2)],
    ),
    ("a result before its call", "I-EVT-12", TOOLS + '< result c1 {"timestamp": 1}', [(7, 9)]),
]


def test_a_compaction_is_judged_by_the_rule_of_its_generation(judged: Callable[..., Report]) -> None:
    text = "< compact threshold / compact threshold / compacted threshold"
    broken = [{each.rules for each in judged(text, speaks).verdicts} for speaks in ("0.18", "0.5x", "seed")]

    assert [{("R-CMP-11",)}, {("R-CMP-11",)}, {("R-CMP-06",)}] == broken
