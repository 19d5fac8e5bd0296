"""localdecide's own `/v1/systemone`: Ollama's errors and confidence with TypeSafe's breadth of input.

Ollama's clients need `error` to be a string and the legend to be text; TypeSafe's need 255 options,
structured text and unknown fields ignored. One body serves both. Whatever is ours starts with `x_`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from localdecide.core import confidence
from localdecide.core.decision import Decision, Options, Reading, Result
from localdecide.core.duration import parse_keep_alive
from localdecide.core.errors import InvalidRequest
from localdecide.core.questions import Noul, Question
from localdecide.dialects import schemas
from localdecide.dialects.assets import read_with_assets
from localdecide.dialects.base import Asked, Body, Dialect, Fault, Incoming, Operation, ask
from localdecide.dialects.fields import check_text, flag, model_name, refuse_unknown
from localdecide.dialects.images import read_images
from localdecide.dialects.permute import decide_separately, permute
from localdecide.dialects.systemone import (
    Rules,
    Style,
    of_distribution,
    parse_map,
    parse_state,
    render_answers,
    usage,
)


def error_body(fault: Fault) -> Body:
    """`{"error": text}`: the only shape that Ollama's clients show as it is."""
    return {"error": fault.message}


DIALECT = Dialect("localdecide", error_body)
RULES = Rules()


def parse(incoming: Incoming) -> Asked:
    """The request of `/v1/systemone`: JSON, or the form in which TypeSafe's clients send images."""
    body, assets = read_with_assets(incoming)
    return parse_body(body, incoming, assets)


def parse_body(body: Mapping[str, Any], incoming: Incoming, assets: tuple[bytes, ...] = ()) -> Asked:
    """The same from the JSON object, which `/permute` carries inside its own. assets: images that come first."""
    model = model_name(body)
    keep_alive = parse_keep_alive(body.get("keep_alive"))
    state = parse_state(body, RULES)
    questions = parse_map(body.get("questions"), RULES)
    check_text(incoming, state, body.get("questions"))
    images = assets + read_images(body.get("images"))
    decision = Decision(state, questions, images, parse_options(body.get("options")))
    return Asked(model, decision, keep_alive, body)


def parse_options(raw: Any) -> Options:
    """`options`: exact decodes every question alone; confidence adds the other definitions."""
    if raw is None:
        return Options()
    if not isinstance(raw, dict):
        raise InvalidRequest.at(("options",), "must be an object")
    # A misspelt option would quietly do nothing, so unlike the top level this refuses what it does not know.
    refuse_unknown(raw, frozenset({"exact", "confidence"}), ("options",))
    flag(raw, "confidence", ("options",))
    return Options(exact=flag(raw, "exact", ("options",)))


def extras(question: Question, reading: Reading) -> Body:
    """Where the numbers came from."""
    body: Body = {"x_readout": reading.readout}
    if reading.label_mass is not None:
        body["x_label_mass"] = reading.label_mass
    if reading.truncated:
        body["x_truncated"] = reading.truncated
    return body


def extras_with_confidence(question: Question, reading: Reading) -> Body:
    """The same, and every other definition of confidence under its name."""
    body = extras(question, reading)
    if not isinstance(question, Noul):
        p = reading.probabilities
        body["x_confidence"] = {
            "entropy": confidence.entropy(p),
            "margin": confidence.margin(p),
            "top": confidence.top(p),
            "top_mass": confidence.top_mass(p, reading.label_mass),
            "lead": confidence.lead(p),
        }
        if question.kind == "score":
            body["x_confidence"]["dispersion"] = confidence.dispersion(p)
            body["x_confidence"]["range_dispersion"] = confidence.range_dispersion(p)
    return body


ENTROPY = of_distribution(confidence.entropy)
STYLE = Style(ENTROPY, ENTROPY, extras=extras)
STYLE_WITH_CONFIDENCE = Style(ENTROPY, ENTROPY, extras=extras_with_confidence)


def render(asked: Asked, result: Result) -> Body:
    """`{model, answers, usage}` and how the answers were read."""
    wants_all = bool((asked.sent.get("options") or {}).get("confidence"))
    return {
        "model": result.model,
        "answers": render_answers(asked, result, STYLE_WITH_CONFIDENCE if wants_all else STYLE),
        "usage": usage(result),
        "x_exact": result.exact,
        "x_joint": result.joint,
        "x_cached_tokens": result.cached_tokens,
        "x_decoded_tokens": result.decoded_tokens,
        "x_load_seconds": result.load_seconds,
        "x_compute_seconds": result.compute_seconds,
    }


SYSTEMONE = Operation(DIALECT, ask(parse, render), "Typed questions about a state", schemas.ROOT, multipart=True)
PERMUTE = Operation(DIALECT, permute(parse_body), "One choice under other orders of its options", schemas.PERMUTE)
SEPARATE = Operation(
    DIALECT,
    ask(parse, render, decide=decide_separately),
    "Every question in a pass of its own",
    schemas.ROOT,
    multipart=True,
)
