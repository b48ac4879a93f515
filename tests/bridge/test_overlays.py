"""Folders that stand in for the user's own: what is linked, what is made anew, what is brought back."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import evolve

from opask.adapters import Conversation
from opask.bridge import Bridge
from opask.bridge.overlays import bring_back, lay
from opask.errors import BridgeError, LaunchError
from opask.launch import Endpoint, LaunchPlan, LaunchRequest, Overlay, OverlayFile, OverlayRecord
from opask.testing import Scripted


def longer(text: str | None) -> str:
    """Give a text with a word behind it."""
    return f"{text or ''}more"


def both(before: str | None, after: str) -> str:
    """Give two texts in one."""
    return f"{before or ''}|{after}"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Give a folder of the user's with a few things in it."""
    folder = tmp_path / "home"
    (folder / "sessions").mkdir(parents=True)
    (folder / "settings").write_bytes(b"own\r\n\xff")
    (folder / "login").write_text("secret")
    return folder


@pytest.fixture
def overlay(tmp_path: Path, home: Path) -> Overlay:
    """Give an overlay of it."""
    return Overlay(
        path=tmp_path / "overlay",
        original=home,
        files=[OverlayFile("settings", longer), OverlayFile("extra", longer)],
        folders=("sessions", "logins"),
        records=[OverlayRecord("index", both)],
    )


def contents(folder: Path) -> Iterator[tuple[str, object]]:
    """Give all that is in a folder: bytes of files, where links point to."""
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        yield name, path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None


def mode(path: Path) -> int:
    """Give a path's permissions."""
    return stat.S_IMODE(path.stat().st_mode)


def test_everything_is_linked_but_what_is_made_anew(overlay: Overlay, home: Path) -> None:
    """The overlay links to each entry of the user's folder, and has files of its own in place of some."""
    before = dict(contents(home))
    lay(overlay)
    assert dict(contents(overlay.path)) == {
        "extra": b"more",
        "index": home / "index",
        "login": home / "login",
        "logins": home / "logins",
        "sessions": home / "sessions",
        "settings": b"own\r\n\xffmore",
    }
    assert dict(contents(home)) == before | {"logins": None}


def test_only_this_user_can_look_in(overlay: Overlay) -> None:
    """Folder and files are private, whatever the umask is."""
    old = os.umask(0)
    try:
        lay(overlay)
    finally:
        os.umask(old)
    assert mode(overlay.path) == 0o700
    assert mode(overlay.path / "settings") == mode(overlay.path / "extra") == 0o600


def test_what_is_written_through_a_link_is_the_users(overlay: Overlay, home: Path) -> None:
    """A login that rotates in a linked folder, a record that is appended to, and a file that is created there stay."""
    lay(overlay)
    (overlay.path / "logins" / "token").write_text("new")
    with (overlay.path / "index").open("a") as index:
        index.write("line")
    bring_back(overlay)
    assert (home / "logins" / "token").read_text() == "new"
    assert (home / "index").read_text() == "line"


@pytest.mark.parametrize("before", [None, "old"])
def test_a_record_that_replaced_its_link_is_brought_back(
    overlay: Overlay, home: Path, before: str | None
) -> None:
    """What the runtime put in a link's place is joined with what the user's own file holds then."""
    lay(overlay)
    if before is not None:
        (home / "index").write_text(before)
        (home / "index").chmod(0o640)
    part = overlay.path / "index.part"
    part.write_text("new")
    part.replace(overlay.path / "index")
    bring_back(overlay)
    assert (home / "index").read_text() == f"{before or ''}|new"
    assert mode(home / "index") == (0o600 if before is None else 0o640)
    assert not list(home.glob(".index*"))


def test_a_record_of_the_users_that_is_a_link_stays_one(overlay: Overlay, home: Path, tmp_path: Path) -> None:
    """Where the user's own file is a link, its target gets the text."""
    (tmp_path / "elsewhere").write_text("old")
    (home / "index").symlink_to(tmp_path / "elsewhere")
    lay(overlay)
    (overlay.path / "index").unlink()
    (overlay.path / "index").write_text("new")
    bring_back(overlay)
    assert (home / "index").is_symlink()
    assert (tmp_path / "elsewhere").read_text() == "old|new"


