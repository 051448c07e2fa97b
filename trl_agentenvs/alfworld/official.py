"""The official games on disk: where they are, which of them count, and how many there should be.

Read is the layout that `alfworld-download` makes, `json_2.1.1/SPLIT/TASK/TRIAL/game.tw-pddl` below the folder that
ALFWORLD_DATA names. What alfworld's own loader leaves out is left out here: tasks with sliced objects or movable
receptacles, and games that are not marked as solvable. `traj_data.json` is not needed, nor a walkthrough.

A file that cannot be read as JSON is listed, not left out: loading it says what is wrong with it. What a listing found
in the files is remembered in the parsed-game cache, so that the next one opens only those that changed (by size and
times).

What is not covered: whether a listed game can be played and won; `trl-agentenvs data alfworld --check` finds out.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from trl_agentenvs.alfworld.game_cache import cache_file
from trl_agentenvs.alfworld.gamefile import GameFileError, parse_game_file, read_game_file
from trl_agentenvs.alfworld.generate import TASK_TYPES

__all__ = [
    "DATA_FOLDER",
    "DATA_VARIABLE",
    "DOWNLOAD_FOLDER",
    "GAME_FILE",
    "PUBLISHED",
    "SPLITS",
    "UNSUPPORTED_IN_PATH",
    "OfficialGame",
    "State",
    "data_root_near",
    "export_line",
    "local_path",
    "official_ids",
    "official_task_type",
    "portable_id",
    "scan",
    "split_folder",
]

SPLITS = ("train", "valid_seen", "valid_unseen")
"""The splits, by their official names."""

PUBLISHED: Mapping[str, Mapping[str, int]] = {
    split: dict(zip(TASK_TYPES, counts, strict=True))
    for split, counts in {
        "train": (790, 308, 650, 459, 533, 813),
        "valid_seen": (35, 13, 27, 16, 25, 24),
        "valid_unseen": (24, 18, 31, 23, 21, 17),
    }.items()
}
"""Games of each split and task type in the published data: 3553, 140 and 134."""

DATA_VARIABLE = "ALFWORLD_DATA"
"""Environment variable that names the folder with the official games."""

DOWNLOAD_FOLDER = "~/.cache/alfworld"
"""Where `alfworld-download` puts them if it is not told otherwise."""

DATA_FOLDER = "json_2.1.1"
"""Name of the folder in it that holds the splits."""

GAME_FILE = "game.tw-pddl"
"""Name of each game's file."""

UNSUPPORTED_IN_PATH = ("movable", "Sliced")
"""What the folders of a game are called that alfworld's loader leaves out: movable receptacles, sliced objects."""

_LAYOUT_PARTS = 5  # json_2.1.1/SPLIT/TASK/TRIAL/game.tw-pddl
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # also a link to nowhere or to itself
_RECEPTACLE = re.compile(r"\(\s*receptacleatlocation\s+([^\s()?]+)", re.IGNORECASE)


class State(StrEnum):
    """What a listing found in the folder of a game."""

    PLAYABLE = "marked as solvable"
    UNREADABLE = "not readable"
    UNSOLVABLE = "not marked as solvable"
    UNSUPPORTED = "with sliced objects or movable receptacles"
    MISSING = "without a game file"


@dataclass(frozen=True, slots=True)
class OfficialGame:
    """One TASK/TRIAL folder.

    Attributes:
        path: Its game file.
        task_type: One of `TASK_TYPES`; None if the folder is not named like the official ones.
        state: Whether it counts as a game, or why not.
        receptacles: How many there are in its room; None if the file was not read.
    """

    path: str
    task_type: str | None
    state: State
    receptacles: int | None = None

    @property
    def listed(self) -> bool:
        """Whether the game is in its split; an unreadable file is, so that it does not vanish silently."""
        return self.state in (State.PLAYABLE, State.UNREADABLE)


def official_task_type(path: str) -> str | None:
    """The task type that a folder on the way to a file names; None if none does."""
    for folder in reversed(Path(path).parts[:-1]):
        for task_type in TASK_TYPES:
            if folder.startswith(task_type + "-"):
                return task_type
    return None


def official_ids(split: str, kinds: Sequence[str], max_receptacles: int | None) -> list[str]:
    """Paths of the official games of a split, sorted.

    Args:
        split: One of `SPLITS`.
        kinds: Task types to list.
        max_receptacles: Only games in rooms with at most so many receptacles. None: any room.

    Raises:
        FileNotFoundError: There are none where ALFWORLD_DATA points.
        OSError: A folder cannot be read.
    """
    root = os.environ.get(DATA_VARIABLE)
    otherwise = "source='generated' needs no data; `trl-agentenvs data alfworld` tells more"
    if not root:
        raise FileNotFoundError(
            f"source='official' needs {DATA_VARIABLE} to name the folder that holds {DATA_FOLDER}, but it is not "
            f"set; {otherwise}"
        )
    folder = split_folder(Path(root), split)
    games = scan(folder)
    if all(game.state is State.MISSING for game in games):
        near = data_root_near(Path(root))
        fix = f"point it at the folder that holds {DATA_FOLDER}" if near is None else f"use {export_line(near)}"
        raise FileNotFoundError(
            f"{DATA_VARIABLE} is {root!r}, but {folder} holds no TASK/TRIAL/{GAME_FILE}; {fix}, or {otherwise}"
        )
    return [
        game.path
        for game in games
        if game.listed
        and game.task_type in kinds
        and (max_receptacles is None or game.receptacles is None or game.receptacles <= max_receptacles)
    ]


