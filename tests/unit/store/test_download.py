# ruff: noqa: SIM117  the server first, what is expected of it second
from __future__ import annotations

import contextlib
import hashlib
import random
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from crooked_server import Answer, Asked, CrookedServer, serving

from localdecide.core.errors import Cancelled, DigestMismatch, DiskFull, LocaldecideError, Offline, SourceFailed
from localdecide.store.download import download as download_module
from localdecide.store.download.attempt import SPAN
from localdecide.store.download.download import Download, Wanted, opened
from localdecide.store.download.net import Net, Patience
from localdecide.store.download.origin import HttpOrigin
from localdecide.store.download.partial import PIECE, Lease, Partial, leftovers

PATIENCE = Patience(tries=4, pause=0.01, longest=0.02, connect=5.0, stall=5.0, wait=5.0)
SIZE = 18 * PIECE + 12345
DATA = random.Random(7).randbytes(SIZE)
DIGEST = f"sha256:{hashlib.sha256(DATA).hexdigest()}"
FILES = {"/m.gguf": DATA}


def fetch(
    server: CrookedServer,
    folder: Path,
    *,
    digest: str | None = DIGEST,
    size: int | None = SIZE,
    stop: threading.Event | None = None,
    key: str = "key",
    after: int | None = None,
    patience: Patience = PATIENCE,
) -> Download:
    """Download /m.gguf; `after`: stop once so many bytes have arrived. The blob lands at folder/blob."""
    stop = stop or threading.Event()
    with opened(Partial(folder, key)) as partial:
        origin = HttpOrigin(Net(patience=patience), f"{server.url}/m.gguf")
        download = Download(origin, partial, Wanted(digest, size), stop, patience)
        try:
            for progress in download.run():
                if after is not None and progress.completed >= after:
                    stop.set()
            partial.finish(folder / "blob", download.size)
        finally:
            origin.close()
    return download


def arrived(folder: Path) -> bool:
    return (folder / "blob").read_bytes() == DATA and not (folder / "key").exists()


@pytest.mark.parametrize("known", [True, False])
def test_an_honest_server(tmp_path: Path, known: bool) -> None:
    """The file arrives whole, in several ranges at once, and its digest is known without another read."""
    with serving(FILES) as server:
        download = fetch(server, tmp_path) if known else fetch(server, tmp_path, digest=None, size=None)

    assert arrived(tmp_path)
    assert (download.digest, download.size) == (DIGEST, SIZE)
    assert server.sent == SIZE + 1
    assert len({asked.headers["range"] for asked in server.asked}) == len(server.asked) == 3


def test_resume_after_an_interruption(tmp_path: Path) -> None:
    """What has arrived is not fetched again, also by a new process: nothing is kept but the files."""
    with serving(FILES, lambda asked, number: Answer(stall=0.0 if number < 2 else 0.25)) as server:
        with pytest.raises(Cancelled):
            fetch(server, tmp_path, after=2 * PIECE)
        kept = sum(leftover.done for leftover in leftovers(tmp_path))
        server.behave = lambda asked, number: Answer()
        server.sent = 0
        download = fetch(server, tmp_path)

    assert arrived(tmp_path)
    assert kept >= 2 * PIECE
    assert download.fetched <= SIZE - kept


