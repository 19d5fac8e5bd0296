"""The one output object."""

from __future__ import annotations

import io

import pytest

from localdecide.cli.output import Output


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def streams() -> tuple[io.StringIO, io.StringIO]:
    return io.StringIO(), io.StringIO()


def test_data_and_talk_part() -> None:
    """Data goes to stdout, talk to stderr."""
    out, err = streams()
    output = Output("human", out, err)

    output.data("x")
    output.talk("y")

    assert ("x\n", "y\n") == (out.getvalue(), err.getvalue())


def test_quiet_says_nothing() -> None:
    """Quiet drops talk but neither data nor errors."""
    out, err = streams()
    output = Output("quiet", out, err)

    output.talk("y")
    output.data("x")
    output.error("broken")

    assert ("x\n", "error: broken\n") == (out.getvalue(), err.getvalue())


def test_hint_after_blank_line() -> None:
    """A hint follows its error after a blank line."""
    out, err = streams()

    Output("human", out, err).error("broken", "mend it")

    assert ("", "error: broken\n\nhint: mend it\n") == (out.getvalue(), err.getvalue())


def test_json_keeps_order_and_unicode() -> None:
    """JSON keeps key order and does not escape letters."""
    out, err = streams()

    Output("json", out, err).json({"b": "é", "a": 1})

    assert '{\n  "b": "é",\n  "a": 1\n}\n' == out.getvalue()


def test_table_columns() -> None:
    """Columns are four spaces apart and lines end without spaces."""
    out, err = streams()

    Output("human", out, err).table(("NAME", "ID"), [("smollm2:latest", "abc"), ("x", "")])

    assert "NAME              ID\nsmollm2:latest    abc\nx\n" == out.getvalue()


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_only_where_wanted(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    """Colour needs a terminal and neither NO_COLOR nor a dumb one."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()

    assert Output("human", terminal).fancy
    assert not Output("human", io.StringIO()).fancy
    Output("human", terminal, terminal).error("x")
    assert "\033[" in terminal.getvalue()

    monkeypatch.setenv(name, value)
    plain = Terminal()
    assert not Output("human", plain).fancy
    Output("human", plain, plain).error("x")
    assert "error: x\n" == plain.getvalue()


def test_bars_need_a_terminal_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress bars are for a stderr that is a terminal, and never in quiet mode."""
    monkeypatch.setenv("TERM", "xterm")

    assert Output("human", io.StringIO(), Terminal()).lively
    assert not Output("human", Terminal(), io.StringIO()).lively
    assert not Output("quiet", io.StringIO(), Terminal()).lively


def test_json_wins() -> None:
    """--json with --quiet is JSON."""
    assert ("json", "quiet", "human") == (Output.of(True, True).mode, Output.of(False, True).mode, Output.of().mode)
