"""Printing: rich on a terminal, plain text and wide enough tables when piped. Text of sessions is never read as markup."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

PIPED_WIDTH = 300
_CONTROLS = {code: "\N{REPLACEMENT CHARACTER}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704 - rich calls this where it caught BrokenPipeError; `bench.__main__` knows what to do with it


def console(*, errors: bool = False) -> Console:
    stream = sys.stderr if errors else sys.stdout
    return _Console(
        stderr=errors,
        highlight=False,
        emoji=False,
        soft_wrap=not stream.isatty(),
        width=None if stream.isatty() else PIPED_WIDTH,
    )


def plain(text: str) -> str:
    """Text of others for the terminal: its control characters could colour, move or rename what the user sees."""
    return text.translate(_CONTROLS)


def print_table(headings: Sequence[str], body: Sequence[Sequence[str]], heading: str = "") -> None:
    table = Table(title=Text(heading) if heading else None, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, text in enumerate(headings):
        table.add_column(text, overflow="fold", min_width=8 if number else None)
    for row in body:
        table.add_row(*(Text(plain(text)) for text in row))
    console().print(table)


class Reporter:
    """Progress on standard error: a live bar on a terminal, a line now and then when piped."""

    def __init__(self, bar: Progress | None) -> None:
        self._bar = bar
        self._task = bar.add_task("starting", total=None, errors=0) if bar else None
        self._said = 0

    def stage(self, text: str) -> None:
        if self._bar:
            self._bar.update(self._task, description=plain(text)[:60])

    def say(self, text: str) -> None:
        """A sentence that stays on the screen."""
        (self._bar.console if self._bar else console(errors=True)).print(plain(text), markup=False)

    def cells(self, done: int, total: int, errors: int) -> None:
        if self._bar:
            self._bar.update(self._task, description="cuts", completed=done, total=total, errors=errors)
        elif done == total or done - self._said >= 20:
            self._said = done
            print(f"cuts {done}/{total}, errors {errors}", file=sys.stderr, flush=True)


@contextmanager
def reporter() -> Iterator[Reporter]:
    screen = console(errors=True)
    if not screen.is_terminal:
        yield Reporter(None)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("errors {task.fields[errors]}"),
    )
    with Progress(*columns, console=screen, transient=True) as bar:
        yield Reporter(bar)