def split_folder(root: Path, split: str) -> Path:
    """The folder of a split, whether it exists or not.

    Args:
        root: What ALFWORLD_DATA names: the folder that holds `json_2.1.1`, or that one itself.
        split: One of `SPLITS`.
    """
    base = Path(os.path.expanduser(root)).absolute()
    folder = base / DATA_FOLDER / split
    return base / split if base.name == DATA_FOLDER and not folder.is_dir() else folder


def portable_id(game: str) -> str:
    """A name of a game that holds on every machine: the path of an official game from `json_2.1.1` on.

    Args:
        game: A game id. Generated ids, and files outside the official layout, stay what they are.
    """
    parts = Path(game).parts[-_LAYOUT_PARTS:]
    return "/".join(parts) if len(parts) == _LAYOUT_PARTS and parts[0] == DATA_FOLDER else game


def local_path(game: str) -> str:
    """Where ALFWORLD_DATA has the game of a portable id; every other id stays what it is.

    Raises:
        FileNotFoundError: The id is one, and ALFWORLD_DATA is not set.
    """
    root, (folder, _, rest) = os.environ.get(DATA_VARIABLE), game.partition("/")
    if folder != DATA_FOLDER or os.path.exists(game):
        return game
    if not root:
        raise FileNotFoundError(
            f"got the game {game}; it is looked for below {DATA_VARIABLE}, which is not set; "
            "`trl-agentenvs data alfworld` tells more"
        )
    split, _, trial = rest.partition("/")
    return str(split_folder(Path(root), split) / trial)


def data_root_near(root: Path) -> Path | None:
    """The folder that ALFWORLD_DATA should name instead of `root`, which is too deep in it or right above it.

    Args:
        root: What ALFWORLD_DATA names.

    Returns:
        None if `root` is right, or if there is no such folder.
    """
    base = Path(os.path.expanduser(root)).absolute()
    below = [Path(folder) for _, folder in _folders(base)] if base.is_dir() else []
    for candidate in (base, *base.parents[:3], *below):
        if any((candidate / DATA_FOLDER / split).is_dir() for split in SPLITS):
            return None if candidate == base else candidate
    return None


def export_line(root: Path) -> str:
    """The shell command that lets ALFWORLD_DATA name a folder."""
    return f"export {DATA_VARIABLE}={shlex.quote(str(root))}"


def scan(folder: Path) -> list[OfficialGame]:
    """Every TASK/TRIAL folder of a split, sorted.

    Args:
        folder: The folder of the split.

    Returns:
        Nothing if the folder does not exist.

    Raises:
        OSError: A folder cannot be read.
    """
    if not folder.is_dir():
        return []
    cache = cache_file()
    key = f"split {hashlib.sha256(os.fsencode(folder)).hexdigest()}"
    known = _remembered(None if cache is None else cache.get(key))
    seen: dict[str, _Glance] = {}
    games = []
    for task, task_folder in _folders(folder):
        for trial, trial_folder in _folders(Path(task_folder)):
            path = os.path.join(trial_folder, GAME_FILE)
            kind = official_task_type(path)
            try:
                stat = os.stat(path)
            except OSError as error:
                state = State.MISSING if error.errno in _NOT_THERE else State.UNREADABLE
                games.append(OfficialGame(path, kind, state))
                continue
            if any(word in name for word in UNSUPPORTED_IN_PATH for name in (task, trial)):
                games.append(OfficialGame(path, kind, State.UNSUPPORTED))
                continue
            name = f"{task}/{trial}"
            signature = (stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
            glance = known.get(name)
            if glance is None or glance.signature != signature:
                glance = _glance_at(path, signature)
            if glance is None:
                games.append(OfficialGame(path, kind, State.UNREADABLE))
                continue
            seen[name] = glance
            state = State.PLAYABLE if glance.solvable else State.UNSOLVABLE
            games.append(OfficialGame(path, kind, state, glance.receptacles))
    if cache is not None and seen != known:
        cache.put(key, json.dumps({name: glance.as_list() for name, glance in seen.items()}, separators=(",", ":")))
    return games


@dataclass(frozen=True, slots=True)
class _Glance:
    """What a listing needs to know of a file, and the size and times the file had then."""

    signature: tuple[int, int, int]
    solvable: bool
    receptacles: int

    def as_list(self) -> list[Any]:
        return [*self.signature, self.solvable, self.receptacles]


def _remembered(text: str | None) -> dict[str, _Glance]:
    if text is None:
        return {}
    return {
        name: _Glance((size, changed, status_changed), solvable, receptacles)
        for name, (size, changed, status_changed, solvable, receptacles) in json.loads(text).items()
    }


def _glance_at(path: str, signature: tuple[int, int, int]) -> _Glance | None:
    """Read what a listing needs; None if the file is no JSON object."""
    try:
        data = parse_game_file(read_game_file(path), path)
    except (GameFileError, FileNotFoundError):
        return None
    if not isinstance(data, Mapping):
        return None
    problem = data.get("pddl_problem")
    receptacles = {name.lower() for name in _RECEPTACLE.findall(problem)} if isinstance(problem, str) else ()
    return _Glance(signature, data.get("solvable") is True, len(receptacles))


def _folders(folder: Path) -> Iterator[tuple[str, str]]:
    """Name and path of each folder in a folder, sorted by name."""
    with os.scandir(folder) as entries:
        found = sorted((entry.name, entry.path) for entry in entries)
    return ((name, path) for name, path in found if os.path.isdir(path))
