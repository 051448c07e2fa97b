"""`trl-agentenvs data alfworld`: which official games are there, which are missing, and how to get them.

The counts are compared with the published ones. With `--check`, every game is opened and its walkthrough is played;
that fills the parsed-game cache, too.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from trl_agentenvs.alfworld.engine import Engine
from trl_agentenvs.alfworld.game_cache import load_game
from trl_agentenvs.alfworld.gamefile import GameFileError
from trl_agentenvs.alfworld.generate import TASK_TYPES
from trl_agentenvs.alfworld.official import (
    DATA_FOLDER,
    DATA_VARIABLE,
    DOWNLOAD_FOLDER,
    PUBLISHED,
    SPLITS,
    OfficialGame,
    State,
    data_root_near,
    export_line,
    scan,
    split_folder,
)
from trl_agentenvs.alfworld.planner import PlanError, plan
from trl_agentenvs.arguments import ArgumentParser
from trl_agentenvs.terminal import printable, table

__all__ = ["main"]

_SHOWN_FAULTS = 20
_GAMES_PER_UPDATE = 50  # of the progress line

_GENERATED = 'Generated games need no data: source="generated", which is also what "auto" takes without ALFWORLD_DATA.'


def main(argv: Sequence[str], program: str) -> int:
    """Tell what is found of the official games.

    Args:
        argv: Arguments behind the subcommand.
        program: Name for usage messages.

    Returns:
        0 if exactly the published games are there and no fault was found, else 1.

    Raises:
        OSError: A folder cannot be read, or the one of `--folder` does not exist.
        ValueError: The arguments are wrong.
    """
    parser = ArgumentParser(prog=program, description="Tell which official ALFWorld games are there.")
    parser.add_argument("--folder", metavar="DIR", help=f"where to look (default: what {DATA_VARIABLE} names)")
    parser.add_argument("--check", action="store_true", help="open every game and play its walkthrough")
    args = parser.parse_args(argv)
    if args.folder is not None and not os.path.isdir(args.folder):
        raise FileNotFoundError(f"got --folder {args.folder!r}; expected a folder, but there is none")
    chosen = os.environ.get(DATA_VARIABLE) if args.folder is None else args.folder
    root = Path(os.path.expanduser(chosen or DOWNLOAD_FOLDER)).absolute()
    found = {split: scan(split_folder(root, split)) for split in SPLITS}
    if not chosen:
        print(f"{DATA_VARIABLE} is not set.")
        print(f"There are games at {root}:\n  {export_line(root)}" if any(found.values()) else _fetching(root))
        return 1
    print(f"{DATA_VARIABLE if args.folder is None else '--folder'} is {printable(chosen)}")
    if not any(found.values()):
        near = data_root_near(root)
        print("There are no official games in it." if root.is_dir() else "There is no such folder.")
        print(_fetching(root) if near is None else f"There are games in {printable(str(near))}:\n  {export_line(near)}")
        return 1
    return _tell(root, found, check=args.check)


_Found = Mapping[str, Sequence[OfficialGame]]


def _tell(root: Path, found: _Found, *, check: bool) -> int:
    """Print what is found and what is wrong with it, and return the exit code."""
    print(f"\n{_counts(found)}\n")
    if left_out := _left_out(found):
        print(f"Left out, as by alfworld's own loader: {left_out}.")
    broken = [fault for game in _of_state(found, State.UNREADABLE) if (fault := _fault(game.path))]
    if check:
        broken += _check(_of_state(found, State.PLAYABLE))
    missing, extra = _missing(found), _extra(found)
    if not (broken or missing or extra):
        print("Complete: these are the published games.")
        return 0
    print("\n".join([*missing, *extra, *_first(broken)]))
    if broken or missing:
        print(_fetching(root, overwrite=bool(broken)))
    return 1


def _of_state(found: _Found, state: State) -> list[OfficialGame]:
    return [game for games in found.values() for game in games if game.state is state]


def _listed(games: Sequence[OfficialGame]) -> Counter[str]:
    """How many games of each of the six task types there are."""
    return Counter(game.task_type for game in games if game.listed and game.task_type)


def _counts(found: _Found) -> str:
    """A table: games there and games published, by task type and split."""
    there = {split: _listed(games) for split, games in found.items()}
    rows = [[kind, *(f"{there[split][kind]} of {PUBLISHED[split][kind]}" for split in SPLITS)] for kind in TASK_TYPES]
    total = [f"{there[split].total()} of {sum(PUBLISHED[split].values())}" for split in SPLITS]
    return table(["task type", *SPLITS], [*rows, ["all", *total]], "lrrr")


def _missing(found: _Found) -> list[str]:
    """How many of the published games each split lacks."""
    lines = []
    for split, games in found.items():
        there, published = _listed(games), Counter(PUBLISHED[split])
        if missing := (published - there).total():
            lines.append(f"{split}: {missing} missing of {published.total()}")
    return lines


def _extra(found: _Found) -> list[str]:
    """How many games each split has that were not published."""
    lines = []
    for split, games in found.items():
        if extra := (_listed(games) - Counter(PUBLISHED[split])).total():
            lines.append(f"{split}: {extra} more than published, so results on it compare with no others")
    return lines


def _first(faults: Sequence[str]) -> list[str]:
    """The faults as lines, with a heading, if there are some."""
    if not faults:
        return []
    lines = [f"Broken games: {len(faults)}", *(f"  {printable(fault)}" for fault in faults[:_SHOWN_FAULTS])]
    return lines + [f"  and {len(faults) - _SHOWN_FAULTS} more"] * (len(faults) > _SHOWN_FAULTS)


def _left_out(found: _Found) -> str:
    states = (State.UNSOLVABLE, State.UNSUPPORTED, State.MISSING)
    return ", ".join(f"{count} {state}" for state in states if (count := len(_of_state(found, state))))


def _fault(path: str) -> str | None:
    """Why a game cannot be opened or won, by its walkthrough or by the planner if it has none; None if all is well."""
    try:
        game = load_game(path)
    except (GameFileError, OSError) as error:
        return str(error)
    engine = Engine(game)
    try:
        commands = game.walkthrough or plan(engine)
    except PlanError as error:
        return f"{path} has no walkthrough and cannot be won: {error}"
    for command in commands:
        engine.step(command)
    return None if engine.won else f"{path} is not won by its walkthrough"


def _check(games: Sequence[OfficialGame]) -> list[str]:
    """Open and play every game, with a line of progress in a terminal."""
    shown = sys.stderr.isatty()
    faults = []
    try:
        for number, game in enumerate(games):
            if shown and number % _GAMES_PER_UPDATE == 0:
                print(f"\rplaying games: {number} of {len(games)}", end="", file=sys.stderr, flush=True)
            fault = _fault(game.path)
            if fault:
                faults.append(fault)
    finally:
        if shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
    print(f"Games opened and played: {len(games)}, {len(games) - len(faults)} of them without a fault.")
    return faults


def _fetching(root: Path, *, overwrite: bool = False) -> str:
    """How to get the official games."""
    force = "-f " if overwrite else ""
    target = root.parent if root.name == DATA_FOLDER else root
    return (
        "To fetch the official games (best in a virtual environment of its own; the download also holds labels and "
        "weights, too):\n"
        f"  pip install alfworld\n  alfworld-download {force}--data-dir {shlex.quote(str(target))}\n"
        f"  {export_line(target)}\n{_GENERATED}"
    )
