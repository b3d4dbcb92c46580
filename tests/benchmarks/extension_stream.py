"""Measures what extensions cost a stream: none loaded, loaded without a handler, and one trivial handler of updates.

    .venv/bin/python tests/benchmarks/extension_stream.py [--deltas 20000] [--per-pause 1 8 64]

Streams deltas through the sink of a run into an outbox whose reader takes everything at once; a pause is what a
provider makes between two pieces of the network's. Prints microseconds a delta, the best of several rounds, and how
much more that is than without extensions. A delta that comes by a network takes a multiple of this: see
`against_original.py` for whole agents. Judges nothing.
"""

import argparse
import time
from collections.abc import Callable
from typing import Final

import trio

from pinnace_agent.engine.run_job import MessageSink
from pinnace_agent.engine.run_recorder import RunRecorder
from pinnace_agent.extensions.hooks.run_event_publisher import RunEventPublisher
from pinnace_agent.extensions.hooks.run_hooks import RunHooks
from pinnace_agent.extensions.ports.host_actions import HostPort
from pinnace_agent.extensions.registration.registrations import ErrorRecord, Extension, Generation, Handler
from pinnace_agent.extensions.runtime.runner import Runner
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.offline.provider import OFFLINE_MODEL
from pinnace_agent.session.conversation import Session
from pinnace_rpc.server.outbox import Outbox
from pinnace_rpc.server.projection import make_projection

ROUNDS: Final = 5


class Reader:
    """Takes everything at once."""

    async def send_all(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()


def runner(*functions: Callable[[object, object], object]) -> Runner:
    """Make a runner over one extension, with these handlers of updates."""
    generation = Generation()
    extension = Extension(
        "/e.py", {"path": "/e.py", "source": "local", "scope": "user", "origin": "top-level"}, generation, "live"
    )
    for function in functions:
        extension.add_handler(Handler("message_update", function))
    nobody = object()

    def tell(record: ErrorRecord) -> None:
        raise AssertionError(record.error)

    # Neither is asked anything here.
    port = HostPort(nobody, nobody, tell)  # type: ignore[arg-type]
    return Runner([extension], generation, port)


async def stream(heard_by: Runner | None, deltas: int, per_pause: int) -> float:
    """Stream an answer; return seconds."""
    outbox, session = Outbox(make_projection("1.5")), Session("/nonexistent")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.pump, Reader())
        if heard_by is None:
            log, hooks = RunRecorder(session, outbox), None
        else:
            publisher = RunEventPublisher(heard_by, session)
            log = RunRecorder(session, outbox, publisher)
            hooks = RunHooks(log, publisher, session, outbox)
        log.builder = builder = MessageBuilder(OFFLINE_MODEL, MessageSink(log, outbox, hooks), 0)
        begun = time.perf_counter()
        builder.start()
        for number in range(deltas):
            builder.text_delta("text", "word ")
            if number % per_pause == 0:
                await builder.room()
        builder.finish("stop")
        if hooks is not None:
            await hooks.drain()
        took = time.perf_counter() - begun
        outbox.close()
    return took


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--deltas", type=int, default=20_000)
    parser.add_argument("--per-pause", type=int, nargs="+", default=[1, 8, 64])
    options = parser.parse_args()
    runners: dict[str, Runner | None] = {
        "none loaded": None,
        "no handler": runner(),
        "one handler": runner(lambda _ctx, _event: None),
    }
    print(f"{'deltas a pause':>14}  {'extensions':<12} {'us a delta':>10} {'more':>8}")
    for per_pause in options.per_pause:
        best: dict[str, float] = {}
        for _ in range(ROUNDS):
            for name, heard_by in runners.items():
                took = trio.run(stream, heard_by, options.deltas, per_pause)
                best[name] = min(took, best.get(name, took))
        for name, took in best.items():
            more = took / best["none loaded"] - 1
            print(f"{per_pause:>14}  {name:<12} {took / options.deltas * 1e6:>10.2f} {more:>8.1%}")


if __name__ == "__main__":
    main()
