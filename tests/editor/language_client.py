"""A small client of the language server protocol, for tests: messages over the standard streams of a server process."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TIMEOUT = 60.0
"""Seconds to wait for a message: a loaded machine is slow to start Python."""

CAPABILITIES: dict[str, Any] = {
    "textDocument": {
        "publishDiagnostics": {"relatedInformation": True, "tagSupport": {"valueSet": [1, 2]}},
        "hover": {"contentFormat": ["markdown", "plaintext"]},
    }
}


class Client:
    """One server process. Messages that arrive while another is waited for are kept."""

    def __init__(self, root: Path | None, capabilities: dict[str, Any] | None = None) -> None:
        command = [sys.executable, "-m", "cfglint", "lsp"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=root
        )
        self.received: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.kept: list[dict[str, Any]] = []
        self.number = 0
        threading.Thread(target=self._read, daemon=True).start()
        folders = [{"uri": root.as_uri(), "name": "test"}] if root is not None else None
        self.initialized = self.request(
            "initialize",
            {
                "processId": None,
                "rootUri": root.as_uri() if root is not None else None,
                "workspaceFolders": folders,
                "capabilities": CAPABILITIES if capabilities is None else capabilities,
            },
        )
        self.notify("initialized", {})

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        while True:
            length = 0
            while (line := stream.readline()) not in (b"\r\n", b""):
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            if not line:
                self.received.put(None)
                return
            self.received.put(json.loads(stream.read(length)))

    def send_raw(self, body: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def send(self, message: dict[str, Any]) -> None:
        self.send_raw(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def notify(self, method: str, params: Any) -> None:
        self.send({"method": method, "params": params})

    def request(self, method: str, params: Any = None) -> Any:
        self.number += 1
        number = self.number
        self.send({"id": number, "method": method, **({} if params is None else {"params": params})})
        answer = self._wait(lambda m: m.get("id") == number and "method" not in m)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def _wait(self, wanted: Any) -> dict[str, Any]:
        for i, message in enumerate(self.kept):
            if wanted(message):
                return self.kept.pop(i)
        while True:
            message = self.received.get(timeout=TIMEOUT)
            assert message is not None, "the server has ended"
            if wanted(message):
                return message
            self.kept.append(message)

    def diagnostics(self, uri: str) -> list[dict[str, Any]]:
        """The diagnostics of the next publication for a document."""

        def published(message: dict[str, Any]) -> bool:
            return message.get("method") == "textDocument/publishDiagnostics" and message["params"]["uri"] == uri

        found: list[dict[str, Any]] = self._wait(published)["params"]["diagnostics"]
        return found

    def open(self, uri: str, text: str, language: str = "yaml") -> None:
        document = {"uri": uri, "languageId": language, "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})

    def change(self, uri: str, text: str, version: int) -> None:
        params = {"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": text}]}
        self.notify("textDocument/didChange", params)

    def close(self, uri: str) -> None:
        self.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def hover(self, uri: str, line: int, character: int) -> Any:
        position = {"line": line, "character": character}
        return self.request("textDocument/hover", {"textDocument": {"uri": uri}, "position": position})

    def actions(self, uri: str, place: dict[str, Any]) -> list[dict[str, Any]]:
        params = {"textDocument": {"uri": uri}, "range": place, "context": {"diagnostics": []}}
        found: list[dict[str, Any]] = self.request("textDocument/codeAction", params)
        return found

    def leave(self) -> int:
        """Shutdown and exit, as a client does; the server's exit code."""
        self.request("shutdown")
        self.notify("exit", None)
        return self.process.wait(timeout=TIMEOUT)


@contextlib.contextmanager
def client(root: Path | None, capabilities: dict[str, Any] | None = None) -> Iterator[Client]:
    """A client that is gone at the end, whatever happened."""
    made = Client(root, capabilities)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()
