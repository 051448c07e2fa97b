"""A player that wins from observations alone, for demonstrations and as a yardstick.

What is covered: all six task types in official and generated games, both wordings of the put command. The expert reads
the intro and the feedback to its own commands, nothing else; lines before and after the feedback (a banner, admissible
commands, a hint, the steps left) are passed over. It opens what is closed, remembers what it saw, and copes with
receptacles that share a place (where `go to` answers "Nothing happens.").

It searches first where the chance to find the object, divided by the commands that looking takes, is greatest. For a
single object with known chances that order needs the fewest commands on average (Blackwell's rule; see M. C. Chew, "A
sequential search procedure", Annals of Mathematical Statistics 38, 1967). The chances were counted in the official
train split (`whereabouts`). What has only to be put somewhere is not expected to be there already.

What is not covered: taking over in the middle of an episode that another player began, and slicing. Where it can do no
more it raises `ExpertError`, with what it could not do; it never repeats a refused command where it was refused.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from trl_agentenvs.alfworld import whereabouts
from trl_agentenvs.alfworld.reading import kind_of, read_closed, read_contents, read_intro, read_task
from trl_agentenvs.alfworld.wording import NOTHING_HAPPENS

__all__ = ["Expert", "ExpertError"]

_TOOL_OF_VERB = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}

_ANSWERS = {
    "go": ("You arrive at ",),
    "open": ("You open the ",),
    "examine": ("On the {}, ", "The {} is "),
    "take": ("You pick up the ",),
    "move": ("You move the ", "You put the "),
    "put": ("You put the ", "You move the "),
    "clean": ("You clean the ",),
    "heat": ("You heat the ",),
    "cool": ("You cool the ",),
    "use": ("You turn on the ",),
}
_SHOWN_CHARS = 80
_VARIED = 0.2  # with a random source, chances are scaled by a factor between this and 1


class ExpertError(RuntimeError):
    """The expert can do no more; the message says what it could not do."""


@dataclass(slots=True)
class _Spot:
    """What is known of a receptacle.

    Attributes:
        name: "drawer 3".
        kind: "drawer".
        objects: What was last seen in it; None until its inside was seen.
        closed: Whether it was last seen closed; None until it was seen.
        beside: Receptacles known to share its place, itself included. One shared set per place.
    """

    name: str
    kind: str
    objects: list[str] | None = None
    closed: bool | None = None
    beside: set[str] = field(default_factory=set)


class Expert:
    """Plays one episode.

    Args:
        intro: The first observation of the episode.
        rng: Varies the order of the search, so that several episodes of one game differ. None: always the same order.

    Raises:
        ExpertError: The intro does not show the receptacles of a room and one of the known task sentences.
    """

    def __init__(self, intro: str, rng: random.Random | None = None) -> None:
        read = read_intro(intro)
        if read is None:
            raise ExpertError(
                f"cannot read the intro {intro[:_SHOWN_CHARS]!r}; expected the receptacles of a room and "
                "'Your task is to: ...', as the first observation of an episode shows them"
            )
        names, sentence = read
        task = read_task(sentence)
        if task is None:
            raise ExpertError(
                f"cannot read the task {sentence[:_SHOWN_CHARS]!r}; expected a sentence of one of the six task types"
            )
        self._task = task
        self._where = whereabouts.counted()
        self._rng = rng
        self._spots = {name: _Spot(name, kind_of(name), beside={name}) for name in names}
        if rng is not None:
            rng.shuffle(names)
        self._factor = {name: rng.uniform(_VARIED, 1.0) if rng is not None else 1.0 for name in names}
        self._tie_order = {name: position for position, name in enumerate(names)}
        self._at: _Spot | None = None
        self._held: str | None = None
        self._treated: set[str] = set()
        self._placed: dict[str, str] = {}
        self._refused: set[str] = set()
        self._old_wording = False
        self._last = ""

    def act(self, observation: str) -> str:
        """Choose the next command.

        Args:
            observation: The answer to the last command; the intro at first.

        Returns:
            A command for the game.

        Raises:
            ExpertError: Nothing sensible is left to do.
        """
        if self._last:
            self._learn(observation)
        self._last = self._next_command()
        return self._last

    # Learning from the answer to the last command.

    def _learn(self, observation: str) -> None:
        verb, _, rest = self._last.partition(" ")
        expected = (NOTHING_HAPPENS, *(words.format(rest) for words in _ANSWERS[verb]))
        answer = next((line for line in observation.splitlines() if line.startswith(expected)), None)
        if answer is None:
            raise ExpertError(
                f"cannot read the answer {observation[:_SHOWN_CHARS]!r} to {self._last!r}; expected the game's feedback"
            )
        if answer.startswith(NOTHING_HAPPENS):
            self._learn_refusal()
            return
        if verb == "go":
            self._at = self._spots[rest.removeprefix("to ")]
        elif verb == "take":
            thing, _, source = rest.partition(" from ")
            self._held = thing
            self._forget(thing, source)
        elif verb in ("move", "put"):
            thing, _, target = rest.partition(" in/on " if self._old_wording else " to ")
            self._held = None
            self._placed[thing] = target
            spot = self._spots[target]
            spot.objects = [*(spot.objects or ()), thing]
        elif verb in _TOOL_OF_VERB:
            self._treated.add(rest.partition(" with ")[0])
        for name, objects in read_contents(answer).items():
            if name in self._spots:
                self._spots[name].objects = objects
                self._spots[name].closed = False
        for name in read_closed(answer):
            if name in self._spots:
                self._spots[name].closed = True

    def _learn_refusal(self) -> None:
        verb, _, rest = self._last.partition(" ")
        if verb == "go" and self._at is not None:
            # Receptacles at the place where one stands cannot be gone to: what was refused is here.
            spot = self._spots[rest.removeprefix("to ")]
            self._at.beside |= spot.beside
            for name in self._at.beside:
                self._spots[name].beside = self._at.beside
            return
        if verb == "move" and not self._old_wording:
            self._old_wording = True  # older data words the command differently; the same attempt follows in that form
            return
        self._refused.add(self._last)
        if verb == "take":
            thing, _, source = rest.partition(" from ")
            self._forget(thing, source)

    def _forget(self, thing: str, source: str) -> None:
        spot = self._spots[source]
        spot.objects = [other for other in spot.objects or () if other != thing]

    # Choosing the next command.

    def _next_command(self) -> str:
        task = self._task
        if self._held is None:
            command = self._fetch()
        elif task.lamp:
            command = self._use_lamp()
        elif task.verb and self._held not in self._treated:
            command = self._treat(self._held)
        else:
            command = self._place(self._held)
        if command in self._refused:
            raise ExpertError(f"the game refuses {command!r}, and there is no other way")
        return command

    def _fetch(self) -> str:
        task = self._task
        home = self._home()
        for spot, thing in self._known(task.target):
            if thing not in self._placed and not (task.count > 1 and spot is home):
                return self._reach(spot) or f"take {thing} from {spot.name}"
        return self._search(task.target)

    def _use_lamp(self) -> str:
        for spot, lamp in self._known(self._task.lamp):
            command = self._go(spot) or f"use {lamp}"
            if command not in self._refused:
                return command
        return self._search(self._task.lamp)

    def _treat(self, thing: str) -> str:
        verb = self._task.verb
        for spot in self._of_kind(_TOOL_OF_VERB[verb]):
            command = f"{verb} {thing} with {spot.name}"
            if command not in self._refused:
                return self._go(spot) or command
        raise ExpertError(f"there is no {_TOOL_OF_VERB[verb]} that will {verb} {thing}")

    def _place(self, thing: str) -> str:
        home = self._home()
        for spot in [home] if home is not None else self._of_kind(self._task.parent):
            command = f"put {thing} in/on {spot.name}" if self._old_wording else f"move {thing} to {spot.name}"
            if command not in self._refused:
                return self._reach(spot) or command
        raise ExpertError(f"there is no {self._task.parent} that takes {thing}")

    def _home(self) -> _Spot | None:
        """The receptacle that must take the second object, once it holds the first."""
        if self._task.count < 2:
            return None
        for spot in self._of_kind(self._task.parent):
            if any(kind_of(thing) == self._task.target for thing in spot.objects or ()):
                return spot
        return None

    def _search(self, kind: str) -> str:
        unseen = [spot for spot in self._spots.values() if spot.objects is None and not self._gave_up(spot)]
        if not unseen:
            raise ExpertError(f"found no {'further ' if self._placed else ''}{kind} in {len(self._spots)} receptacles")
        spot = max(unseen, key=lambda spot: (self._promise(spot, kind), -self._tie_order[spot.name]))
        command = self._reach(spot)
        if command is None:
            raise ExpertError(f"cannot see what is in {spot.name}")
        return command

    def _promise(self, spot: _Spot, kind: str) -> float:
        """The chance to find the kind there, for each command it takes."""
        task = self._task
        if kind == task.target and spot.kind == task.parent and not task.verb:
            return 0.0  # what has only to be put there is not there at the start
        return self._where.chance(kind, spot.kind) * self._factor[spot.name] / self._commands_to_see(spot)

    # Getting there.

    def _is_here(self, spot: _Spot) -> bool:
        return self._at is not None and spot.name in self._at.beside

    def _gave_up(self, spot: _Spot) -> bool:
        return not self._refused.isdisjoint((f"go to {spot.name}", f"examine {spot.name}", f"open {spot.name}"))

    def _go(self, spot: _Spot) -> str | None:
        """The command that goes there; None if the expert is there."""
        return None if self._is_here(spot) else f"go to {spot.name}"

    def _commands_to_see(self, spot: _Spot) -> float:
        """How many commands bring the inside of a receptacle within reach; an average if it was never seen."""
        if spot.closed is None:
            return self._where.commands_to_see(spot.kind)
        return (not self._is_here(spot)) + spot.closed

    def _reach(self, spot: _Spot) -> str | None:
        """The next command on the way to the inside of a receptacle; None if it is within reach."""
        if not self._is_here(spot):
            return f"go to {spot.name}"
        if spot.closed is None:
            return f"examine {spot.name}"
        return f"open {spot.name}" if spot.closed else None

    def _known(self, kind: str) -> Iterator[tuple[_Spot, str]]:
        """Where objects of a kind were seen and still are, the nearest first."""
        for spot in sorted(self._spots.values(), key=self._commands_to_see):
            for thing in spot.objects or ():
                if kind_of(thing) == kind and thing != self._held:
                    yield spot, thing

    def _of_kind(self, kind: str) -> list[_Spot]:
        """Receptacles of a kind, the nearest first."""
        spots = [spot for spot in self._spots.values() if spot.kind == kind and not self._gave_up(spot)]
        return sorted(spots, key=lambda spot: (self._commands_to_see(spot), self._tie_order[spot.name]))
