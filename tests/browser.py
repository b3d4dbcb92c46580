"""A browser for tests, over the pipe of its DevTools protocol, and a recorder that stands in for all proxies.

What a page tries is noted: requests, dialogs, errors, breaches of its policy.
"""

import base64
import fcntl
import json
import os
import re
import signal
import socketserver
import subprocess
import threading
from pathlib import Path
from typing import Any, Final

# Far above what all pages of a module take, together; a browser that is stuck is killed then.
TIMEOUT_S: Final = 300.0
FLAGS: Final = (
    "--headless --disable-gpu --remote-debugging-pipe --no-first-run --disable-background-networking --disable-sync "
    "--disable-component-update --disable-default-apps --disable-domain-reliability --disable-breakpad "
    "--disable-features=Translate,OptimizationHints,MediaRouter --metrics-recording-only --password-store=basic"
).split()
# What the browser tells about a page that tries something.
ALARMS: Final = (
    "Page.javascriptDialogOpening Runtime.exceptionThrown Log.entryAdded Page.frameAttached Page.windowOpen "
    "Page.downloadWillBegin"
).split()


class Recorder(socketserver.ThreadingTCPServer):
    """Stands in for every server there is, and answers nothing."""

    daemon_threads = True

    def __init__(self) -> None:
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _Asked)


class _Asked(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Recorder)
        self.server.asked.append(self.rfile.readline().decode("latin-1"))


def _moved(descriptor: int) -> int:
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


class Navigated(AssertionError):
    """The page was left while it was asked for something."""


class Browser:
    """One tab of a Chromium."""

    def __init__(self, program: str, profile: Path, proxy: str) -> None:
        to_read, self._to_write = os.pipe()
        self._from_read, to_answer = os.pipe()
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        words = [program, *FLAGS, *sandbox, f"--user-data-dir={profile}", f"--proxy-server={proxy}"]
        words += ["--proxy-bypass-list=<-loopback>", "about:blank"]
        # The protocol is spoken on descriptors 3 and 4, which these must therefore not be.
        to_read, to_answer = _moved(to_read), _moved(to_answer)
        shell = ["bash", "-c", f'exec "$@" 3<&{to_read} 4>&{to_answer} {to_read}<&- {to_answer}>&-', "bash"]
        self._process = subprocess.Popen(
            [*shell, *words],
            pass_fds=(to_read, to_answer),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            # It makes a socket there, whose path must be short.
            env={**os.environ, "TMPDIR": "/tmp"},
        )
        os.close(to_read)
        os.close(to_answer)
        self._timer = threading.Timer(TIMEOUT_S, self.kill)
        self._timer.start()
        self._data = b""
        self._ids = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        (target,) = [each["targetId"] for each in targets if each["type"] == "page"][:1]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: object) -> dict[str, Any]:
        """Call a method and return its result; events that come meanwhile are kept."""
        self._ids += 1
        session = {"sessionId": self._session} if self._session else {}
        message = {"id": self._ids, "method": method, "params": params, **session}
        os.write(self._to_write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._ids:
                if "navigated" in answer.get("error", {}).get("message", ""):
                    raise Navigated(answer)
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self._take(answer)

    def _take(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        if event.get("method") == "Page.javascriptDialogOpening":
            self._ids += 1
            message = {"id": self._ids, "method": "Page.handleJavaScriptDialog", "params": {"accept": True}}
            os.write(self._to_write, json.dumps({**message, "sessionId": self._session}).encode() + b"\0")
            self._ids += 1

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._data:
            more = os.read(self._from_read, 1 << 20)
            assert more, "the browser is gone"
            self._data += more
        line, _, self._data = self._data.partition(b"\0")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def open(self, path: Path, *, width: int = 1280, height: int = 900, is_dark: bool = False) -> None:
        """Show a page and wait until it is loaded."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = "dark" if is_dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.load(path)
        # Two frames: whatever starts with the page has started, what it asks for is asked.
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def load(self, path: Path, query: str = "") -> None:
        """Go to a page, and forget what other pages have done."""
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri() + query)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self._take(self._next())

    def run(self, expression: str) -> Any:
        """Return what an expression comes to."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until an expression holds, on this page or one that it leads to.

        A page in which it never does is ended with its browser.
        """
        look = f"const look = () => {expression} ? done() : requestAnimationFrame(look); look()"
        while True:
            try:
                self.run(f"new Promise(done => {{ {look} }})")
            except Navigated:
                continue
            return

    def press(self, key: str, text: str = "") -> None:
        """Press and release a key."""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self, path: Path) -> None:
        """Keep what is seen."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def alarms(self) -> list[dict[str, Any]]:
        """Return what the page has tried, errors included."""
        found = [event for event in self.events if event.get("method") in ALARMS]
        requests = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return found + [
            event for event in requests if not event["params"]["request"]["url"].startswith(("file:", "data:image/"))
        ]

    def kill(self) -> None:
        """End the browser and what it has started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End the browser and wait for it."""
        self._timer.cancel()
        self.kill()
        self._process.wait()
        os.close(self._to_write)
        os.close(self._from_read)


def without_policy(text: str) -> str:
    """Return a page as it would be if its policy did not help: what is left is the escaping."""
    changed, count = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    assert count == 1
    return changed
