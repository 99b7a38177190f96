"""The language of what is printed when nobody says: that of the locale."""

import os
import re
from collections.abc import Mapping

ENGLISH, CHINESE = "en", "zh"


def from_locale(environ: Mapping[str, str] = os.environ) -> str:
    """``zh`` where the environment asks for Chinese, else ``en``.

    By POSIX: the first of LC_ALL, LC_MESSAGES and LANG that is set and not empty names the locale. LANGUAGE, a list
    by preference, goes before it, but not where the locale is C (or none).
    """
    locale = next(filter(None, (environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))), "C")
    if re.fullmatch(r"(C|POSIX)(\..*)?", locale):
        return ENGLISH
    for wish in (*environ.get("LANGUAGE", "").split(":"), locale):
        spoken = re.match(r"(zh|en)(?![a-z])", wish, re.IGNORECASE | re.ASCII)
        if spoken:
            return spoken[1].lower()
    return ENGLISH
