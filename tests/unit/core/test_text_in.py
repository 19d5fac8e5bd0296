"""JSON bodies, durations, errors, frames and settings: text from outside becomes values or a refusal."""

from __future__ import annotations

import io
import math
import pickle
from typing import Any

import pytest

from localdecide import settings
from localdecide.core import errors, frames, jsontext
from localdecide.core.decision import Decision, Options, Reading, Result
from localdecide.core.duration import parse_keep_alive
from localdecide.core.questions import Choice, Noul, Option, Score


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "missing request body"),
        (b"{", "invalid JSON"),
        (b'{"a":1,"a":2}', 'duplicate key "a"'),
        (b'{"q":{"x":1,"x":1}}', 'duplicate key "x"'),
        (b'{"a":NaN}', "NaN"),
        (b'{"a":-Infinity}', "-Infinity"),
        (b'{"a":1e999}', "too large"),
        (b'{"a":"\\ud800"}', "surrogate"),
        (b'{"\\udc00":1}', "surrogate"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[" * 100_000, "nested"),
        (b"[" * 300 + b"]" * 300, "nested"),
        (b"9" * 5000, "digits"),
    ],
)
def test_bodies_that_are_refused(body: bytes, message: str) -> None:
    """What two JSON readers could read differently is refused, with a sentence that says why."""
    with pytest.raises(errors.MalformedBody, match=message):
        jsontext.loads(body)


def test_bodies_that_are_read() -> None:
    """Order, big integers, non-ASCII text and surrogate pairs survive."""
    body = '{"b": 123456789012345678901234567890, "a": "\\ud83c\\udf89 é"}'.encode()

    assert [("b", 123456789012345678901234567890), ("a", "🎉 é")] == list(jsontext.loads(body).items())  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (300, 300), (1.5, 1.5), (0, 0), (-1, math.inf), ("5m", 300), ("1h30m", 5400), ("300ms", 0.3),
        ("-1", math.inf), ("0", 0), ("300", 300), ("-1m", math.inf), ("1.5h", 5400), (" 10s ", 10),
        (10**400, math.inf), (-(10**400), math.inf), (1e300, 1e300),
    ],
)  # fmt: skip
def test_keep_alive_values(value: object, seconds: float) -> None:
    """Numbers are seconds, strings are durations or numbers, negative is for ever."""
    kept = parse_keep_alive(value)

    assert kept is not None
    assert seconds == pytest.approx(kept.seconds)


@pytest.mark.parametrize("value", ["soon", "", "5 m", "m5", "5x", True, [], {}, "1h-5m", math.nan])
def test_keep_alive_refused(value: object) -> None:
    """Anything else is the caller's fault."""
    with pytest.raises(errors.InvalidRequest, match="^keep_alive: "):
        parse_keep_alive(value)


def test_keep_alive_null_keeps_what_is() -> None:
    """Null says nothing."""
    assert parse_keep_alive(None) is None


def test_errors_survive_pickle_and_pipe() -> None:
    """Every error of the tree comes back as itself, with message and details."""
    for kind in errors.tree():
        error = kind("a sentence", {"limit": 3})
        for twin in (pickle.loads(pickle.dumps(error)), errors.from_wire(error.to_wire())):
            assert (kind, "a sentence", {"limit": 3}) == (type(twin), str(twin), twin.details)


def test_the_error_tree_is_drawn_and_its_codes_are_unique() -> None:
    """The docstring shows every class, and no two share a code."""
    kinds = list(errors.tree())

    assert len({kind.code for kind in kinds}) == len(kinds)
    assert [] == [kind.__name__ for kind in kinds if kind.__name__ not in (errors.__doc__ or "")]


def test_an_error_names_its_field() -> None:
    """The path stands in the sentence and as a list."""
    error = errors.InvalidRequest.at(("questions", "a.b", "criteria", 2), "must not be blank")

    assert error.message == "questions.a.b.criteria.2: must not be blank"
    assert error.loc == ("questions", "a.b", "criteria", 2)
    assert error.problem == "must not be blank"


