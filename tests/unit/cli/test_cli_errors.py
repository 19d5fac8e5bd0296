"""The table from exceptions to sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from localdecide.cli.client import DaemonError, Interrupted, Unreachable
from localdecide.cli.daemon import NoDaemon
from localdecide.cli.errors import TABLE, Report, report
from localdecide.cli.questions import QuestionSyntax
from localdecide.cli.start import StartFailed, log_path
from localdecide.cli.usage import UsageProblem
from localdecide.core.errors import MalformedBody, tree
from localdecide.settings import BadSetting


@pytest.mark.parametrize(
    ("error", "sentence", "hint", "code"),
    [
        (UsageProblem("odd", "do so"), "odd", "do so", 2),
        (
            QuestionSyntax("score", "x", "needs `=`"),
            "--score 'x': needs `=`",
            "write it like --score 'tone: How upset? = calm < annoyed < furious'",
            2,
        ),
        (
            BadSetting("LOCALDECIDE_X='y': no"),
            "LOCALDECIDE_X='y': no",
            "`localdecide serve --help` lists the settings",
            2,
        ),
        (NoDaemon("none", "run it"), "none", "run it", 1),
        (
            Unreachable("h:1", "refused"),
            "no daemon answers at h:1: refused",
            "start a daemon with `localdecide serve`",
            1,
        ),
        (
            DaemonError(404, "model 'x' not found"),
            "model 'x' not found",
            "`localdecide list` shows the models that are here",
            1,
        ),
        (DaemonError(404, "no", "own hint"), "no", "own hint", 1),
        (DaemonError(400, "questions: is required"), "questions: is required", None, 1),
        (MalformedBody("invalid JSON"), "invalid JSON", None, 1),
        (FileNotFoundError(2, "No such file or directory", "a.txt"), "No such file or directory: a.txt", None, 1),
        (PermissionError(13, "Permission denied", "a.txt"), "Permission denied: a.txt", None, 1),
    ],
)
def test_reports(error: Exception, sentence: str, hint: str | None, code: int) -> None:
    """Each kind of error has its sentence, its hint and its exit code."""
    assert Report(sentence, hint, code) == report(error)


@pytest.mark.parametrize("status", [500, 502])
def test_failures_of_the_daemon_point_at_its_log(status: int) -> None:
    """Where the daemon is at fault its log is named."""
    found = report(DaemonError(status, "broken"))

    assert found is not None
    assert str(log_path()) in str(found.hint)


def test_interruption_points_at_the_log() -> None:
    """A connection that broke off points at the daemon's log."""
    found = report(Interrupted("closed"))

    assert found is not None
    assert str(log_path()) in str(found.hint)


def test_failed_start_shows_the_tail() -> None:
    """A daemon that did not start shows what it wrote last."""
    found = report(StartFailed("it ended", Path("server.log"), "line 1\nline 2"))

    assert found is not None
    assert "it ended\n\nline 1\nline 2" == found.sentence
    assert "server.log" in str(found.hint)


@pytest.mark.parametrize("kind", [*tree()])
def test_every_domain_error_is_covered(kind: type[Exception]) -> None:
    """No error of the core's tree is a surprise."""
    assert report(kind("what happened")) is not None


def test_no_row_hides_a_later_one() -> None:
    """A row never stands behind one for its own base class."""
    kinds = [kind for kind, _ in TABLE]
    hidden = [(late, early) for at, late in enumerate(kinds) for early in kinds[:at] if issubclass(late, early)]

    assert [] == hidden


def test_surprises_are_none() -> None:
    """An exception that nobody expected has no report."""
    assert report(KeyError("x")) is None


def test_text_that_is_not_unicode() -> None:
    """Half a surrogate, as from a command line that is not UTF-8, is explained."""
    with pytest.raises(UnicodeEncodeError) as raised:
        "\udcff".encode()

    found = report(raised.value)
    assert found is not None
    assert "not UTF-8 text" in found.sentence
