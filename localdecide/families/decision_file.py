"""What a decision file says about itself: `<arch>.decision.*` keys and its own template.

The keys lie in the GGUF header, and where a head was split off also in the head file. Head files of our
own making say the same as `localdecide.head.*`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from localdecide.core.errors import BadModelFile
from localdecide.families import head_file
from localdecide.families.base import Model
from localdecide.families.template import SystemOneTemplate

TEMPLATE_KEY = "tokenizer.chat_template.systemone"


def head_metadata(model: Model) -> Mapping[str, Any]:
    """The keys of the head file; empty where there is none."""
    metadata: Mapping[str, Any] = model.head.get("", {})
    return metadata


def decision_keys(model: Model) -> dict[str, Any]:
    """Values by what follows `decision.` or `localdecide.head.`; the head file's win over the backbone's."""
    if "decision_keys" not in model.cache:
        found: dict[str, Any] = {}
        for source in (model.metadata, head_metadata(model)):
            for key, value in source.items():
                _, dot, name = key.partition(".decision.")
                if dot:
                    found[name] = value
        model.cache["decision_keys"] = {**found, **head_file.keys(model)}
    keys: dict[str, Any] = model.cache["decision_keys"]
    return keys


def required(model: Model, name: str) -> Any:
    """A decision key that must be there. Raises BadModelFile naming it."""
    keys = decision_keys(model)
    if name not in keys:
        raise BadModelFile(f"the model's file lacks the key decision.{name}")
    return keys[name]


def architecture_key(model: Model, name: str, default: Any = None) -> Any:
    """`<arch>.<name>`: the head file's, under whatever architecture it names, else the backbone's."""
    for key, value in head_metadata(model).items():
        if key.partition(".")[2] == name:
            return value
    value = model.metadata.get(f"{model.metadata.get('general.architecture')}.{name}")
    return default if value is None else value


def template(model: Model, default: str) -> SystemOneTemplate:
    """PROMPT of the Modelfile, else the file's own decision template, else the family's. Raises BadModelFile."""
    if "systemone" not in model.cache:
        source, name = _template(model, default)
        model.cache["systemone"] = SystemOneTemplate(source, name=name)
    found: SystemOneTemplate = model.cache["systemone"]
    return found


def prompt_source(model: Model) -> str:
    """Whose prompt it is, for `show`."""
    return _template(model, "")[1]


def _template(model: Model, default: str) -> tuple[str, str]:
    if model.spec.prompt:
        return model.spec.prompt, "the Modelfile's PROMPT"
    for metadata in (model.metadata, head_metadata(model)):
        if source := metadata.get(TEMPLATE_KEY):
            return str(source), "the template in the model's file"
    return default, "the family's own template"
