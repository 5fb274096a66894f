"""Export: a task as a folder that serves without this library."""

from attention_zoo.export.exporting import FORMATS, export

__all__ = ["FORMATS", "export"]
