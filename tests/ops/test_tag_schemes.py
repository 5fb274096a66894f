from __future__ import annotations

import itertools

import numpy as np
import pytest

from attention_zoo.ops import TAG_SCHEMES, tag_constraints

TAGS = {
    "BIO": ["O", "B-A", "I-A", "B-B", "I-B"],
    "IOB1": ["O", "B-A", "I-A", "B-B", "I-B"],
    "BIOES": ["O", *(f"{letter}-{kind}" for kind in "AB" for letter in "BIES")],
    "BILOU": ["O", *(f"{letter}-{kind}" for kind in "AB" for letter in "BILU")],
    "BMES": ["O", *(f"{letter}-{kind}" for kind in "AB" for letter in "BMES")],
}


def make_tags(scheme: str, spans: tuple[str, ...]) -> list[str]:
    """Return the tags of spans: each is a type and a length ("A2"), or "O"."""
    tags: list[str] = []
    previous = "O"
    for span in spans:
        if span == "O":
            tags.append("O")
        else:
            kind, size = span[0], int(span[1])
            inner_letter = "M" if scheme == "BMES" else "I"
            end, alone = "LU" if scheme == "BILOU" else "ES"
            if scheme in ("BIOES", "BILOU", "BMES"):
                letters = alone if size == 1 else "B" + inner_letter * (size - 2) + end
            else:
                is_adjacent = previous[0] == kind
                first = "B" if scheme == "BIO" or is_adjacent else "I"
                letters = first + "I" * (size - 1)
            tags += [f"{letter}-{kind}" for letter in letters]
        previous = span
    return tags


def list_valid_sequences(scheme: str, length: int) -> set[tuple[str, ...]]:
    """Return the tags of all divisions of a sentence into spans and outside words."""
    pieces = ["O", *(f"{kind}{size}" for kind in "AB" for size in range(1, length + 1))]
    sequences = set()
    for count in range(length + 1):
        for spans in itertools.product(pieces, repeat=count):
            if sum(1 if span == "O" else int(span[1]) for span in spans) == length:
                sequences.add(tuple(make_tags(scheme, spans)))
    return sequences


@pytest.mark.parametrize("scheme", TAGS)
def test_allowed_sequences_are_those_of_spans(scheme: str) -> None:
    """Checked for all sequences of up to three tags."""
    names = TAGS[scheme]
    constraints = tag_constraints(scheme, names)
    for length in range(4):
        expected = list_valid_sequences(scheme, length)
        got = {
            tuple(names[tag] for tag in tags)
            for tags in itertools.product(range(len(names)), repeat=length)
            if constraints.find_first_violation(tags) is None
        }
        assert got == expected


def test_constraints_equal_hand_computed_values() -> None:
    constraints = tag_constraints("BIO", ["O", "B", "I"])
    assert constraints.transitions.tolist() == [[1, 1, 0], [1, 1, 1], [1, 1, 1]]
    assert constraints.starts.tolist() == [1, 1, 0]
    assert constraints.ends.tolist() == [1, 1, 1]
    constraints = tag_constraints("BMES", list("BMES"))
    assert constraints.transitions.astype(int).tolist() == [
        [0, 1, 1, 0],
        [0, 1, 1, 0],
        [1, 0, 0, 1],
        [1, 0, 0, 1],
    ]
    assert constraints.ends.tolist() == [False, False, True, True]


@pytest.mark.parametrize(
    ("tags", "position"),
    [([], None), ([0, 1], 2), ([2], 0), ([0, 1, 0], 2), ([1, 3, 0], None), ([1, 3], None)],
)
def test_find_first_violation(tags: list[int], position: int | None) -> None:
    constraints = tag_constraints("BIOES", ["O", "B-X", "I-X", "E-X"])
    assert constraints.find_first_violation(tags) == position
    assert constraints.find_first_violation(np.array(tags, "int64")) == position


@pytest.mark.parametrize(
    ("scheme", "tags", "message"),
    [
        ("BIO2", ["O"], "unknown tag scheme 'BIO2'; did you mean 'BIO'"),
        ("BIO", ["O", "E-PER"], r"tag 'E-PER' is not a BIO tag: use 'O', or B, I, alone"),
        ("BIO", ["O", "NOUN"], "tag 'NOUN' is not a BIO tag"),
        ("BIO", ["O", "B-"], "tag 'B-' is not a BIO tag"),
        ("BIO", ["O-PER"], "tag 'O-PER' is not a BIO tag"),
        ("BIO", [""], "tag '' is not a BIO tag"),
        ("BIO", ["O", "B-X", "O"], "tag 'O' is listed twice"),
        ("BIO", ["O", "B-PER", "I-LOC"], "tag 'I-LOC' cannot occur in any BIO sequence"),
        ("IOB1", ["O", "B-PER"], "tag 'B-PER' cannot occur in any IOB1 sequence"),
        ("BIOES", ["O", "B-PER", "I-PER"], "tag 'B-PER' cannot occur in any BIOES sequence"),
        ("BIOES", ["O", "E-PER"], "tag 'E-PER' cannot occur in any BIOES sequence"),
    ],
)
def test_invalid_tags_raise(scheme: str, tags: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        tag_constraints(scheme, tags)
    assert "\n" not in str(error.value)


def test_types_may_contain_dashes_and_unneeded_tags_may_be_missing() -> None:
    constraints = tag_constraints("BIO", ["O", "B-work-of-art", "B-x", "I-x"])
    assert constraints.find_first_violation([1, 2, 3, 0]) is None
    assert constraints.find_first_violation([1, 3]) == 1
    assert tag_constraints("BIO", []).transitions.shape == (0, 0)


@pytest.mark.parametrize(
    ("name", "scheme"),
    [("IOB2", "BIO"), ("iob2", "BIO"), ("bilou", "BILOU"), ("BIOUL", "BILOU"), ("IOBES", "BIOES")],
)
def test_other_names_of_schemes(name: str, scheme: str) -> None:
    """Case is ignored."""
    for got, expected in zip(
        tag_constraints(name, TAGS[scheme]), tag_constraints(scheme, TAGS[scheme]), strict=True
    ):
        np.testing.assert_array_equal(got, expected)


def test_schemes_are_registered() -> None:
    assert set(TAGS) <= set(TAG_SCHEMES.names())
