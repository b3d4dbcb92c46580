"""Measures the terminal client: 20,000 messages, 1,000 deltas a second, and the time until its editor can be used.

    .venv/bin/python tests/benchmarks/terminal.py [open] [stream] [start]

`open`: a session of 20,000 messages is loaded, scrolled and typed into; processor time of a frame at several lengths.
`stream`: 60,000 deltas at 1,000 a second, while keys are pressed; the echo of a key is the time until the editor has
drawn it. `start`: from the start of the process to an editor that echoes a key, beside the original's, in turns, in a
pseudo-terminal. Prints tables; asserts nothing.
"""

import asyncio
import fcntl
import os
import pty
import resource
import select
import shutil
import statistics
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from textual import events
from textual.geometry import Region

from pinnace import AsyncioClient
from pinnace_tui.app import TerminalClient
from pinnace_tui.content.values import Record
from pinnace_tui.conversation import ConversationView
from pinnace_tui.editor import Editor

ROOT: Final = Path(__file__).parents[2]
_STREAMED_S: Final = 60


def processor_s() -> float:
    """Processor time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def resident_mib() -> float:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1024 / 1024


def nothing() -> AsyncioClient:
    """A client whose agent only waits."""
    return AsyncioClient([sys.executable, "-c", "import sys; sys.stdin.read()"])


def messages(count: int) -> list[Record]:
    """A conversation."""
    answer = (
        "Some **Markdown** with `code`, and enough words to need a second line of an ordinary terminal.\n\n- a\n- b\n"
    )
    rows: list[Record] = []
    for number in range(count // 2):
        rows.append({"role": "user", "content": f"question {number}"})
        rows.append({"role": "assistant", "content": [{"type": "text", "text": f"{answer}{number}"}]})
    return rows


async def drawn(view: ConversationView, count: int, step: int) -> float:
    """Scroll `count` times; return the milliseconds of processor time of one frame."""
    begun = processor_s()
    for _ in range(count):
        view.go_up(step)
        view.render_lines(Region(0, 0, view.size.width, view.size.height))
    return (processor_s() - begun) / count * 1000


async def measure_open() -> None:
    """Print what long conversations cost."""
    print("messages  load ms  page up ms  line up ms  growing ms  echo ms  MiB")
    for count in (200, 2000, 20_000):
        app = TerminalClient(lambda _: nothing())
        async with app.run_test(size=(120, 40)):
            rows, view = messages(count), app.query_one(ConversationView)
            begun = processor_s()
            app.transcript.load_messages(rows)
            view.flush()
            loaded = processor_s() - begun
            pages = await drawn(view, 100, 39)
            lines = await drawn(view, 100, 1)
            view.follow()
            begun = processor_s()
            for _ in range(100):
                app.transcript.apply(delta("word "))
                view.flush()
                view.render_lines(Region(0, 0, view.size.width, view.size.height))
            growing = (processor_s() - begun) / 100 * 1000
            echo, _ = quantiles([(await typed(app))[1] for _ in range(20)])
            print(
                f"{count:8}  {loaded * 1000:7.0f}  {pages:10.2f}  {lines:10.2f}  {growing:10.2f}  {echo * 1000:7.1f}"
                f"  {resident_mib():.0f}"
            )
            await app.leave()
            await app.left.wait()


def delta(text: str) -> Record:
    """One step of a growing answer."""
    step = {"type": "text_delta", "contentIndex": 0, "delta": text}
    return {"type": "message_update", "entryId": "grows", "assistantMessageEvent": step}


STREAMER: Final = """
import json, sys, time
out = sys.stdout
def answer(line):
    command = json.loads(line)
    data = {
        "get_state": {"sessionId": "s", "isStreaming": True, "cwd": "/", "model": None, "thinkingLevel": "off"},
        "get_entries": {"entries": [], "leafId": None}, "get_session_stats": {}, "get_commands": {"commands": []},
        "get_queue": {"messages": [], "paused": False},
    }.get(command["type"], {})
    response = {"type": "response", "id": command["id"], "command": command["type"], "success": True, "data": data}
    out.write(json.dumps(response) + "\\n")
    out.flush()
import threading
threading.Thread(target=lambda: [answer(line) for line in sys.stdin], daemon=True).start()
time.sleep(2)
def say(record):
    out.write(json.dumps(record) + "\\n")
say({"type": "agent_start"})
say({"type": "message_start", "entryId": "a", "message": {"role": "assistant", "content": []}})
begun, sent = time.monotonic(), 0
while (spent := time.monotonic() - begun) < SECONDS:
    while sent < spent * 1000:
        word = "word%d " % sent if sent % 60 else "\\n\\n```python\\nprint(%d)\\n```\\n\\n" % sent
        step = {"type": "text_delta", "contentIndex": 0, "delta": word}
        say({"type": "message_update", "entryId": "a", "assistantMessageEvent": step})
        sent += 1
    out.flush()
    time.sleep(0.002)