def test_a_record_that_cannot_be_joined_is_left(
    overlay: Overlay, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A record that cannot be read leaves the user's own as it is, and is told of in the log."""

    def cannot(before: str | None, after: str) -> str:
        raise ValueError("no JSON")

    (home / "index").write_text("old")
    told = evolve(overlay, records=[OverlayRecord("index", cannot)])
    lay(told)
    (overlay.path / "index").unlink()
    (overlay.path / "index").write_text("new")
    with caplog.at_level(logging.WARNING, "opask.bridge"):
        bring_back(told)
    assert (home / "index").read_text() == "old"
    assert "index was not brought back" in caplog.text


def test_a_folder_that_the_user_does_not_have_yet_is_made(overlay: Overlay, home: Path) -> None:
    """What the runtime keeps of its first run ends up where it will look for it without opask."""
    new = evolve(overlay, original=home.parent / "none" / "yet")
    lay(new)
    (new.path / "sessions" / "first").write_text("kept")
    (new.path / "index").write_text("one")
    assert (home.parent / "none" / "yet" / "sessions" / "first").read_text() == "kept"
    assert (home.parent / "none" / "yet" / "index").read_text() == "one"
    assert (new.path / "settings").read_text() == "more"


def test_a_file_that_stands_against_the_launch_makes_nothing(overlay: Overlay) -> None:
    """Where a file of the user's is refused there is no overlay."""

    def refuse(text: str | None) -> str:
        raise LaunchError("it says otherwise", runtime="made-up", what="settings")

    with pytest.raises(LaunchError, match="says otherwise"):
        lay(evolve(overlay, files=[OverlayFile("settings", refuse)]))
    assert not overlay.path.exists()


def test_a_file_is_made_from_the_first_that_is_there(overlay: Overlay, home: Path) -> None:
    """A file can be made from one elsewhere: the first of several that is a file, of none where none is."""
    there = (home / "none", home / "login" / "x", home / "sessions", home / "login", home / "settings")
    files = [OverlayFile("text", longer, there), OverlayFile("settings", longer, ())]
    lay(evolve(overlay, original=None, files=files))
    assert dict(contents(overlay.path)) == {"settings": b"more", "text": b"secretmore"}
    bring_back(evolve(overlay, original=None))


class OverlayAdapter:
    """An adapter that wants one overlay in the folder that it is given."""

    runtime = "made-up"

    def __init__(self, home: Path) -> None:
        self.home = home
        self.requests: list[LaunchRequest] = []

    def plan_launch(self, request: LaunchRequest, endpoint: Endpoint | None, /) -> LaunchPlan:
        """Plan an overlay."""
        self.requests.append(request)
        assert request.folder is not None
        overlay = Overlay(
            path=request.folder / "home",
            original=self.home,
            files=[OverlayFile("settings", longer)],
            records=[OverlayRecord("index", both)],
        )
        return LaunchPlan(request.argv, request.env, questions=endpoint is not None, overlays=[overlay])

    def conversation(self, plan: LaunchPlan, /) -> Conversation:
        """Have none."""
        return None  # type: ignore[return-value] # nothing is said here


@pytest.mark.parametrize("there", [True, False])
def test_a_session_lays_overlays_and_takes_them_away(home: Path, there: bool) -> None:
    """With an operator and without one the overlay is made in the session's folder, and brought back as it goes."""
    adapter = OverlayAdapter(home)
    with (
        Bridge() as bridge,
        bridge.attach_sync(
            "s", adapter, Scripted({}) if there else None, version="1.2.3", allow_unverified=True
        ) as session,
    ):
        first = session.plan_launch(LaunchRequest(["x"])).overlays[0].path
        (first / "index").unlink()
        (first / "index").write_text("one")
        again = session.plan_launch(LaunchRequest(["x"])).overlays[0].path
        assert again == first
        assert (first / "index").is_symlink()
        (first / "index").unlink()
        (first / "index").write_text("two")
    assert not first.exists()
    assert (home / "index").read_text() == "|one|two"
    assert (home / "login").read_text() == "secret"
    assert adapter.requests[0].version == "1.2.3"
    with pytest.raises(BridgeError, match="session s is closed"):
        session.plan_launch(LaunchRequest(["x"]))


def test_what_the_host_says_of_a_launch_is_kept(home: Path, tmp_path: Path) -> None:
    """A folder and a version of the host's own go before the session's."""
    adapter = OverlayAdapter(home)
    with (
        Bridge() as bridge,
        bridge.attach_sync("s", adapter, Scripted({}), version="1.2.3", allow_unverified=True) as session,
    ):
        session.plan_launch(LaunchRequest(["x"], folder=tmp_path, version="4.5.6"))
    assert (adapter.requests[0].folder, adapter.requests[0].version) == (tmp_path, "4.5.6")
