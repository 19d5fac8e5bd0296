"""The root `/v1/systemone` over a real port."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from types import SimpleNamespace

import httpx
import ollama
import pytest
import zstandard

from localdecide.core.errors import Busy, PromptTooLong, RunnerDied
from localdecide.server import body

FIXED = {"Which team?": (0.9, 0.1), "Needs a reply today.": (0.8, 0.2), "How angry?": (0.3, 0.7)}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


def test_three_types_with_their_numbers(daemon, request_body):
    """The reply has the fixed probabilities, the entropy confidence, and extras only under x_."""
    daemon.service.readings = FIXED
    reply = daemon.http.post("/v1/systemone", json=request_body)
    assert reply.status_code == 200
    body = reply.json()
    assert [name for name in body if not name.startswith("x_")] == ["model", "answers", "usage"]
    assert body["usage"] == {"input_tokens": 120, "output_tokens": 0}
    assert body["model"] == "m"
    answers = body["answers"]
    assert list(answers) == ["team", "urgent", "anger"]
    assert answers["team"] == {
        "type": "choice",
        "choice": "billing",
        "probabilities": {"billing": 0.9, "sales": 0.1},
        "confidence": pytest.approx(0.531004, abs=1e-6),
        "x_readout": "letters",
        "x_label_mass": 0.95,
    }
    assert answers["urgent"] == {"type": "noul", "noul": 0.8, "x_readout": "letters", "x_label_mass": 0.95}
    assert answers["anger"] == {
        "type": "score",
        "score": 0.7,
        "legend": {"0": "calm", "1": "angry"},
        "probabilities": {"0": 0.3, "1": 0.7},
        "confidence": pytest.approx(0.118709, abs=1e-6),
        "x_readout": "letters",
        "x_label_mass": 0.95,
    }


def test_label_mass_is_left_out_where_no_labels_are_read(daemon, request_body):
    """A head has no label mass, and the reply then says nothing of one."""
    daemon.service.label_mass = None
    answers = daemon.http.post("/v1/systemone", json=request_body).json()["answers"]
    assert all("x_label_mass" not in answer for answer in answers.values())


@pytest.mark.parametrize("name", [None, "", "jev-latest", "m"])
def test_default_model_names(daemon, request_body, name):
    """No model, an empty one and jev-latest all mean the default; the reply names what was served."""
    request_body["model"] = name
    assert daemon.http.post("/v1/systemone", json=request_body).json()["model"] == "m"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"state": None}, "state"),
        ({"state": 5}, "state"),
        ({"questions": {}}, "questions"),
        ({"questions": None}, "questions"),
        ({"questions": []}, "questions"),
        ({"questions": {"q": {"type": "boolean"}}}, "questions.q.type"),
        ({"questions": {"q": {"type": "choice", "criteria": {}}}}, "questions.q.criteria"),
        ({"questions": {"q": {"type": "score", "criteria": {"a": "b"}}}}, "questions.q.criteria"),
        ({"questions": {"q": {"type": "noul"}}}, "questions.q"),
        ({"questions": {"q": {"type": "noul", "instructions": "x", "extra": 1}}}, "questions.q.extra"),
        ({"questions": {"q": {"type": "box"}}}, "questions.q.type"),
        ({"model": 5}, "model"),
        ({"keep_alive": "soon"}, "keep_alive"),
        ({"options": {"exakt": True}}, "options.exakt"),
        ({"options": {"exact": 1}}, "options.exact"),
        ({"options": []}, "options"),
        ({"images": ["http://example.com/a.png"]}, "images.0"),
        ({"images": ["!!"]}, "images.0"),
        ({"images": "x"}, "images"),
        ({"images": [{"url": "data:image/png,raw"}]}, "images.0.url"),
    ],
)
def test_bad_input_names_its_field(daemon, request_body, change, path):
    """A fault is a 400 with one string that starts with the field, and never reaches the service."""
    reply = daemon.http.post("/v1/systemone", json={**request_body, **change})
    assert reply.status_code == 400
    assert list(reply.json()) == ["error"]
    assert reply.json()["error"].startswith(path)
    assert daemon.service.calls == []


def test_missing_state(daemon, request_body):
    """A request without state is refused by name."""
    del request_body["state"]
    reply = daemon.http.post("/v1/systemone", json=request_body)
    assert (reply.status_code, reply.json()) == (400, {"error": "state: is required"})


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b'{"state":NaN}', b'{"a":1,"a":2}', b"[]", b'"x"', b"\xff\xfe", b'{"state":1e999}', b"[" * 100000],
)
def test_bodies_that_are_not_one_json_object(daemon, raw):
    """Broken, ambiguous or non-object JSON is a 400 with the usual body."""
    reply = daemon.http.post("/v1/systemone", content=raw)
    assert reply.status_code == 400
    assert list(reply.json()) == ["error"]


@pytest.mark.parametrize("state", ["", {}, [], "text", {"a": [1, None]}, ["x"]])
def test_states_that_are_answered(daemon, request_body, state):
    """Strings, objects and arrays, empty ones too, reach the service as they were sent."""
    request_body["state"] = state
    assert daemon.http.post("/v1/systemone", json=request_body).status_code == 200
    assert daemon.service.calls[0][1].state == state


def test_unknown_top_level_fields_are_ignored(daemon, request_body):
    """What an SDK merges into the body does not change it."""
    assert daemon.http.post("/v1/systemone", json={**request_body, "seed": 7, "x_trace_id": "z"}).status_code == 200


def test_images_in_three_spellings(daemon, request_body):
    """Base64, a data URL and an object with one are the same bytes."""
    text = base64.b64encode(PNG).decode()
    request_body["images"] = [text, f"data:image/png;base64,{text}", {"url": f"data:image/png;base64,{text}"}]
    assert daemon.http.post("/v1/systemone", json=request_body).status_code == 200
    assert daemon.service.calls[0][1].images == (PNG, PNG, PNG)


def test_options_reach_the_service(daemon, request_body):
    """options.exact asks for questions read alone, and the reply says so."""
    request_body["options"] = {"exact": True, "confidence": True}
    request_body["keep_alive"] = "90s"
    body = daemon.http.post("/v1/systemone", json=request_body).json()
    assert body["x_exact"] is True
    assert daemon.service.calls[0][2].seconds == 90
    assert set(body["answers"]["team"]["x_confidence"]) == {"entropy", "margin", "top", "top_mass", "lead"}
    assert body["answers"]["team"]["x_confidence"]["entropy"] == body["answers"]["team"]["confidence"]
    assert "x_confidence" not in body["answers"]["urgent"]


def test_structured_levels_become_text(daemon):
    """A level that is an object stands in the legend as its JSON; a string stands as it is."""
    levels = [{"low": "ü"}, "high"]
    body = {"state": "s", "questions": {"q": {"type": "score", "criteria": levels}}}
    answer = daemon.http.post("/v1/systemone", json=body).json()["answers"]["q"]
    assert answer["legend"] == {"0": '{"low":"ü"}', "1": "high"}


def test_text_over_its_limit(serve_with):
    """State and questions over the limit are a 413 that names the setting; one byte less is answered."""
    server = serve_with(max_text="1000")
    questions = {"q": {"type": "noul", "instructions": "i"}}
    used = len(json.dumps(questions, separators=(",", ":"))) + 2
    at = {"state": "a" * (1000 - used), "questions": questions, "padding": "p" * 2000}
    assert server.http.post("/v1/systemone", json=at).status_code == 200
    over = server.http.post("/v1/systemone", json={**at, "state": at["state"] + "a"})
    assert over.status_code == 413
    assert "LOCALDECIDE_MAX_TEXT" in over.json()["error"]


def test_body_over_its_limit(serve_with):
    """A body over the limit is a 413, declared or chunked, and at the limit it is read."""
    server = serve_with(max_body="2000")
    body = json.dumps({"state": "s", "questions": {"q": {"type": "noul", "instructions": "i"}}}).encode()
    assert server.http.post("/v1/systemone", content=body.ljust(2000)).status_code == 200
    assert server.http.post("/v1/systemone", content=body.ljust(2001)).status_code == 413
    chunked = server.http.post("/v1/systemone", content=iter([body, b" " * 2000]))
    assert chunked.status_code == 413
    assert "LOCALDECIDE_MAX_BODY" in chunked.json()["error"]


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("zstd", zstandard.ZstdCompressor().compress),
        ("zstd", lambda data: (lambda c: c.compress(data) + c.flush())(zstandard.ZstdCompressor().compressobj())),
        ("identity", bytes),
    ],
)
def test_compressed_bodies(daemon, request_body, encoding, pack):
    """gzip and zstd bodies are read like plain ones."""
    packed = pack(json.dumps(request_body).encode())
    reply = daemon.http.post("/v1/systemone", content=packed, headers={"content-encoding": encoding})
    assert reply.status_code == 200


@pytest.mark.parametrize(
    ("encoding", "raw", "status"),
    [
        ("gzip", gzip.compress(bytes(50_000_000)), 413),
        ("zstd", zstandard.ZstdCompressor().compress(bytes(50_000_000)), 413),
        ("zstd", zstandard.ZstdCompressor(write_content_size=False).compress(bytes(50_000_000)), 413),
        ("gzip", b"nonsense", 400),
        ("zstd", b"nonsense", 400),
        ("zstd", zstandard.ZstdCompressor().compress(b"x" * 5000)[:-3], 400),
        ("gzip", gzip.compress(b"x" * 5000)[:-9], 400),
        ("br", b"{}", 415),
    ],
)
def test_compressed_bodies_that_are_refused(daemon, encoding, raw, status):
    """A bomb stops at the limit, damage says damage, an unknown encoding is named."""
    reply = daemon.http.post("/v1/systemone", content=raw, headers={"content-encoding": encoding})
    assert reply.status_code == status
    assert "invalid JSON" not in reply.json()["error"]


def test_thousands_of_gzip_streams_in_one_body(monkeypatch):
    """zlib copies what follows a stream's end, so each of many tiny ones is given a few KiB, not all the rest."""
    given = []

    class Counting:
        def __init__(self, wbits):
            self.stream = zlib.decompressobj(wbits)

        def decompress(self, data, most):
            given.append(len(data))
            return self.stream.decompress(data, most)

        def __getattr__(self, name):
            return getattr(self.stream, name)

    monkeypatch.setattr(body, "zlib", SimpleNamespace(**{**vars(zlib), "decompressobj": Counting}))
    assert body.unpack(gzip.compress(b"") * 5000 + gzip.compress(b"{}"), "gzip", 1000) == b"{}"
    assert max(given) <= body.STEP


