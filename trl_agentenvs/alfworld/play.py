"""`trl-agentenvs play alfworld`: a person plays a game in the terminal, under the rules a model plays by.

Commands come from standard input, a terminal or a pipe; in a terminal they can be edited and recalled where Python has
`readline`. The end of the input ends the game without a complaint.
"""

from __future__ import annotations

import contextlib
import random
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence

from trl_agentenvs.alfworld import data
from trl_agentenvs.alfworld.env import ALFWorldEnv
from trl_agentenvs.arguments import ArgumentParser, positive_int
from trl_agentenvs.stop import StopReason
from trl_agentenvs.terminal import printable

__all__ = ["main", "play"]

DEFAULT_STEPS = 50
WIDTH_CHARS = 100
PROMPT = "> "

HELP = """\
Words of the game, where O is an object and R a receptacle, each with its number:
  look, inventory, go to R, open R, close R, examine R, take O from R, {put},
  use O, clean O with R, heat O with R, cool O with R, slice O with O
Words of this program, which take no step:
  help         show this
  admissible   list the commands that are possible now
  quit         stop here"""


def main(argv: Sequence[str], program: str) -> int:
    """Let a person play a game.

    Args:
        argv: Arguments behind the subcommand.
        program: Name for usage messages.

    Returns:
        0, whether won or not.

    Raises:
        FileNotFoundError: There is no such game.
        ValueError: The arguments are wrong, or the file is no game.
    """
    parser = ArgumentParser(prog=program, description="Play a household task in a text world.")
    # Which game
    parser.add_argument("--game", metavar="ID", help="generated:TYPE:SEED, or the path of a game.tw-pddl file")
    parser.add_argument("--split", default="valid_unseen", help="draw a game of this split (default: valid_unseen)")
    parser.add_argument("--source", default="auto", help=f"one of {', '.join(data.SOURCES)} (default: auto)")
    parser.add_argument("--seed", type=int, help="seed of the draw (default: another game each time)")
    # How to play
    parser.add_argument("--max-steps", type=positive_int, default=DEFAULT_STEPS, help="commands (default: 50)")
    parser.add_argument("--show-admissible", action="store_true", help="list the possible commands at every step")
    args = parser.parse_args(argv)
    seed = random.SystemRandom().randrange(10**6) if args.seed is None else args.seed
    game = data.game_ids(args.split, args.source, n=1, seed=seed)[0] if args.game is None else args.game
    play(ALFWorldEnv(max_steps=args.max_steps, show_admissible=args.show_admissible), game, _typed_lines(), print)
    return 0


def play(env: ALFWorldEnv, game: str, commands: Iterator[str], write: Callable[[str], object]) -> float | None:
    """Play one game.

    Args:
        env: The environment.
        game: Id of the game.
        commands: What the person types, a line each; its end ends the game.
        write: Takes each text to show.

    Returns:
        The reward.
    """
    observation = env.reset(game=game)
    write(f"Game {printable(game)}. Type help for the words you can use, quit to stop.\n")
    write(_shown(observation))
    while env._stop is None:
        write(f"\n[step {env._turns + 1} of {env.max_turns}]")
        line = next(commands, None)
        word = "quit" if line is None else " ".join(line.split()).lower()
        if word in ("quit", "exit"):
            env._end(StopReason.GAVE_UP)
            write(StopReason.GAVE_UP.notice)
        elif word == "help":
            write(HELP.format(put=_put_words(env)))
        elif word == "admissible":
            write(_shown("\n".join(env._engine.admissible())))
        elif word:
            write(_shown(env.act(command=word)))
    reward = env.get_reward()
    write(f"\nSteps: {env._turns}. Reward: {'none' if reward is None else f'{reward:.2f}'}.")
    return reward


def _put_words(env: ALFWorldEnv) -> str:
    """How this game words putting: "move O to R", in older games "put O in/on R"."""
    return env._engine.game.dialect.put_command("O", "R")


def _shown(text: str) -> str:
    """Text of a game, which may come from any file, wrapped for a terminal."""
    return "\n".join(textwrap.fill(printable(line), WIDTH_CHARS) for line in text.splitlines())


def _typed_lines() -> Iterator[str]:
    """What a person types until the end of the input."""
    if not sys.stdin.isatty():
        for line in sys.stdin:
            print(f"{PROMPT}{printable(line.strip())}")
            yield line
        return
    with contextlib.suppress(ImportError):  # not on every platform; typing works without it
        import readline  # noqa: F401
    while True:
        try:
            yield input(PROMPT)
        except (EOFError, KeyboardInterrupt) as end:
            print()  # leave the line with the prompt
            if isinstance(end, KeyboardInterrupt):
                raise
            return
