"""Model names: `[scheme://][host/][namespace/]model[:tag]`, one value type and its grammar.

    host        1 to 350 characters, may hold a port        default registry.ollama.ai
    namespace   1 to 80 characters, no dot                   default library
    model, tag  1 to 80 characters                           default tag latest

Every part starts with a letter, a digit or `_` and goes on with those, `-` and `.`.
Case is kept; two names that differ only in case are the same name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from localdecide.core.errors import InvalidName

HOST = "registry.ollama.ai"
NAMESPACE = "library"
TAG = "latest"
HUGGING_FACE = "hf.co"

_ALIASES = {"huggingface.co": HUGGING_FACE, "www.huggingface.co": HUGGING_FACE, "ollama.com": HOST}
_HOST = re.compile(r"[A-Za-z0-9_\[][A-Za-z0-9_.:\[\]-]{0,349}")
_NAMESPACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,79}")
_DOTTED_NAMESPACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}")


@dataclass(frozen=True, slots=True)
class ModelName:
    """A complete model name. Build one with `parse`; `str()` gives the short form that people see."""

    model: str
    tag: str = TAG
    namespace: str = NAMESPACE
    host: str = HOST
    scheme: str = "https"

    @property
    def valid(self) -> bool:
        """Whether every part follows the grammar. Hugging Face organisations may hold dots."""
        namespace = _DOTTED_NAMESPACE if self.host == HUGGING_FACE else _NAMESPACE
        return bool(
            _HOST.fullmatch(self.host)
            and namespace.fullmatch(self.namespace)
            and _PART.fullmatch(self.model)
            and _PART.fullmatch(self.tag)
        )

    def __str__(self) -> str:
        """`model:tag`, with namespace and host in front where they are not the defaults."""
        if self.host != HOST:
            return f"{self.host}/{self.namespace}/{self.model}:{self.tag}"
        if self.namespace != NAMESPACE:
            return f"{self.namespace}/{self.model}:{self.tag}"
        return f"{self.model}:{self.tag}"

    @property
    def full(self) -> str:
        """All four parts, defaults included."""
        return f"{self.host}/{self.namespace}/{self.model}:{self.tag}"

    @property
    def parts(self) -> tuple[str, str, str, str]:
        """The folders and the file of its manifest: host, namespace, model, tag."""
        return self.host, self.namespace, self.model, self.tag

    @property
    def key(self) -> tuple[str, ...]:
        """Equal for names that differ only in case."""
        return tuple(part.casefold() for part in self.parts)


def parse(text: str) -> ModelName:
    """The name that `text` spells, defaults filled in. Raises InvalidName.

    `huggingface.co/...` is `hf.co/...`; `ollama/x` is `x` of Ollama's own library.
    """
    name = _split(text.strip())
    if not name.valid:
        raise InvalidName("invalid model name", {"name": text})
    return name


def is_valid(text: str) -> bool:
    """Whether `parse` accepts it."""
    return _split(text.strip()).valid


def _split(text: str) -> ModelName:
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "https", text
    if scheme not in ("http", "https"):
        return ModelName("")
    path, tag = rest, TAG
    colon = rest.rfind(":")
    if colon > rest.rfind("/"):
        path, tag = rest[:colon], rest[colon + 1 :]
    match path.split("/"):
        case [model]:
            host, namespace = HOST, NAMESPACE
        case ["ollama", model]:
            host, namespace = HOST, NAMESPACE
        case [namespace, model]:
            host = HOST
        case [host, namespace, model]:
            host = _ALIASES.get(host.lower(), host)
        case _:
            return ModelName("")
    return ModelName(model, tag, namespace, host, scheme)


def nearest(text: str, known: Iterable[str]) -> str | None:
    """The known name that a person most likely meant by `text`; None when nothing is close."""
    wanted = text.casefold().removesuffix(f":{TAG}")
    by_form: dict[str, str] = {}
    for name in sorted(known, key=lambda name: not name.endswith(f":{TAG}")):
        form = name.casefold() if ":" in wanted else name.casefold().rpartition(":")[0]
        by_form.setdefault(form or name.casefold(), name)
    found = difflib.get_close_matches(wanted, list(by_form), n=1, cutoff=0.6)
    return by_form[found[0]] if found else None