@pytest.mark.parametrize(
    ("error", "status"),
    [(PromptTooLong("p"), 400), (RunnerDied("r"), 500), (Busy("b", {"retry_after": 3}), 503)],
)
def test_errors_of_the_service(daemon, request_body, error, status):
    """A domain error has its status and its sentence."""
    daemon.service.error = error
    reply = daemon.http.post("/v1/systemone", json=request_body)
    assert (reply.status_code, reply.json()) == (status, {"error": error.message})
    assert reply.headers.get("retry-after") == ("3" if status == 503 else None)


def test_a_bug_is_a_500_without_its_details(daemon, request_body, caplog):
    """An unexpected exception is logged and answered without a word of it."""
    daemon.service.error = KeyError("secret")
    reply = daemon.http.post("/v1/systemone", json=request_body)
    assert reply.status_code == 500
    assert "secret" not in reply.text
    assert "secret" in caplog.text


def test_unknown_model(daemon, request_body):
    """The 404 is Ollama's sentence."""
    reply = daemon.http.post("/v1/systemone", json={**request_body, "model": "nope"})
    assert (reply.status_code, reply.json()) == (404, {"error": "model 'nope' not found"})


def test_ids_and_names_come_back_as_they_were(daemon):
    """Any id and any option name, in the order sent, and 255 options sum to 1."""
    options = {f"Queue {index:03}": None for index in range(255)}
    ids = ["a.b", "with space", "질문", "🙂", "-", "a"]
    questions = {name: {"type": "choice", "criteria": options} for name in ids}
    body = daemon.http.post("/v1/systemone", json={"state": "s", "questions": questions}).json()
    assert list(body["answers"]) == ids
    first = body["answers"]["🙂"]["probabilities"]
    assert list(first) == list(options)
    assert sum(first.values()) == pytest.approx(1)
    assert all(answer["probabilities"] == first for answer in body["answers"].values())


