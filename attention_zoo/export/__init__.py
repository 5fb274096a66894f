"""Export of a task to a folder that is served without this library."""

from attention_zoo.export.calls import format_call
from attention_zoo.export.flat_outputs import flatten_outputs
from attention_zoo.export.saved_model import FORMATS, export

__all__ = ["FORMATS", "export", "flatten_outputs", "format_call"]
