"""`localdecide run`: ask a model typed questions about a state."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from localdecide import settings
from localdecide.cli import bars, daemon
from localdecide.cli.client import Client, DaemonError
from localdecide.cli.completion import model_names
from localdecide.cli.ordered import META, QuestionCommand
from localdecide.cli.output import Output
from localdecide.cli.usage import UsageProblem

EPILOG = """\b
Questions, each as often as you like:
  --choice 'team: Which team? = billing: payments | technical: bugs | sales'
  --yes-no 'urgent: Needs an answer today'
  --score  'tone: How upset? = calm < annoyed < furious'

\b
A backslash before | : = < makes it an ordinary character. Without a MODEL the
default model answers. Without a question, on a terminal, a prompt opens."""

OPTIONS = {"cls": QuestionCommand, "epilog": EPILOG}


def command(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[MODEL] [STATE] [QUESTION]...",
            help="The model, the text to judge, plain yes-or-no questions.",
            autocompletion=model_names,
        ),
    ] = [],  # noqa: B006 - typer copies it
    choice: Annotated[list[str], typer.Option(metavar="TEXT", help="Which of the options?")] = [],  # noqa: B006
    yes_no: Annotated[list[str], typer.Option(metavar="TEXT", help="Yes or no?")] = [],  # noqa: B006
    score: Annotated[list[str], typer.Option(metavar="TEXT", help="Where between the levels?")] = [],  # noqa: B006
    file: Annotated[
        str | None, typer.Option("--file", "-f", metavar="PATH", help="A whole request as JSON; - is standard input.")
    ] = None,
    state_file: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="The state: text, or JSON from a .json file; - is standard input."),
    ] = None,
    image: Annotated[list[Path], typer.Option(metavar="PATH", help="An image that belongs to the state.")] = [],  # noqa: B006
    keepalive: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long the model stays loaded: 5m, 1h30m, 0, -1 for ever.")
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Read each question alone.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also tokens, times and how it was read.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the reply as it is.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the bare answers, one a line.")] = False,
) -> None:
    """Ask a model typed questions about a state."""
    from localdecide.cli.questions import EXAMPLES
    from localdecide.cli.request import Given, build

    output = Output.of(json, quiet)
    given = Given(words, context.meta[META], file, state_file, image, keepalive, exact, stdin=_Stdin())
    request = build(given)
    values = settings.load()
    if not request.get("questions"):
        if not (sys.stdin.isatty() and sys.stdout.isatty()) or json or quiet or file is not None:
            raise UsageProblem("there is no question to answer", f"ask one with --yes-no '{EXAMPLES['yes-no']}'")
        from localdecide.cli.prompt import converse

        return converse(daemon.ensure(values, output), request, output)
    if "state" not in request and not request.get("images"):
        raise UsageProblem(
            "there is no state to judge", "give it after the model, by --state-file or on standard input"
        )
    body = decide(daemon.ensure(values, output), request, output)
    if json:
        output.data(body.decode().rstrip("\n"))
    else:
        show(body, output, verbose=verbose)


def decide(client: Client, request: Mapping[str, Any], output: Output) -> bytes:
    """The reply's bytes. A model that is not here but can be had is pulled first."""
    from localdecide.cli.spinner import Spinner

    model = str(request.get("model") or "")
    try:
        with Spinner(output, f"asking {model or 'the default model'}"):
            return client.raw("POST", "/v1/systemone", request)
    except DaemonError as error:
        if error.status != 404 or not obtainable(model):
            raise
    from localdecide.cli.pull import pull

    output.talk(f"{model} is not here yet; pulling it")
    pull(client, model, Output("quiet" if output.mode == "quiet" else "human"))
    with Spinner(output, f"asking {model}"):
        return client.raw("POST", "/v1/systemone", request)


def obtainable(model: str) -> bool:
    """Whether a pull of `model` can make sense: the library has it, or it names another place."""
    from localdecide import paths

    if "/" in model:
        return True
    name = model.partition(":")[0].lower()
    return bool(name) and (paths.library() / name / "Modelfile").is_file()


def show(body: bytes, output: Output, *, verbose: bool = False) -> None:
    """Prints a reply for a person, or the bare answers in quiet mode."""
    import json

    reply = json.loads(body)
    if output.mode == "quiet":
        for answer in reply["answers"].values():
            output.data(bars.verdict(answer))
        return
    for line in bars.lines(reply, fancy=output.fancy):
        output.data(line)
    if verbose:
        for line in bars.details(reply):
            output.talk(line)


class _Stdin:
    def isatty(self) -> bool:
        return sys.stdin is None or sys.stdin.isatty()

    def read(self) -> bytes:
        return sys.stdin.buffer.read()
