"""The command `trl-agentenvs`: one table of subcommands, each a function that parses its own arguments.

Exit codes: 0 all is well, 1 the command found something to complain about, 2 the input was wrong (one sentence on
stderr), 130 interrupted. A closed pipe and Ctrl-C end quietly. Nothing but the chosen subcommand is imported.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from . import __version__
from .arguments import ArgumentParser
from .registry import ENVIRONMENTS
from .terminal import printable

__all__ = ["COMMANDS", "INTERRUPTED", "WRONG_INPUT", "main", "of_environment"]

PROGRAM = "trl-agentenvs"
WRONG_INPUT = 2
INTERRUPTED = 130


class Command(NamedTuple):
    """A subcommand: where its function lies, and what it is for.

    The function takes the arguments behind the subcommand and the program's name, and returns the exit code. It raises
    ValueError, OSError or ImportError where the input is wrong.
    """

    function: str
    purpose: str


COMMANDS: dict[str, Command] = {
    "check": Command("trl_agentenvs.check.command:main", "run the contract against an environment"),
    "trace": Command("trl_agentenvs.trace_command:main", "show what happened in the rollouts of a run"),
    "play": Command("trl_agentenvs.cli:of_environment", "play an environment yourself in the terminal"),
    "data": Command("trl_agentenvs.cli:of_environment", "say which data of an environment is there, and what is not"),
    "demos": Command("trl_agentenvs.cli:of_environment", "record episodes that an expert wins, to fine-tune on"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand.

    Args:
        argv: Arguments without the program's name; `sys.argv` by default.

    Returns:
        The exit code.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started the program
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115 - open to the end
        if hasattr(stream := getattr(sys, name), "reconfigure"):  # a character it lacks is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _dispatch(PROGRAM, COMMANDS, sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # What is still buffered has nowhere to go; without this, the interpreter complains when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError, ImportError) as error:
        print(f"{PROGRAM}: {_sentence(error)}", file=sys.stderr)
        return WRONG_INPUT
    return code


def of_environment(argv: Sequence[str], program: str) -> int:
    """Run the subcommand that `program` ends in, of one of the environments that have it."""
    subcommand = program.rpartition(" ")[2]
    having = {
        name: Command(registered.commands[subcommand], registered.purpose)
        for name, registered in ENVIRONMENTS.items()
        if subcommand in registered.commands
    }
    return _dispatch(program, having, argv)


def _dispatch(program: str, commands: dict[str, Command], argv: Sequence[str]) -> int:
    parser = ArgumentParser(
        prog=program,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"  {name:<10} {command.purpose}" for name, command in commands.items()),
        usage=f"{program} {{{','.join(commands)}}} ...",
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    parser.add_argument("command", choices=list(commands), help="what to do; each has its own --help")
    # Only what stands in front of the subcommand is read here, the rest is the subcommand's.
    name = parser.parse_args(argv[:1]).command
    module, _, function = commands[name].function.partition(":")
    code: int = getattr(importlib.import_module(module), function)(argv[1:], f"{program} {name}")
    return code


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return printable(text)


if __name__ == "__main__":
    sys.exit(main())
