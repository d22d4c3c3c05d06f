"""A compactor in a process of its own: what runs there (`python -m bench.strategies.isolated TARGET`), and who asks it.

The two talk in JSON lines over the process's standard input and output. It first reads the import path, and says the
compactor's version or why there is none; then it answers each list of chat messages with one, or with a traceback.
What the compactor prints goes to standard error, so that it cannot get between the lines.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import orjson

from bench.types import BenchError

TAIL = 2_000  # bytes of standard error that are told when a process has ended
PATIENCE = 5.0  # seconds for a process to end by itself once nobody asks it any more


class Stopped(Exception):
    """The compactor gave no answer. `details` is its traceback, or the last lines its process wrote."""

    def __init__(self, message: str, details: str) -> None:
        super().__init__(message)
        self.details = details


class Worker:
    """The process of one compactor: started when it is first needed, and again after it has ended."""

    def __init__(self, target: str) -> None:
        self.target = target
        self._process: _Process | None = None
        self.version: str = self._running().version

    def __call__(self, messages: list[dict[str, Any]]) -> Any:
        """What the compactor returns, None for what is no list of messages. Raises Stopped."""
        process = self._running()
        try:
            answer = process.ask(messages)
        except BaseException:  # Ctrl-C too: an answer that comes later would be taken for the next one
            self._process = None
            process.close()
            raise
        if "raised" in answer:
            raise Stopped(f"{self.target} raised {answer['raised'].splitlines()[-1]}", answer["raised"])
        return answer["returned"]

    def _running(self) -> _Process:
        if self._process is None or self._process.ended:
            self._process = _Process(self.target)
        return self._process


class _Process:
    def __init__(self, target: str) -> None:
        self._target = target
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "bench.strategies.isolated", target],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._said = bytearray()
        self._listener = threading.Thread(target=_listen, args=(self._process.stderr, self._said), daemon=True)
        self._listener.start()
        self.close = weakref.finalize(self, _close, self._process, self._listener)  # at the latest when we end
        try:
            greeting = self.ask([folder or str(Path.cwd()) for folder in sys.path])
        except Stopped as error:
            self.close()
            raise BenchError(f"cannot load {target}: {error}: {error.details}") from None
        if "refused" in greeting:
            self.close()
            raise BenchError(greeting["refused"])
        self.version: str = greeting["version"]

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def ask(self, question: Any) -> dict[str, Any]:
        questions, answers = self._process.stdin, self._process.stdout
        try:
            questions.write(orjson.dumps(question) + b"\n")
            questions.flush()
            return orjson.loads(answers.readline())
        except (BrokenPipeError, orjson.JSONDecodeError):  # an empty or a half line
            raise self._stopped() from None

    def _stopped(self) -> Stopped:
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return Stopped(f"the process of {self._target} closed its output", self._last_lines())
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return Stopped(f"the process of {self._target} {how}", self._last_lines())

    def _last_lines(self) -> str:
        self._listener.join(PATIENCE)
        return bytes(self._said).decode(errors="replace").strip()


def _listen(pipe: IO[bytes], said: bytearray) -> None:
    while chunk := os.read(pipe.fileno(), 65_536):
        said += chunk
        del said[:-TAIL]


def _close(process: subprocess.Popen[bytes], listener: threading.Thread) -> None:
    """End one process: it ends by itself when its input does, else it is killed."""
    with suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    listener.join(PATIENCE)
    process.stdout.close()
    if not listener.is_alive():
        process.stderr.close()


# --- in the process -------------------------------------------------------------------------------------------


def main() -> None:
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)  # whatever writes to standard output, in Python or below it
    asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(questions, asked), daemon=True).start()

    def say(answer: dict[str, Any]) -> None:
        answers.write(orjson.dumps(answer) + b"\n")
        answers.flush()

    from bench.strategies.custom import in_process

    sys.path[:] = asked.get()
    try:
        call, version = in_process(sys.argv[1])
    except BenchError as error:
        say({"refused": str(error)})
        return
    say({"version": version})
    while (messages := asked.get()) is not None:
        try:
            answer = {"returned": call(messages)}
        except Exception:
            answer = {"raised": traceback.format_exc(limit=8)}
        say(answer)


def _receive(questions: IO[bytes], asked: queue.SimpleQueue[Any]) -> None:
    """Hand lines on; when there are no more, nobody waits for an answer, and even a compactor that hangs has to end."""
    for line in questions:
        asked.put(orjson.loads(line))
    asked.put(None)
    time.sleep(PATIENCE / 2)
    os._exit(1)


if __name__ == "__main__":
    main()
