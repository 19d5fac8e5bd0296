"""What `localdecide show` prints about a model: the reply of /api/show as titled blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def sections(shown: Mapping[str, Any], *, verbose: bool) -> Iterator[str]:
    """Titled blocks of the reply of /api/show, two spaces in, a blank line after each."""
    yield from _section("Model", _columns(_model(shown)))
    yield from _section("Description", _wrapped(shown.get("description")))
    yield from _section("Capabilities", list(shown.get("capabilities") or ()))
    if projector := shown.get("projector_info"):
        yield from _section("Projector", _columns([(name, _value(value)) for name, value in projector.items()]))
    yield from _section("Decisions", _columns(_decisions(shown)))
    yield from _section("Loaded", _columns(engine_rows(shown)))
    yield from _section("Parameters", _text_lines(shown.get("parameters")))
    yield from _section("System", _head(shown.get("system")))
    yield from _section("License", _head(shown.get("license")))
    if verbose:
        metadata = [(name, _value(value)) for name, value in (shown.get("model_info") or {}).items()]
        yield from _section("Metadata", _columns(metadata))
        tensors = [(t["name"], f"{t['type']}    {t['shape']}") for t in shown.get("tensors") or ()]
        yield from _section("Tensors", _columns(tensors))


def _model(shown: Mapping[str, Any]) -> list[tuple[str, str]]:
    details, info = shown.get("details") or {}, shown.get("model_info") or {}
    architecture = str(info.get("general.architecture") or details.get("family") or "")
    rows = [
        ("architecture", architecture),
        ("parameters", details.get("parameter_size")),
        ("context length", info.get(f"{architecture}.context_length")),
        ("embedding length", info.get(f"{architecture}.embedding_length")),
        ("quantization", details.get("quantization_level")),
        ("requires", shown.get("requires")),
    ]
    return [(name, str(value)) for name, value in rows if value]


def _decisions(shown: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How the model decides: as its runner says, else as it is installed."""
    installed = shown.get("decision") or {}
    said = shown.get("loaded") or shown.get("described") or {}
    reading = said.get("reading") or {}
    rows = [("family", said.get("family") or installed.get("family")), ("refused", said.get("error"))]
    rows.append(("prompt", reading.get("prompt") or installed.get("prompt")))
    for kind, readout in (reading.get("readouts") or installed.get("readouts") or {}).items():
        rows.append((kind, _readout(readout)))
    rows += _named("labels", "labels of", reading.get("labels") or installed.get("labels"))
    temperatures = reading.get("temperatures") or (None if reading else installed.get("temperatures"))
    rows += _named("temperature", "temperature of", temperatures)
    rows.append(("attention", reading.get("attention") or installed.get("attention")))
    rows += _named("limits", "most", reading.get("limits"))
    rows += _named("head", "head's", reading.get("head"))
    rows.append(("input", ", ".join(reading.get("modalities") or ())))
    if said.get("joint"):
        rows.append(("answers", "depend on all questions of a request"))
    return [(name, str(value)) for name, value in rows if value]


def _named(title: str, prefix: str, values: Any) -> list[tuple[str, str]]:
    """One row where a family says one thing, one for each name where it says several, with its source."""
    if not isinstance(values, Mapping):
        return [(title, _value(values))] if values else []
    rows = []
    for name, value in values.items():
        if isinstance(value, Mapping) and "source" in value:
            rest = [_value(part) for key, part in value.items() if key != "source"]
            rows.append((f"{prefix} {name}", f"{', '.join(rest)} ({value['source']})"))
        else:
            rows.append((f"{prefix} {name}".replace("_", " "), _value(value)))
    return rows


def _readout(readout: Mapping[str, Any]) -> str:
    """`text, temperature 4.0`, and who says so where the runner tells."""
    said = str(readout.get("readout") or readout.get("name") or "as the family")
    if readout.get("temperature") is not None:
        said += f", temperature {_value(readout['temperature'])}"
    return f"{said} ({readout['source']})" if readout.get("source") else said


_REASONS = {"threads": "num_thread", "context": "num_ctx", "batch": "num_batch", "ubatch": "num_ubatch"}


def engine_rows(shown: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How the loaded model runs, with the reason of each choice."""
    engine = (shown.get("loaded") or {}).get("engine") or {}
    reasons = engine.get("reasons") or {}
    rows = []
    for name, value in engine.items():
        if name != "reasons":
            reason = reasons.get(name) or reasons.get(_REASONS.get(name, ""))
            rows.append((name.replace("_", " "), f"{_value(value)} ({reason})" if reason else _value(value)))
    return rows


def _section(title: str, lines: list[str]) -> Iterator[str]:
    if lines:
        yield f"  {title}"
        yield from (f"    {line}" for line in lines)
        yield ""


def _columns(rows: list[tuple[str, str]]) -> list[str]:
    width = max((len(name) for name, _ in rows), default=0) + 4
    return [f"{name:{width}}{value}" for name, value in rows]


def _wrapped(text: Any) -> list[str]:
    import textwrap

    return textwrap.wrap(str(text or ""), 76)


def _text_lines(text: Any) -> list[str]:
    return [line.rstrip() for line in str(text or "").splitlines() if line.strip()]


def _head(text: Any) -> list[str]:
    """The first two lines, and `...` where there are more."""
    lines = _text_lines("\n".join(text) if isinstance(text, list) else text)
    return [*lines[:2], "..."] if len(lines) > 2 else lines


def _value(value: Any) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
