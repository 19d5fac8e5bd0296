"""A child process that serves one model with upstream's own server, until its standard input ends.

    python serve.py '{"path": "m.gguf", ...}'

Writes the server's address as the last line of standard output's first JSON object. Upstream's server
ends its process when it meets a model that it does not like, so it never runs in a test's own.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main() -> None:
    settings: dict[str, Any] = json.loads(sys.argv[1])
    # The server logs to both outputs: the address goes to a copy of the first, made before it starts.
    answer = os.fdopen(os.dup(1), "w")
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    if not settings.get("noisy"):
        os.dup2(silence, 2)
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.n_ctx = settings.get("context", 16384)
    params.n_batch = params.n_ubatch = settings.get("ubatch", 4096)
    params.n_parallel = settings.get("parallel", 1)
    params.cpuparams.n_threads = 1
    exact = settings.get("exact", True)
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type(0 if exact else 1)
    params.flash_attn_type = xllamacpp.llama_flash_attn_type(0 if exact else -1)
    params.port = 0  # any free port of 127.0.0.1
    server = xllamacpp.Server(params)
    answer.write(json.dumps({"address": server.listening_address}) + "\n")
    answer.flush()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
