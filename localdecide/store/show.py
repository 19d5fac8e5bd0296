"""The body of `/api/show`: what an installed model is, for people and for Ollama's clients."""

from __future__ import annotations

from typing import Any

from localdecide.core.errors import InvalidModelfile
from localdecide.core.modelfile import format_modelfile, from_parts
from localdecide.store import manifests as media
from localdecide.store.catalog import StoredModel
from localdecide.store.gguf_header import Array, Header, read_header


def show(model: StoredModel, *, verbose: bool = False) -> dict[str, Any]:
    """License, modelfile, parameters, template, system, details, model_info, capabilities, modified_at.

    Beside Ollama's fields: `digest`, `size`, `description`, `decision` (family, readouts, temperatures, labels),
    and with `verbose` the tensors.
    """
    header = read_header(model.path)
    body: dict[str, Any] = {
        "license": "\n".join(model.licenses),
        "modelfile": modelfile_of(model),
        "parameters": parameters_text(model.parameters),
        "template": model.spec.template or str(header.metadata.get("tokenizer.chat_template") or ""),
        "system": model.spec.system or "",
        "details": model.details,
        "model_info": model_info(header, verbose),
        "capabilities": list(model.capabilities),
        "modified_at": model.modified,
        "model": str(model.name),
        "digest": model.digest,
        "size": model.size,
        "description": str(model.decision.get("description") or ""),
        "decision": {
            "family": model.spec.family or model.facts.decision_type or "",
            **{key: model.decision[key] for key in _DECISION if key in model.decision},
        },
    }
    if projector := model.spec.projector:
        body["projector_info"] = model_info(read_header(projector), verbose)
    if verbose:
        body["tensors"] = [{"name": t.name, "type": t.kind_name, "shape": list(t.shape)} for t in header.tensors]
    return body


_DECISION = ("readouts", "temperatures", "labels", "attention", "prompt")


def modelfile_of(model: StoredModel) -> str:
    """A Modelfile that makes the same model again."""
    kinds = (media.MODEL, media.PROJECTOR)
    sources = [str(model.blobs.path(layer.digest)) for kind in kinds for layer in model.manifest.of(kind)]
    parts = {
        "parameters": model.parameters,
        "template": model.text(media.TEMPLATE),
        "system": model.text(media.SYSTEM),
        "licenses": model.licenses,
        "decision": model.decision,
        "head": model.spec.head,
    }
    text = f"# Modelfile of {model.name}, as `localdecide show --modelfile` prints it\n"
    for command in from_parts(parts, sources):
        try:
            text += format_modelfile([command])
        except InvalidModelfile as error:  # the grammar has no escapes
            text += f"# {error.message}\n"
    return text


def parameters_text(parameters: dict[str, Any]) -> str:
    """One `name value` line each, as Ollama aligns them."""
    rows = []
    for name, value in parameters.items():
        for one in value if isinstance(value, list) else [value]:
            rows.append(f"{name:<30} {str(one).lower() if isinstance(one, bool) else one}")
    return "\n".join(rows)


def model_info(header: Header, verbose: bool) -> dict[str, Any]:
    """The GGUF's metadata; arrays over `SMALL_ARRAY` are null unless `verbose`."""
    info: dict[str, Any] = {}
    for key, value in header.metadata.items():
        if isinstance(value, Array):
            info[key] = header.array(key) if verbose else None
        else:
            info[key] = value
    info["general.parameter_count"] = sum(tensor.elements for tensor in header.tensors)
    return info
