"""`python -m bench COMMAND`: finds the command, renders its errors. Imports nothing that a command does not need."""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence

from bench.types import BenchError

COMMANDS = {
    "run": "run a strategy over recorded sessions and say what it loses",
    "estimate": "what a run would do, before it does it",
    "rescore": "recompute the measures of finished runs from what they stored",
    "show": "what a compaction removed, and which probes died with it",
    "list": "strategies, wrappers, models, sessions, formats, probes, agents",
}
HELP = "usage: python -m bench COMMAND [arguments]\n\n" + "".join(f"  {name:10} {text}\n" for name, text in COMMANDS.items())
HELP += "\npython -m bench COMMAND --help says more of each; exit codes: 0 done, 1 done with errors, 2 usage or set-up\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say, and return the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without Unicode: better an escape than a traceback
    try:
        code = _command(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
        return code
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader of our output left: not an error
        return 0
    except OSError as error:  # a full disk, a folder in a file's place: nothing of ours is wrong
        print(f"error: {error.strerror or error}{f': {error.filename}' if error.filename else ''}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on from here", file=sys.stderr)
        return 130


def _command(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(HELP, end="")
        return 0 if arguments else 2
    command, *rest = arguments
    if command == "--version":
        from bench import __version__

        print(f"compaction-bench {__version__}")
        return 0
    if command not in COMMANDS:
        print(f"error: unknown command {command!r}; there are: {', '.join(COMMANDS)}", file=sys.stderr)
        return 2
    return importlib.import_module(f"bench.commands.{command}").main(rest)


if __name__ == "__main__":
    sys.exit(main())
