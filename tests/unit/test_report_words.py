"""The small parts of what is printed: names, numbers, shares, line breaks, and which language it is in."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from sim.report.chinese import Chinese
from sim.report.english import English
from sim.report.language import from_locale
from sim.report.layout import wrap
from sim.report.names import encodable, fit, hundredths, ms, setting, visible, whole_ns
from sim.report.verdict import percent

NB = "\N{NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0.00"),
        (14_750_000, "14.75"),
        (12_500_000, "12.50"),
        (1, "0.000001"),
        (1_000_100_000, "1000.10"),
        (2**62, "4611686018427.387904"),
    ],
)
def test_ms_are_exact_with_at_least_two_decimals(ns: int, text: str) -> None:
    assert ms(ns) == text


def test_a_fraction_of_a_nanosecond_is_rounded_half_up() -> None:
    assert [whole_ns(Fraction(n, 4)) for n in (5, 6, 7)] == [1, 2, 2]


@pytest.mark.parametrize(
    ("count", "of", "text"),
    [(0, 3, "0.0"), (1, 3, "33.3"), (2, 3, "66.7"), (3, 3, "100.0"), (1, 10**6, "<0.1"), (10**6 - 1, 10**6, ">99.9")],
)
def test_a_share_is_neither_nothing_nor_all_unless_it_is(count: int, of: int, text: str) -> None:
    assert percent(count, of) == f"{text}{NB}%"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("1.0"), "1"),
        (Decimal("1E+2"), "100"),
        (0.25, "0.25"),
        (8, "8"),
        (True, "true"),
        (None, "none"),
        ({"by": "passes", "value": Decimal("2.0")}, "{by = passes, value = 2}"),
    ],
)
def test_settings_are_written_as_one_would_write_them(value: object, text: str) -> None:
    assert setting(value) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("é e\u0301", "é e\u0301"),
        ("\u0301x", r"\u0301x"),
        (" \u0301x", r" \u0301x"),
        ("z\u0301\u0302\u0303", "z\u0301\u0302" + r"\u0303"),
        ("a\x1b[31mb\n", r"a\u001B[31mb\n"),
        ("\u2066a\u2069\u200b\ufeff", r"\u2066a\u2069\u200B\uFEFF"),
        ("a\u3164b", r"a\u3164b"),
        ("שלום", "שלום\u200e"),
    ],
)
def test_what_would_not_be_seen_is_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_text_for_an_encoding_that_lacks_some_of_it() -> None:
    assert encodable("→", "utf-8")
    assert fit("é 1 → 2 …", "latin-1") == "é 1 -> 2 ..."
    assert fit("中", "ascii") == r"\u4e2d"


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("one two three", 7, ["one two", "three"]),
        (f"stall 1.25{NB}→{NB}3.50{NB}ms, all", 12, ["stall", "1.25 → 3.50 ms,", "all"]),
        ("全批结束，提交次数", 8, ["全批结", "束，提交", "次数"]),  # noqa: RUF001
        ("改善（只有一条）", 6, ["改善", "（只有", "一条）"]),  # noqa: RUF001
        ("", 5, [""]),
        ("word", 1, ["word"]),
    ],
)
def test_lines_break_at_spaces_and_between_chinese_characters(text: str, width: int, lines: list[str]) -> None:
    assert list(wrap(text, width)) == lines


@given(st.text(alphabet=f"ab1. 中文，。（）：é{NB}", max_size=40), st.integers(1, 30))  # noqa: RUF001
def test_wrapping_loses_nothing_but_spaces(text: str, width: int) -> None:
    lines = list(wrap(text, width))
    assert "".join(lines).replace(" ", "") == text.replace(NB, "").replace(" ", "")
    assert all(cell_len(line) <= width or " " not in line.replace(NB, "x").strip() or NB in text for line in lines)


@pytest.mark.parametrize(
    ("environ", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh"}, "zh"),
        ({"LANG": "zh_TW"}, "zh"),
        ({"LANG": "ZH_cn.gb18030@x"}, "zh"),
        ({"LANG": "tr_TR.UTF-8"}, "en"),
        ({"LANG": "zha_CN"}, "en"),
        ({"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LC_ALL": "", "LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LC_ALL": "de_DE", "LC_MESSAGES": "zh_CN"}, "en"),
        ({"LC_MESSAGES": "zh_CN", "LANG": "de_DE"}, "zh"),
        ({"LC_CTYPE": "zh_CN.UTF-8"}, "en"),
        ({"LANG": "en_US.UTF-8", "LANGUAGE": "zh_CN:en"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LANGUAGE": "en"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LANGUAGE": "fr:de"}, "zh"),
        ({"LANG": "C.UTF-8", "LANGUAGE": "zh"}, "en"),
        ({"LANG": "POSIX", "LANGUAGE": "zh"}, "en"),
        ({"LANGUAGE": "zh"}, "en"),
    ],
)
def test_the_language_is_that_of_the_locale(environ: dict[str, str], language: str) -> None:
    assert from_locale(environ) == language


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(7), "7.00"),
        (Fraction(1, 200), "0.01"),
        (Fraction(1, 201), "0.00"),
        (Fraction(9999999, 1000), "10,000.00"),
    ],
)
def test_means_have_two_decimals_half_up(value: Fraction, text: str) -> None:
    assert hundredths(value) == text


@pytest.mark.parametrize("attribute", ["label", "metric", "status", "reason", "kept_out_by"])
def test_both_languages_have_the_same_words(attribute: str) -> None:
    english: Any = getattr(English, attribute)
    chinese: Any = getattr(Chinese, attribute)
    assert list(english) == list(chinese)


def test_settings_that_are_tables_are_shown() -> None:
    assert setting({"heavy": 10, "the other": 1}) == '{heavy = 10, "the other" = 1}'
    assert setting({}) == "{}"
    assert setting({"by": "passes", "value": 2}) == "{by = passes, value = 2}"
    assert setting({"a\x1b[31m": 1}) == '{"a\\u001B[31m" = 1}'
    assert len(setting({f"tenant-{n}": n for n in range(100)})) <= 50
