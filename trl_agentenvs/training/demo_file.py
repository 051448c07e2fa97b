"""Demonstrations on disk: JSON lines that grow as they are recorded, and beside them how they were made.

`demos.jsonl` holds a row a line. `demos.jsonl.meta.json` holds the settings of the recording and, when it is finished,
what it found. A row is on disk before the next one is made: after `kill -9` the complete rows are kept, a line that was
cut short is not, and the recording goes on behind them. Rows of different settings are never mixed, and nothing is
replaced that was not made by the same recording, unless that is asked for. A second process that would write the same
file is refused, where the file system has locks.

What is not covered: a power failure within a second after a row.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

__all__ = ["DemoFile", "KeptRow", "encode_row"]

META_SUFFIX = ".meta.json"
_CHOICE = "add --overwrite to replace it, or choose another --out"


class KeptRow(NamedTuple):
    """What is known of a row that an earlier run wrote.

    Attributes:
        game: Name of the game.
        steps: Commands in the demonstration.
    """

    game: str
    steps: int


def encode_row(row: Mapping[str, Any]) -> bytes:
    """Return a row as a line of the file: the same bytes for the same row."""
    return json.dumps(row, allow_nan=False).encode("ascii") + b"\n"


class DemoFile:
    """The file of one recording, open for further rows.

    Args:
        path: The file; it may exist if the same recording began it.
        settings: What the rows depend on, for JSON.
        overwrite: Replace whatever file there is.

    Attributes:
        kept: The complete rows of an earlier run, in order; whoever goes on takes them from the left.
        last_line: The last of them as it stands in the file.

    Raises:
        ValueError: There is a file that was made otherwise, one that another process writes, or no regular file.
        OSError: It cannot be written.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], *, overwrite: bool = False) -> None:
        if path.exists() and not path.is_file():
            raise ValueError(f"got --out {path}, which is no regular file; expected the name of a file to write")
        if path.exists() and _is_printed_to(path):
            raise ValueError(f"got --out {path}, where this program prints; expected the name of another file")
        if not path.parent.is_dir():
            raise ValueError(f"got --out {path}, but there is no folder {path.parent}; make it first")
        self.path = path
        self.meta_path = path.with_name(path.name + META_SUFFIX)
        self.kept: deque[KeptRow] = deque()
        self.last_line = b""
        self._settings = dict(settings)
        try:
            self._file = open(path, "a+b", buffering=0)  # noqa: SIM115 - __exit__ closes it
        except OSError as error:
            raise self._cannot_write(error) from error
        try:
            self._begin(overwrite)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> DemoFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()

    def append(self, line: bytes) -> None:
        """Write a line behind the complete rows; the first one takes the place of what a crash cut short.

        Raises:
            OSError: It cannot be written.
        """
        try:
            self._file.truncate()
            rest = memoryview(line)
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise self._cannot_write(error) from error

    def finish(self, found: Mapping[str, Any]) -> None:
        """Say beside the file that it is complete.

        Args:
            found: What the recording found, for JSON.

        Raises:
            OSError: It cannot be written.
        """
        try:
            self._file.truncate()
            self._write_meta({"finished": dict(found)})
        except OSError as error:
            raise self._cannot_write(error) from error

    def differs(self, what: str) -> ValueError:
        """The error of a file whose rows are not those that this recording makes."""
        return ValueError(f"{self.path} holds other rows than this command makes: {what}; {_CHOICE}")

    def _begin(self, overwrite: bool) -> None:
        """Go on behind the complete rows of an earlier run, or begin with an empty file."""
        self._lock()
        if self.path.stat().st_size > 0 and not overwrite:
            self._check_settings()
            self._file.seek(self._read_complete_rows())
            return
        try:
            self._file.seek(0)
            self._file.truncate()
            self._write_meta({})
        except OSError as error:
            raise self._cannot_write(error) from error

    def _lock(self) -> None:
        """Keep other recordings out until the file is closed."""
        if sys.platform == "win32":
            return
        import fcntl

        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"got --out {self.path}, which another process is writing; wait for its end, or choose another --out"
            ) from None
        except OSError:  # a file system without locks
            return

    def _write_meta(self, more: Mapping[str, Any]) -> None:
        text = json.dumps({"settings": self._settings, **more}, indent=1) + "\n"
        unfinished = self.meta_path.with_name(self.meta_path.name + ".tmp")
        unfinished.write_text(text, encoding="ascii")
        unfinished.replace(self.meta_path)

    def _check_settings(self) -> None:
        try:
            meta = json.loads(self.meta_path.read_bytes())
        except FileNotFoundError:
            raise ValueError(f"got --out {self.path}, which exists without {self.meta_path.name}; {_CHOICE}") from None
        except (ValueError, RecursionError):
            meta = None
        made = meta.get("settings") if isinstance(meta, dict) else None
        if not isinstance(made, dict):
            raise ValueError(f"got {self.meta_path}, which does not say how {self.path.name} was made; {_CHOICE}")
        now = json.loads(json.dumps(self._settings))
        other = [name for name in now | made if now.get(name) != made.get(name)]
        if other:
            got, expected = (", ".join(f"{name}={json.dumps(of.get(name))}" for name in other) for of in (now, made))
            raise ValueError(f"got {got}; expected {expected}, with which {self.path} was made; {_CHOICE}")

    def _read_complete_rows(self) -> int:
        """Take the rows that an earlier run wrote, and return how many bytes they are."""
        complete_bytes = 0
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break  # the last one, cut short
                try:
                    row = json.loads(line)
                    if encode_row(row) != line:
                        raise ValueError("it is not written as this class writes")
                    self.kept.append(KeptRow(row["game"], int(row["steps"])))
                except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
                    raise self.differs(f"line {number} is no demonstration") from None
                complete_bytes += len(line)
                self.last_line = line
        return complete_bytes

    def _cannot_write(self, error: OSError) -> OSError:
        return OSError(f"cannot write {self.path}: {error.strerror or error}")


def _is_printed_to(path: Path) -> bool:
    """Whether a file is where standard output or error goes, as /dev/stdout is."""
    for stream in (1, 2):
        with contextlib.suppress(OSError):  # closed
            if os.path.samestat(path.stat(), os.fstat(stream)):
                return True
    return False
