"""Progress on a terminal and off it."""

from __future__ import annotations

import io
import time

import pytest

from localdecide.cli import progress, spinner
from localdecide.cli.output import Output

LAYER = {"status": "pulling 0123456789ab", "digest": "sha256:0123", "total": 2_000_000}
EVENTS = [
    {"status": "pulling manifest"},
    LAYER,
    LAYER | {"completed": 1_000_000},
    LAYER | {"completed": 2_000_000},
    {"status": "verifying sha256 digest"},
    {"status": "verifying sha256 digest"},
    {"status": "success"},
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def terminal_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that can move its cursor."""
    monkeypatch.setenv("TERM", "xterm")


def test_lines_off_a_terminal() -> None:
    """Each status once, each tenth of a layer once, no control codes."""
    said = io.StringIO()

    progress.follow(EVENTS, Output("human", io.StringIO(), said))

    assert [
        "pulling manifest",
        "pulling 0123456789ab:   0% 0 B/2.0 MB",
        "pulling 0123456789ab:  50% 1.0 MB/2.0 MB",
        "pulling 0123456789ab: 100% 2.0 MB/2.0 MB",
        "verifying sha256 digest",
        "success",
    ] == said.getvalue().splitlines()


def test_a_layer_that_is_read_and_then_fetched() -> None:
    """Both are shown: a second status of the same layer starts again at its first tenth."""
    said = io.StringIO()

    progress.follow([LAYER | {"status": s, "completed": 2_000_000} for s in ("verifying a", "pulling a")],
                    Output("human", io.StringIO(), said))  # fmt: skip

    assert ["verifying a: 100% 2.0 MB/2.0 MB", "pulling a: 100% 2.0 MB/2.0 MB"] == said.getvalue().splitlines()


def test_bars_on_a_terminal() -> None:
    """A bar a layer, its bytes, and every status once; nothing on stdout."""
    out, said = io.StringIO(), Terminal()

    progress.follow(EVENTS, Output("human", out, said))

    shown = said.getvalue()
    assert "" == out.getvalue()
    assert "2.0/2.0 MB" in shown
    assert "\033[" in shown
    for status in ("pulling manifest", "verifying sha256 digest", "success"):
        assert 1 == shown.count(status)


def test_quiet_shows_nothing() -> None:
    """Quiet follows the events in silence, on a terminal too."""
    out, said = io.StringIO(), Terminal()

    progress.follow(EVENTS, Output("quiet", out, said))

    assert ("", "") == (out.getvalue(), said.getvalue())


def test_an_error_in_the_events_gets_through() -> None:
    """What the events raise is raised, with the bars put away."""

    def failing() -> object:
        yield LAYER
        raise OSError("line cut")

    with pytest.raises(OSError, match="line cut"):
        progress.follow(failing(), Output("human", io.StringIO(), Terminal()))


def test_spinner_waits_and_clears(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sign of life comes after a moment and is cleared at the end."""
    monkeypatch.setattr(spinner, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(spinner, "FRAME_SECONDS", 0.001)
    said = Terminal()

    with spinner.Spinner(Output("human", io.StringIO(), said), "asking m"):
        deadline = time.monotonic() + 10
        while "asking m" not in said.getvalue() and time.monotonic() < deadline:
            time.sleep(0.001)

    assert "asking m" in said.getvalue()
    assert said.getvalue().endswith("\r\033[K")


@pytest.mark.parametrize("output", [Output("human", None, io.StringIO()), Output("quiet", None, Terminal())])
def test_no_spinner_elsewhere(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    """Off a terminal and in quiet mode there is none."""
    monkeypatch.setattr(spinner, "PATIENCE_SECONDS", 0.0)

    with spinner.Spinner(output, "asking m"):
        time.sleep(0.01)

    assert "" == output.stderr.getvalue()  # type: ignore[attr-defined]
