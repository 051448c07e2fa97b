"""Command-line arguments whose faults are one sentence, raised like any other wrong input instead of exiting."""

from __future__ import annotations

import argparse
from typing import NoReturn

__all__ = ["ArgumentParser", "positive_int"]


class ArgumentParser(argparse.ArgumentParser):
    """`argparse.ArgumentParser` that raises ValueError where the original prints its usage and exits."""

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments.

        Raises:
            ValueError: Always.
        """
        raise ValueError(f"{message}; see {self.prog} --help")


def positive_int(text: str) -> int:
    """An argument that counts something.

    Raises:
        argparse.ArgumentTypeError: It is no integer of at least 1.
    """
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"got {text!r}; expected an integer of at least 1")
    return int(text)
