"""Rule about what an environment shares with the whole process and may not change: folder, variables, streams, random.

Random states are those of `random` and, where they are loaded, of NumPy and of PyTorch on the CPU. What changes while a
module is imported is not seen, since the check begins after that; nor is what was put back before it ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .subject import Finding, show

__all__ = ["Surroundings"]

# Module of each global random generator -> how its state is read and put back.
_GENERATORS = {
    "random": ("getstate", "setstate"),
    "numpy.random": ("get_state", "set_state"),
    "torch.random": ("get_rng_state", "set_rng_state"),
}


def _working_folder() -> str:
    """The working folder; "" where somebody deleted it."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _signal_handlers() -> dict[str, Any]:
    return {name.name: signal.getsignal(name) for name in sorted(signal.valid_signals()) if hasattr(name, "name")}


def _random_states() -> dict[str, Any]:
    """State of each global generator that is loaded."""
    return {name: getattr(sys.modules[name], get)() for name, (get, _) in _GENERATORS.items() if name in sys.modules}


_STATE: Mapping[str, tuple[Callable[[], Any], str]] = {
    "the working folder": (_working_folder, "use absolute paths, or cwd= of subprocess"),
    "os.environ": (lambda: dict(os.environ), "pass env= to subprocesses"),
    "signal handlers": (_signal_handlers, "bound time with timeouts of subprocess or queue instead"),
    "the global random generator": (_random_states, "use random.Random(f'{seed}') made from the row"),
    "sys.argv": (lambda: [*sys.argv], "pass arguments to functions"),
    "sys.path": (lambda: [*sys.path], "import what it needs when its module is imported"),
    "sys.stdout or sys.stderr": (lambda: [sys.stdout, sys.stderr], "capture output of subprocesses only"),
}


class Surroundings:
    """What of the process an environment may not change, as it was when this was made."""

    def __init__(self) -> None:
        self._before = {name: read() for name, (read, _) in _STATE.items()}

    def check(self) -> Iterator[Finding]:
        """Find what changed since."""
        for name, (read, advice) in _STATE.items():
            before, now = _comparable(self._before[name]), _comparable(read())
            if read is _random_states:
                now = {generator: now[generator] for generator in before}  # others were loaded since
            if before != now:
                yield Finding(
                    "global-state",
                    f"{name} changed while the environment ran{_detail(before, now)}. The whole process shares it: the"
                    f" trainer, its data order, other environments and threads. Leave it alone: {advice}.",
                )

    def restore(self) -> None:
        """Put everything back; a working folder that is gone stays gone, and threads can set no signal handlers."""
        with contextlib.suppress(OSError):
            os.chdir(self._before["the working folder"])
        if dict(os.environ) != self._before["os.environ"]:
            os.environ.clear()
            os.environ.update(self._before["os.environ"])
        sys.argv[:] = self._before["sys.argv"]
        sys.path[:] = self._before["sys.path"]
        sys.stdout, sys.stderr = self._before["sys.stdout or sys.stderr"]
        for generator, state in self._before["the global random generator"].items():
            getattr(sys.modules[generator], _GENERATORS[generator][1])(state)
        if threading.current_thread() is threading.main_thread():
            for name, handler in self._before["signal handlers"].items():
                if handler is not None and signal.getsignal(signal.Signals[name]) is not handler:
                    signal.signal(signal.Signals[name], handler)


def _comparable(state: Any) -> Any:
    """The state with lists in place of the arrays and tensors in it, which `==` does not compare as a whole."""
    if isinstance(state, dict):
        return {name: _comparable(part) for name, part in state.items()}
    if isinstance(state, tuple):
        return [_comparable(part) for part in state]
    return state.tolist() if hasattr(state, "tolist") else state


def _detail(before: Any, now: Any) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        return f" ({', '.join(names)})"
    if isinstance(before, str | int | float):
        return f" (from {show(before)} to {show(now)})"
    return ""
