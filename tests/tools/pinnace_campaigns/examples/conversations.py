"""The conversations that the reference shows, and how to record them anew: `python -P -m pinnace_campaigns.examples`.

Each is a function that plays a client; gates of the fake LLM decide the order, so that a recording is always the same
once paths, ids and times have been replaced. What is shown is what the agent wrote.
"""

import signal
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import HomedAgent

SETTLED: Final = {"type": "agent_settled"}


class Player:
    """A client that remembers where in the stream of records it wrote what."""

    def __init__(self, agent: HomedAgent) -> None:
        """Play with an agent that has said nothing yet."""
        self.agent = agent
        self.sent: list[tuple[int, Mapping[str, object] | str | None]] = []
        """Number of the record that it came before, and what it was; None: what came before is not shown."""

    def send(self, **record: object) -> None:
        """Write a command."""
        self.sent.append((self.agent.mark(), record))
        self.agent.send(record)

    def line(self, text: str) -> None:
        """Write a line that may be anything."""
        self.sent.append((self.agent.mark(), text))
        self.agent.send_bytes(f"{text}\n".encode())

    def ask(self, **record: object) -> Record:
        """Write a command and wait for its response."""
        self.send(**record)
        return self.agent.wait_response(record["id"])

    def begin(self) -> None:
        """Show what comes from now on."""
        self.sent.append((self.agent.mark(), None))

    def settle(self) -> None:
        """Wait until nothing more happens by itself."""
        self.agent.wait(SETTLED)


class Conversation(NamedTuple):
    """One of them."""

    name: str
    title: str
    about: str
    rules: str
    play: Callable[[Player], object]
    script: Iterable[Scripted] = ()
    flags: tuple[str, ...] = ("--protocol", "1.5")
    settings: Mapping[str, object] = {}
    has_session: bool = False
    is_checked: bool = True
    """The contract of every run holds; not where the client breaks it."""


def _prompt(player: Player) -> None:
    player.ask(id="1", type="prompt", message="Say hello")
    player.settle()


