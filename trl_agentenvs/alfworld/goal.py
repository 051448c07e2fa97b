"""Facts, and the goal as a question to the set of facts.

A `Fact` is a predicate and its names, `("inreceptacle", "mug_1", "shelf_1")`. What never changes in a game is static,
what actions change is dynamic. `compile_goal` resolves the static part of a goal once, so that asking "is the game
won?" is a few subset tests over the dynamic facts.

What is covered: `and`, `or`, `exists`, `=`, `not` over static facts, and every predicate in `STATIC_ARITY` and
`DYNAMIC_ARITY`. What is not covered: `forall` and `not` over dynamic facts; no ALFRED goal uses them, and a goal that
does is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import TypeAlias

from trl_agentenvs.alfworld.pddl import Expression, typed_names

__all__ = ["DYNAMIC_ARITY", "MAX_STEPS", "MAX_TERMS", "STATIC_ARITY", "Fact", "Goal", "GoalError", "compile_goal"]

Fact: TypeAlias = tuple[str, ...]
"""A predicate followed by its arguments."""

MAX_TERMS = 20_000
"""Most ways of winning that a goal may spell out. Official games have at most a few hundred."""

MAX_STEPS = 500_000
"""Most steps that resolving a goal may take, a second or two. Official games take at most a few hundred."""

STATIC_ARITY: Mapping[str, int] = {
    "receptacletype": 2,
    "receptacleatlocation": 2,
    "objecttype": 2,
    "cancontain": 2,
    "inreceptacleobject": 2,
    "isreceptacleobject": 1,
    "openable": 1,
    "pickupable": 1,
    "moveable": 1,
    "cleanable": 1,
    "heatable": 1,
    "coolable": 1,
    "toggleable": 1,
    "sliceable": 1,
}
"""Number of arguments of each predicate that no action changes."""

DYNAMIC_ARITY: Mapping[str, int] = {
    "atlocation": 2,
    "objectatlocation": 2,
    "inreceptacle": 2,
    "holds": 2,
    "holdsany": 1,
    "opened": 1,
    "isclean": 1,
    "ishot": 1,
    "iscool": 1,
    "issliced": 1,
    "ison": 1,
    "istoggled": 1,
}
"""Number of arguments of each predicate that actions change."""

_UNINDEXED = frozenset({"cancontain"})  # by far the most facts, and no goal narrows by them

_SHOWN_CHARS = 80  # of an expression in a message

_Terms: TypeAlias = list[frozenset[Fact]]


class GoalError(ValueError):
    """The goal is not one that this module can decide."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal with its static part resolved.

    Attributes:
        parts: All must hold. A part holds if all facts of one of its terms hold.
        predicates: The dynamic predicates the goal mentions; a change of any other fact cannot change the answer.
    """

    parts: tuple[tuple[frozenset[Fact], ...], ...]
    predicates: frozenset[str]

    def holds(self, facts: Set[Fact]) -> bool:
        """Whether the goal is reached in a state.

        Args:
            facts: The dynamic facts that are true now.
        """
        for part in self.parts:
            for term in part:
                if term <= facts:
                    break
            else:
                return False
        return True


def compile_goal(expression: Expression, objects: Mapping[str, str], static_facts: Iterable[Fact]) -> Goal:
    """Resolve the static part of a goal.

    Args:
        expression: The parsed goal.
        objects: Kind by name, of everything the problem declares.
        static_facts: The facts that never change.

    Returns:
        The goal as a question to the dynamic facts.

    Raises:
        GoalError: The goal uses a form or predicate that is not covered, spells out more than `MAX_TERMS` ways, or
            takes more than `MAX_STEPS`.
    """
    grounder = _Grounder(objects, static_facts)
    top = expression[1:] if isinstance(expression, list) and expression[:1] == ["and"] else [expression]
    parts = [grounder.terms_of(node, {}) for node in top]
    predicates = frozenset(fact[0] for terms in parts for term in terms for fact in term)
    return Goal(tuple(tuple(terms) for terms in sorted(parts, key=len)), predicates)


class _Grounder:
    """Replaces variables by names, static literals by true or false, and the rest by lists of alternatives."""

    def __init__(self, objects: Mapping[str, str], static_facts: Iterable[Fact]) -> None:
        self._kind_members: dict[str, list[str]] = {}
        for name, kind in objects.items():
            self._kind_members.setdefault(kind, []).append(name)
        self._static = frozenset(static_facts)
        self._fillers: dict[Fact, dict[str, None]] | None = None
        self._steps = 0

    def terms_of(self, node: Expression, bound: Mapping[str, str]) -> _Terms:
        """The ways `node` can be true: [] never, [frozenset()] always."""
        self._take_step()
        if isinstance(node, str) or not node or not isinstance(node[0], str):
            raise GoalError(f"cannot read {_shorten(node)}; expected (operator ...)")
        operator, arguments = node[0], node[1:]
        if operator == "and":
            terms: _Terms = [frozenset()]
            for part in arguments:
                terms = self._distinct(a | b for b in self.terms_of(part, bound) for a in terms)
                if not terms:
                    break
            return terms
        if operator == "or":
            return self._distinct(term for part in arguments for term in self.terms_of(part, bound))
        if operator == "exists" and len(arguments) == 2 and isinstance(arguments[0], list):
            return self._exists(list(typed_names(arguments[0]).items()), arguments[1], bound)
        if operator == "not" and len(arguments) == 1:
            inner = self.terms_of(arguments[0], bound)
            if any(inner):
                raise GoalError(f"the goal says 'not' of something that can change: {_shorten(node)}")
            return [] if inner else [frozenset()]
        return self._literal(operator, arguments, bound)

    def _literal(self, predicate: str, arguments: list[Expression], bound: Mapping[str, str]) -> _Terms:
        names = _names(predicate, arguments, bound)
        if predicate == "=" and len(names) == 2:
            return [frozenset()] if names[0] == names[1] else []
        if STATIC_ARITY.get(predicate) == len(names):
            return [frozenset()] if (predicate, *names) in self._static else []
        if DYNAMIC_ARITY.get(predicate) == len(names):
            return [frozenset({(predicate, *names)})]
        raise GoalError(f"the goal uses ({predicate} ...) with {len(names)} arguments, which ALFRED does not define")

    def _exists(self, variables: list[tuple[str, str]], body: Expression, bound: Mapping[str, str]) -> _Terms:
        self._take_step()
        if not variables:
            return self.terms_of(body, bound)
        (variable, kind), rest = variables[0], variables[1:]
        return self._distinct(
            term
            for name in self._candidates(variable, kind, body, bound)
            for term in self._exists(rest, body, {**bound, variable: name})
        )

    def _candidates(self, variable: str, kind: str, body: Expression, bound: Mapping[str, str]) -> list[str]:
        """The names `variable` can take: of its kind, and fitting the static literals that leave only it open."""
        candidates = self._kind_members.get(kind, [])
        for literal in _conjuncts(body):
            predicate = literal[0]
            if not isinstance(predicate, str) or predicate not in STATIC_ARITY or predicate in _UNINDEXED:
                continue
            names = [bound.get(name, name) for name in literal[1:] if isinstance(name, str)]
            if names.count(variable) != 1 or sum(name.startswith("?") for name in names) != 1:
                continue
            pattern = (predicate, *("?" if name == variable else name for name in names))
            fitting = self._fitting(pattern)
            candidates = [name for name in candidates if name in fitting]
        return candidates

    def _fitting(self, pattern: Fact) -> dict[str, None]:
        """The names that make a static fact of `pattern` when put for its "?"."""
        if self._fillers is None:
            self._fillers = {}
            for fact in sorted(self._static):
                if fact[0] in _UNINDEXED:
                    continue
                for position in range(1, len(fact)):
                    opened = (*fact[:position], "?", *fact[position + 1 :])
                    self._fillers.setdefault(opened, {})[fact[position]] = None
        return self._fillers.get(pattern, {})

    def _distinct(self, terms: Iterable[frozenset[Fact]]) -> _Terms:
        found: dict[frozenset[Fact], None] = {}
        for term in terms:
            self._take_step()
            found[term] = None
            if len(found) > MAX_TERMS:
                raise GoalError(f"the goal spells out more than {MAX_TERMS} ways of winning")
        return list(found)

    def _take_step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise GoalError(f"the goal takes more than {MAX_STEPS} steps to resolve")


def _names(predicate: str, arguments: list[Expression], bound: Mapping[str, str]) -> list[str]:
    names: list[str] = []
    for argument in arguments:
        if not isinstance(argument, str):
            raise GoalError(f"({predicate} ...) has a nested argument {_shorten(argument)}")
        name = bound.get(argument, argument)
        if name.startswith("?"):
            raise GoalError(f"({predicate} ...) uses the variable {name}, which no 'exists' introduces")
        names.append(name)
    return names


def _conjuncts(node: Expression) -> Iterable[list[Expression]]:
    if isinstance(node, str) or not node:
        return
    if node[0] == "and":
        for part in node[1:]:
            yield from _conjuncts(part)
    elif node[0] == "exists" and len(node) == 3:
        yield from _conjuncts(node[2])
    else:
        yield node


def _shorten(node: Expression) -> str:
    text = repr(node)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."
