"""schemathesis reads the OpenAPI document and tries to break every route."""

from __future__ import annotations

import subprocess

import environments
import pytest
from running import clean_environment, need

pytestmark = pytest.mark.contract

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def test_no_route_breaks_or_answers_undocumented(fake, tmp_path):
    """Generated requests, valid and not, get no 5xx and no status, type or shape outside the document.

    `/api/shutdown` would end the daemon; it has a test of its own.
    """
    need("schemathesis")
    command = [
        str(environments.folder("schemathesis") / "bin" / "schemathesis"),
        "run",
        f"{fake}/openapi.json",
        "--checks",
        CHECKS,
        "--exclude-path",
        "/api/shutdown",
        "--max-examples",
        "10",
        "--seed",
        "1",
        "--no-color",
        "--suppress-health-check",
        "all",
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=900, cwd=tmp_path, env=clean_environment(PYTHONPATH="")
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
