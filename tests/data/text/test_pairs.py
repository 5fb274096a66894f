import gzip

import pytest

from attention_zoo.data import TextPairs, read_jsonl, read_parallel, read_tsv
from tests.refusals import refuses

GOOD = 'id\ten\tde\n1\tA "red" kite.\tEin „roter“ Drachen.\n2\tIt flies\u2028high.\tEr fliegt.\n'


@pytest.fixture
def write_file(tmp_path):
    def write_file(content, name="pairs.tsv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


def test_read_tsv_reads_named_columns(write_file):
    pairs = read_tsv(write_file(GOOD), "de", "en")
    assert pairs.sources == ["Ein „roter“ Drachen.", "Er fliegt."]
    assert pairs.targets == ['A "red" kite.', "It flies\u2028high."]
    assert len(pairs) == 2
    assert "pairs.tsv" in pairs.origin
    assert read_tsv(write_file(GOOD), "en", "de").sources == pairs.targets


VARIANTS = {
    "gzip": gzip.compress(GOOD.encode()),
    "byte order mark": b"\xef\xbb\xbf" + GOOD.encode(),
    "gzipped byte order mark": gzip.compress(b"\xef\xbb\xbf" + GOOD.encode()),
    "carriage returns": GOOD.replace("\n", "\r\n").encode(),
    "no last line end": GOOD.rstrip("\n").encode(),
}


@pytest.mark.parametrize("raw", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.tsv.gz"])
def test_encodings_of_a_file_give_equal_pairs(write_file, raw, name):
    expected = read_tsv(write_file(GOOD, "plain.tsv"), "id", "de")
    pairs = read_tsv(write_file(raw, name), "id", "de")
    assert (pairs.sources, pairs.targets) == (expected.sources, expected.targets)
    assert pairs.sources == ["1", "2"]


@refuses(
    (b"", r"pairs\.tsv:1: no header"),
    (gzip.compress(b""), r"pairs\.tsv:1: no header"),
    (b"en\tde\n", r"pairs\.tsv: no pairs"),
    (b"eng\tde\na\tb\n", r":1: column 'en' is missing in the header; did you mean 'eng'"),
    (b"en\tde\ten\na\tb\tc\n", r":1: column 'en' is repeated in the header"),
    (b"en\tde\na\tb\nc\n", r":3: expected 2 tab-separated columns, .*, got 1"),
    (b"en\tde\na\tb\tc\n", r":2: expected 2 tab-separated columns, .*, got 3"),
    (b"en\tde\na\tb\n\nc\td\n", r":3: expected 2 tab-separated columns, .*, got 1"),
    (b"en\tde\na\tb\nc\td\xe9\n", r":3: not valid UTF-8 at byte 4"),
    (b"en\td\xe9\na\tb\n", r":1: not valid UTF-8"),
    (b"en\tde\n\tb\n", r":2: the field 'en' is empty"),
    (b"en\tde\na\t \n", r":2: the field 'de' is empty"),
    (gzip.compress(GOOD.encode())[:-9], r"pairs\.tsv: the gzip data is damaged or truncated"),
    (b"\x1f\x8b\x08\x00rubbish rubbish", r"the gzip data is damaged or truncated"),
)
def test_invalid_tsv_raises_with_line(raw, write_file):
    read_tsv(write_file(raw), "en", "de")


def test_missing_file_and_folder_raise(tmp_path):
    with pytest.raises(ValueError, match=r"none\.tsv: No such file"):
        read_tsv(tmp_path / "none.tsv", "en", "de")
    with pytest.raises(ValueError, match="Is a directory"):
        read_tsv(tmp_path, "en", "de")


def test_skip_bad_limits_the_skipped_lines(write_file):
    path = write_file(b"en\tde\na\tb\nragged\nc\t\xff\n\td\ne\tf\n")
    with pytest.raises(ValueError, match=r":3: .*skip_bad=1 or more"):
        read_tsv(path, "en", "de")
    with pytest.raises(ValueError, match=r":5: .*skip_bad=3 or more"):
        read_tsv(path, "en", "de", skip_bad=2)
    pairs = read_tsv(path, "en", "de", skip_bad=3)
    assert (pairs.sources, pairs.targets, pairs.skipped) == (["a", "e"], ["b", "f"], 3)


def test_all_lines_skipped_raises(write_file):
    with pytest.raises(ValueError, match=r"no pairs \(bad rows skipped: 1\)"):
        read_tsv(write_file(b"en\tde\nragged\n"), "en", "de", skip_bad=5)


def test_read_parallel_pairs_lines(write_file):
    english = write_file(b"\xef\xbb\xbfone\ttab\r\ntwo\n", "a.en")
    german = write_file(gzip.compress("eins\nzwei\u2028\n".encode()), "b.de.gz")
    pairs = read_parallel(english, german)
    assert pairs.sources == ["one\ttab", "two"]
    assert pairs.targets == ["eins", "zwei\u2028"]
    assert "a.en" in pairs.origin
    assert "b.de.gz" in pairs.origin


def test_read_parallel_skips_pairs_with_a_bad_line(write_file):
    paths = write_file(b"a\n\nc\nd\n", "a.en"), write_file(b"w\nx\n\xe9\nz\n", "b.de")
    pairs = read_parallel(*paths, skip_bad=2)
    assert (list(pairs), pairs.skipped) == ([("a", "w"), ("d", "z")], 2)
    with pytest.raises(ValueError, match=r"b\.de:3: not valid UTF-8.*data\.skip_bad=2 or more"):
        read_parallel(*paths, skip_bad=1)
    twice = read_parallel([paths[0]] * 2, [paths[1]] * 2, skip_bad=4)
    assert list(twice) == [*pairs, *pairs]
    with pytest.raises(ValueError, match="got 2 files of sources and 1 of targets"):
        read_parallel([paths[0]] * 2, paths[1])


@refuses(
    (b"a\nb\nc\n", b"a\nb\n", r"a\.en has 3 lines and .*b\.de has 2"),
    (b"a\nb\nc\n", b"\nb\n", r"a\.en has 3 lines and .*b\.de has 2"),
    (b"", b"a\n", r"a\.en: the file is empty"),
    (b"a\n", b"", r"b\.de: the file is empty"),
    (b"a\n\nc\n", b"a\nb\nc\n", r"a\.en:2: the line is empty"),
    (b"a\nb\n", b"a\n \t\n", r"b\.de:2: the line is empty"),
    (b"a\nb\n", b"a\n\xe9\n", r"b\.de:2: not valid UTF-8"),
)
def test_invalid_parallel_files_raise(source, target, write_file):
    read_parallel(write_file(source, "a.en"), write_file(target, "b.de"))


def test_different_numbers_of_sources_and_targets_raise():
    with pytest.raises(ValueError, match=r"mine: .*, got 2 sources, 1 targets"):
        TextPairs(["a", "b"], ["c"], "mine")


def test_iteration_and_take() -> None:
    pairs = TextPairs(["a", "b", "c"], ["x", "y", "z"], "here", skipped=1)
    assert list(pairs) == [("a", "x"), ("b", "y"), ("c", "z")]
    assert pairs.take([2, 0]) == TextPairs(["c", "a"], ["z", "x"], "here", skipped=1)


ROWS = [
    '{"id": 1, "text": "A kite.\\nIt flies.", "title": "Kite"}',
    '{"text": ["We fly.", "They stay."], "title": ["Flying", "Our kites"], "id": null}',
]


@pytest.mark.parametrize("is_gzipped", [False, True])
def test_read_jsonl_reads_named_fields(write_file, is_gzipped):
    raw = b"\xef\xbb\xbf" + "\r\n".join(ROWS).encode()
    pairs = read_jsonl(
        write_file(gzip.compress(raw) if is_gzipped else raw, "a.jsonl"), "text", "title"
    )
    assert pairs.sources == ["A kite.\nIt flies.", "We fly. They stay."]
    assert pairs.targets == ["Kite", "Flying"]
    assert pairs.references == [("Kite",), ("Flying", "Our kites")]
    assert pairs.take([1]).references == [("Flying", "Our kites")]
    assert read_jsonl(write_file(ROWS[0], "b.jsonl"), "text", "title").references is None
    assert read_jsonl(write_file(ROWS[0], "b.jsonl"), "title", "text").sources == ["Kite"]


@refuses(
    (b"{'a': 1}", r":2: not valid JSON: Expecting property name .* at character 2"),
    (b"", r":2: not valid JSON: Expecting value at character 1"),
    (b"[" * 100_000, r":2: not valid JSON: nested too deeply"),
    (b"9" * 5000, r":2: not valid JSON: a number has too many digits"),
    (b"[1]", r":2: not a JSON object; expected \{...\}"),
    (b'{"text": "a", "text": "b", "title": "c"}', r":2: field 'text' is repeated; keep one"),
    (b'{"txt": "a"}', r":2: has no field 'text'; did you mean 'txt'\? \(fields: txt\)"),
    (b'{"text": 3, "title": "b"}', r":2: field 'text' must be a string or a list"),
    (b'{"text": "a", "title": null}', r":2: field 'title' must be a string or"),
    (b'{"text": [["a"]], "title": "b"}', r":2: field 'text' must be a string or"),
    (b'{"text": " ", "title": "b"}', r":2: the field 'text' is empty"),
    (b'{"text": "a", "title": []}', r":2: the field 'title' is empty"),
    (b'{"text": "a", "title": ["b", ""]}', r":2: the field 'title' is empty"),
    (b'{"text": "\\ud800", "title": "b"}', r":2: field 'text' is not valid Unicode"),
    (b'{"text": "caf\xe9"}', r":2: not valid UTF-8 at byte 14"),
)
def test_invalid_json_line_raises_with_location(line, write_file):
    path = write_file(ROWS[0].encode() + b"\n" + line + b"\n" + ROWS[1].encode(), "a.jsonl")
    try:
        pairs = read_jsonl(path, "text", "title", skip_bad=1)
    except ValueError:
        pytest.fail("skip_bad=1 did not skip the line")
    assert len(pairs) == 2
    read_jsonl(path, "text", "title")


def test_empty_or_missing_jsonl_raises(write_file):
    with pytest.raises(ValueError, match=r"a\.jsonl: no pairs"):
        read_jsonl(write_file(b"", "a.jsonl"), "text", "title")
    with pytest.raises(ValueError, match=r"none\.jsonl: No such file"):
        read_jsonl("none.jsonl", "text", "title")
