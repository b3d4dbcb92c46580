"""A registry of npm on the loopback interface: packages that a test publishes, and nothing else."""

import base64
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import unquote

_TARBALLS: Final = "/-/"


class Registry(ThreadingHTTPServer):
    """The registry. Use as a context manager; `url` is its address."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url: Final = f"http://127.0.0.1:{self.server_address[1]}/"
        self.asked: Final[list[str]] = []
        """The paths of all requests."""
        self.gate: Final = threading.Event()
        """Cleared, no tarball is sent: npm waits."""
        self.gate.set()
        self.waiting: Final = threading.Event()
        """Set when a request for a tarball waits at the gate."""
        self.versions: Final[dict[str, dict[str, dict[str, object]]]] = {}
        self.tarballs: Final[dict[str, bytes]] = {}

    def publish(self, name: str, version: str, files: Mapping[str, str], **manifest: object) -> None:
        """Publish a version of a package; the newest one is `latest`."""
        package = {"name": name, "version": version, **manifest}
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for path, text in {"package.json": json.dumps(package), **files}.items():
                entry = tarfile.TarInfo(f"package/{path}")
                content = text.encode()
                entry.size, entry.mode = len(content), 0o644
                archive.addfile(entry, io.BytesIO(content))
        data = packed.getvalue()
        place = f"{_TARBALLS}{name.replace('/', '-')}-{version}.tgz"
        self.tarballs[place] = data
        integrity = f"sha512-{base64.b64encode(hashlib.sha512(data).digest()).decode()}"
        dist = {"tarball": f"{self.url.rstrip('/')}{place}", "integrity": integrity}
        self.versions.setdefault(name, {})[version] = {**package, "dist": dist}

    def __enter__(self) -> "Registry":
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.set()
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        registry = self.server
        path = unquote(self.path)
        registry.asked.append(path)
        if path.startswith(_TARBALLS):
            if not registry.gate.is_set():
                registry.waiting.set()
                registry.gate.wait()
            self._send(registry.tarballs.get(path), "application/octet-stream")
            return
        versions = registry.versions.get(path.removeprefix("/"))
        if versions is None:
            self._send(None, "application/json")
            return
        document = {"name": path[1:], "dist-tags": {"latest": [*versions][-1]}, "versions": versions}
        self._send(json.dumps(document).encode(), "application/json")

    def _send(self, content: bytes | None, kind: str) -> None:
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""
