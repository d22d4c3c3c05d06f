"""Names of the tools of coding agents, by what they do, and the arguments in which they name a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from bench.types import Message, ToolCall

READ = frozenset({"read", "read_file", "view", "open_file", "view_file"})
WRITE = frozenset({"write", "write_file", "create_file", "write_to_file", "create"})
EDIT = frozenset({"edit", "multiedit", "edit_file", "str_replace", "replace", "replace_in_file", "apply_diff", "notebookedit"})
SHELL = frozenset({"bash", "shell", "execute_bash", "run_shell_command", "execute_command", "run_command", "terminal"})
EDITOR = frozenset({"str_replace_editor", "str_replace_based_edit_tool"})  # one tool; its `command` says what it does
TODO = frozenset({"todowrite", "todo_write", "write_todos", "task_tracker"})
PATH_KEYS = ("file_path", "path", "filename", "target_file", "notebook_path", "absolute_path")

_FAILED = re.compile(r"\A(?:<tool_use_error>|Error\b|ERROR:\n|Edit refused|File does not exist)")

INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", "CONVENTIONS.md", "CONSTRAINTS.md", "copilot-instructions.md")
# A root instruction file shown to the agent as a message, as recorders and products head it.
INSTRUCTIONS = re.compile(
    rf"\A(?:#+ |<[\w-]+>\s*|Contents of )?[\w./~-]*\b(?P<name>{'|'.join(map(re.escape, INSTRUCTION_FILES))})\b"
)


def path_of(arguments: Mapping[str, Any] | str) -> str:
    """The file a file tool's call is about, or an empty string."""
    if isinstance(arguments, str):
        return ""
    return next((str(arguments[key]) for key in PATH_KEYS if isinstance(arguments.get(key), str)), "")


def name_of(call: ToolCall) -> str:
    """A tool's name as the sets above have it: lower case, without the server that it came from."""
    return call.name.lower().rsplit("__", 1)[-1]


def file_operation(call: ToolCall) -> Literal["read", "write", "edit", ""]:
    """What a call of a file tool does to the file it names; empty for any other tool."""
    name = name_of(call)
    if name in EDITOR and isinstance(call.arguments, Mapping):
        name = {"create": "write", "view": "read"}.get(str(call.arguments.get("command")), "edit")
    return "read" if name in READ else "write" if name in WRITE else "edit" if name in EDIT else ""


def failed(result: Message) -> bool:
    """Whether a call did nothing: its result is an error, or says so."""
    return result.is_error or bool(_FAILED.match(result.text))
