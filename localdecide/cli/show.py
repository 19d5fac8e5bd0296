"""`localdecide show`: what a model is, in sections or one part of it as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from localdecide import settings
from localdecide.cli import daemon
from localdecide.cli.options import Json, Model
from localdecide.cli.output import Output
from localdecide.cli.usage import UsageProblem

PARTS = ("license", "modelfile", "parameters", "template", "system")


def command(
    model: Model,
    license: Annotated[bool, typer.Option("--license", help="Print its licence.")] = False,
    modelfile: Annotated[bool, typer.Option("--modelfile", help="Print its Modelfile.")] = False,
    parameters: Annotated[bool, typer.Option("--parameters", help="Print its parameters.")] = False,
    template: Annotated[bool, typer.Option("--template", help="Print its chat template.")] = False,
    system: Annotated[bool, typer.Option("--system", help="Print its system message.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also the file's metadata and tensors.")] = False,
    json: Json = False,
) -> None:
    """Show what a model is."""
    wanted = [
        part for part, asked in zip(PARTS, (license, modelfile, parameters, template, system), strict=True) if asked
    ]
    if len(wanted) > 1:
        raise UsageProblem(f"only one of --{' and --'.join(wanted)} can be shown at a time")
    output = Output.of(json)
    shown = daemon.ensure(settings.load(), output).post("/api/show", {"model": model, "verbose": verbose}, timeout=60.0)
    if json:
        output.json({wanted[0]: shown.get(wanted[0], "")} if wanted else shown)
    elif wanted:
        text = shown.get(wanted[0]) or ""
        output.data("\n\n".join(text) if isinstance(text, list) else text.rstrip("\n"))
    else:
        output.data("\n".join(sections(shown, verbose=verbose)))


def sections(shown: Mapping[str, Any], *, verbose: bool) -> Iterator[str]:
    """Titled blocks of the reply of /api/show, two spaces in, a blank line after each."""
    yield from _section("Model", _columns(_model(shown)))
    yield from _section("Description", _wrapped(shown.get("description")))
    yield from _section("Capabilities", list(shown.get("capabilities") or ()))
    if projector := shown.get("projector_info"):
        yield from _section("Projector", _columns([(name, _value(value)) for name, value in projector.items()]))
    yield from _section("Decisions", _columns(_decisions(shown)))
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
    """How the model decides: its family, then its readout of each question type and what else it sets."""
    decision = shown.get("decision") or {}
    rows = [("family", decision.get("family") or "")]
    for kind, readout in (decision.get("readouts") or {}).items():
        temperature = readout.get("temperature")
        at = "" if temperature is None else f", temperature {_value(temperature)}"
        rows.append((kind, f"{readout.get('name') or 'as the family'}{at}"))
    for name in ("temperatures", "labels"):
        rows += [(f"{name[:-1]} of {key}", _value(value)) for key, value in (decision.get(name) or {}).items()]
    rows += [(name, _value(decision[name])) for name in ("attention", "prompt") if decision.get(name)]
    return [(name, value) for name, value in rows if value]


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
