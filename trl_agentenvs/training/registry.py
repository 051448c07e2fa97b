"""Environments by name: those of this package, and anybody's as `module:Class`."""

from __future__ import annotations

import difflib
import importlib
import os
import sys

from trl_agentenvs.env import ToolEnv

__all__ = ["ENVIRONMENTS", "find_env"]

ENVIRONMENTS: dict[str, str] = {
    "alfworld": "trl_agentenvs.alfworld.env:ALFWorldEnv",
}
"""Name on the command line -> `module:Class`."""


def find_env(name: str) -> type[ToolEnv]:
    """Return the environment class of a name.

    Args:
        name: One of `ENVIRONMENTS`, or `module:Class`; the module is looked for in the current folder, too.

    Raises:
        ValueError: There is no such name, module or class, or the class is no `ToolEnv` or breaks its contract.
    """
    target = ENVIRONMENTS.get(name, name)
    module_name, _, class_name = target.partition(":")
    if not module_name or not class_name:
        near = difflib.get_close_matches(name, ENVIRONMENTS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(
            f"got the environment {name!r}{hint}; expected {', '.join(ENVIRONMENTS)}, or your own as module:Class"
        )
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except (ImportError, TypeError) as error:
        raise ValueError(
            f"cannot import the environment {name!r}: {error}; run from the folder that holds it, or install it"
        ) from error
    found = getattr(module, class_name, None)
    if not isinstance(found, type) or not issubclass(found, ToolEnv):
        what = "it does not define" if found is None else "is no subclass of trl_agentenvs.ToolEnv:"
        raise ValueError(f"got the environment {name!r}; {module_name} was imported, but {what} {class_name}")
    return found
