"""What a tool's result may look like when the model reads it.

Covered: results are `str` that UTF-8 can hold, since tokenizers fail on half characters; control tokens of common chat
formats lose their meaning, so that a file or a game cannot speak as the system or the user; a long result keeps its
head and its tail around a marker that says how much is missing. Not covered: persuasion in plain words ("ignore your
instructions").
"""

from __future__ import annotations

import re

__all__ = ["cut", "neutralise", "shape_result"]

# Opening characters of everything that a chat template or a tool-call parser may take for structure.
_CONTROL = re.compile(
    r"""<(?=\|[^|<>\s]{1,40}\|?>)           # <|im_end|>, <|eot_id|>, <|tool_call_start|>, <|turn>
      | <(?=[^|<>\s]{1,40}\|>)             # <turn|>
      | <(?=\uff5c[^<>\s]{1,60}\uff5c>)     # the same with full-width bars
      | <(?=/?(?:tool_call|tool_calls|tool_response|tool_output|arg_key|arg_value|think|thinking|tools
               |s|bos|eos|pad|unk|mask|sop|eop|start_of_turn|end_of_turn|end_of_utterance|start_of_image|end_of_image
               |start_function_call|end_function_call|start_function_response|end_function_response
               |(?:seed|minimax):\w{1,40}|(?:unused|extra_id_|SPECIAL_)\d{1,6})>)
      | <(?=/?(?:function|parameter)[=>])   # <function=read>, </parameter>
      | <(?=</?SYS>>)
      | \[(?=/?(?:INST|THINK|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|AVAILABLE_TOOLS|SYSTEM_PROMPT|CALL_ID|gMASK)\])
      | \[(?=\|(?:system|user|assistant|tool|endofturn)\|\])
      | \](?=~!?b[\[\]]) | \[(?=e~\[)      # the turns of MiniMax
    """,
    re.VERBOSE,
)


def neutralise(text: str) -> str:
    """Return `text` with a space behind the first character of every control token: `<|im_end|>` -> `< |im_end|>`.

    Half characters (lone surrogates) become escapes.
    """
    return _CONTROL.sub(r"\g<0> ", text).encode("utf-8", "backslashreplace").decode("utf-8")


def cut(text: str, max_chars: int, see_rest: str = "") -> str:
    """Return `text` unchanged if it has at most `max_chars` characters, else its head and tail around a marker.

    Args:
        text: The result.
        max_chars: Characters of `text` to keep; the marker comes on top.
        see_rest: How the model can see what is missing, as in "use offset to read on"; appended to the marker.
    """
    if len(text) <= max_chars:
        return text
    head = (max_chars + 1) // 2
    tail = max_chars - head
    advice = f"; {see_rest}" if see_rest else ""
    marker = f"\n[... {len(text) - max_chars} of {len(text)} characters cut{advice} ...]\n"
    return text[:head] + marker + (text[-tail:] if tail else "")


def shape_result(result: object, max_chars: int, see_rest: str = "") -> str:
    """Turn what a tool returned into the text the model reads.

    `None` reads as "Done.", since an empty tool message teaches nothing; other objects are shown by `str`.
    """
    text = "Done." if result is None else str(result)
    # Cut first: neutralising must not be able to blow a result up beyond the work of its visible part.
    return neutralise(cut(text, max_chars, see_rest))
