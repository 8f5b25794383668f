"""A headless Chromium that site_test.py controls by the DevTools protocol.

The browser reads commands from fd 3 and writes answers to fd 4 (--remote-debugging-pipe). Each
message is JSON and ends in a zero byte, so no package and no port is needed.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LIMIT = 120.0  # seconds for an answer: a busy machine takes ten


def find_chromium() -> str | None:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    return None


class Browser:
    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._number = 0
        self._bytes = b""
        self.events: list[dict[str, Any]] = []
        self.session = ""

    def _read(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._bytes:
            ready, _, _ = select.select([self._receive], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError(f"Chromium has not answered for {LIMIT:.0f} seconds")
            data = os.read(self._receive, 1 << 16)
            if not data:
                raise RuntimeError("Chromium has ended")
            self._bytes += data
        first, _, self._bytes = self._bytes.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        return message

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + LIMIT
        while True:
            answer = self._read(end)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def wait_for(self, what: Callable[[dict[str, Any]], bool]) -> None:
        """Read events until `what` is true for one of them. All events are kept."""
        end = time.monotonic() + LIMIT
        at = 0
        while True:
            while at < len(self.events):
                if what(self.events[at]):
                    return
                at += 1
            self.events.append(self._read(end))

    def open_tab(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def look_like(self, scheme: str, width: int, height: int) -> None:
        """Set the system that the page sees: its colour scheme, and the size of the window."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def go(self, url: str) -> None:
        self.events.clear()
        answer = self.call("Page.navigate", url=url)
        if "errorText" in answer:
            raise RuntimeError(f"{url}: {answer['errorText']}")
        self.wait_for(lambda event: event.get("method") == "Page.loadEventFired")

    def ask(self, expression: str) -> Any:
        """Return the value of an expression in the page. If the value is a promise, wait for it."""
        options = {"returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", expression=expression, **options)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """Failed requests, script errors and messages of the console since go()."""
        found: list[str] = []
        urls: dict[str, str] = {}
        for event in self.events:
            of = event.get("params", {})
            method = event.get("method")
            if method == "Network.requestWillBeSent":
                urls[of["requestId"]] = of["request"]["url"]
            elif method == "Network.loadingFailed" and not of.get("canceled"):
                found.append(f"{urls.get(of['requestId'])}: {of['errorText']}")
            elif method == "Network.responseReceived" and of["response"]["status"] >= 400:
                found.append(f"{of['response']['url']}: {of['response']['status']}")
            elif method == "Runtime.exceptionThrown":
                found.append(str(of["exceptionDetails"].get("exception", of["exceptionDetails"])))
            elif method == "Runtime.consoleAPICalled" and of["type"] in ("error", "warning"):
                found.append(f"console: {of['args']}")
            elif method == "Log.entryAdded" and of["entry"]["level"] == "error":
                found.append(f"console: {of['entry']['text']} {of['entry'].get('url', '')}")
        return found

    def requests(self) -> list[str]:
        sent = (each for each in self.events if each.get("method") == "Network.requestWillBeSent")
        return [each["params"]["request"]["url"] for each in sent]

    def screenshot(self, path: Path) -> None:
        answer = self.call("Page.captureScreenshot", format="png")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(answer["data"]))


@contextmanager
def browser(program: str) -> Iterator[Browser]:
    commands, to_browser = os.pipe()
    from_browser, answers = os.pipe()
    with tempfile.TemporaryDirectory(prefix="tenon-docs-") as folder:
        options = [
            "--headless=new",
            "--remote-debugging-pipe",
            f"--user-data-dir={folder}",
            "--disable-gpu",
            "--disable-dev-shm-usage",  # tests of Tenon look into /dev/shm
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            "--hide-scrollbars",
        ]
        if os.geteuid() == 0:
            options.append("--no-sandbox")  # Chromium refuses to have its sandbox as root
        shell = ["bash", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "chromium"]
        process = subprocess.Popen(
            [*shell, program, *options, "about:blank"],
            pass_fds=(commands, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": folder},
        )
        os.close(commands)
        os.close(answers)
        try:
            one = Browser(to_browser, from_browser)
            one.open_tab()
            yield one
            one.session = ""
            one.call("Browser.close")
        finally:
            os.close(to_browser)
            os.close(from_browser)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
