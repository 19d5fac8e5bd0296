"""The prompt of `localdecide run MODEL` on a terminal: one state is kept, questions about it are typed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from localdecide import paths
from localdecide.cli import questions
from localdecide.cli.client import Client
from localdecide.cli.errors import report
from localdecide.cli.output import Output

HELP = """\
  TEXT             the state, as long as there is none; then a yes-or-no question about it
  /state TEXT      keep another state; \"\"\" opens and closes one of several lines
  /choice TEXT     team: Which team? = billing: payments | technical: bugs | sales
  /yes-no TEXT     urgent: Needs an answer today
  /score TEXT      tone: How upset? = calm < annoyed < furious
  /show            the state, and the model that answers
  /help            this text
  /bye             leave (also Ctrl-D)"""

HISTORY_LINES = 1000
_FENCE = '"""'


class Conversation:
    """What the prompt knows, one typed line at a time; `ask` gets a whole request and prints its answers."""

    def __init__(self, request: Mapping[str, Any], ask: Callable[[dict[str, Any]], None], output: Output) -> None:
        self._request = {name: value for name, value in request.items() if name != "questions"}
        self._ask = ask
        self._output = output
        self._open: list[str] | None = None

    @property
    def prompt(self) -> str:
        """What stands before the cursor."""
        return "... " if self._open is not None else ">>> " if self._has_state else "state> "

    @property
    def _has_state(self) -> bool:
        return "state" in self._request or bool(self._request.get("images"))

    def line(self, text: str) -> bool:
        """Takes one typed line; False when the conversation is over."""
        if self._open is not None:
            self._continue(text)
            return True
        command, _, rest = text.strip().partition(" ")
        match command:
            case "":
                pass
            case "/bye" | "/exit" | "/quit":
                return False
            case "/help" | "/?":
                self._output.data(HELP)
            case "/show":
                self._show()
            case "/state" if rest.strip():
                self._state(rest.strip())
            case "/state":
                self._output.talk("type the state after `/state`")
            case "/choice" | "/yes-no" | "/score":
                self._question(*questions.parse(command[1:], rest.strip()))
            case _ if command.startswith("/"):
                self._output.talk(f"there is no `{command}`; `/help` lists what there is")
            case _ if self._has_state:
                self._question(*questions.yes_no(text))
            case _:
                self._state(text.strip())
        return True

    def _state(self, text: str) -> None:
        if text.startswith(_FENCE):
            self._open = []
            self._continue(text.removeprefix(_FENCE))
        else:
            self._request["state"] = text

    def _continue(self, text: str) -> None:
        """One line of a fenced state; the fence ends it."""
        assert self._open is not None
        inside, fence, _ = text.partition(_FENCE)
        self._open.append(inside)
        if fence:
            self._request["state"] = "\n".join(self._open).strip("\n")
            self._open = None

    def _question(self, key: str, question: dict[str, Any]) -> None:
        if self._has_state:
            self._ask(self._request | {"questions": {key: question}})
        else:
            self._output.talk("there is no state yet; type one first")

    def _show(self) -> None:
        self._output.data(f"model: {self._request.get('model') or 'the default model'}")
        if self._request.get("images"):
            self._output.data(f"images: {len(self._request['images'])}")
        self._output.data(f"state: {self._request.get('state', 'none yet')}")


def converse(client: Client, request: Mapping[str, Any], output: Output) -> None:
    """Reads lines until /bye, Ctrl-D or Ctrl-C on an empty line; an error ends its line, not the prompt."""
    from localdecide.cli import run

    def ask(asked: dict[str, Any]) -> None:
        run.show(run.decide(client, asked, output), output)

    conversation = Conversation(request, ask, output)
    output.talk("questions about one state; `/help` for help, `/bye` to leave")
    with _history():
        while True:
            try:
                if not conversation.line(input(conversation.prompt)):
                    return
            except EOFError:
                output.talk("")
                return
            except KeyboardInterrupt:
                output.talk("\n`/bye` or Ctrl-D leaves")
            except Exception as error:
                found = report(error)
                if found is None:
                    raise
                output.error(found.sentence, found.hint)


@contextlib.contextmanager
def _history() -> Any:
    """Line editing with the lines of earlier conversations, where the platform has readline."""
    try:
        import readline
    except ImportError:  # Windows: the console edits lines itself
        yield
        return
    kept = paths.state() / "history"
    with contextlib.suppress(OSError):
        readline.read_history_file(kept)
    try:
        yield
    finally:
        readline.set_history_length(HISTORY_LINES)
        with contextlib.suppress(OSError):
            kept.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(kept)
            kept.chmod(0o600)
