"""A scripted model for reproductions: answers chat completions with the parts of a file.

python3 model.py FOLDER: reads FOLDER/answers.json and writes FOLDER/port. At a gate NAME it makes FOLDER/at-NAME and
waits for FOLDER/open-NAME. It is copied as it is and needs Python alone.
"""

import json
import re
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
ANSWERS: list[Any] = []


class Model(BaseHTTPRequestHandler):
    """One connection of the agent."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def do_POST(self) -> None:
        """Answer with the first part that fits and is not used up."""
        text = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode("utf-8", "replace")
        answer = next((each for each in ANSWERS if each["repeat"] and re.search(each["match"], text)), None)
        if answer is None or not self.path.endswith("/chat/completions"):
            return self.send_error(500, "nothing is scripted for this request")
        answer["repeat"] -= 1
        pieces = [*answer["pieces"]]
        self.wait(answer["before"])
        self.send_response(answer["status"])
        for name, value in {**answer["headers"], "Transfer-Encoding": "chunked", "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        for piece in pieces:
            if piece == "disconnect":
                return None
            if isinstance(piece, dict):
                self.wait([piece])
            else:
                data = piece.encode()
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")
        return None

    def wait(self, pieces: list[dict[str, Any]]) -> None:
        """Wait for a gate or a time."""
        for piece in pieces:
            time.sleep(piece.get("sleep_ms", 0) / 1000)
            if name := piece.get("gate"):
                (FOLDER / f"at-{name}").touch()
                while not (FOLDER / f"open-{name}").exists():
                    time.sleep(0.05)


if __name__ == "__main__":
    ANSWERS.extend(json.loads((FOLDER / "answers.json").read_text(encoding="utf-8").replace("@ROOT@", str(FOLDER))))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    server.daemon_threads = True
    (FOLDER / "port.new").write_text(str(server.server_address[1]))
    (FOLDER / "port.new").rename(FOLDER / "port")
    server.serve_forever()
