"""The `localdecide` command: its sub-commands, and the one place where errors become sentences.

A command is a file beside this one with a function `command` and, where it needs them, `OPTIONS` for typer.
It is imported when it is called, and imports what is heavy when it runs.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

COMMANDS = {
    "serve": "Run the daemon in the foreground.",
    "run": "Ask a model typed questions about a state.",
    "pull": "Get a model from the library or from elsewhere.",
    "list": "List the models on this machine.",
    "ps": "List the models that are loaded.",
    "show": "Show what a model is.",
    "stop": "Unload a model when its requests have ended.",
    "create": "Create a model from a Modelfile.",
    "cp": "Give a model a second name.",
    "rm": "Remove models and files that no other uses.",
    "push": "Send a model to an Ollama-style registry.",
    "search": "Search the library.",
    "export": "Write a model into one file.",
    "import": "Read a model from a file that export wrote.",
    "verify": "Check every byte of the models and repair what is damaged.",
    "prune": "Show, or remove, files that no model uses.",
    "du": "Show what the models take on the disk.",
    "bench": "Measure how fast a model answers, alone or against another server.",
    "doctor": "Check this installation, this machine and the daemon.",
    "shutdown": "End the daemon when its requests have ended.",
}
ALIASES = {"ls": "list", "start": "serve"}

_STYLE: dict[str, Any] = {
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


class Commands(TyperGroup):
    """The table above; `ps` must not pay for what `run` imports."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        if name not in self.commands:
            module = importlib.import_module(f"localdecide.cli.{name}")
            alone = typer.Typer(add_completion=False, **_STYLE)
            alone.command(name, help=COMMANDS[name], **getattr(module, "OPTIONS", {}))(module.command)
            self.commands[name] = typer.main.get_command(alone)
        return self.commands[name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items()])


app = typer.Typer(name="localdecide", cls=Commands, no_args_is_help=True, **_STYLE)


def _version(asked: bool) -> None:
    if asked:
        from localdecide.cli import version

        version.show()
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", "-v", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Typed decisions with a probability for every answer, on your own machine."""


def main() -> None:
    """Runs the command of `sys.argv`; exit code 0, 1 for an error, 2 for a wrong call, 130 for Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        _forgive(stream)
    try:
        app(prog_name="localdecide")
    except Exception as error:
        sys.exit(_explain(error))


def _explain(error: Exception) -> int:
    """Prints what happened and returns the exit code."""
    from localdecide.cli.errors import report
    from localdecide.cli.output import Output

    found = report(error)
    if found is not None:
        Output().error(found.sentence, found.hint)
        return found.code
    if os.environ.get("LOCALDECIDE_LOG_LEVEL") == "debug":
        raise error
    said = f"something unexpected went wrong: {type(error).__name__}: {error}"
    Output().error(said, "`LOCALDECIDE_LOG_LEVEL=debug` shows where")
    return 1


def _forgive(stream: TextIO) -> None:
    """A terminal that lacks a character shows a question mark instead of ending the program."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")


if __name__ == "__main__":
    main()
