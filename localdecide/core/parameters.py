"""PARAMETER names: which exist, what type each has, and which have no meaning for a decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from localdecide.core.duration import parse_keep_alive
from localdecide.core.errors import InvalidModelfile, InvalidRequest

_TRUE = ("true", "1", "t")
_FALSE = ("false", "0", "f")


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError
    number = float(value)
    if number != int(number):
        raise ValueError
    return int(number)


def _positive(value: object) -> int:
    number = _integer(value)
    if number < 1:
        raise ValueError
    return number


def _float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError
    number = float(value)
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError
    return number


def _flag(value: object) -> bool:
    text = str(value).lower()
    if text not in (*_TRUE, *_FALSE):
        raise ValueError
    return text in _TRUE


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple) else [str(value)]


def _one_of(*names: str) -> Callable[[object], str]:
    def parse(value: object) -> str:
        text = str(value).lower()
        if text not in names:
            raise ValueError
        return text

    return parse


def _keep_alive(value: object) -> str | int | float:
    try:
        parse_keep_alive(value)
    except InvalidRequest:
        raise ValueError from None
    if not isinstance(value, str | int | float):
        raise ValueError
    return value


ENGINE_PARAMETERS: Mapping[str, tuple[str, Callable[[object], Any]]] = {
    "num_ctx": ("int", _positive),
    "num_batch": ("int", _positive),
    "num_ubatch": ("int", _positive),
    "num_thread": ("int", _positive),
    "num_gpu": ("int", _integer),
    "main_gpu": ("int", _integer),
    "use_mmap": ("bool", _flag),
    "flash_attention": ("auto|on|off", _one_of("auto", "on", "off")),
    "kv_cache_type": ("f16|f32", _one_of("f16", "f32")),
    "keep_alive": ("duration", _keep_alive),
}
"""Parameters with an effect: what a value must be, for people, and the function that makes it so."""

IGNORED_PARAMETERS: Mapping[str, tuple[str, Callable[[object], Any]]] = {
    **dict.fromkeys(
        ("draft_num_predict", "num_keep", "seed", "num_predict", "top_k", "repeat_last_n", "mirostat", "num_gqa"),
        ("int", _integer),
    ),
    **dict.fromkeys(
        (
            *("top_p", "min_p", "typical_p", "temperature", "repeat_penalty", "presence_penalty", "frequency_penalty"),
            *("mirostat_tau", "mirostat_eta", "tfs_z"),
        ),
        ("float", _float),
    ),
    **dict.fromkeys(
        ("penalize_newline", "low_vram", "f16_kv", "logits_all", "vocab_only", "use_mlock", "numa"), ("bool", _flag)
    ),
    "stop": ("text", _texts),
}
"""Parameters of text generation: existing Modelfiles carry them, decisions have no use for them."""


def check_parameter(name: str, value: object) -> Any:
    """The typed value. Raises InvalidModelfile `unknown parameter 'x'` or `invalid int value [x]`."""
    known = ENGINE_PARAMETERS.get(name) or IGNORED_PARAMETERS.get(name)
    if known is None:
        raise InvalidModelfile(f"unknown parameter '{name}'", {"parameter": name})
    kind, parse = known
    try:
        return parse(value)
    except (ValueError, OverflowError):
        raise InvalidModelfile(f"invalid {kind} value [{value}] of parameter {name}", {"parameter": name}) from None
