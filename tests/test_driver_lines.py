from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from opask.driver import LineCutter

# Short, so that limits, line ends and broken UTF-8 meet.
data = st.lists(
    st.sampled_from([b"\n", b"\r", b"a", b"\xc3", b"\xa9", b" ", b"\x00", b"\xe2\x80\xa8"]), max_size=40
)


def cut(limit: int, *parts: bytes) -> list[str | None]:
    """Cut some bytes that arrive in parts."""
    cutter = LineCutter(limit)
    return [line for part in parts for line in cutter.feed(part)] + cutter.end()


@given(data, st.integers(min_value=0, max_value=12))
def test_lines_are_the_same_however_they_arrive(parts: list[bytes], limit: int) -> None:
    """Whole, byte by byte or in between: the same bytes give the same lines."""
    whole = b"".join(parts)
    assert cut(limit, whole) == cut(limit, *parts) == cut(limit, *[bytes([byte]) for byte in whole])


@given(data)
def test_only_a_newline_ends_a_line(parts: list[bytes]) -> None:
    """No other separator that Unicode or Python knows cuts a line, and blank ones are left out."""
    whole = b"".join(parts)
    expected = [line.decode(errors="replace").rstrip("\r") for line in whole.split(b"\n")]
    assert cut(1000, whole) == [line for line in expected if line.strip()]


def test_a_line_that_is_too_long_is_told_once_and_not_kept() -> None:
    """A line beyond the limit is None; the lines around it are whole."""
    assert cut(4, b"1234\n12345\n", b"1234567\n", b"12", b"34", b"5\nlast") == [
        "1234",
        None,
        None,
        None,
        "last",
    ]
    assert cut(4, b"12345") == [None]