say({"type": "agent_settled", "aborted": False})
out.flush()
time.sleep(1000)
"""


async def measure_stream() -> None:
    """Print echo and memory while 1,000 deltas a second arrive."""
    program = STREAMER.replace("SECONDS", str(_STREAMED_S))
    app = TerminalClient(lambda _: AsyncioClient([sys.executable, "-c", program]))
    print("second  wall ms (median, 99 %)  processor ms (both)  processor %  MiB  characters")
    async with app.run_test(size=(120, 40)):
        while not app.transcript.items:  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0.05)
        echoes, begun, used = list[tuple[float, float]](), time.monotonic(), processor_s()
        for second in range(10, _STREAMED_S, 10):
            while time.monotonic() - begun < second:
                echoes.append(await typed(app))
                await asyncio.sleep(0.05)
            now = processor_s()
            size = sum(len(getattr(item, "text", "")) for item in app.transcript.items)
            columns = [f"{value * 1000:6.1f}" for kind in zip(*echoes, strict=True) for value in quantiles(kind)]
            print(f"{second:6}  {'  '.join(columns)}  {(now - used) * 10:11.0f}  {resident_mib():3.0f}  {size:,}")
            echoes, used = [], now
        await app.leave()
        await app.left.wait()


async def typed(app: TerminalClient) -> tuple[float, float]:
    """Send a key to the app as its driver does; return wall and processor seconds until the editor is drawn with it."""
    editor = app.query_one(Editor)
    before, has_drawn = len(editor.text), asyncio.Event()
    begun, used = time.perf_counter(), time.process_time()
    app.post_message(events.Key("x", "x"))
    while len(editor.text) == before:  # noqa: ASYNC110 - an event would be another way than a user's
        await asyncio.sleep(0.001)
    editor.call_after_refresh(has_drawn.set)
    await has_drawn.wait()
    spent = time.perf_counter() - begun, time.process_time() - used
    if len(editor.text) > 60:
        editor.put("")
    return spent


def quantiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the median and 99 %."""
    return statistics.median(values), sorted(values)[int(len(values) * 0.99)]


def measure_start(count: int = 15) -> None:
    """Print the time until a key is echoed, and until the agent is there, in turns."""
    node, original = ROOT / ".tools/node22/bin/node", ROOT / ".tools/pi-1.5.2/package/dist/bundle/cli.js"
    # The original's agent is in the terminal's process: its editor is drawn when it is there.
    commands = {
        "pinnace": (
            [str(Path(sys.executable).parent / "pinnace"), "--provider", "offline", "--no-session"],
            b"rehearsal",
        )
    }
    if original.exists():
        commands["pi 1.5.2"] = ([str(node), str(original), "--no-session"], b"zq")
    times: dict[str, list[tuple[float, float, float]]] = {name: [] for name in commands}
    for command, sign in commands.values():
        started(command, sign)  # both keep compiled code
    for _ in range(count):
        for name, (command, sign) in commands.items():
            times[name].append(started(command, sign))
    print(f"load {os.getloadavg()[0]:.1f}; medians of {count} runs in turns, with their ranges")
    print("program    editor, s            processor until then, s  agent, s")
    for name, spent in times.items():
        editor, processor, agent = (
            f"{statistics.median(each):.3f} ({min(each):.3f}..{max(each):.3f})" for each in zip(*spent, strict=True)
        )
        print(f"{name:9}  {editor}  {processor:23}  {agent}")


def started(command: list[str], sign: bytes) -> tuple[float, float, float]:
    """Start a program in a terminal and write until it echoes, then wait until it shows a sign of its agent.

    Returns the wall time until the echo, the processor time of the terminal's process until then, and the wall time
    until the sign.
    """
    folder, begun = tempfile.mkdtemp(prefix="pinnace-start-"), time.monotonic()
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        attributes = termios.tcgetattr(0)
        attributes[3] &= ~termios.ECHO  # what is echoed is the program's
        termios.tcsetattr(0, termios.TCSANOW, attributes)
        env = {
            **os.environ,
            "HOME": folder,
            "PI_CODING_AGENT_DIR": f"{folder}/agent",
            "TERM": "xterm-256color",
            "PI_OFFLINE": "1",
        }
        os.execvpe(command[0], command, env)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    seen, wall, agent, processor = b"", 0.0, 0.0, 0.0
    for chunk in chunks(terminal):
        seen += chunk
        if b"zq" in seen and not wall:
            wall, processor = time.monotonic() - begun, processor_of(child)
        if wall and sign in seen:
            agent = time.monotonic() - begun
            break
    os.kill(child, 15)
    os.close(terminal)
    os.waitpid(child, 0)
    shutil.rmtree(folder, ignore_errors=True)
    return wall, processor, agent


def processor_of(process: int) -> float:
    """Processor time of a process and its threads so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def chunks(terminal: int) -> Iterator[bytes]:
    """Return what a program writes, while `zq` is written to it every tenth of a second."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 0.1)
        if ready:
            try:
                yield os.read(terminal, 65536)
            except OSError:
                return
        else:
            os.write(terminal, b"zq")


def main() -> None:
    """Measure what is named, or everything."""
    wanted = sys.argv[1:] or ["open", "stream", "start"]
    if "open" in wanted:
        asyncio.run(measure_open())
    if "stream" in wanted:
        asyncio.run(measure_stream())
    if "start" in wanted:
        measure_start()


if __name__ == "__main__":
    main()