def test_frames_round_trip() -> None:
    """Decisions and results cross the pipe unchanged."""
    decision = Decision(
        {"k": ["é", None]},
        {
            "c": Choice((Option("x", {"d": 1}), Option("y"))),
            "n": Noul("is it", "yes"),
            "o": Noul(None, None, ["no"]),
            "s": Score(("a", {"b": [2]}), "how much"),
        },
        (b"\x89PNG",),
        Options(exact=True, temperature=0.5, chat_template_kwargs={"a": 1}),
    )
    readings = {
        "c": Reading((0.1, 0.9), "letters", 1.0, 12, 0.5, True, 0, (1, 2), (3,)),
        "d": Reading((1.0,), "pointer", 2.5, 3, None, False, 4),
    }
    result = Result("m", readings, 12, 10, 2, True, True, 0.5, 0.25)

    assert decision == frames.decision_from_wire(_through_a_pipe(frames.decision_to_wire(decision)))
    assert result == frames.result_from_wire(_through_a_pipe(frames.result_to_wire(result)))


@pytest.mark.parametrize("finite", [False, True])
def test_frames_hold_what_json_holds(finite: bool) -> None:
    """Integers of any size, null, deep nesting and the smallest floats read back as they were."""
    deep: Any = []
    for _ in range(jsontext.MAX_DEPTH):
        deep = [deep]
    message = {"big": 10**40, "none": None, "deep": deep, "small": [5e-324, 1e16, -0.0], "text": "é\u2028🎉\x00"}

    assert repr(message) == repr(frames.read(io.BytesIO(frames.encode(message, finite=finite))))


@pytest.mark.parametrize("value", [math.nan, math.inf, {1}, b"x", "\ud800", [None, math.nan], {"null": -math.inf}])
def test_frames_refuse_what_json_has_not(value: Any) -> None:
    """Nothing is written as something else: no null for NaN."""
    with pytest.raises((TypeError, ValueError)):
        frames.encode({"value": value})


@pytest.mark.parametrize("probability", [math.nan, math.inf])
def test_a_result_with_nan_has_no_frame(probability: float) -> None:
    """A number that a model got wrong ends as an error, not as an answer with a hole."""
    for reading in (Reading((probability,), "text", 1.0, 1), Reading((1.0,), "text", 1.0, 1, probability)):
        with pytest.raises(ValueError, match="not JSON compliant"):
            frames.encode(frames.result_to_wire(Result("m", {"null": reading}, 1)))


def _through_a_pipe(message: dict[str, Any]) -> dict[str, Any]:
    read = frames.read(io.BytesIO(frames.encode(message)))
    assert read is not None
    return read


@pytest.mark.parametrize("cut", [0, 2, 4, 7])
def test_a_cut_frame_is_the_end(cut: int) -> None:
    """A stream that ends inside a frame reads as ended."""
    assert frames.read(io.BytesIO(frames.encode({"op": "stop"})[:cut])) is None


def test_settings_defaults_and_sources() -> None:
    """Every setting has a value of its type, and says where it came from."""
    loaded = settings.load({"LOCALDECIDE_MAX_QUEUE": "7", "LOCALDECIDE_ORIGINS": "a, b"}, host="[::1]:9")

    assert (7, ("a", "b"), ("::1", 9)) == (loaded.max_queue, loaded.origins, loaded.address)
    assert ("environment", "option", "default") == tuple(
        loaded.sources[name] for name in ("max_queue", "host", "max_body")
    )
    assert loaded.max_body == 32 * 2**20
    assert loaded.keep_alive.seconds == 300


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAX_QUEUE", "0"), ("MAX_QUEUE", "many"), ("MAX_BODY", "1 furlong"), ("KEEP_ALIVE", "soon"),
        ("FAST_WEIGHTS", "maybe"), ("OFFLINE", "perhaps"),
    ],
)  # fmt: skip
def test_settings_refuse_garbage(name: str, value: str) -> None:
    """A value that cannot be is refused with the variable's name, never replaced by a default."""
    with pytest.raises(settings.BadSetting, match=f"LOCALDECIDE_{name}"):
        settings.load({f"LOCALDECIDE_{name}": value})


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", ("127.0.0.1", 11436)), ("http://localhost:80/", ("localhost", 80)), (":9", ("127.0.0.1", 9)),
        ("::1", ("::1", 11436)), ("[::]:1", ("::", 1)), ("0.0.0.0:5", ("0.0.0.0", 5)),
    ],
)  # fmt: skip
def test_hosts(host: str, address: tuple[str, int]) -> None:
    """Host, port and IPv6 in all their spellings."""
    assert address == settings.parse_host(host)


@pytest.mark.parametrize(("text", "size"), [("1", 1), ("32MiB", 2**25), ("2GB", 2 * 10**9), ("1.5 k", 1500)])
def test_byte_sizes(text: str, size: int) -> None:
    """Bytes with decimal and binary suffixes."""
    assert size == settings.load({"LOCALDECIDE_MAX_BODY": text}).max_body
