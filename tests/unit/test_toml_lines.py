"""The lines of keys: small texts, each compared as a whole; then generated ones against a search for their values."""

from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from sim.toml_lines import Path, key_lines

ONE_OF_EACH = """\
# a comment with = and [brackets]
name = "x"   # and one = behind
"quoted.key" = 1
a.b.c = 2

[workload]
requests = [
  {id = "A", n = 1},   # {not = "a key"}

  {id = "B",
   n = 2},
]
text = '''
n = "not a key"
'''

[[run.variants]]
name = "c4"
set = {"scheduler.chunk_tokens" = 4, device.job_ms = 0}

[[run.variants]]
name = "c8"
[run.variants.set]
"scheduler.chunk_tokens" = 8
"""


def test_every_kind_of_key_has_its_line() -> None:
    assert key_lines(ONE_OF_EACH) == {
        ("name",): 2,
        ("quoted.key",): 3,
        ("a",): 4,
        ("a", "b"): 4,
        ("a", "b", "c"): 4,
        ("workload",): 6,
        ("workload", "requests"): 7,
        ("workload", "requests", 0): 8,
        ("workload", "requests", 0, "id"): 8,
        ("workload", "requests", 0, "n"): 8,
        ("workload", "requests", 1): 10,
        ("workload", "requests", 1, "id"): 10,
        ("workload", "requests", 1, "n"): 11,
        ("workload", "text"): 13,
        ("run",): 17,
        ("run", "variants"): 17,
        ("run", "variants", 0): 17,
        ("run", "variants", 0, "name"): 18,
        ("run", "variants", 0, "set"): 19,
        ("run", "variants", 0, "set", "scheduler.chunk_tokens"): 19,
        ("run", "variants", 0, "set", "device"): 19,
        ("run", "variants", 0, "set", "device", "job_ms"): 19,
        ("run", "variants", 1): 21,
        ("run", "variants", 1, "name"): 22,
        ("run", "variants", 1, "set"): 23,
        ("run", "variants", 1, "set", "scheduler.chunk_tokens"): 24,
    }


@pytest.mark.parametrize(
    ("text", "line_of_z"),
    [
        ('a = """\nz = 1\n"""\nz = 2', 4),
        ('a = """x""""\nz = 2', 2),  # one quote more than three: it belongs to the string
        ("a = ''''''\nz = 2", 2),
        ('a = "\\" # \\\\"\nz = 2', 2),
        ("a = 'c:\\'\nz = 2", 2),
        ("a = 2023-11-16 18:17:03\nz = 2", 2),
        ("a = [[1, 2], [\n'x'], ]\nz = 2", 3),
        ("a = {b = [1,\n2], c = {}}\nz = 2", 3),
        ("a = -1.5e-3#z = 3\nz=2", 2),
        ("\r\n\r\nz = 2\r\n", 3),
        ("a = 1\n\t z\t=\t2", 2),
    ],
)
def test_values_are_skipped_whole(text: str, line_of_z: int) -> None:
    assert key_lines(text)["z",] == line_of_z


def test_escapes_in_quoted_keys_are_resolved() -> None:
    assert key_lines("\"a\\u0062\" = 1\n'c\\d' = 2") == {("ab",): 1, ("c\\d",): 2}


def test_tables_inside_arrays_of_tables_belong_to_the_last_one() -> None:
    text = "[[a]]\n[[a.b]]\nx = 1\n[[a.b]]\nx = 2\n[[a]]\n[[a.b]]\nx = 3\n"
    lines = key_lines(text)
    assert [lines["a", 0, "b", 0, "x"], lines["a", 0, "b", 1, "x"], lines["a", 1, "b", 0, "x"]] == [3, 5, 8]


@pytest.mark.parametrize("text", ["a = ", "a", "[a", "a = [1", '"', "a = {", "=", "]", "a.=1"])
def test_what_is_no_toml_has_no_lines_and_raises_nothing(text: str) -> None:
    assert isinstance(key_lines(text), dict)


def test_deep_nesting_gives_up() -> None:
    assert key_lines(f"a = {'[' * 10**5}{']' * 10**5}") == {}


KEYS = st.text(alphabet="ab.-_ \"'\\é#=[]{}\n", min_size=1, max_size=6)
TREES = st.dictionaries(
    KEYS,
    st.recursive(
        st.just(0) | st.text(alphabet="ab\"'\\\n#=[]{},", max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=12,
    ),
    max_size=4,
)


def numbered(value: Any, path: Path, found: dict[Path, int]) -> Any:
    """The document with every 0 replaced by a number of its own, noted in ``found`` by its path."""
    if isinstance(value, dict):
        return {key: numbered(item, (*path, key), found) for key, item in value.items()}
    if isinstance(value, list):
        return [numbered(item, (*path, place), found) for place, item in enumerate(value)]
    if value == 0:
        found[path] = 10**6 + len(found)
        return found[path]
    return value


@given(TREES)
def test_generated_documents(tree: dict[str, Any]) -> None:
    numbers: dict[Path, int] = {}
    text = tomli_w.dumps(numbered(tree, (), numbers))
    lines = key_lines(text)
    rows = text.split("\n")
    assert all(str(number) in rows[lines[path] - 1] for path, number in numbers.items())
