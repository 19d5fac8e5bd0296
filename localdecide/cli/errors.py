"""From an exception to what the user reads: an ordered table, the first row that fits wins."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from localdecide.cli.bench_target import TargetFailed
from localdecide.cli.client import DaemonError, Interrupted, Unreachable
from localdecide.cli.daemon import NoDaemon
from localdecide.cli.questions import EXAMPLES, QuestionSyntax
from localdecide.cli.start import StartFailed, log_path
from localdecide.cli.usage import UsageProblem
from localdecide.core.errors import LocaldecideError
from localdecide.settings import BadSetting

FAILED, USAGE = 1, 2


@dataclass(frozen=True, slots=True)
class Report:
    """What to print and the exit code to end with."""

    sentence: str
    hint: str | None = None
    code: int = FAILED


def report(error: Exception) -> Report | None:
    """The report of `error`; None for an exception that nobody expected."""
    for kind, explain in TABLE:
        if isinstance(error, kind):
            return explain(error)
    return None


_HINTS = {
    401: "set `LOCALDECIDE_API_KEY` to the daemon's key",
    403: "see `LOCALDECIDE_ORIGINS` and `LOCALDECIDE_HOST` in `localdecide serve --help`",
    413: "see `LOCALDECIDE_MAX_BODY` and `LOCALDECIDE_MAX_TEXT` in `localdecide serve --help`",
    503: "try again in a moment, or raise `LOCALDECIDE_MAX_QUEUE` where the daemon starts",
}


def _daemon_error(error: DaemonError) -> Report:
    hint = error.hint or _HINTS.get(error.status)
    if error.status == 404 and hint is None and error.message.endswith("not found"):
        hint = "`localdecide list` shows the models that are here"
    if error.status >= 500 and error.status != 503 and hint is None:
        hint = f"the daemon's log may say more: {log_path()}"
    return Report(error.message, hint)


def _question_syntax(error: QuestionSyntax) -> Report:
    return Report(str(error), f"write it like --{error.kind} '{EXAMPLES[error.kind]}'", USAGE)


def _start_failed(error: StartFailed) -> Report:
    said = f"\n\n{error.tail}" if error.tail else ""
    return Report(f"{error}{said}", f"its whole log is {error.log}; `localdecide serve` runs it in the foreground")


def _os_error(error: OSError) -> Report:
    where = f": {error.filename}" if error.filename else ""
    return Report(f"{error.strerror or error}{where}")


TABLE: tuple[tuple[type[Exception], Callable[[Any], Report]], ...] = (
    (UsageProblem, lambda error: Report(str(error), error.hint, USAGE)),
    (QuestionSyntax, _question_syntax),
    (BadSetting, lambda error: Report(str(error), "`localdecide serve --help` lists the settings", USAGE)),
    (NoDaemon, lambda error: Report(str(error), error.hint)),
    (StartFailed, _start_failed),
    (TargetFailed, lambda error: Report(str(error))),
    (DaemonError, _daemon_error),
    (Unreachable, lambda error: Report(str(error), "start a daemon with `localdecide serve`")),
    (Interrupted, lambda error: Report(str(error), f"the daemon's log may say why: {log_path()}")),
    (LocaldecideError, lambda error: Report(error.message)),
    (json.JSONDecodeError, lambda error: Report(f"not JSON: {error}")),
    (UnicodeError, lambda error: Report(f"not UTF-8 text: {error}")),
    (OSError, _os_error),
)
