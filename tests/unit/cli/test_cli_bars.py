"""Answers as bars."""

from __future__ import annotations

import pytest

from localdecide.cli import bars

REPLY = {
    "model": "m",
    "answers": {
        "team": {
            "type": "choice",
            "choice": "billing",
            "probabilities": {"billing": 0.75, "technical": 0.2, "sales": 0.05},
            "confidence": 0.376,
        },
        "urgent": {"type": "noul", "noul": 0.25, "x_label_mass": 0.98765},
        "tone": {
            "type": "score",
            "score": 1.25,
            "legend": {"0": "calm", "1": "annoyed", "2": "furious"},
            "probabilities": {"0": 0.125, "1": 0.5, "2": 0.375},
            "confidence": 0.11,
        },
    },
    "usage": {"input_tokens": 120, "output_tokens": 0},
    "x_exact": False,
}


def test_plain_layout() -> None:
    """Without a terminal: one headline a question, one ASCII bar an option, a blank line between."""
    expected = [
        "team: billing (confidence 0.38)",
        "  billing    " + "#" * 22 + " " * 8 + "   75.0%",
        "  technical  " + "#" * 6 + " " * 24 + "   20.0%",
        "  sales      " + "#" * 2 + " " * 28 + "    5.0%",
        "",
        "urgent: no (75.0%)",
        "  yes  " + "#" * 8 + " " * 22 + "   25.0%",
        "  no   " + "#" * 22 + " " * 8 + "   75.0%",
        "",
        "tone: 1.25 of 2 (confidence 0.11)",
        "  0 calm     " + "#" * 4 + " " * 26 + "   12.5%",
        "  1 annoyed  " + "#" * 15 + " " * 15 + "   50.0%",
        "  2 furious  " + "#" * 11 + " " * 19 + "   37.5%",
    ]

    assert expected == list(bars.lines(REPLY, fancy=False))


def test_fancy_layout_has_the_same_text() -> None:
    """On a terminal the answer is bold and bars are blocks; the figures are the same."""
    fancy = list(bars.lines(REPLY, fancy=True))

    assert "team: \033[1mbilling\033[0m (confidence 0.38)" == fancy[0]
    assert fancy[1].startswith("  billing    " + "█" * 22 + "▌")
    assert fancy[1].endswith("  75.0%")
    assert "#" not in "".join(fancy)


@pytest.mark.parametrize("fancy", [True, False])
@pytest.mark.parametrize("probability", [0.0, 1e-9, 0.004, 0.5, 0.999, 1.0])
def test_bar_is_always_as_wide(probability: float, fancy: bool) -> None:
    """A bar takes the same columns whatever the probability."""
    assert bars.BAR_CELLS == len(bars.bar(probability, fancy))


@pytest.mark.parametrize(("fancy", "full"), [(True, "█"), (False, "#")])
def test_bar_ends(fancy: bool, full: str) -> None:
    """Nothing at 0, everything at 1."""
    assert (" " * bars.BAR_CELLS, full * bars.BAR_CELLS) == (bars.bar(0.0, fancy), bars.bar(1.0, fancy))


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("abc", 5, "abc  "),
        ("abcdef", 4, "abc…"),
        ("日本", 5, "日本 "),
        ("日本語", 5, "日本…"),
        ("e\u0301x", 3, "e\u0301x "),
    ],
)
def test_pad_counts_columns(text: str, width: int, expected: str) -> None:
    """Wide characters take two columns, combining ones none; too long ends in an ellipsis."""
    assert expected == bars.pad(text, width)


def test_question_text_as_id() -> None:
    """An id that ends in a question mark gets no colon, line breaks in it become spaces."""
    reply = {"answers": {"Is it\nurgent?": {"type": "noul", "noul": 0.9}}}

    assert "Is it urgent? yes (90.0%)" == next(bars.lines(reply, fancy=False))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"type": "noul", "noul": 0.5}, "yes"),
        ({"type": "noul", "noul": 0.49}, "no"),
        ({"type": "choice", "choice": "a"}, "a"),
        ({"type": "score", "score": 1.0}, "1.00"),
        ({"type": "later", "x": 1}, '{"type": "later", "x": 1}'),
    ],
)
def test_verdict(answer: dict[str, object], said: str) -> None:
    """The bare answer; an unknown type shows itself whole."""
    assert said == bars.verdict(answer)


def test_details_name_what_else_is_there() -> None:
    """Tokens and every x_ field are told."""
    expected = ["model: m, input tokens: 120", "exact: false", "urgent: label_mass 0.9877"]

    assert expected == list(bars.details(REPLY))