def _steer(player: Player) -> None:
    player.ask(id="1", type="prompt", message="Write a poem")
    player.agent.wait({"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}})
    player.ask(id="2", type="prompt", message="Now?")
    player.ask(id="3", type="steer", message="Make it short")
    player.ask(id="4", type="follow_up", message="Then give it a title")
    player.agent.llm.release("half")
    player.settle()


def _abort(player: Player) -> None:
    player.ask(id="1", type="prompt", message="Write a poem")
    player.agent.wait({"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}})
    player.ask(id="2", type="follow_up", message="Then give it a title")
    player.ask(id="3", type="abort")
    player.ask(id="4", type="clear_queue")


def _compact(player: Player) -> None:
    player.ask(id="1", type="compact")
    for number in ("2", "3"):
        player.ask(id=number, type="prompt", message="Go on")
        player.settle()
    player.begin()
    player.ask(id="4", type="compact", customInstructions="Keep the names")


def _bash(player: Player) -> None:
    player.ask(id="1", type="bash", command="echo hello; exit 3")
    player.send(id="2", type="bash", command="echo begun; sleep 60")
    player.agent.wait({"type": "bash_execution_update", "id": "2"})
    player.ask(id="3", type="abort_bash")
    player.agent.wait_response("2")


def _mistakes(player: Player) -> None:
    for line in (
        "not json",
        "",
        "null",
        '{"id":"1"}',
        '{"id":"2","type":"dance"}',
        '{"id":"3","type":"set_steering_mode","mode":"some"}',
        '{"id":[4],"type":"get_state"}',
        '{"id":5,"type":"get_last_assistant_text"}',
    ):
        player.line(line)
        player.agent.request({"type": "abort_retry"})


def _session(player: Player) -> None:
    player.ask(id="1", type="set_session_name", name="a test")
    player.ask(id="2", type="get_state")
    player.ask(id="3", type="new_session")
    player.ask(id="4", type="get_state")


def _hello(player: Player) -> None:
    player.ask(id="1", type="hello", protocol="1.5")
    player.ask(id="2", type="hello", protocol="seed")


def _end(player: Player) -> None:
    player.ask(id="1", type="prompt", message="Write a poem")
    player.agent.wait({"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}})
    player.ask(id="2", type="follow_up", message="Then give it a title")
    player.send(id="3", type="bash", command="echo begun; sleep 60")
    player.agent.wait({"type": "bash_execution_update"})
    player.agent.signal(signal.SIGTERM)
    player.agent.wait_exit()


def _settings(player: Player) -> None:
    player.ask(id="1", type="get_available_models")
    player.ask(id="2", type="set_model", provider="fake", modelId="m2")
    player.ask(id="3", type="set_thinking_level", level="high")
    player.ask(id="4", type="set_model", provider="fake", modelId="m9")


_POEM: Final = {"chunks": [{"text": "Roses "}, {"gate": "half"}, {"text": "are red"}]}

CONVERSATIONS: Final[tuple[Conversation, ...]] = (
    Conversation(
        "01-prompt",
        "A prompt and its answer",
        "In profile `pi`: updates hold the message so far.",
        "R-PRM-01 R-PRM-02 R-RUN-01 R-UPD-01 R-UPD-02 R-RUN-07 R-RSP-01 R-MSG-01 R-MSG-06 C-8",
        _prompt,
        [{"text": ["Hel", "lo"]}],
        flags=(),
    ),
    Conversation(
        "02-tool",
        "A tool call",
        "The model calls the shell; its result stands in a message of its own, and the next turn answers.",
        "R-RUN-02 R-RUN-03 R-TOL-01 R-TOL-08 R-UPD-01",
        _prompt,
        [{"tool_calls": [{"name": "bash", "args": {"command": "echo hi"}}]}, {"text": "done"}],
    ),
    Conversation(
        "03-steer",
        "Texts for an agent at work",
        "A plain prompt is refused; a steering text and a follow-up are queued and delivered in their turn.",
        "R-PRM-04 R-QUE-01 R-QUE-02 R-QUE-03 R-QUE-04 R-QUE-05 R-QUE-06",
        _steer,
        [_POEM, {"text": "Red."}, {"text": "Roses"}],
    ),
    Conversation(
        "04-abort",
        "An abort, and what becomes of the queue",
        "Everything is closed before the answer; what was queued is held until it is asked for or new work comes.",
        "R-ABT-01 C-1 C-6 C-15 R-QUE-10 R-RUN-04",
        _abort,
        [{"chunks": [{"text": "Roses "}, {"hang": True}]}],
    ),
    Conversation(
        "05-retry",
        "A request that is tried again",
        "The failed answer is reported, and leaves the context when the request is retried.",
        "R-RTY-01 R-RTY-02 R-LLM-02",
        _prompt,
        [{"error": {"status": 529}}, {"text": "hello"}],
        settings={"retry": {"baseDelayMs": 10}},
    ),
    Conversation(
        "06-compact",
        "A compaction by hand",
        "An empty session has nothing to compact; after two turns the first is summarised.",
        "R-CMP-03 R-CMP-05 R-CMP-06 R-CMP-07 C-12",
        _compact,
        [{"text": "one"}, {"text": "two"}, {"text": "We went on."}],
        settings={"compaction": {"keepRecentTokens": 3}},
    ),
    Conversation(
        "07-bash",
        "Two shell commands, of which one is ended",
        "They answer when they have ended; `abort_bash` ends those that run.",
        "R-BSH-01 R-BSH-02 R-BSH-05 R-EVT-01",
        _bash,
    ),
    Conversation(
        "08-mistakes",
        "Mistakes of a client",
        "Each line is answered, but a blank one is not; nothing ends the process.",
        "R-ERR-01 R-ERR-02 R-ERR-03 R-ERR-04 R-ERR-05 R-FRM-04 R-ID-01 R-STA-04",
        _mistakes,
        is_checked=False,
    ),
    Conversation(
        "09-session",
        "Sessions and state",
        "A name, the state, a new session.",
        "R-SES-01 R-SES-10 R-STA-01 C-10",
        _session,
        has_session=True,
    ),
    Conversation(
        "10-hello",
        "Who are you",
        "The first command may choose the profile, later ones may not.",
        "R-HEL-01 R-PRO-01",
        _hello,
        flags=(),
    ),
    Conversation(
        "11-end",
        "The end of the process in the middle of work",
        "A signal comes: the queue is reported a last time, everything is closed and answered, the exit code is 143.",
        "R-SIG-01 R-EOF-01 R-EOF-02 C-16 C-15",
        _end,
        [{"chunks": [{"text": "Roses "}, {"hang": True}]}],
    ),
    Conversation(
        "12-settings",
        "Models and levels",
        "A model is named by provider and id.",
        "R-SET-01 R-SET-02 R-SET-03 R-SET-04 R-MSG-04",
        _settings,
    ),
)
