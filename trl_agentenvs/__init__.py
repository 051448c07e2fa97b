"""Environments that a language model plays through typed tools, for reinforcement learning with stock TRL.

Importing this package loads nothing but the standard library; public names load when they are first used.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .alfworld.env import ALFWorldEnv as ALFWorldEnv
    from .check import check_env as check_env
    from .env import ToolEnv as ToolEnv
    from .episode_log import EpisodeLog as EpisodeLog
    from .errors import EnvError as EnvError
    from .errors import ToolError as ToolError
    from .rows import EnvSpec as EnvSpec
    from .stop import StopReason as StopReason
    from .trace import read_trace as read_trace
    from .training.chat_template import check_template as check_template
    from .training.chat_template import use_training_template as use_training_template
    from .training.sft_rows import check_sft_rows as check_sft_rows
    from .training.sft_rows import sft_dataset as sft_dataset

__version__ = "0.1.0"

# In a bare checkout `patches` and `recipes` lie beside this folder; an installed package has them inside.
_root = Path(__file__).resolve().parent
if not (_root / "patches").exists() and (_root.parent / "patches" / "__init__.py").exists():
    __path__.append(str(_root.parent))

_HOMES = {
    "ALFWorldEnv": "alfworld.env",
    "EnvError": "errors",
    "EnvSpec": "rows",
    "EpisodeLog": "episode_log",
    "StopReason": "stop",
    "ToolEnv": "env",
    "ToolError": "errors",
    "check_env": "check",
    "check_sft_rows": "training.sft_rows",
    "check_template": "training.chat_template",
    "read_trace": "trace",
    "sft_dataset": "training.sft_rows",
    "use_training_template": "training.chat_template",
}
__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    """Load a public name from its module at first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(sorted(_HOMES))}")
    try:
        module = importlib.import_module(f"{__name__}.{_HOMES[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(__name__):
            raise
        raise ImportError(f'{error.name} is not installed; run: pip install "{__name__}[train]"') from error
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *_HOMES})
