"""multipart/form-data bodies, for clients that send images beside the request instead of inside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from email.message import Message

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser

from localdecide.core.errors import MalformedBody

# More parts than any request has images, few enough to count.
MAX_PARTS = 256


@dataclass
class Part:
    """One part: what its headers said and its bytes."""

    headers: dict[str, str] = field(default_factory=dict)
    data: bytearray = field(default_factory=bytearray)

    @property
    def name(self) -> str:
        """The field name of Content-Disposition."""
        return _parameter("content-disposition", self.headers.get("content-disposition", ""), "name")


def is_multipart(content_type: str) -> bool:
    """Whether a Content-Type announces form data."""
    return content_type.partition(";")[0].strip().lower() == "multipart/form-data"


def read_parts(body: bytes, content_type: str) -> dict[str, bytes]:
    """The parts by name. Raises MalformedBody where they cannot be told apart or a name comes twice."""
    boundary = _parameter("content-type", content_type, "boundary")
    if not boundary:
        raise MalformedBody("the multipart body has no boundary in its Content-Type")
    parts: list[Part] = []
    ended: list[bool] = []
    header = [bytearray(), bytearray()]

    def begin() -> None:
        if len(parts) == MAX_PARTS:
            raise MalformedBody(f"the multipart body has more than {MAX_PARTS} parts")
        parts.append(Part())

    def header_end() -> None:
        parts[-1].headers[header[0].decode("latin-1").lower()] = header[1].decode("utf-8", "replace")
        header[0].clear()
        header[1].clear()

    try:
        parser = MultipartParser(
            boundary,
            {
                "on_part_begin": begin,
                "on_part_data": lambda data, start, end: parts[-1].data.extend(data[start:end]),
                "on_header_field": lambda data, start, end: header[0].extend(data[start:end]),
                "on_header_value": lambda data, start, end: header[1].extend(data[start:end]),
                "on_header_end": header_end,
                "on_end": lambda: ended.append(True),
            },
        )
        parser.write(body)
        parser.finalize()
    except FormParserError as error:  # also what a boundary over the parser's limit raises
        raise MalformedBody(f"the multipart body is damaged: {error}") from None
    if not ended:
        raise MalformedBody("the multipart body ends too early")
    found: dict[str, bytes] = {}
    for part in parts:
        if part.name in found:
            raise MalformedBody(f"the multipart body has two parts named {part.name!r}")
        found[part.name] = bytes(part.data)
    return found


def _parameter(header: str, value: str, name: str) -> str:
    """A parameter of a header value, unquoted; "" where it is missing."""
    message = Message()
    message[header] = value.replace("\r", " ").replace("\n", " ")
    found = message.get_param(name, header=header)
    return found if isinstance(found, str) else ""
