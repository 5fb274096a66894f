"""Fonts for characters that matplotlib's default font lacks, such as Chinese."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Iterable
from pathlib import Path

from attention_zoo.extras import explain_missing_package

_OWN = "DejaVu Sans"
_UNUSUAL = re.compile("bold|black|heavy|light|thin|italic|oblique", re.IGNORECASE)
_LIKELY = re.compile(
    r"cjk|noto.*sans|source.?han|wqy|simhei|simsun|msyh|yahei|pingfang|hiragino|heiti|uming|ukai|"
    r"droid.*fallback|arial.?unicode|nanum|gothic|unifont",
    re.IGNORECASE,
)


def list_fonts() -> list[str]:
    """Return installed font files, those with many scripts first, then those of regular style."""
    with explain_missing_package():
        from matplotlib import font_manager

    def rank(path: str) -> tuple[bool, bool, str]:
        name = Path(path).name
        return not _LIKELY.search(name), bool(_UNUSUAL.search(name)), path

    return sorted(font_manager.findSystemFonts(), key=rank)


def find_families(labels: Iterable[str]) -> list[str]:
    """Return font families that together cover the labels, matplotlib's default first.

    One warning lists the characters that no installed font can draw.
    """
    with explain_missing_package():
        from matplotlib import font_manager

    families = [_OWN]
    missing = {ord(c) for label in labels for c in label if c.isprintable()}
    missing -= _read_characters(font_manager.findfont(_OWN))
    for path in list_fonts() if missing else []:
        covered = missing & _read_characters(path)
        if covered:
            if path not in {font.fname for font in font_manager.fontManager.ttflist}:
                font_manager.fontManager.addfont(path)
            families.append(font_manager.get_font(path).family_name)
            missing -= covered
        if not missing:
            break
    if missing:
        shown = "".join(sorted(map(chr, missing))[:10])
        warnings.warn(
            f"no installed font can draw {len(missing)} of the characters ({shown}): "
            "install one that does, such as Noto Sans CJK",
            stacklevel=3,
        )
    return families


@functools.cache
def _read_characters(path: str) -> frozenset[int]:
    """Return the code points of a font file; none if matplotlib cannot read or scale it."""
    with explain_missing_package():
        from matplotlib import font_manager

    try:
        font = font_manager.get_font(path)
    except (OSError, RuntimeError):
        return frozenset()
    return frozenset(font.get_charmap() if font.scalable else ())
