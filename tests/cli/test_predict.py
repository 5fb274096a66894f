"""`predict` on files: one line a line, pictures, n-best, and mistakes by file and line."""

from __future__ import annotations

import json
import shutil
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attention_zoo import models, tasks
from attention_zoo.cli import predict as command
from attention_zoo.data import generate_dates, train_tokenizer
from tests.cli.test_main import Capture, output, refused, run
from tests.tasks import captioners, retrievers
from tests.tasks.summarizers import make_untrained_task
from tests.training.small import small_run

LINES = generate_dates(5, split="test", max_phrases=1).sources


def predict(capsys: Capture, folder: Path, content: bytes, *words: str) -> tuple[int, str, str]:
    """Run `predict` on a file with this content."""
    (folder / "in.txt").write_bytes(content)
    return run(capsys, "predict", small_run(), folder / "in.txt", *words)


def test_dtype(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []
    load = tasks.load

    def record(*arguments: Any) -> Any:
        loaded.append(load(*arguments))
        return loaded[-1]

    monkeypatch.setattr(tasks, "load", record)
    code, out, _ = predict(capsys, tmp_path, LINES[0].encode(), "--dtype", "mixed_bfloat16")
    assert (code, out.count("\n")) == (0, 1)
    assert loaded[0].model.dtype_policy.name == "mixed_bfloat16"
    code, _, err = predict(capsys, tmp_path, LINES[0].encode(), "--dtype", "half")
    assert code == 2
    assert "dtype must be one of float32, float16, mixed_float16, mixed_bfloat16, got 'half'" in err


@pytest.mark.full
def test_one_output_line_per_input_line(tmp_path: Path, capsys: Capture) -> None:
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
def test_attention_plots(tmp_path: Path, capsys: Capture) -> None:
    words = ("--attention", str(tmp_path / "out.png"), "--allow-unknown")
    one, two = LINES[0].encode(), "\n".join(LINES[:2]).encode()
    assert predict(capsys, tmp_path, one, *words)[0] == 0
    assert predict(capsys, tmp_path, two, *words)[0] == 0
    for name in ("out.png", "out-1.png", "out-2.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("content", "words", "message"),
    [
        (b"", "", "in.txt: is empty; give one text per line"),
        (b"on\n\non\n", "--strict", "in.txt:2: the text is empty"),
        (b"on\non \xff\n", "--strict", "in.txt:2: not valid UTF-8 at byte 4; convert"),
        (b"on\n" + b"on " * 300, "--strict", "in.txt:2: 300 tokens, the limit is 256"),
        (b"on on on", "data.max_source_length=2 --strict", "in.txt:1: 3 tokens, the limit is 2"),
        ("on\non ☃".encode(), "--strict", "in.txt:2: unknown characters '☃'; remove"),
        (b"on", "--batch-size 0", "--batch-size must be at least 1, got 0"),
        (
            b"on",
            "--pretokenized",
            "--pretokenized: task translation takes texts, not words; remove the option",
        ),
        (
            b"on",
            "--format conll",
            "in.txt: format conll: task translation takes texts, not words; pass a file",
        ),
        (b"on", "search.beam=2", "search.beam=2: unknown key 'search.beam'"),
        (b"on", "search.beam_width=x", "search.beam_width=x: search.beam_width: Value"),
        (b"on", "search.banned_tokens=[99999]", "error: banned_tokens must be ids from 0 to"),
        (b"on", "training.steps=2", "training.steps=2: predict takes search. and"),
        (b"on", "--attention a.xyz", "a.xyz: unknown image format .xyz; use"),
        (b"on", "--attention no/a.png", "no/a.png: folder no does not exist; create it"),
        (b"on", "--html no/a.html", "no/a.html: folder no does not exist; create"),
        (b"on", "other.txt", "predict reads one file, got 2; pass one"),
    ],
)
def test_errors(content: bytes, words: str, message: str, tmp_path: Path, capsys: Capture) -> None:
    code, out, err = predict(capsys, tmp_path, content, *words.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_bad_line_has_an_empty_line(tmp_path: Path, capsys: Capture) -> None:
    code, out, err = predict(capsys, tmp_path, b"on\n\non\n", "search.max_length=1")
    lines = out.split("\n")
    assert (code, lines[1], len(lines)) == (0, "", 4)
    assert lines[0] == lines[2]
    message = f"skipped 1 of 3 inputs; the first: {tmp_path / 'in.txt'}:2: the text is empty. Rem"
    assert err.startswith(message)


@pytest.mark.full
def test_bad_lines_are_skipped(tmp_path: Path, capsys: Capture) -> None:
    """Each has an empty line of output, and does not affect the others."""
    lines = [LINES[0].encode(), b"", b"on \xff", b"on " * 300, "on \u2603".encode(), b"on"]
    expected = predict(capsys, tmp_path, b"\n".join([lines[0], lines[5]]))
    assert expected[0] == 0
    first, last = expected[1].splitlines()
    for options in ((), ("--batch-size", "1")):
        code, out, err = predict(capsys, tmp_path, b"\n".join(lines), *options)
        assert (code, out.split("\n")) == (0, [first, "", "", "", "", last, ""])
        where = f"{tmp_path / 'in.txt'}:2"
        assert f"skipped 4 of 6 inputs; the first: {where}: the text is empty. Remove it" in err
        assert err.count("skipped 4 of 6") == 1
    code, out, err = predict(capsys, tmp_path, lines[4], "--allow-unknown")
    assert (code, len(out.splitlines())) == (0, 1)


@pytest.mark.full
def test_n_best_of_the_search_is_printed(tmp_path: Path, capsys: Capture) -> None:
    code, out, err = predict(capsys, tmp_path, LINES[0].encode(), "search.n_best=3")
    assert code == 0, err
    assert [line.split("\t")[0] for line in out.splitlines()] == ["1"] * 3
    message = refused(capsys, "predict", small_run(), tmp_path / "in.txt", "search.temperature=2")
    assert "temperature applies to method 'sampling' only" in message


@pytest.mark.full
def test_lines_of_a_pipe_are_predicted_as_they_arrive(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second line arrives when the first one was predicted."""
    predicted, print_result = threading.Event(), command._print
    in_time = []

    def read() -> Iterator[bytes]:
        yield b"on\n"
        in_time.append(predicted.wait(timeout=60))
        yield b"on on\n"

    def record(*arguments: Any, **options: Any) -> None:
        print_result(*arguments, **options)
        predicted.set()

    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=read()))
    monkeypatch.setattr(command, "_print", record)
    code, out, _ = run(capsys, "predict", small_run())
    assert (code, out.count("\n"), in_time) == (0, 2, [True])


@pytest.mark.full
def test_fields_of_files(tmp_path: Path, capsys: Capture) -> None:
    """The results are those of the texts in the files, which `train` reads too."""
    texts = LINES[:2]
    _, expected, _ = predict(capsys, tmp_path, "\n".join(texts).encode())
    files = {
        "in.jsonl": "".join(json.dumps({"id": 1, "source": text}) + "\n" for text in texts),
        "in.tsv": "id\tsource\n" + "".join(f"1\t{text}\n" for text in texts),
        "in.csv": "id,source\n" + "".join(f'1,"{text}"\n' for text in texts),
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
        assert run(capsys, "predict", small_run(), tmp_path / name)[:2] == (0, expected)


def make_tagger(folder: Path) -> None:
    tokenizer = train_tokenizer("whitespace", ["a b"], 10)
    model = models.RecurrentTagger(6, ["O", "X"], embedding_dim=4, units=4)
    tasks.Tagging(model, tokenizer).save(folder)


@pytest.mark.full
def test_words_of_a_tagger(tmp_path: Path, capsys: Capture, monkeypatch: Any) -> None:
    make_tagger(tmp_path / "task")
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("a, b\n")
    Path("in.conll").write_text("a X\n, O\nb O\n\nb X\n")
    split, whole = (
        output(capsys, "predict", "task", "in.txt", "--allow-unknown", *words).split()
        for words in ((), ("--pretokenized",))
    )
    assert [word.rsplit("/", 1)[0] for word in split] == ["a", ",", "b"]
    assert [word.rsplit("/", 1)[0] for word in whole] == ["a,", "b"]
    lines = output(capsys, "predict", "task", "in.conll", "--allow-unknown").split("\n")
    tags = [word.rsplit("/", 1)[1] for word in split]
    assert lines[:4] == [f"a X {tags[0]}", f", O {tags[1]}", f"b O {tags[2]}", ""]
    assert lines[4].startswith("b X ")
    assert lines[5:] == ["", ""]
    for option in ("beam_width", "min_length"):
        message = refused(capsys, "predict", "task", "in.txt", f"search.{option}=3")
        assert f"search option {option} has no effect in task tagging; remove it (used: " in message


@pytest.mark.full
def test_conll_files_are_printed_with_all_lines(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The options of the recipe apply, and a bad line does not affect other sentences."""
    make_tagger(tmp_path / "task")
    monkeypatch.chdir(tmp_path)
    Path("task/recipe.yaml").write_text(
        "data: {corpus: conll, test: a.testb, words: 1, comment: '%'}"
    )
    start, sentences = "-DOCSTART- -X- -X- O", ["% x", "1 a O", "2 b O", "", "1 a O", "b", ""]
    Path("eng.testb").write_text("\n".join([start, "", *sentences]))
    words = ["predict", "task", "eng.testb"]
    code, out, err = run(capsys, *words)
    lines = out.splitlines()
    assert (code, lines[:3], lines[5:]) == (0, [start, "", "% x"], ["", "1 a O _", "b _", ""])
    assert [line[:-1] for line in lines[3:5]] == ["1 a O ", "2 b O "]
    assert err.startswith(
        "skipped 1 of 2 inputs; the first: eng.testb:8: expected 3 columns, as in"
    )
    assert "eng.testb:8: expected" in refused(capsys, *words, "--strict")
    assert "--n-best: words of a CoNLL file get one tag" in refused(capsys, *words, "--n-best")
    Path("eng.testb").write_text("\n".join([start, "", *sentences[:4]]))
    assert output(capsys, *words, "--strict").splitlines() == lines[:6]
    Path("task/recipe.yaml").write_text("task: [")
    assert "task/recipe.yaml:1: not valid YAML" in refused(capsys, *words)


def test_tables_without_a_usable_row_are_refused(tmp_path: Path, capsys: Capture) -> None:
    for name, content, message in (
        ("in.csv", "\n\n", "in.csv: contains no row; give one text per row"),
        ("in.csv", "a;text\n1;on\n", "in.csv:1: has one column, but contains ';'; set data.del"),
        ("in.json", "[]", "in.json: predict cannot read a .json file; "),
    ):
        (tmp_path / name).write_text(content)
        assert message in refused(capsys, "predict", small_run(), tmp_path / name)


@pytest.mark.full
def test_images_and_folders_are_inputs_of_a_captioner(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = captioners.make_untrained_task()
    task.save(tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    Path("all/more").mkdir(parents=True)
    names = ["all/b.png", "all/more/a.webp"]
    for number, name in enumerate(names):
        kind = "PNG" if name.endswith("png") else "WEBP"
        Path(name).write_bytes(captioners.encoded(captioners.picture(number), kind))
    Path("all/cut.jpg").write_bytes(b"\xff\xd8\xff")
    expected = [result.text for result in task.predict(names, min_length=3)]
    words = ["predict", "run", "search.min_length=3"]
    assert output(capsys, *words, *names).splitlines() == expected
    code, out, err = run(capsys, *words, "all")
    assert (code, err.count("\n")) == (0, 1)
    assert err.startswith("skipped 1 of 3 inputs; the first: all/cut.jpg: the JPEG data is damaged")
    assert out.splitlines() == [
        f"{names[0]}\t{expected[0]}",
        "all/cut.jpg\t",
        f"{names[1]}\t{expected[1]}",
    ]
    Path("all/cut.jpg").unlink()
    shutil.make_archive("all", "zip", "all")
    rows = zip([f"all.zip/{name.removeprefix('all/')}" for name in names], expected, strict=True)
    assert output(capsys, *words, "all.zip").splitlines() == [f"{a}\t{b}" for a, b in rows]
    np.savez("all.npz", images=[captioners.picture(number) for number in range(2)])
    assert output(capsys, *words, "all.npz").splitlines() == expected


def test_missing_file_raises(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "in.txt").write_text("on")
    message = refused(capsys, "predict", small_run(), tmp_path / "in.tx")
    assert "in.tx: no such file; did you mean" in message


@pytest.mark.full
def test_unknown_words_are_printed_on_standard_error(tmp_path: Path, capsys: Capture) -> None:
    known, strange = LINES[0].encode(), b"qqq " + LINES[0].encode()
    assert predict(capsys, tmp_path, known, "--allow-unknown")[2] == ""
    code, out, err = predict(capsys, tmp_path, strange, "--allow-unknown")
    assert code == 0
    assert out.count("\n") == 1
    assert "in.txt:1: unknown words: 1 of " in err
    assert err.rstrip().endswith("(position 1)")


def test_model_that_takes_marked_words_rejects_lines(tmp_path: Path, capsys: Capture) -> None:
    tokenizer = train_tokenizer("whitespace", ["a b"], 10)
    model = models.RecurrentTagger(6, ["O"], embedding_dim=4, units=4, marks=True)
    tasks.Tagging(model, tokenizer).save(tmp_path / "task")
    (tmp_path / "in.txt").write_text("a b")
    message = refused(capsys, "predict", tmp_path / "task", tmp_path / "in.txt")
    assert "error: this model takes marked words, which a line of text does not contain" in message


@pytest.mark.full
def test_summaries_have_a_page_and_plots(tmp_path: Path, capsys: Capture) -> None:
    texts = ["a fire in Tromak hurts Ilda", "no fire ."]
    make_untrained_task(texts, max_source_length=6).save(tmp_path / "run")
    (tmp_path / "in.txt").write_text("a fire in Nemo hurts Sarno .\nno fire\n")
    options = ["--html", tmp_path / "out.html", "--attention", tmp_path / "out.png"]
    words = ["predict", tmp_path / "run", tmp_path / "in.txt", *options, "data.max_target_length=3"]
    assert "in.txt:1: 7 tokens, the limit is 6;" in refused(capsys, *words, "--strict")
    assert (
        output(capsys, *words, "data.truncate_source=true", "search.min_length=3").count("\n") == 2
    )
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert page.count("<article") == 2
    assert "Nemo" in page
    for name in ("out-1.png", "out-2.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_attention_of_a_tagger_is_one_plot(tmp_path: Path, capsys: Capture) -> None:
    tokenizer = train_tokenizer("whitespace", ["a b"], 10)
    options = {"attention": {"num_heads": 2, "key_dim": 2}}
    model = models.RecurrentTagger(6, ["O", "X"], embedding_dim=4, units=4, **options)
    tasks.Tagging(model, tokenizer).save(tmp_path / "task")
    (tmp_path / "in.txt").write_text("a b")
    words = [tmp_path / "task", tmp_path / "in.txt", "--attention", tmp_path / "out.png"]
    assert output(capsys, "predict", *words).count("/") == 2
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.full
def test_lines_of_a_captioner_are_image_paths(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = captioners.make_untrained_task()
    task.save(tmp_path / "run")
    for name, kind in (("a b.png", "PNG"), ("c.jpg", "JPEG")):
        image = captioners.encoded(captioners.picture(len(name)), kind)
        (tmp_path / name).write_bytes(image)
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("a b.png\nc.jpg\n")
    options = ["--html", "out.html", "--attention", "out.png", "search.min_length=3"]
    code, out, err = run(capsys, "predict", "run", "in.txt", *options)
    assert (code, err) == (0, "")
    expected = [one.text for one in task.predict(["a b.png", "c.jpg"], min_length=3)]
    assert out.splitlines() == expected
    assert Path("out.html").read_text(encoding="utf-8").count("<article") == 2
    for name in ("out-1.png", "out-2.png"):
        assert Path(name).read_bytes().startswith(b"\x89PNG")
    captioners.make_untrained_task(attention="pooled").save(tmp_path / "pooled")
    message = refused(capsys, "predict", "pooled", "in.txt", "--attention", "none.png")
    assert " --attention none.png: this model returns no attention weights; remove" in message
    Path("cut.png").write_bytes(Path("a b.png").read_bytes()[:60])
    for line, message in (
        ("no.png", "in.txt:2: no.png: No such file or directory"),
        ("cut.png", "in.txt:2: cut.png: the PNG data is damaged or truncated; download it again"),
        ("", "in.txt:2: is empty; give the path of an image"),
    ):
        Path("in.txt").write_text(f"c.jpg\n{line}\n")
        refusal = refused(capsys, "predict", "run", "in.txt", "--strict")
        assert refusal.endswith(f" error: {message}\n")


@pytest.mark.full
def test_lines_of_a_retriever_search_a_folder_of_images(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = retrievers.make_untrained_task()
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
    options = ["--images", "all", "--attention", "out.png"]
    words = ["predict", "run", "in.txt", "--n-best"]
    code, out, err = run(capsys, *words, *options, "search.n_best=3")
    assert (code, err) == (0, "")
    expected = task.predict(texts, index=task.build_index(names), n_best=3)
    assert [line.split("\t")[2] for line in out.splitlines()] == [
        one.text for answer in expected for one in (answer, *answer.alternatives)
    ]
    for name in ("out-1.png", "out-2.png"):
        assert Path(name).read_bytes().startswith(b"\x89PNG")
    code, _, err = run(capsys, *words, *options, "--html", "a.html")
    assert code == 2
    assert "--html a.html: task retrieval has no HTML page; remove --html" in err
    Path("images.txt").write_text("\n".join(map(str, names)))
    with zipfile.ZipFile("images.zip", "w") as file:
        for name in names:
            file.write(name, name.relative_to("all"))
    for images, expected in (
        ("images.txt", out),
        ("images.zip", out.replace("all/", "images.zip/")),
    ):
        words_of_file = [*words, "--images", images, "search.n_best=3"]
        assert run(capsys, *words_of_file) == (0, expected, "")
    Path("none").mkdir()
    Path("gone.txt").write_text("all/gone.png\n")
    Path("blank.txt").write_text("\n")
    captioners.make_untrained_task().save(tmp_path / "captioner")
    for words, message in (
        (["run", "in.txt"], "task retrieval needs images to search; add --images FOLDER"),
        (["run", "in.txt", "--images", "no"], "--images no: no such file or folder"),
        (["run", "in.txt", "--images", "gone.txt"], "all/gone.png: "),
        (["run", "in.txt", "--images", "none"], "--images none: no file ends in .jpg, "),
        (["run", "blank.txt", "--images", "all", "--strict"], "blank.txt:1: has no words, got ''"),
        (["captioner", "in.txt", "--images", "all"], "--images all: task captioning does not sear"),
    ):
        assert refused(capsys, "predict", *words).startswith(f"attention-zoo: error: {message}")
    names[2].write_bytes(b"no image")
    assert "all/z.jpeg: " in refused(capsys, "predict", "run", "in.txt", "--images", "all")
