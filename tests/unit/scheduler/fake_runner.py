"""A runner without a model, started as a script: it speaks the frames and misbehaves when told to.

`system` of the spec says how to load; a decision's state says how to answer.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from localdecide.core import frames
from localdecide.core.decision import Reading, Result

lock = threading.Lock()


def say(message):
    with lock:
        sys.stdout.buffer.write(frames.encode(message))
        sys.stdout.buffer.flush()


def mutter(*words):
    sys.stderr.write(" ".join(map(str, words)) + "\n")
    sys.stderr.flush()


def load(spec):
    mutter("loading", spec["name"])
    match spec["system"]:
        case "abort":
            mutter("GGML_ASSERT(false) failed")
            os.abort()
        case "refuse":
            say({"op": "failed", "error": {"code": "bad_model_file", "message": "not a GGUF", "details": {}}})
            sys.exit(1)
        case "stall":
            time.sleep(60)
        case "slow":
            for part in range(1, 6):
                time.sleep(0.15)
                say({"op": "progress", "fraction": part / 5})
    say({"op": "ready", "info": {"pid": os.getpid(), "threads": os.environ.get("OMP_WAIT_POLICY"), "context": 4096}})


def answer(spec, message, cancelled):
    state, number = message["decision"]["state"], message["id"]
    match state:
        case "die":
            os._exit(3)
        case "abort":
            mutter("GGML_ASSERT(n_tokens <= n_batch) failed")
            os.abort()
        case "nonsense":
            sys.stdout.buffer.write(frames.HEADER.pack(frames.MAX_FRAME + 1) + b"nonsense")
            sys.stdout.buffer.flush()
            time.sleep(60)
        case "mute":
            os.close(1)
            time.sleep(60)
        case "error":
            say({"id": number, "error": {"code": "numerical_error", "message": "NaN", "details": {"at": 3}}})
            return
        case "wait for cancel":
            cancelled.wait(30)
            mutter("cancelled", number)
            say({"id": number, "error": {"code": "cancelled", "message": "cancelled", "details": {}}})
            return
        case {"sleep": seconds}:
            time.sleep(seconds)
    readings = {key: Reading((1.0,), "fake", 1.0, len(str(state))) for key, _ in message["decision"]["questions"]}
    images = sum(map(len, message["decision"]["images"]))
    result = Result(spec["name"], readings, len(str(state)), decoded_tokens=images)
    cached = {"cache_bytes": state["cached"]} if isinstance(state, dict) and "cached" in state else {}
    say({"id": number, "result": frames.result_to_wire(result), **cached})


def main():
    spec, cancels = None, {}
    while (message := frames.read(sys.stdin.buffer)) is not None:
        match message["op"]:
            case "load":
                spec = message["spec"]
                load(spec)
            case "decide":
                cancels[message["id"]] = threading.Event()
                work = (spec, message, cancels[message["id"]])
                threading.Thread(target=answer, args=work, daemon=True).start()
            case "score":
                say({"id": message["id"], "result": {"scores": [[1.0]], "echo": message["request"]}})
            case "cancel":
                if message["id"] in cancels:
                    cancels[message["id"]].set()
            case "ping":
                say({"id": message["id"], "result": {}})
            case "stop":
                break
    sys.stdout.buffer.flush()
    os._exit(0)


main()
