"""`trl-agentenvs demos alfworld`: record the expert's shortest wins as rows for supervised fine-tuning.

Games are taken in one stratified order, so that of two recordings with the same seed the smaller is part of the larger.
A game that gives no demonstration is counted and listed, and the next one takes its place. Every row was replayed
before it is written. The same command again goes on where an interrupted one stopped, and the file is then the same to
the byte.

Exit codes beyond those of every subcommand: 1 if there are fewer demonstrations than --count or --fraction asked for,
or none at all. What is not covered: other environments.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.demos import shortest_demo
from trl_agentenvs.alfworld.env import ALFWorldEnv
from trl_agentenvs.alfworld.official import portable_id
from trl_agentenvs.alfworld.subsets import share, stratified_order
from trl_agentenvs.arguments import ArgumentParser, positive_int
from trl_agentenvs.terminal import printable

from .demo_file import DemoFile, encode_row
from .demos_report import Recording, progress, render

__all__ = ["main", "record"]

DEFAULT_STEPS = 50
DEFAULT_PLAYS = 3
_FRACTION = re.compile(r"[01]?\.?[0-9]{0,12}")
_OWN_OPTIONS = ("strict", "trace_path")  # of the environment, without a say in what a model reads


def main(argv: Sequence[str], program: str) -> int:
    """Record demonstrations.

    Args:
        argv: Arguments behind the subcommand.
        program: Name for usage messages.

    Returns:
        0, or 1 if there are fewer demonstrations than asked for, or none.

    Raises:
        ValueError: The arguments are wrong, or --out holds something else.
        OSError: There are no official games, or --out cannot be written.
        ImportError: transformers, which makes the schema of the tool, is not installed.
    """
    started = time.monotonic()
    args = _parser(program).parse_args(argv)
    options = _env_options(args.env_options, args.max_steps)
    if args.source == "endless" and args.count is None:
        raise ValueError("got --source endless without a number; add --count N")
    games = stratified_order(data.every_game(args.split, args.source), args.seed)
    source = args.source if args.source != "auto" else "generated" if games[0].startswith("generated:") else "official"
    wanted = _wanted(args.count, args.fraction, games, f"{source} {args.split}")
    tools = _schemas(ALFWorldEnv(**options))
    settings = {
        "split": args.split,
        "source": source,
        "seed": args.seed,
        "count": wanted,
        "plays": args.plays,
        "env_options": options,
    }
    make_env = partial(ALFWorldEnv, **options, strict=True)
    with DemoFile(args.out, settings, overwrite=args.overwrite) as file:
        try:
            recording = record(file, games, wanted, tools, make_env, plays=args.plays, seed=args.seed)
        except KeyboardInterrupt:
            hint = "the same command" + (" without --overwrite" if args.overwrite else "")
            print(f"\ninterrupted; {printable(str(args.out))} keeps what was recorded, {hint} goes on", file=sys.stderr)
            raise
    print(render(recording, args.out, wanted, time.monotonic() - started))
    return 0 if recording.demos >= (wanted or 1) else 1


def record(
    file: DemoFile,
    games: Sequence[str],
    wanted: int | None,
    tools: Sequence[dict[str, Any]],
    make_env: Callable[[], ALFWorldEnv],
    *,
    plays: int,
    seed: int,
) -> Recording:
    """Play games and write a row for each that is won.

    Args:
        file: Where rows go. Those it holds already are taken as they are, but for the last, which is made again and
            compared: another version of this package might make other ones.
        games: Game ids, in the order in which they are tried.
        wanted: Demonstrations after which to stop; None for all games.
        tools: The JSON schemas of the tools.
        make_env: Returns an environment.
        plays: How often each game is played.
        seed: Seed of the variations.

    Raises:
        ValueError: The file holds other rows than this recording makes.
        OSError: It cannot be written.
    """
    recording = Recording()
    with progress(len(games) if wanted is None else wanted) as show:
        for game in games:
            if recording.demos == wanted:
                break
            name = portable_id(game)
            is_kept = bool(file.kept) and file.kept[0].game == name
            if is_kept and len(file.kept) > 1:
                row = file.kept.popleft()
                recording.note(data.task_type_of(name), row.steps)
                continue
            attempt = shortest_demo(make_env, game, plays=plays, seed=seed)
            demo = attempt.demo
            if demo is None:
                recording.lost[name] = attempt.reason
            else:
                if attempt.crashes:
                    recording.crashes[name] = attempt.crashes[0]
                line = encode_row(demo.row(tools))
                if not file.kept:
                    file.append(line)
                elif is_kept and line == file.last_line:
                    file.kept.popleft()
                else:
                    raise file.differs(f"where {name} belongs, there is another row")
                recording.note(demo.task_type, len(demo.commands))
            show(recording)
    if file.kept:
        raise file.differs("it has more of them")
    file.finish({"demos": recording.demos, "lost": recording.lost})
    return recording


def _parser(program: str) -> ArgumentParser:
    parser = ArgumentParser(
        prog=program,
        description="Record games that the expert wins as rows for supervised fine-tuning. An interrupted recording "
        "goes on when the same command is given again.",
    )
    # Which games
    parser.add_argument("--split", default="train", help="train, valid_seen or valid_unseen (default: train)")
    parser.add_argument("--source", default="auto", help=f"one of {', '.join(data.SOURCES)} (default: auto)")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--count", type=positive_int, metavar="N", help="demonstrations to record (default: all games)")
    size.add_argument("--fraction", type=_fraction, metavar="F", help="the same as a fraction of each task type: 0.01")
    parser.add_argument("--seed", type=int, default=0, help="seed of the order of games and of the plays (default: 0)")
    # How to play
    parser.add_argument(
        "--plays",
        type=positive_int,
        default=DEFAULT_PLAYS,
        help=f"times each game is played (default: {DEFAULT_PLAYS})",
    )
    parser.add_argument("--max-steps", type=positive_int, help=f"commands in a play (default: {DEFAULT_STEPS})")
    parser.add_argument(
        "--env-options", "--env_options", metavar="JSON",
        help="""options of the environment that is trained in later, such as '{"show_admissible": true}'""",
    )  # fmt: skip
    # Where to
    parser.add_argument("--out", type=Path, required=True, help="file to write, such as demos.jsonl")
    parser.add_argument("--overwrite", action="store_true", help="replace the file instead of going on with it")
    return parser


def _fraction(text: str) -> Fraction:
    """An argument above 0 and up to 1, exactly as it is written: 0.29 of 100 is 29."""
    try:
        value = Fraction(text) if _FRACTION.fullmatch(text) else Fraction(0)
    except ValueError:
        value = Fraction(0)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"got {text!r}; expected a number above 0 and up to 1, such as 0.01")
    return value


def _wanted(count: int | None, fraction: Fraction | None, games: Sequence[str], which: str) -> int | None:
    """How many demonstrations are asked for; None for all that there are."""
    if count is not None and count > len(games):
        raise ValueError(f"got --count {count}; there are {len(games)} {which} games, lower it")
    if fraction is None:
        return count
    if not (wanted := share(games, fraction)):
        raise ValueError(f"got --fraction {float(fraction):g}, which is no game of {len(games)} {which} ones; raise it")
    return wanted


def _env_options(text: str | None, max_steps: int | None) -> dict[str, Any]:
    """The constructor options of the environment.

    Raises:
        ValueError: They are no JSON object, the environment does not take them, or the step limit is given twice.
    """
    try:
        options = {} if text is None else json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        options = None
    if not isinstance(options, dict):
        raise ValueError(
            f"""got --env-options {text!r}; expected a JSON object such as '{{"show_admissible": true}}'"""
        )
    known = [name for name in inspect.signature(ALFWorldEnv).parameters if name not in _OWN_OPTIONS]
    unknown = [name for name in options if name not in known]
    if unknown:
        raise ValueError(f"got the environment option {unknown[0]!r}; expected some of {', '.join(known)}")
    if max_steps is not None and "max_steps" in options:
        raise ValueError("got max_steps in --env-options and --max-steps, too; give it once")
    options.setdefault("max_steps", max_steps or DEFAULT_STEPS)
    try:
        ALFWorldEnv(**options)
    except TypeError as error:
        raise ValueError(f"got --env-options {text}, which the environment does not take: {error}") from error
    return options


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"got {name}; expected a number")


def _schemas(env: ALFWorldEnv) -> list[dict[str, Any]]:
    """The JSON schemas of the tools, as TRL puts them into a prompt."""
    try:
        from transformers.utils import get_json_schema
    except ImportError as error:
        raise ImportError('transformers is not installed; run: pip install "trl_agentenvs[train]"') from error
    return [get_json_schema(tool) for tool in env._tools().values()]
