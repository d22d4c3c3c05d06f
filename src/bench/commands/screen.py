"""Printing: rich on a terminal, plain text and wide enough tables when piped. Text of sessions is never read as markup."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

PIPED_WIDTH = 230


def console(*, errors: bool = False) -> Console:
    stream = sys.stderr if errors else sys.stdout
    return Console(stderr=errors, highlight=False, soft_wrap=not stream.isatty(), width=None if stream.isatty() else PIPED_WIDTH)


def print_table(headings: Sequence[str], body: Sequence[Sequence[str]], heading: str = "") -> None:
    table = Table(title=escape(heading) or None, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, text in enumerate(headings):
        table.add_column(text, overflow="fold", min_width=8 if number else None)
    for row in body:
        table.add_row(*map(escape, row))
    console().print(table)


class Reporter:
    """Progress on standard error: a live bar on a terminal, a line now and then when piped."""

    def __init__(self, bar: Progress | None) -> None:
        self._bar = bar
        self._task = bar.add_task("starting", total=None, errors=0) if bar else None
        self._said = 0

    def stage(self, text: str) -> None:
        if self._bar:
            self._bar.update(self._task, description=escape(text)[:60])

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
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("errors {task.fields[errors]}"),
    )
    with Progress(*columns, console=screen, transient=True) as bar:
        yield Reporter(bar)
