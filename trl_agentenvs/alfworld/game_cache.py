"""The parsed-game cache: a game file that was parsed once, on this machine, is not parsed again.

Entries are found by the SHA-256 of the file's bytes, so a changed file is another game, and a copy is the same one. A
game from the cache equals the parsed one in every field.

The cache is one file, `alfworld-games.sqlite`, in the folder that the environment variable TRL_AGENTENVS_CACHE names,
else in `trl_agentenvs` below XDG_CACHE_HOME or `~/.cache`. `TRL_AGENTENVS_CACHE=off` does without it, and so does a
machine on which it cannot be read or written: then every file is parsed.

What is not covered: generated games, which are made faster than they could be looked up safely.
"""

from __future__ import annotations

import hashlib
import logging
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from trl_agentenvs.alfworld.game import Game
from trl_agentenvs.alfworld.game_record import RecordError, from_record, reader_version, to_record
from trl_agentenvs.alfworld.gamefile import parse_game_file, read_game_file

if TYPE_CHECKING:
    from trl_agentenvs.alfworld.cache_file import CacheFile

__all__ = ["CACHE_VARIABLE", "cache_file", "load_game"]

CACHE_VARIABLE = "TRL_AGENTENVS_CACHE"
"""Environment variable that names the cache's folder; "off" switches it off."""

_OFF = "off"
_FILE_NAME = "alfworld-games.sqlite"

_log = logging.getLogger(__name__)


def load_game(path: str | os.PathLike[str]) -> Game:
    """Read a `game.tw-pddl` file, through the cache.

    Args:
        path: The file.

    Raises:
        FileNotFoundError: There is no file at `path`.
        GameFileError: The file is no playable ALFWorld game.
    """
    content = read_game_file(path)
    cache = cache_file()
    if cache is None:
        return Game.from_dict(parse_game_file(content, path), path=str(path))
    key = f"game {hashlib.sha256(content).hexdigest()}"
    record = cache.get(key)
    if record is not None:
        try:
            return from_record(record, path=str(path))
        except RecordError as error:
            _log.debug("%s is parsed again: %s", path, error)
    game = Game.from_dict(parse_game_file(content, path), path=str(path))
    cache.put(key, to_record(game))
    return game


def cache_file() -> CacheFile | None:
    """The cache that the environment asks for; None if it is off or there is no place for it."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen is not None and chosen.lower() == _OFF:
        return None
    if chosen:
        folder = os.path.expanduser(chosen)
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        # A relative path there counts for nothing, says the specification of that variable.
        folder = os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.cache"), "trl_agentenvs")
        if not os.path.isabs(folder):  # no home
            return None
    return _opened(os.path.abspath(folder))


@lru_cache(maxsize=8)
def _opened(folder: str) -> CacheFile | None:
    try:
        from trl_agentenvs.alfworld.cache_file import CacheFile

        return CacheFile(Path(folder, _FILE_NAME), reader_version())
    except (ImportError, OSError) as error:  # a Python without SQLite, a package without its source
        _log.debug("games are parsed without a cache: %s", error)
        return None
