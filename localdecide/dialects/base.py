"""What a dialect is: operations that read a request and write an answer, and a table of errors.

    Incoming ──parse──▶ Asked ──service.decide──▶ Result ──render──▶ JSON object
        └────────────── any error of core.errors ──Dialect.refuse──▶ Reply

A dialect knows HTTP only as a status, a JSON body and a few headers; the server does the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from localdecide.core import errors, jsontext
from localdecide.core.decision import Decision, Result
from localdecide.core.duration import KeepAlive
from localdecide.service import DecisionService

Body = dict[str, Any]
Made = TypeVar("Made")

# Reading a body this large takes over a millisecond, so may its answers, and the event loop serves everybody.
OFFLOAD_BYTES = 32 * 1024


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request's body, decoded to plain bytes, and the little of its head that a dialect may need.

    content_type: as sent, "" where absent. max_text: bytes that state and questions may have together.
    request_id: the id in the reply's headers.
    """

    body: bytes
    content_type: str = ""
    max_text: int = 1024 * 1024
    request_id: str = ""
    _read: list[Body] = field(default_factory=list, compare=False, repr=False)

    def object(self) -> Body:
        """The body as a JSON object, read once. Raises MalformedBody or InvalidRequest."""
        if not self._read:
            self._read.append(as_object(jsontext.loads(self.body)))
        return self._read[0]


def as_object(value: Any) -> Body:
    """`value`, if it is a JSON object."""
    if not isinstance(value, dict):
        raise errors.InvalidRequest.at((), "the request body must be a JSON object")
    return value


@dataclass(frozen=True, slots=True)
class Asked:
    """A request understood. sent: the JSON object it came from, for what a reply echoes."""

    model: str | None
    decision: Decision
    keep_alive: KeepAlive | None = None
    sent: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back: a status, a JSON body and headers beyond the usual ones."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fault:
    """All that an error body may say. message: with the field's path; problem: without it."""

    status: int
    message: str
    code: str = "internal"
    problem: str = ""
    loc: tuple[str | int, ...] = ()
    request_id: str = ""


# One row for every class of the error tree, so that a new one cannot be forgotten (a test compares).
STATUSES: dict[type[errors.LocaldecideError], int] = {
    errors.LocaldecideError: 500,
    errors.InvalidRequest: 400,
    errors.MalformedBody: 400,
    errors.InputTooLarge: 413,
    errors.PromptTooLong: 400,
    errors.UnsupportedInput: 400,
    errors.UnsupportedEncoding: 415,
    errors.InvalidModelfile: 400,
    errors.InvalidName: 400,
    errors.ModelNotFound: 404,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.NotSupported: 400,
    errors.Busy: 503,
    errors.Cancelled: 499,
    errors.ModelFailed: 500,
    errors.BadModelFile: 500,
    errors.DoesNotFit: 500,
    errors.RunnerDied: 500,
    errors.NumericalError: 500,
    errors.StoreFailed: 500,
    errors.StoreNotWritable: 500,
    errors.DiskFull: 500,
    errors.DigestMismatch: 500,
    errors.SourceFailed: 500,
    errors.Offline: 500,
}


@dataclass(frozen=True)
class Dialect:
    """One wire contract's name, statuses and error body.

    name: what X-Localdecide-Dialect says. statuses: total over `core.errors.tree()`.
    """

    name: str
    error_body: Callable[[Fault], Body]
    statuses: Mapping[type[errors.LocaldecideError], int] = field(default_factory=lambda: STATUSES)

    def refuse(self, error: errors.LocaldecideError, request_id: str = "") -> Reply:
        """The reply to an error of the tree, with Retry-After where waiting helps."""
        status = next(self.statuses[kind] for kind in type(error).__mro__ if kind in self.statuses)
        fault = Fault(status, error.message, error.code, error.message, (), request_id)
        if isinstance(error, errors.InvalidRequest):
            fault = replace(fault, problem=error.problem, loc=error.loc)
        headers: dict[str, str] = {}
        if isinstance(error, errors.Busy):
            headers["retry-after"] = str(error.retry_after)
        if status == 401:
            headers["www-authenticate"] = "Bearer"
        return Reply(status, self.error_body(fault), headers)

    def refuse_status(self, status: int, message: str, code: str, request_id: str = "") -> Reply:
        """The reply to what only the server knows of: an unknown path, a wrong method."""
        return Reply(status, self.error_body(Fault(status, message, code, message, (), request_id)))


Answer = Callable[[DecisionService, Incoming], Coroutine[Any, Any, Body]]


@dataclass(frozen=True)
class Operation:
    """One POST of a dialect. answer: what it does; schema: its request body for the OpenAPI document."""

    dialect: Dialect
    answer: Answer
    summary: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})
    multipart: bool = False


@dataclass(frozen=True)
class Choose:
    """A path that contracts share. dialect: whose errors it gives until `pick` has read the body."""

    dialect: Dialect
    pick: Callable[[Incoming], Operation]


Find = Callable[[DecisionService, str | None], Awaitable[str | None]]
Decide = Callable[[DecisionService, Asked], Awaitable[Result]]


async def decide_once(service: DecisionService, asked: Asked) -> Result:
    """One request, one decision."""
    return await service.decide(asked.model, asked.decision, asked.keep_alive)


def ask(
    parse: Callable[[Incoming], Asked],
    render: Callable[[Asked, Result], Body],
    *,
    find: Find | None = None,
    decide: Decide = decide_once,
) -> Answer:
    """An operation that is a decision: parse, decide, render. find: how the contract looks a model up."""

    async def answer(service: DecisionService, incoming: Incoming) -> Body:
        asked = await offload(incoming, parse)
        if find is not None:
            asked = replace(asked, model=await find(service, asked.model))
        result = await decide(service, asked)
        return await offload(incoming, lambda _: render(asked, result))

    return answer


async def offload(incoming: Incoming, work: Callable[[Incoming], Made]) -> Made:
    """`work(incoming)`, in a thread where the body is large."""
    if len(incoming.body) <= OFFLOAD_BYTES:
        return work(incoming)
    return await asyncio.to_thread(work, incoming)
