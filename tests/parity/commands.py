"""Commands for a comparison of two players of one game: a script, and every kind of right and wrong command.

What is covered: possible and formerly possible commands; nearly right ones (case, spacing, dots, numbers, look-alike
letters, other prepositions); both published wordings of the put command and others; several commands in one; names that
exist in sentences that make no sense; taking an object back after a win; white space, control characters, grammar
syntax, the empty string. All follow from the random generator. What is not covered: lone surrogates, which no text
file or model sends.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

_NAME = re.compile(r"\b[a-z]+ \d+\b")
_PLACED = re.compile(r"(?:move|put) (\w+ \d+) (?:to|in/on) (\w+ \d+)")
_FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
_ARABIC_DIGITS = {ord("0") + digit: 0x0660 + digit for digit in range(10)}

_KINDS = {"possible": 20, "near": 30, "former": 10, "mutated": 14, "reworded": 6, "several": 5, "crossed": 9, "junk": 6}
"""How often each kind of command is played, in per cent."""

_MUTATIONS: Sequence[Callable[[str], str]] = (
    str.upper, str.capitalize, str.title, str.swapcase,
    lambda c: c.replace(" ", "  ", 1), lambda c: c.replace(" ", "  "), lambda c: c.replace(" ", "\t", 1),
    lambda c: c.replace(" ", "\u00a0"), lambda c: c.replace(" ", "\u3000", 1), lambda c: c.replace(" ", "\u200b", 1),
    lambda c: c.replace(" ", ""), lambda c: c.replace(" ", "_"), lambda c: c.replace(" ", "\n", 1),
    lambda c: c + ".", lambda c: c + "!", lambda c: c + " .", lambda c: c + ",", lambda c: c + "\0", lambda c: "\0" + c,
    lambda c: f"  {c}\t ", lambda c: f"\n{c}\r\n", lambda c: f"\u00a0{c}\u3000", lambda c: f"\x1f{c}\x85",
    lambda c: f"\ufeff{c}", lambda c: f"{c}\u200b",
    lambda c: c + "\u0301", lambda c: c.replace("e", "e\u0301", 1), lambda c: c.replace("o", "\u043e", 1),
    lambda c: c.translate(_FULL_WIDTH), lambda c: c.translate(_ARABIC_DIGITS),
    lambda c: re.sub(r"\d+", lambda number: str(int(number[0]) + 1), c),
    lambda c: re.sub(r"\d+", r"0\g<0>", c), lambda c: re.sub(r"\d+", r"\g<0>.0", c), lambda c: re.sub(r" \d+", "", c),
    lambda c: re.sub(r" (\d+)", r"\1", c), lambda c: re.sub(r"\d+", "-1", c), lambda c: re.sub(r"\d+", "one", c),
    lambda c: c[:-1], lambda c: c[1:], lambda c: c.rpartition(" ")[0], lambda c: c.partition(" ")[2],
    lambda c: " ".join(reversed(c.split(" "))), lambda c: c.partition(" ")[0],
    lambda c: c.replace(" ", " the ", 1), lambda c: "please " + c, lambda c: "> " + c, lambda c: "1. " + c,
    lambda c: f'"{c}"', lambda c: f"`{c}`", lambda c: f"[{c}]", lambda c: f'{{"command": "{c}"}}',
    lambda c: "act: " + c,
    lambda c: c.replace(" from ", " in "), lambda c: c.replace(" from ", " "), lambda c: c.replace(" to ", " into "),
    lambda c: c.replace(" with ", " using "), lambda c: c.replace("go to", "goto"), lambda c: c.replace("go to", "go"),
)  # fmt: skip

_PUT_WORDINGS = (
    "move {} to {}", "put {} in/on {}", "put {} in {}", "put {} on {}", "put {} to {}", "move {} in/on {}",
    "place {} in {}", "drop {}", "insert {} into {}", "put {} in/on", "move {}", "put in/on {1}", "move to {1}",
)  # fmt: skip

_SEVERAL = (
    "{}\n{}", "{}\r\n{}", "{}; {}", "{} and {}", "{}, then {}", "{} {}", "{}\\n{}", "{}\t{}", "{}\n\n{}\n", "{}\x0b{}",
    "{}\u2028{}", "1. {}\n2. {}",
)  # fmt: skip

_CROSSED = (
    "go to {}", "open {}", "close {}", "examine {}", "use {}", "take {} from {}", "move {} to {}", "put {} in/on {}",
    "heat {} with {}", "cool {} with {}", "clean {} with {}", "slice {} with {}", "take {}", "look at {}", "toggle {}",
    "take {0} from {0}", "inventory {}", "look {}", "help {}",
)  # fmt: skip

_JUNK = (
    "", " ", "\t\n", "\0", "\0look", "fly", "Look", "look around", "l", "i", "x", "help me", "goto", "go to", "go to ",
    "go to  fridge 1", "go to loc 1", "go to agent1", "examine agent1", "take", "take from", "take  from ",
    "take a from b", "take a from b from c", "move to", "move  to ", "put in/on", "open", "examine", "use",
    "slice with", "heat with", "go to fridge 99", "use desklamp 1", "take desklamp 1 from desk 1",
    "slice apple 1 with knife 1", "put apple 1 in/on fridge 1", "restart", "quit", "save", "None", "nothing happens.",
    "Nothing happens.", "{r.name}", "{o}", "{0}", "#look.feedback#", "#intro#", "[#list#]", "{r.name|receptacle(r)}",
    "%s%n", "\\", "\"", "'", "<tool_call>", "</s>", "__import__('os').system('x')", "\u00e9\u4e2d", "\U0001f642",
    "\U0001f468\u200d\U0001f373", "g\u00f6 to desk 1", "\uff4c\uff4f\uff4f\uff4b", "\u202elook", "\x1b[2J", "look\0",
    "look\nlook", "look;look", "\ufffd",
)  # fmt: skip

LONG = ("x" * 1_000_000, "go to " + "a" * 1_000_000, "take " + "from " * 200_000, "move " + " to " * 250_000)
"""Commands of about 1 MB."""


class Commands:
    """A player: give it what the game says, and it says what to do next.

    Args:
        rng: Source of all its choices.
        script: Commands to play in this order, such as those that win the game.
        script_rate: How often the script goes on, as long as there is more of it; 1 plays it first and at once.
        extra: Commands to play once each, at some time after the script.
        unsaid: Commands never to play.
    """

    def __init__(
        self,
        rng: random.Random,
        script: Sequence[str],
        *,
        script_rate: float = 1.0,
        extra: Sequence[str] = (),
        unsaid: frozenset[str] = frozenset(),
    ) -> None:
        self._rng = rng
        self._script = list(script)
        self._script_rate = script_rate
        self._extra = list(extra)
        self._unsaid = unsaid
        self._seen: dict[str, None] = {}
        self._names: dict[str, None] = {}
        self._last = ""

    def next(self, text: str, won: bool, possible: Sequence[str]) -> str:
        """The next command.

        Args:
            text: What the game said last.
            won: Whether it is won now.
            possible: The commands that are possible now.
        """
        self._seen.update(dict.fromkeys(possible))
        for said in (text, *possible):
            self._names.update(dict.fromkeys(_NAME.findall(said)))
        self._last = self._choose(won, possible)
        if self._last.strip() in self._unsaid:
            self._last = "look"
        return self._last

    def _choose(self, won: bool, possible: Sequence[str]) -> str:
        rng = self._rng
        if self._script and rng.random() < self._script_rate:
            return self._script.pop(0)
        placed = _PLACED.fullmatch(self._last)
        if won and placed is not None and rng.random() < 0.5:
            return f"take {placed[1]} from {placed[2]}"
        if self._extra and rng.random() < 0.1:
            return self._extra.pop()
        (kind,) = rng.choices(list(_KINDS), list(_KINDS.values()))
        near = [command for command in possible if not command.startswith("go to")]
        if kind == "possible":
            return rng.choice(possible)
        if kind == "near":
            return rng.choice(near)
        if kind == "former":
            return rng.choice(list(self._seen))
        if kind == "mutated":
            return rng.choice(_MUTATIONS)(rng.choice(near if rng.random() < 0.7 else possible))
        if kind == "reworded":
            return rng.choice(_PUT_WORDINGS).format(*self._put_names(possible))
        if kind == "several":
            return rng.choice(_SEVERAL).format(rng.choice(near), rng.choice(possible))
        if kind == "crossed":
            return rng.choice(_CROSSED).format(*rng.choices(list(self._names), k=2))
        return rng.choice(_JUNK)

    def _put_names(self, possible: Sequence[str]) -> Sequence[str]:
        """An object and a receptacle: of a put command that is possible now, if there is one."""
        puts = [match.groups() for match in map(_PLACED.fullmatch, possible) if match]
        return self._rng.choice(puts) if puts else self._rng.choices(list(self._names), k=2)
