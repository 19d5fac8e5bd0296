"""ChatML with thinking off: the frame that Qwen-based decision models were trained in."""

from __future__ import annotations

ANSWER = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
"""The assistant's turn, opened with an empty reasoning block."""


def turns(user: str, system: str | None = None, answer: str = ANSWER) -> str:
    """A system turn where there is one, the user's turn, and the place where the answer begins."""
    head = "" if system is None else f"<|im_start|>system\n{system}<|im_end|>\n"
    return f"{head}<|im_start|>user\n{user}<|im_end|>\n{answer}"
