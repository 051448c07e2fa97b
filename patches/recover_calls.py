"""A tool call that cannot be made gets an answer that says how to make it, instead of ending the rollout.

Upstream: trl#4881 (open; PR#4890 closed). In TRL 1.10 to 1.16 a turn whose call does not parse is taken for the final
answer: the rollout ends and nothing is counted. So is a call inside a thinking block that was never closed. A call of
some thousand opening brackets, as a collapsing model writes, ends the training with a RecursionError. Arguments
that are no JSON object, or that the tool does not take, are answered with the text of a Python TypeError, and an
unknown name without the names there are.

With this patch each of them gets one sentence with the fix and the accepted names. A JSON object given as a string is
unpacked and the call is made. An environment that has `_call_tool(name, arguments)` answers names and arguments itself.

Counting: an answered fault is a tool call that failed, in TRL's own `tools/call_frequency` and
`tools/failure_frequency` (not where the environment answers: it counts itself). An environment that has
`_note_repair(kind)` is told "malformed_call", "call_in_thinking", "json_arguments" or "bad_arguments". A malformed turn
gets a call named `malformed_tool_call` in its message, for reward functions and logs to see; token ids are untouched.

Limits: after `max_in_a_row` malformed turns in a row the next one ends the rollout, as without the patch; whatever else
bounds a rollout (`max_tool_calling_iterations`, the token budget) still does. A turn that was cut at the token budget
is not recovered: no answer would fit. What counts as malformed: see `malformed`. GRPOTrainer and its subclasses only:
AsyncGRPOTrainer renders the conversation anew each turn, where an invented call would change the model's own tokens.

Delete when: every supported TRL answers calls it could not parse.
"""

from __future__ import annotations

import contextlib
import contextvars
import inspect
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

from .answering_tools import AnsweringTools, MarkedName
from .frame import PatchTargetMoved, SteppedAside, Undo, find, marked_options, replace_function, undo_together
from .malformed import call_format, diagnose
from .tool_loop import TOOL_LOOP, Rollouts, loop_source, wrap_tool_loop

__all__ = ["GIVES", "MALFORMED_CALL", "MAX_IN_A_ROW", "UPSTREAM", "active", "apply", "superseded"]

NAME = "recover_calls"
GIVES = "a tool call that cannot be made is answered with the fix"
UPSTREAM = "trl#4881"

MALFORMED_CALL = "malformed_tool_call"
MAX_IN_A_ROW = 3

_PARSER = "trl.trainer.grpo_trainer:parse_response"

logger = logging.getLogger("trl_agentenvs.patches")


def active() -> Mapping[str, Any] | None:
    """Return the options the patch is applied with, None where it is not applied."""
    return marked_options(NAME, TOOL_LOOP)


def superseded() -> str | None:
    """Return why the patch is not needed here, or None."""
    try:
        loop_source(NAME)
        owner, name = find(NAME, _PARSER)
    except SteppedAside as reason:
        return str(reason)
    parse = getattr(owner, name)
    parameters = inspect.signature(parse).parameters
    if not {"tokenizer", "ids", "prefix"} <= set(parameters):
        raise PatchTargetMoved(NAME, _PARSER, f"parameters ({', '.join(parameters)})")
    said = parse(_FailingTokenizer(), [0])
    return "TRL reports calls it could not parse" if set(said) - {"role", "content"} else None


