"""The picture of an answer: where the model looked while it wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def check_picture(path: Path) -> None:
    """ValueError for a file that no picture can be written to."""
    from matplotlib.backend_bases import FigureCanvasBase

    known = {*FigureCanvasBase.get_supported_filetypes(), "gif"}
    if path.suffix and path.suffix[1:].lower() not in known:
        raise ValueError(
            f"{path}: no picture is of kind {path.suffix}; name a .png, .svg or .pdf, or for"
            " glimpses a .gif"
        )
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}; make it before")


def draw_answer(answer: Any, path: str | Path | None = None) -> Any:
    """The figure of an answer with tokens and attention, also written to a file if one is named.

    Of a summary it is its source as running text, of a caption its image again and again, of an
    image that was found the same for the words that found it, of other answers a matrix.
    """
    from attention_zoo import inspection, tasks

    if isinstance(answer, tasks.Summary):
        return inspection.plot_summary_heat(answer, path)
    if isinstance(answer, tasks.Glimpsed):
        return _draw_glimpses(answer, path)
    if isinstance(answer, tasks.Caption):
        parts = answer.image, answer.attention, answer.tokens
        return inspection.plot_caption_overlay(*parts, path, title=answer.text)
    if isinstance(answer, tasks.RetrievalResult):
        return inspection.plot_word_regions(answer, path)
    weights = answer.attention
    if weights.ndim == 4:  # of self-attention: the mean over layers and heads
        weights = weights.mean(axis=(0, 1))
    return inspection.plot_alignment(weights, answer.tokens, answer.source_tokens, path)


def _draw_glimpses(answer: Any, path: str | Path | None) -> Any:
    """The path of glimpses; a file of suffix `.gif` moves."""
    from attention_zoo import inspection

    _, scales, size, *_ = answer.seen.shape
    of = answer.image, answer.locations, size, scales
    told = {"answers": answer.tokens, "title": answer.text}
    if path is not None and Path(path).suffix == ".gif":
        inspection.write_glimpse_gif(*of, path=path, **told)
        return inspection.plot_glimpse_path(*of, **told)
    return inspection.plot_glimpse_path(*of, path, **told)
