"""One file of checked entries that processes share: an SQLite database of text by key.

An entry is given back only if it is word for word what was put under that key in the same version; whatever else is
found there is as good as nothing and is overwritten by the next `put`. A file that is damaged or no database is
replaced. No fault of the file ever reaches the caller: where it cannot be read or written (a folder that is read-only
or missing, a full disk, a lock that others hold), `get` finds nothing and `put` does nothing.

What is covered: threads, processes and forks (no connection outlives a call), a kill at any moment, several versions
one after another (the newest writer's entries stay). What is not covered: someone who writes false entries with
right checksums; keep the file where only its users can write.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import threading
import zlib
from contextlib import closing
from pathlib import Path

__all__ = ["MAX_CACHE_BYTES", "CacheFile"]

MAX_CACHE_BYTES = 512 * 2**20
"""A file that has grown beyond this is started afresh. All official games take 22 MB."""

_LOCK_S = 0.2  # how long to wait for another process; parsing a game again takes less
_MAX_FAULTS = 3  # in a row, and this process leaves the file alone
_DAMAGED = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}  # the first: tables of other forms
_FAULTS = (sqlite3.Error, UnicodeDecodeError)  # the latter: a fault told in words that are damaged, too

_log = logging.getLogger(__name__)

# A fork while another thread is inside SQLite would leave the child with a lock of SQLite's that nobody opens.
_inside = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_inside.acquire, after_in_parent=_inside.release, after_in_child=_inside.release)


class _DamagedError(sqlite3.DatabaseError):
    """A damaged file that SQLite takes for a sound one."""


class CacheFile:
    """Text by key in one file.

    Args:
        path: The file; it and its folder are made by the first `put`.
        version: Entries of another version are not read.
    """

    def __init__(self, path: Path, version: str) -> None:
        self.path = path.absolute()
        self._version = version
        self._faults = 0

    def get(self, key: str) -> str | None:
        """The text under a key; None if there is none that can be relied on."""
        if self._faults >= _MAX_FAULTS or not os.path.isfile(self.path):
            return None
        try:
            with _inside, closing(self._connect("ro")) as connection:
                connection.text_factory = bytes
                row = connection.execute("SELECT checksum, packed FROM entries WHERE key = ?", (key,)).fetchone()
        except _FAULTS as error:
            if not _is_damage(error):  # damage is mended by the next put
                self._note(error)
            return None
        self._faults = 0
        if row is None:
            return None
        checksum, packed = row
        if not isinstance(packed, bytes) or checksum != self._checksum(key, packed):
            return None
        try:
            return zlib.decompress(packed).decode()
        except (zlib.error, UnicodeDecodeError):  # forged
            return None

    def put(self, key: str, text: str) -> None:
        """Store a text under a key, if that is possible."""
        if self._faults >= _MAX_FAULTS:
            return
        packed = zlib.compress(text.encode(), 1)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists() and not self.path.is_file():  # opening a pipe may never end
                raise OSError("it is no regular file")
            with _inside:
                try:
                    self._write(key, packed)
                except _FAULTS as error:
                    if not _is_damage(error):
                        raise
                    self._discard()
                    self._write(key, packed)
                if self.path.stat().st_size > MAX_CACHE_BYTES:
                    self._discard()
        except (*_FAULTS, OSError) as error:
            self._note(error)
        else:
            self._faults = 0

    def _write(self, key: str, packed: bytes) -> None:
        number = int(self._version_digest()[:7], 16)
        with closing(self._connect("rwc")) as connection:
            connection.execute("PRAGMA synchronous = OFF")  # what a power cut damages is found by its checksum
            connection.execute("BEGIN IMMEDIATE")
            if connection.execute("PRAGMA user_version").fetchone()[0] != number:
                connection.execute("DROP TABLE IF EXISTS entries")
                connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, checksum BLOB, packed BLOB)")
            row = (key, self._checksum(key, packed), packed)
            connection.execute("INSERT OR REPLACE INTO entries (key, checksum, packed) VALUES (?, ?, ?)", row)
            if connection.execute("SELECT checksum FROM entries WHERE key = ?", (key,)).fetchone() != row[1:2]:
                raise _DamagedError("what was written is not found again")
            connection.execute("COMMIT")

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = f"{self.path.as_uri()}?mode={mode}"
        return sqlite3.connect(uri, uri=True, timeout=_LOCK_S, isolation_level=None)

    def _checksum(self, key: str, packed: bytes) -> bytes:
        return hashlib.sha256(f"{self._version}\n{key}\n".encode() + packed).digest()

    def _version_digest(self) -> str:
        return hashlib.sha256(self._version.encode()).hexdigest()

    def _discard(self) -> None:
        for path in (self.path, self.path.with_name(f"{self.path.name}-journal")):
            path.unlink(missing_ok=True)

    def _note(self, error: Exception) -> None:
        self._faults += 1
        level = logging.WARNING if self._faults == _MAX_FAULTS else logging.DEBUG
        left = "; it is not used any more" if self._faults == _MAX_FAULTS else ""
        _log.log(level, "the cache %s cannot be used (%s)%s", self.path, error, left)


def _is_damage(error: Exception) -> bool:
    if isinstance(error, _DamagedError | UnicodeDecodeError):
        return True
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF in _DAMAGED
