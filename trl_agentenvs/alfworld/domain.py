"""The ALFRED domain: which actions it has, and whether a game file is about it.

What is covered: the names of actions and predicates, and where objects can be cleaned. What is not covered: the
actions' conditions and effects; the engine knows them by heart, so a text that changes them goes unnoticed.
"""

from __future__ import annotations

from functools import lru_cache

from trl_agentenvs.alfworld.goal import DYNAMIC_ARITY, STATIC_ARITY
from trl_agentenvs.alfworld.pddl import Expression, PddlSyntaxError, parse

__all__ = ["ACTIONS", "sink_types_of"]

ACTIONS = frozenset({
    "look", "inventory", "examinereceptacle", "examineobject", "gotolocation", "openobject", "closeobject",
    "pickupobject", "putobject", "cleanobject", "heatobject", "coolobject", "toggleobject", "sliceobject",
})  # fmt: skip
"""The actions of the ALFRED domain, in lower case as PDDL reads; a game file must define them all."""

_OPTIONAL_ACTIONS = frozenset({"help"})


@lru_cache(maxsize=8)  # all official games share one domain text
def sink_types_of(domain: str) -> frozenset[str]:
    """Check that a domain text is ALFRED's, and read the one thing in which published texts differ.

    Args:
        domain: The PDDL domain of a game file.

    Returns:
        The receptacle types at which its CleanObject action cleans.

    Raises:
        PddlSyntaxError: The text is no PDDL, or its actions or predicates are not ALFRED's.
    """
    actions: dict[str, list[Expression]] = {}
    predicates: set[Expression] = set()
    name: Expression = ""
    for part in parse(domain)[1:]:
        if not isinstance(part, list) or not part:
            continue
        if part[0] == "domain" and len(part) == 2:
            name = part[1]
        elif part[0] == ":action" and len(part) > 1 and isinstance(part[1], str):
            actions[part[1]] = part
        elif part[0] == ":predicates":
            predicates = {p[0] for p in part[1:] if isinstance(p, list) and p and isinstance(p[0], str)}
    wrong = sorted(ACTIONS - actions.keys()) + sorted(actions.keys() - ACTIONS - _OPTIONAL_ACTIONS)
    if wrong:
        raise PddlSyntaxError(
            f"its domain {name!r} is not ALFRED's (the action {wrong[0]} is "
            f"{'missing' if wrong[0] in ACTIONS else 'unknown'})"
        )
    missing = sorted((STATIC_ARITY.keys() | DYNAMIC_ARITY.keys()) - predicates)
    if missing:
        raise PddlSyntaxError(f"its domain {name!r} is not ALFRED's (the predicate {missing[0]} is missing)")
    return frozenset(kind for kind in ("sinktype", "sinkbasintype") if _mentions(actions["cleanobject"], kind))


def _mentions(expression: Expression, name: str) -> bool:
    if isinstance(expression, str):
        return expression == name
    return any(_mentions(part, name) for part in expression)
