"""Files that are still being written: every complete row once, wherever the last line is torn."""

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from offleash.files.tail import NewRows, ReadMark, new_rows

ROWS = [
    {"step": 1, "text": 'a "quoted" {brace}'},
    {"step": 2, "text": "ü\u2028\N{GRINNING FACE}"},
    {"nested": {"x": [1, {}]}},
]
LINES = [json.dumps(row, ensure_ascii=False).encode() for row in ROWS]


def values(looks: list[NewRows]) -> list[object]:
    return [row.values for look in looks for row in look.rows]


def test_a_file_torn_at_every_byte_gives_the_rows_that_are_complete(tmp_path: Path) -> None:
    path, whole = tmp_path / "log.jsonl", b"\n".join(LINES) + b"\n"
    for size in range(1, len(whole) + 1):
        path.write_bytes(whole[:size])
        look = new_rows(path, ReadMark())
        complete = sum(len(b"\n".join(LINES[: count + 1])) <= size for count in range(len(LINES)))
        assert values([look]) == ROWS[:complete]
        assert look.damaged == 0
        # blank after a line end, or a whole object: nothing is waited for
        assert look.torn == (
            size not in {len(b"\n".join(LINES[:count])) + end for count in (1, 2, 3) for end in (0, 1)}
        )
        path.write_bytes(whole)
        assert values([look, new_rows(path, look.tail)]) == ROWS


@settings(deadline=None)
@given(st.lists(st.integers(0, len(b"\n".join(LINES)) + 1), max_size=6))
def test_however_a_file_arrives_its_rows_are_read_once_and_numbered_as_an_editor_does(
    tmp_path_factory: object, cuts: list[int]
) -> None:
    path = tmp_path_factory.mktemp("tail") / "log.jsonl"  # type: ignore[attr-defined]
    whole = b"\n".join(LINES) + b"\n"
    looks, tail = [], ReadMark()
    for size in [*sorted(cuts), len(whole)]:
        path.write_bytes(whole[:size])
        looks.append(new_rows(path, tail))
        tail = looks[-1].tail
    assert values(looks) == ROWS
    assert [row.number for look in looks for row in look.rows] == [1, 2, 3]
    assert tail.offset == len(whole)


def test_a_file_that_was_written_again_is_read_from_its_start(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": 2}\n')
    first = new_rows(path, ReadMark())
    path.write_bytes(b'{"a": 3}\n')
    shorter = new_rows(path, first.tail)
    assert shorter.rewritten
    assert values([shorter]) == [{"a": 3}]
    path.write_bytes(b'{"a": 4}\n{"a": 5}\n{"a": 6}\n')
    longer = new_rows(path, shorter.tail)
    assert longer.rewritten
    assert values([longer]) == [{"a": 4}, {"a": 5}, {"a": 6}]


def test_a_line_that_a_killed_writer_left_is_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": \n\n[1, 2]\n{"a": 3}')
    look = new_rows(path, ReadMark())
    assert [(row.number, row.values) for row in look.rows] == [(1, {"a": 1}), (5, {"a": 3})]
    assert look.damaged == 2
    assert not look.torn


def test_a_long_file_is_read_in_blocks(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f'{{"a": "{"x" * 2_000_000}{number}"}}\n' for number in range(12)))
    looks = [new_rows(path, ReadMark())]
    while looks[-1].more:
        looks.append(new_rows(path, looks[-1].tail))
    assert len(looks) == 2
    assert [row.number for look in looks for row in look.rows] == list(range(1, 13))
