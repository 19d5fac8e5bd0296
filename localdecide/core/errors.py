"""Every error localdecide raises on purpose. They know nothing of HTTP.

LocaldecideError
├── InvalidRequest          the caller's input is at fault; `loc` names the field
│   ├── MalformedBody       not JSON, duplicate key, NaN, not UTF-8
│   ├── InputTooLarge       a body, text or asset over its limit
│   ├── PromptTooLong       a prompt over the model's context (never truncated)
│   ├── UnsupportedInput    this model or server cannot take such input (images, box)
│   ├── UnsupportedEncoding a Content-Encoding or media type the server does not read
│   └── InvalidModelfile    a Modelfile line that cannot be read
├── InvalidName             not a model name
├── ModelNotFound           no such model here; `suggestion` may name the nearest
├── Unauthorized            a key is required and missing or wrong
├── Forbidden               Host or Origin is not allowed
├── NotSupported            this model or build does not do that at all
├── Busy                    the queue is full or the daemon is closing; `retry_after` seconds
├── Cancelled               the client went away
├── ModelFailed             the model, not the caller, is at fault
│   ├── BadModelFile        not a GGUF, truncated, unknown architecture
│   ├── DoesNotFit          more memory than the machine has; `needed`, `available` bytes
│   ├── RunnerDied          the child process ended or hung
│   └── NumericalError      NaN, infinity or a wrong width where a number belongs
└── StoreFailed             the disk or the place a model comes from is at fault
    ├── StoreNotWritable
    ├── DiskFull            `needed`, `available` bytes
    ├── DigestMismatch      `expected`, `actual`, `source`
    ├── SourceFailed        a registry, hub or URL answered badly; `source`
    └── Offline             the network is needed and LOCALDECIDE_OFFLINE forbids it
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar


class LocaldecideError(Exception):
    """Base of the tree: a sentence for a person and plain details for a program.

    Survives pickling and the runner's pipe: both parts are JSON values.
    """

    code: ClassVar[str] = "internal"

    def __init__(self, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, dict(details or {}))

    @property
    def message(self) -> str:
        return str(self.args[0])

    @property
    def details(self) -> dict[str, Any]:
        return dict(self.args[1])

    def __str__(self) -> str:
        return self.message

    def to_wire(self) -> dict[str, Any]:
        """`{code, message, details}`, the form that crosses the pipe."""
        return {"code": self.code, "message": self.message, "details": self.details}


class InvalidRequest(LocaldecideError):
    """Bad input. `loc` is the path to the field, outermost key first."""

    code = "invalid_request"

    @classmethod
    def at(cls, loc: tuple[str | int, ...], problem: str, **details: Any) -> InvalidRequest:
        """The same error with its path both in the sentence and in `details["loc"]`."""
        path = ".".join(str(part) for part in loc)
        message = f"{path}: {problem}" if path else problem
        return cls(message, {"loc": list(loc), "problem": problem, **details})

    @property
    def loc(self) -> tuple[str | int, ...]:
        return tuple(self.details.get("loc", ()))

    @property
    def problem(self) -> str:
        """The sentence without the path in front."""
        return str(self.details.get("problem", self.message))


class MalformedBody(InvalidRequest):
    code = "malformed_body"


class InputTooLarge(InvalidRequest):
    code = "input_too_large"


class PromptTooLong(InvalidRequest):
    code = "prompt_too_long"


class UnsupportedInput(InvalidRequest):
    code = "unsupported_input"


class UnsupportedEncoding(InvalidRequest):
    code = "unsupported_encoding"


class InvalidModelfile(InvalidRequest):
    code = "invalid_modelfile"


class InvalidName(LocaldecideError):
    code = "invalid_name"


class ModelNotFound(LocaldecideError):
    code = "model_not_found"


class Unauthorized(LocaldecideError):
    code = "unauthorized"


class Forbidden(LocaldecideError):
    code = "forbidden"


class NotSupported(LocaldecideError):
    code = "not_supported"


class Busy(LocaldecideError):
    code = "busy"

    @property
    def retry_after(self) -> int:
        """Whole seconds a client should wait."""
        return int(self.details.get("retry_after", 1))


class Cancelled(LocaldecideError):
    code = "cancelled"


class ModelFailed(LocaldecideError):
    code = "model_failed"


class BadModelFile(ModelFailed):
    code = "bad_model_file"


class DoesNotFit(ModelFailed):
    code = "does_not_fit"


class RunnerDied(ModelFailed):
    code = "runner_died"


class NumericalError(ModelFailed):
    code = "numerical_error"


class StoreFailed(LocaldecideError):
    code = "store_failed"


class StoreNotWritable(StoreFailed):
    code = "store_not_writable"


class DiskFull(StoreFailed):
    code = "disk_full"


class DigestMismatch(StoreFailed):
    code = "digest_mismatch"


class SourceFailed(StoreFailed):
    code = "source_failed"


class Offline(StoreFailed):
    code = "offline"


def tree(root: type[LocaldecideError] = LocaldecideError) -> Iterator[type[LocaldecideError]]:
    """Every class of the tree, parents first; what an error table must cover."""
    yield root
    for child in root.__subclasses__():
        yield from tree(child)


def from_wire(wire: Mapping[str, Any]) -> LocaldecideError:
    """The error that `to_wire` wrote; an unknown code becomes the base class."""
    kinds = {kind.code: kind for kind in tree()}
    kind = kinds.get(str(wire.get("code")), LocaldecideError)
    return kind(str(wire.get("message", "unknown error")), wire.get("details") or {})