def test_a_lost_piece_is_fetched_again(tmp_path: Path) -> None:
    """After a power cut the journal may promise bytes that the disk lost; only that piece comes again."""
    with serving(FILES) as server:
        with opened(Partial(tmp_path, "key")) as partial:
            partial.begin(download_module.Identity(SIZE, '"v1"', server.host))
            lease = partial.lease()
            for index in range(-(-SIZE // PIECE)):
                partial.write(index, DATA[index * PIECE : (index + 1) * PIECE], lease)
        with (tmp_path / "key").open("r+b") as file:
            file.seek(3 * PIECE + 100)
            file.write(bytes(PIECE // 2))
        download = fetch(server, tmp_path)

    assert arrived(tmp_path)
    assert download.fetched == PIECE


def test_a_torn_journal_line_costs_one_piece(tmp_path: Path) -> None:
    """A line that a crash cut short is not believed."""
    with serving(FILES) as server:
        with opened(Partial(tmp_path, "key")) as partial:
            partial.begin(download_module.Identity(SIZE, '"v1"', server.host))
            lease = partial.lease()
            for index in range(5):
                partial.write(index, DATA[index * PIECE : (index + 1) * PIECE], lease)
        with (tmp_path / "key.journal").open("r+b") as file:
            file.truncate(file.seek(0, 2) - 5)
        download = fetch(server, tmp_path)

    assert arrived(tmp_path)
    assert download.fetched == SIZE - 4 * PIECE


def test_a_server_without_ranges(tmp_path: Path) -> None:
    """One stream is read from the start; nothing is asked twice."""
    with serving(FILES, lambda asked, number: Answer(ranges=False)) as server:
        download = fetch(server, tmp_path, digest=None, size=None)

    assert arrived(tmp_path)
    assert download.fetched == SIZE
    assert len(server.asked) == 2


def test_a_server_that_stops_honouring_ranges(tmp_path: Path) -> None:
    """An answer of 200 in place of 206 becomes the one stream; the file is right all the same."""
    with serving(FILES, lambda asked, number: Answer(ranges=number == 0)) as server:
        fetch(server, tmp_path)

    assert arrived(tmp_path)


def test_a_server_that_says_no_length(tmp_path: Path) -> None:
    """A stream of unknown length ends where it ends."""
    with serving(FILES, lambda asked, number: Answer(ranges=False, length=False)) as server:
        download = fetch(server, tmp_path, digest=None, size=None)

    assert arrived(tmp_path)
    assert (download.digest, download.size) == (DIGEST, SIZE)


def test_truncated_answers(tmp_path: Path) -> None:
    """Lines that drop in the middle cost no byte: the next request goes on at the very place."""
    with serving(FILES, lambda asked, number: Answer(cut=PIECE + 777 if number < 8 else None)) as server:
        download = fetch(server, tmp_path)

    assert arrived(tmp_path)
    assert download.fetched == SIZE


def test_a_server_that_always_truncates_at_nothing(tmp_path: Path) -> None:
    """No progress in the allowed tries ends with the server's name; the partial stays."""
    with serving(FILES, lambda asked, number: Answer(cut=0 if number else None)) as server:
        with pytest.raises(SourceFailed, match=r"127\.0\.0\.1:\d+: .* \(4 tries\)"):
            fetch(server, tmp_path)

    assert [leftover.key for leftover in leftovers(tmp_path)] == ["key"]


def test_a_flipped_byte_is_repaired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the piece that came wrong is replaced, and no more is fetched than it takes to find it."""
    written: list[int] = []
    rewritten: list[int] = []
    write = Partial.write

    def watch(self: Partial, index: int, data: bytes, lease: Lease) -> None:
        (rewritten if index in written else written).append(index)
        write(self, index, data, lease)

    monkeypatch.setattr(Partial, "write", watch)
    with serving(FILES, lambda asked, number: Answer(flip=5 * PIECE + 5 if number < 3 else None)) as server:
        download = fetch(server, tmp_path)

    assert arrived(tmp_path)
    assert download.digest == DIGEST
    assert download.fetched == SIZE + SPAN
    assert rewritten == [5]


def test_a_source_that_lies_twice_is_named(tmp_path: Path) -> None:
    """The same wrong bytes twice are the source's fault: both digests, its name, and no partial left."""
    with serving(FILES, lambda asked, number: Answer(flip=5)) as server, pytest.raises(DigestMismatch) as caught:
        fetch(server, tmp_path)

    spoiled = bytes([*DATA[:5], DATA[5] ^ 1]) + DATA[6:]
    assert caught.value.details == {
        "expected": DIGEST,
        "actual": f"sha256:{hashlib.sha256(spoiled).hexdigest()}",
        "source": server.host,
    }
    assert list(leftovers(tmp_path)) == []


def test_redirects(tmp_path: Path) -> None:
    """A redirect to another host is followed without the credentials, and remembered while it works."""
    with serving(FILES) as store, serving({}) as front:
        front.behave = lambda asked, number: Answer(302, {"Location": f"{store.url}/m.gguf?signed=1"}, b"")
        with opened(Partial(tmp_path, "key")) as partial:
            origin = HttpOrigin(Net(), f"{front.url}/m.gguf", headers={"Authorization": "Bearer secret"})
            list(Download(origin, partial, Wanted(DIGEST, SIZE), threading.Event(), PATIENCE).run())
            origin.close()
            partial.finish(tmp_path / "blob", SIZE)

    assert arrived(tmp_path)
    assert {asked.headers.get("authorization") for asked in front.asked} == {"Bearer secret"}
    assert {asked.headers.get("authorization") for asked in store.asked} == {None}
    assert len(front.asked) < len(store.asked)


def test_a_redirect_on_one_host_keeps_the_credentials(tmp_path: Path) -> None:
    """Another path of the same host still gets them, also when the address is remembered."""
    with serving(FILES) as server:

        def behave(asked: Asked, number: int) -> Answer:
            if asked.path == "/first":
                return Answer(302, {"Location": "/m.gguf"}, b"")
            return Answer() if asked.headers.get("authorization") == "Bearer secret" else Answer(401, {}, b"")

        server.behave = behave
        with opened(Partial(tmp_path, "key")) as partial:
            origin = HttpOrigin(Net(), f"{server.url}/first", headers={"Authorization": "Bearer secret"})
            list(Download(origin, partial, Wanted(DIGEST, SIZE), threading.Event(), PATIENCE).run())
            origin.close()
            partial.finish(tmp_path / "blob", SIZE)

    assert arrived(tmp_path)
    assert [asked.path for asked in server.asked].count("/first") == 1


def test_an_expired_address_is_asked_for_again(tmp_path: Path) -> None:
    """A signed address that answers 403 later is fetched anew from the first one."""
    with serving(FILES) as store, serving({}) as front:
        front.behave = lambda asked, number: Answer(302, {"Location": f"{store.url}/m.gguf?{number}"}, b"")
        used: dict[str, int] = {}

        def expire(asked: Asked, number: int) -> Answer:
            used[asked.path] = used.get(asked.path, 0) + 1
            return Answer(403, {}, b"expired") if used[asked.path] > 1 else Answer()

        store.behave = expire
        with opened(Partial(tmp_path, "key")) as partial:
            origin = HttpOrigin(Net(), f"{front.url}/m.gguf")
            list(Download(origin, partial, Wanted(DIGEST, SIZE), threading.Event(), PATIENCE).run())
            origin.close()
            partial.finish(tmp_path / "blob", SIZE)

    assert arrived(tmp_path)


def test_redirects_in_a_circle(tmp_path: Path) -> None:
    """A circle ends with an error."""
    with serving(FILES, lambda asked, number: Answer(302, {"Location": "/m.gguf"}, b"")) as server:
        with pytest.raises(SourceFailed, match="redirects in a circle"):
            fetch(server, tmp_path)


def test_a_stall(tmp_path: Path) -> None:
    """A line that falls silent is dropped and the request sent again."""
    with serving(FILES, lambda asked, number: Answer(stall=3.0 if number == 1 else 0.0)) as server:
        fetch(server, tmp_path, patience=replace(PATIENCE, stall=0.5))

    assert arrived(tmp_path)


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_honoured(tmp_path: Path, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's own wish reaches the pause before the next try, in seconds or as a date."""
    wishes: list[float | None] = []

    def delay(self: Patience, failures: int, retry_after: float | None) -> float:
        wishes.append(retry_after)
        return 0.0

    monkeypatch.setattr(Patience, "delay", delay)
    busy = ("4", "Thu, 01 Jan 1970 00:00:00 GMT", "soon")
    with serving(FILES) as server:
        server.behave = lambda asked, number: (
            Answer(status, {"Retry-After": busy[number]}, b"") if number < 3 else Answer()
        )
        fetch(server, tmp_path)

    assert arrived(tmp_path)
    assert wishes == [4.0, 0.0, None]


def test_pauses_grow_and_are_bounded() -> None:
    """Doubled each time up to the longest, with some jitter; a wish of the server's replaces them."""
    patience = Patience(pause=1.0, longest=5.0)

    for failures, expected in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 5.0), (9, 5.0)):
        assert 0.75 * expected <= patience.delay(failures, None) <= 1.25 * expected
    assert patience.delay(1, 7.0) == 7.0


def test_a_retry_after_that_is_too_long(tmp_path: Path) -> None:
    """A wish beyond patience is an error that says how long."""
    with serving(FILES, lambda asked, number: Answer(429, {"Retry-After": "3600"}, b"")) as server:
        with pytest.raises(SourceFailed, match="answered 429 and asks to come back in 3600 seconds"):
            fetch(server, tmp_path)


@pytest.mark.parametrize(("status", "message"), [(404, "not found"), (403, "access denied"), (400, "answered 400")])
def test_refusals_are_not_tried_again(tmp_path: Path, status: int, message: str) -> None:
    """What will not change is asked once, and leaves nothing unfinished behind."""
    with serving(FILES, lambda asked, number: Answer(status, {}, b"no")) as server:
        with pytest.raises(SourceFailed, match=message):
            fetch(server, tmp_path)

    assert len(server.asked) == 1
    assert not list(leftovers(tmp_path))


def test_server_errors_are_tried_again_and_bounded(tmp_path: Path) -> None:
    """500 is tried as often as patience says, no more."""
    with serving(FILES, lambda asked, number: Answer(500, {}, b"")) as server:
        with pytest.raises(SourceFailed, match=r"answered 500 \(4 tries\)"):
            fetch(server, tmp_path)

    assert len(server.asked) == 4


def test_416_once_starts_over(tmp_path: Path) -> None:
    """A range that the server refuses makes the download start anew, once."""
    with serving(FILES, lambda asked, number: Answer(416, {}, b"") if number == 1 else Answer()) as server:
        fetch(server, tmp_path)

    assert arrived(tmp_path)


def test_416_always_falls_back_to_one_stream(tmp_path: Path) -> None:
    """A server that answers 416 to every range gives the file to a plain request."""

    def picky(asked: Asked, number: int) -> Answer:
        return Answer(416, {}, b"") if asked.range else Answer()

    with serving(FILES, picky) as server:
        fetch(server, tmp_path, digest=None, size=None)

    assert arrived(tmp_path)


def test_the_file_changes_between_two_tries(tmp_path: Path) -> None:
    """Without a digest the ETag decides: what an earlier try got of another file is thrown away."""
    with serving({"/m.gguf": DATA[::-1]}) as server:
        server.behave = lambda asked, number: Answer(stall=0.0 if number < 2 else 0.2)
        with pytest.raises(Cancelled):
            fetch(server, tmp_path, digest=None, size=None, after=PIECE)
        server.files["/m.gguf"], server.tag = DATA, '"v2"'
        server.behave = lambda asked, number: Answer()
        download = fetch(server, tmp_path, digest=None, size=None)

    assert arrived(tmp_path)
    assert download.digest == DIGEST


def test_the_file_changes_while_it_is_read(tmp_path: Path) -> None:
    """Ranges of two versions are never mixed."""
    old = DATA[::-1]
    with serving({"/m.gguf": old}) as server:

        def change(asked: Asked, number: int) -> Answer:
            if number == 2:
                server.files["/m.gguf"], server.tag = DATA, '"v2"'
            return Answer()

        server.behave = change
        fetch(server, tmp_path, digest=None, size=None)

    assert arrived(tmp_path)


def test_a_file_that_keeps_changing(tmp_path: Path) -> None:
    """Two starts are enough."""
    with serving(FILES) as server:

        def change(asked: Asked, number: int) -> Answer:
            server.tag = f'"v{number}"'
            return Answer()

        server.behave = change
        with pytest.raises(SourceFailed, match=r"changed while it was read \(twice\)"):
            fetch(server, tmp_path, digest=None, size=None)


def test_a_page_in_place_of_the_file(tmp_path: Path) -> None:
    """A portal's page of another size is not taken for the file."""
    with serving(FILES, lambda asked, number: Answer(200, {}, b"<html>log in</html>")) as server:
        with pytest.raises(SourceFailed, match=r"has 19 bytes, expected \d+ \(twice\)"):
            fetch(server, tmp_path)


def test_an_empty_file(tmp_path: Path) -> None:
    """Nothing is a file, too."""
    with serving({"/m.gguf": b""}) as server:
        download = fetch(server, tmp_path, digest=None, size=None)

    assert (download.size, (tmp_path / "blob").read_bytes()) == (0, b"")


def test_room_is_checked_before_the_first_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both numbers are named and nothing is fetched."""
    monkeypatch.setattr("localdecide.store.blobs.free_bytes", lambda folder: 1000)
    with serving(FILES) as server, pytest.raises(DiskFull) as caught:
        fetch(server, tmp_path)

    assert (caught.value.details["needed"], caught.value.details["available"]) == (SIZE, 1000)
    assert f"{SIZE} bytes are needed and 1000 are free" in caught.value.message
    assert server.sent <= 1


def test_offline_opens_no_connection(tmp_path: Path) -> None:
    """The setting is enough: not even a client is made."""
    with pytest.raises(Offline, match="LOCALDECIDE_OFFLINE=1 forbids it"):
        HttpOrigin(Net(offline=True), "http://127.0.0.1:9/m.gguf")


def test_nobody_listens(tmp_path: Path) -> None:
    """A refused connection is tried again and then named."""
    with serving(FILES) as server:
        pass
    with pytest.raises(SourceFailed, match=r"ConnectError.*\(4 tries\)"):
        fetch(server, tmp_path)


def test_every_error_is_one_of_ours(tmp_path: Path) -> None:
    """Random misbehaviour, seeded: the file arrives right or an error of the tree says why."""
    rng = random.Random(11)

    def wild(asked: Asked, number: int) -> Answer:
        kind = rng.randrange(7)
        return (
            Answer(cut=rng.randrange(3 * PIECE)),
            Answer(flip=rng.randrange(SIZE)),
            Answer(503, {"Retry-After": "0"}, b""),
            Answer(ranges=False),
            Answer(),
            Answer(),
            Answer(),
        )[kind]

    for turn in range(5):
        folder = tmp_path / str(turn)
        with serving(FILES, wild) as server, contextlib.suppress(LocaldecideError):
            fetch(server, folder)
        assert not (folder / "blob").exists() or arrived(folder)