def apply(*, max_in_a_row: int = MAX_IN_A_ROW) -> Undo:
    """Apply the patch and return its undo.

    Args:
        max_in_a_row: Malformed turns in a row that are answered; the next one ends the rollout.

    Raises:
        ValueError: `max_in_a_row` is below 1.
        SteppedAside: It is not needed here.
        PatchTargetMoved: The tool loop or the parser is not where it was.
    """
    if max_in_a_row < 1:
        raise ValueError(f"got max_in_a_row={max_in_a_row!r}; expected at least 1; to recover nothing, leave it out")
    if active() is not None:
        return undo_together()
    reason = superseded()
    if reason is not None:
        raise SteppedAside(reason)
    running: contextvars.ContextVar[_Recovery | None] = contextvars.ContextVar(NAME, default=None)

    def make_parser(parse: Any) -> Callable[..., Any]:
        signature = inspect.signature(parse)

        def parse_response(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind(*args, **kwargs).arguments
            try:
                message = parse(*args, **kwargs)
            except RecursionError:  # brackets without end: text, as TRL takes all else that does not parse
                content = given["tokenizer"].decode(given["ids"], skip_special_tokens=True)
                message = {"role": "assistant", "content": content}
            recovery = running.get()
            if recovery is not None:  # a later turn; first turns are parsed before the loop starts
                recovery.take_later_turn(message, [*(given.get("prefix") or ()), *given["ids"]])
            return message

        return parse_response

    @contextlib.contextmanager
    def around(rollouts: Rollouts) -> Iterator[None]:
        recovery = _Recovery(rollouts, max_in_a_row)
        token = running.set(recovery)
        try:
            with recovery.at_work():
                yield
        finally:
            running.reset(token)

    parser = replace_function(NAME, _PARSER, make_parser)
    return undo_together(parser, wrap_tool_loop(NAME, around, {"max_in_a_row": max_in_a_row}))


class _FailingTokenizer:
    """Fails to parse, to see what TRL makes of it."""

    eos_token = ""

    def parse_response(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ValueError("a malformed call")

    def decode(self, *args: Any, **kwargs: Any) -> str:
        return "a malformed call"


class _Recovery:
    """Looks at each parsed turn of one batch and gives TRL something to call where it would find nothing."""

    def __init__(self, rollouts: Rollouts, max_in_a_row: int) -> None:
        self.rollouts, self.max_in_a_row = rollouts, max_in_a_row
        self.trainer = rollouts.trainer
        self.form = call_format(self.trainer._tokenizer)
        self.plain_tools = self.trainer._sync_tool_dicts
        self.tools = [
            AnsweringTools(sync_tools, async_tools, rollouts.environment(row))
            for row, (sync_tools, async_tools) in enumerate(
                zip(self.plain_tools, self.trainer._async_tool_dicts, strict=True)
            )
        ]

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Look at the first turns, and have TRL call the answering tools for the time of the loop."""
        self.trainer._sync_tool_dicts = self.tools
        try:
            for row, messages in enumerate(self.rollouts.completions):
                self._take_turn(row, messages[-1])
            yield
        finally:
            self.trainer._sync_tool_dicts = self.plain_tools
            self._leave_plain_names()

    def take_later_turn(self, message: dict[str, Any], ids: list[int]) -> None:
        """Look at a turn that TRL just parsed; `ids` are all token ids up to its end."""
        row = self.rollouts.row_of_ids(ids)
        if row is None:
            logger.warning("%s cannot tell whose turn was parsed; it is left as it is", NAME)
            return
        self._take_turn(row, message)

    def _take_turn(self, row: int, message: dict[str, Any]) -> None:
        if message.get("tool_calls"):
            for call in message["tool_calls"]:
                if isinstance(call.get("function"), dict):
                    _mend(call["function"])
            return
        if len(self.rollouts.completion_ids[row]) >= self.trainer.max_completion_length:
            return  # cut at the budget
        diagnosis = diagnose(message, self.form, self.tools[row].names)
        if diagnosis is None or self._malformed_in_a_row(row, message) >= self.max_in_a_row:
            return
        name = MarkedName.of(MALFORMED_CALL, diagnosis.kind, diagnosis.sentence)
        message["tool_calls"] = [{"type": "function", "function": {"name": name, "arguments": {}}}]

    def _malformed_in_a_row(self, row: int, current: dict[str, Any]) -> int:
        """How many turns of the rollout before the current one were malformed, without a proper one in between."""
        count = 0
        for message in reversed(self.rollouts.completions[row]):
            if message is current or message["role"] != "assistant":
                continue
            calls = message.get("tool_calls")
            if not calls or calls[0].get("function", {}).get("name") != MALFORMED_CALL:
                break
            count += 1
        return count

    def _leave_plain_names(self) -> None:
        """Take the marks off the names in the messages, which outlive the loop."""
        for message in (message for messages in self.rollouts.completions for message in messages):
            functions = [call.get("function") for call in message.get("tool_calls") or ()]
            for holder in (message, *functions):
                if isinstance(holder, dict) and isinstance(holder.get("name"), MarkedName):
                    holder["name"] = str(holder["name"])


def _mend(function: dict[str, Any]) -> None:
    """Unpack arguments given as a JSON string; where they are no object at all, mark the call's name with them.

    Half characters in the name become escapes: TRL renders it, and a tokenizer fails on them.
    """
    function["name"] = function["name"].encode("utf-8", "backslashreplace").decode("utf-8")
    given = function.get("arguments")
    if given is None or isinstance(given, dict):
        return
    mended = _object_from(given)
    if mended is None:
        function["name"] = MarkedName.of(function["name"], "bad_arguments", arguments=given)
        function["arguments"] = {}
    else:
        function["name"] = MarkedName.of(function["name"], "json_arguments")
        function["arguments"] = mended


def _object_from(arguments: Any) -> dict[str, Any] | None:
    """The object that a JSON string holds ({} for "null"), or None where it holds none."""
    if not isinstance(arguments, str):
        return None
    try:
        parsed = json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        return None
    if parsed is None:
        return {}
    return parsed if isinstance(parsed, dict) else None
