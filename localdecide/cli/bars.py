"""A reply of /v1/systemone as lines of text: the answer of each question over a bar an option."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

BAR_CELLS = 30
LABEL_CELLS = 40
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def lines(reply: Mapping[str, Any], *, fancy: bool) -> Iterator[str]:
    """Every answer in the reply's order, a blank line between. `fancy`: block characters and bold answers."""
    for index, (key, answer) in enumerate(reply["answers"].items()):
        if index:
            yield ""
        yield _headline(key, answer, fancy)
        rows = _rows(answer)
        width = min(max((cells(label) for label, _ in rows), default=0), LABEL_CELLS)
        for label, probability in rows:
            yield f"  {pad(label, width)}  {bar(probability, fancy)}  {probability:6.1%}"


def verdict(answer: Mapping[str, Any]) -> str:
    """The bare answer: an option's name, `yes` or `no`, or the expected level with two digits."""
    match answer.get("type"):
        case "choice":
            return str(answer["choice"])
        case "noul":
            return "yes" if answer["noul"] >= 0.5 else "no"
        case "score":
            return f"{answer['score']:.2f}"
    return json.dumps(answer, ensure_ascii=False)


def details(reply: Mapping[str, Any]) -> Iterator[str]:
    """What else the reply tells: tokens read and every `x_` field, one a line."""
    usage = reply.get("usage", {})
    yield f"model: {reply.get('model')}, input tokens: {usage.get('input_tokens')}"
    for name, value in reply.items():
        if name.startswith("x_"):
            yield f"{name[2:]}: {_short(value)}"
    for key, answer in reply["answers"].items():
        extras = [f"{name[2:]} {_short(value)}" for name, value in answer.items() if name.startswith("x_")]
        if extras:
            yield f"{key}: {', '.join(extras)}"


def bar(probability: float, fancy: bool) -> str:
    """`BAR_CELLS` wide; in eighths of a cell where block characters are wanted."""
    if not fancy:
        return ("#" * round(probability * BAR_CELLS)).ljust(BAR_CELLS)
    full, rest = divmod(round(probability * BAR_CELLS * 8), 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(BAR_CELLS)


def cells(text: str) -> int:
    """Columns that `text` takes on a terminal."""
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def pad(text: str, width: int) -> str:
    """`text` on exactly `width` columns; what does not fit ends in an ellipsis."""
    if cells(text) > width:
        while cells(text) > width - 1:
            text = text[:-1]
        text += "…"
    return text + " " * (width - cells(text))


def _headline(key: str, answer: Mapping[str, Any], fancy: bool) -> str:
    said = verdict(answer)
    bold = f"\033[1m{said}\033[0m" if fancy else said
    name = _one_line(key)
    line = f"{name} {bold}" if name.endswith(("?", ":")) else f"{name}: {bold}"
    if answer.get("type") == "noul":
        line += f" ({max(answer['noul'], 1 - answer['noul']):.1%})"
    if answer.get("type") == "score":
        line += f" of {len(answer['probabilities']) - 1}"
    if "confidence" in answer:
        line += f" (confidence {answer['confidence']:.2f})"
    return line


def _rows(answer: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Each option's label and probability, in the order asked; yes before no."""
    match answer.get("type"):
        case "choice":
            return [(_one_line(name), value) for name, value in answer["probabilities"].items()]
        case "noul":
            return [("yes", answer["noul"]), ("no", 1 - answer["noul"])]
        case "score":
            legend = answer.get("legend", {})
            levels = answer["probabilities"].items()
            return [(f"{level} {_one_line(_short(legend.get(level, '')))}".strip(), value) for level, value in levels]
    return []


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
