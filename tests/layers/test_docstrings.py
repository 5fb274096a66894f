"""The docstring check accepts a paper with section or equation, or this library."""

from __future__ import annotations

import pytest

from tests.layers.layer_conformance import check_docstring

DOC = """A score.

`score(q, k) = q . k`

Args:
    units: number of units.

Reference:
    {}
"""


def documented(reference: str) -> type:
    class Layer:
        __doc__ = DOC.format(reference)

        def __init__(self, units: int) -> None:
            self.units = units

    return Layer


@pytest.mark.parametrize(
    "reference",
    ["This library.", "this library", "Luong et al. 2015, arXiv 1508.04025, section 3.1."],
)
def test_reference_is_accepted(reference: str) -> None:
    check_docstring(documented(reference), ("Args",), formula=True)


@pytest.mark.parametrize(
    "reference", ["Luong et al. 2015, arXiv 1508.04025.", "Section 3.1 of this library.", "None."]
)
def test_reference_without_a_section_is_reported(reference: str) -> None:
    with pytest.raises(AssertionError):
        check_docstring(documented(reference), ("Args",), formula=True)