def test_official_ollama_client(daemon):
    """ollama.Client.systemone reads the reply, and its errors show our sentence."""
    daemon.service.readings = FIXED
    client = ollama.Client(host=daemon.url)
    reply = client.systemone(
        model="m",
        state={"text": "Charged twice"},
        questions={
            "team": {
                "type": "choice",
                "instructions": "Which team?",
                "criteria": {"billing": "money", "sales": "deals"},
            },
            "urgent": {"type": "noul", "instructions": "Needs a reply today."},
            "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "angry"]},
        },
        keep_alive="5m",
    )
    assert reply.answers["team"].choice == "billing"
    assert reply.answers["urgent"].noul == 0.8
    assert reply.answers["anger"].legend == {"0": "calm", "1": "angry"}
    with pytest.raises(ollama.ResponseError, match="model 'nope' not found") as caught:
        client.systemone(model="nope", state="s", questions={"q": {"type": "noul", "instructions": "i"}})
    assert caught.value.status_code == 404
    client.close()


def test_a_client_that_leaves_cancels_its_work(serve_with, caplog):
    """Closing the connection cancels what the service was doing for it, and the log says 499."""
    import asyncio
    import time

    caplog.set_level("INFO")
    server = serve_with()
    server.service.gate = asyncio.Event()
    body = {"state": "s", "questions": {"q": {"type": "noul", "instructions": "i"}}}
    with pytest.raises(httpx.ReadTimeout):
        server.http.post("/v1/systemone", json=body, timeout=0.3)
    for _ in range(100):
        if server.service.cancelled and " 499 " in caplog.text:
            break
        time.sleep(0.05)
    assert server.service.cancelled == 1
    assert " 499 " in caplog.text
