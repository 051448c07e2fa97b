"""Read a `game.tw-pddl` file: its bytes, and the JSON object in them.

What is covered: every way in which a file can fail to be JSON text, as one sentence. What is not covered: what the JSON
says (see `trl_agentenvs.alfworld.game`).
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

__all__ = ["MAX_FILE_BYTES", "GameFileError", "parse_game_file", "read_game_file"]

MAX_FILE_BYTES = 16 * 2**20
"""Largest file that is read. Official games have at most 140 KB."""


class GameFileError(ValueError):
    """A game file that cannot be played; the message is one sentence that says why."""


def read_game_file(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a game file.

    Args:
        path: Where it lies.

    Raises:
        FileNotFoundError: There is no file at `path`.
        GameFileError: It is a folder, no regular file, too large or not readable.
    """
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise GameFileError(f"got the folder {path}; expected the game.tw-pddl file inside it")
        if not stat.S_ISREG(mode):  # reading a pipe or a device may never end
            raise GameFileError(f"{path} is not a game file: it is a pipe or a device")
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"got the game {path}; expected a game.tw-pddl file, but there is none at that path"
        ) from None
    except GameFileError:
        raise
    except (OSError, ValueError) as error:
        raise GameFileError(f"{str(path)!r} cannot be read: {error}") from None
    if len(content) > MAX_FILE_BYTES:
        raise GameFileError(f"{path} is not a game file: it is larger than {MAX_FILE_BYTES} bytes")
    return content


def parse_game_file(content: bytes, path: str | os.PathLike[str]) -> Any:
    """The JSON value in the bytes of a game file.

    Args:
        content: The bytes.
        path: Where they come from, for messages.

    Raises:
        GameFileError: They are no JSON text.
    """
    try:
        return json.loads(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise GameFileError(f"{path} is not a game file: it is not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        raise GameFileError(f"{path} is not a game file: it is not JSON ({error})") from None
