"""`predict` on files: one line a line, pictures, n-best, and mistakes by file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from attention_zoo import models, tasks
from attention_zoo.cli import main
from attention_zoo.data import generate_dates, train_tokenizer
from tests.tasks import captioners, retrievers
from tests.tasks.summarizers import untrained
from tests.training.small import small_run

Capture = pytest.CaptureFixture[str]
LINES = generate_dates(5, split="test", max_phrases=1).sources


def predict(capsys: Capture, folder: Path, content: bytes, *words: str) -> tuple[int, str, str]:
    """The command on a file of this content."""
    path = folder / "in.txt"
    path.write_bytes(content)
    run = str(small_run())
    capsys.readouterr()  # what its training printed, where this test is the first to need it
    code = main(["predict", run, str(path), *words])
    return code, *capsys.readouterr()


@pytest.mark.full
def test_one_line_a_line(tmp_path: Path, capsys: Capture) -> None:
    expected = [answer.text for answer in tasks.load(small_run()).predict(LINES, beam_width=2)]
    for end in ("\n", "\r\n"):
        content = end.join(LINES).encode() + end.encode()
        code, out, err = predict(
            capsys, tmp_path, content, "search.beam_width=2", "--allow-unknown"
        )
        assert code == 0, err
        assert out.split("\n") == [*expected, ""]
    content = b"\xef\xbb\xbf" + "\n".join(LINES).encode()
    assert predict(capsys, tmp_path, content, "search.beam_width=2", "--allow-unknown")[1] == out


def test_only_a_line_feed_ends_a_line(tmp_path: Path, capsys: Capture) -> None:
    content = "it is\u2028five\n".encode()
    _, out, _ = predict(capsys, tmp_path, content, "--allow-unknown")
    assert out.count("\n") == 1


@pytest.mark.full
def test_n_best(tmp_path: Path, capsys: Capture) -> None:
    content = "\n".join(LINES[:2]).encode()
    words = ("--n-best", "search.beam_width=3", "--allow-unknown")
    code, out, err = predict(capsys, tmp_path, content, *words)
    assert code == 0, err
    rows = [line.split("\t") for line in out.splitlines()]
    assert [row[0] for row in rows] == ["1"] * 3 + ["2"] * 3
    scores = [float(row[1]) for row in rows]
    assert scores[:3] == sorted(scores[:3], reverse=True)
    _, out, _ = predict(capsys, tmp_path, content, *words, "search.n_best=2")
    assert len(out.splitlines()) == 4


@pytest.mark.full
def test_pictures(tmp_path: Path, capsys: Capture) -> None:
    words = ("--attention", str(tmp_path / "out.png"), "--allow-unknown")
    one, two = LINES[0].encode(), "\n".join(LINES[:2]).encode()
    assert predict(capsys, tmp_path, one, *words)[0] == 0
    assert predict(capsys, tmp_path, two, *words)[0] == 0
    for name in ("out.png", "out-1.png", "out-2.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


MISTAKES = {
    "empty file": (b"", (), "in.txt: is empty; give one text a line"),
    "empty line": (b"on\n\non\n", (), "in.txt:2: is empty; there is nothing to translate"),
    "not UTF-8": (b"on\non \xff\n", (), "in.txt:2: byte 4 of the line is not UTF-8"),
    "too long": (b"on\n" + b"on " * 300, (), "in.txt:2: 300 tokens, the limit is 256"),
    "limit": (b"on on on", ("data.max_source_length=2",), "in.txt:1: 3 tokens, the limit is 2"),
    "unknown character": ("on\non ☃".encode(), (), "in.txt:2: the model has never seen '☃'"),
    "unknown key": (b"on", ("search.beam=2",), "search.beam=2: unknown key 'search.beam'"),
    "wrong type": (
        b"on",
        ("search.beam_width=x",),
        "search.beam_width=x: search.beam_width: Value",
    ),
    "no such token": (
        b"on",
        ("search.banned_tokens=[99999]",),
        "error: banned_tokens names token 99999 but step gives logits of",
    ),
    "wrong section": (b"on", ("training.steps=2",), "training.steps=2: predict takes search. and"),
    "no page": (b"on", ("--html", "a.html"), "--html a.html: task translation has no page, tag"),
    "no such picture": (b"on", ("--attention", "a.xyz"), "a.xyz: no picture is of kind .xyz; name"),
    "no folder": (b"on", ("--attention", "no/a.png"), "no/a.png: there is no folder no; make it"),
    "no folder of a page": (
        b"on",
        ("--html", "no/a.html"),
        "no/a.html: there is no folder no; make",
    ),
    "two files": (b"on", ("other.txt",), "other.txt: predict reads one file"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, tmp_path: Path, capsys: Capture) -> None:
    content, words, message = MISTAKES[name]
    code, out, err = predict(capsys, tmp_path, content, *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_no_such_file(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "in.txt").write_text("on")
    assert main(["predict", str(small_run()), str(tmp_path / "in.tx")]) == 2
    assert "in.tx: no such file; did you mean" in capsys.readouterr().err


@pytest.mark.full
def test_unknown_words_are_named_beside_the_answer(tmp_path: Path, capsys: Capture) -> None:
    known, strange = LINES[0].encode(), b"qqq " + LINES[0].encode()
    assert predict(capsys, tmp_path, known, "--allow-unknown")[2] == ""
    code, out, err = predict(capsys, tmp_path, strange, "--allow-unknown")
    assert code == 0
    assert out.count("\n") == 1
    assert "in.txt:1: of " in err
    assert err.rstrip().endswith("number 1")


def test_models_that_read_marked_words_answer_no_lines(tmp_path: Path, capsys: Capture) -> None:
    tokenizer = train_tokenizer("whitespace", ["a b"], 10)
    model = models.RecurrentTagger(6, ["O"], embedding_dim=4, units=4, marks=True)
    tasks.Tagging(model, tokenizer).save(tmp_path / "task")
    (tmp_path / "in.txt").write_text("a b")
    assert main(["predict", str(tmp_path / "task"), str(tmp_path / "in.txt")]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "error: this model reads marked words, which a line of text cannot tell" in err


@pytest.mark.full
def test_summaries_have_a_page_and_pictures(tmp_path: Path, capsys: Capture) -> None:
    texts = ["a fire in Tromak hurts Ilda", "no fire ."]
    untrained(texts, max_source_length=6).save(tmp_path / "run")
    (tmp_path / "in.txt").write_text("a fire in Nemo hurts Sarno .\nno fire\n")
    files = [str(tmp_path / name) for name in ("out.html", "out.png")]
    shown = ["--html", files[0], "--attention", files[1], "data.max_target_length=3"]
    words = ["predict", str(tmp_path / "run"), str(tmp_path / "in.txt"), *shown]
    assert main(words) == 2
    assert "in.txt:1: 7 tokens, the limit is 6;" in capsys.readouterr().err
    code = main([*words, "data.cut_source=true", "search.min_length=3"])
    out, err = capsys.readouterr()
    assert (code, out.count("\n")) == (0, 2), err
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert page.count("<article") == 2
    assert "Nemo" in page
    for name in ("out-1.png", "out-2.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_attention_of_a_tagger_is_drawn_as_one_picture(tmp_path: Path, capsys: Capture) -> None:
    tokenizer = train_tokenizer("whitespace", ["a b"], 10)
    looking = {"attention": {"num_heads": 2, "key_dim": 2}}
    model = models.RecurrentTagger(6, ["O", "X"], embedding_dim=4, units=4, **looking)
    tasks.Tagging(model, tokenizer).save(tmp_path / "task")
    (tmp_path / "in.txt").write_text("a b")
    words = [str(tmp_path / "task"), str(tmp_path / "in.txt"), "--attention"]
    assert main(["predict", *words, str(tmp_path / "out.png")]) == 0
    assert capsys.readouterr().out.count("/") == 2
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.full
def test_lines_are_paths_of_images_where_captions_are_written(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = captioners.untrained()
    task.save(tmp_path / "run")
    for name, kind in (("a b.png", "PNG"), ("c.jpg", "JPEG")):
        image = captioners.encoded(captioners.picture(len(name)), kind)
        (tmp_path / name).write_bytes(image)
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("a b.png\nc.jpg\n")
    shown = ["--html", "out.html", "--attention", "out.png", "search.min_length=3"]
    code = main(["predict", "run", "in.txt", *shown])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    expected = [one.text for one in task.predict(["a b.png", "c.jpg"], min_length=3)]
    assert out.splitlines() == expected
    assert Path("out.html").read_text(encoding="utf-8").count("<article") == 2
    for name in ("out-1.png", "out-2.png"):
        assert Path(name).read_bytes().startswith(b"\x89PNG")
    captioners.untrained(look="pooled").save(tmp_path / "pooled")
    assert main(["predict", "pooled", "in.txt", "--attention", "none.png"]) == 2
    message = "attention-zoo: error: --attention none.png: this model has no attention to draw\n"
    assert capsys.readouterr() == ("", message)
    Path("cut.png").write_bytes(Path("a b.png").read_bytes()[:60])
    for line, message in (
        ("no.png", "in.txt:2: no.png: No such file or directory"),
        ("cut.png", "in.txt:2: cut.png: the PNG data is damaged or cut; fetch it again"),
        ("", "in.txt:2: is empty; give the path of an image"),
    ):
        Path("in.txt").write_text(f"c.jpg\n{line}\n")
        assert main(["predict", "run", "in.txt"]) == 2
        assert capsys.readouterr() == ("", f"attention-zoo: error: {message}\n")


@pytest.mark.full
def test_lines_seek_among_the_images_of_a_folder(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = retrievers.untrained()
    task.save(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    Path("all/more").mkdir(parents=True)
    names = [Path("all/b.PNG"), Path("all/more/a.jpg"), Path("all/z.jpeg")]
    for number, name in enumerate(names):
        kind = "PNG" if name.suffix == ".PNG" else "JPEG"
        name.write_bytes(captioners.encoded(captioners.picture(number), kind))
    Path("all/list.txt").touch()
    texts = retrievers.TEXTS[:2]
    Path("in.txt").write_text("\n".join(texts))
    shown = ["--images", "all", "--attention", "out.png"]
    code = main(["predict", "run", "in.txt", *shown, "--n-best", "search.beam_width=3"])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    expected = task.predict(texts, index=task.index(names), n_best=3)
    assert [line.split("\t")[2] for line in out.splitlines()] == [
        one.text for answer in expected for one in (answer, *answer.alternatives)
    ]
    for name in ("out-1.png", "out-2.png"):
        assert Path(name).read_bytes().startswith(b"\x89PNG")
    assert main(["predict", "run", "in.txt", *shown[:2], "--n-best", "search.n_best=3"]) == 0
    assert capsys.readouterr() == (out, "")
    Path("none").mkdir()
    Path("blank.txt").write_text("\n")
    captioners.untrained().save(tmp_path / "captioner")
    for words, message in (
        (["run", "in.txt"], "retrieval seeks among images; add --images FOLDER"),
        (["run", "in.txt", "--images", "no"], "--images no: no such folder"),
        (["run", "in.txt", "--images", "none"], "--images none: no file there ends in .jpg, "),
        (["run", "blank.txt", "--images", "all"], "blank.txt:1 has no words: ''"),
        (["captioner", "in.txt", "--images", "all"], "--images all: captioning seeks among no"),
    ):
        assert main(["predict", *words]) == 2
        assert capsys.readouterr()[1].startswith(f"attention-zoo: error: {message}")
    names[2].write_bytes(b"no image")
    assert main(["predict", "run", "in.txt", "--images", "all"]) == 2
    assert "all/z.jpeg: " in capsys.readouterr()[1]
