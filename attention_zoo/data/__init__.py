"""Text in: readers, a generated corpus, tokenizers, batches in a reproducible order.

Importing this package imports neither TensorFlow nor Babel; what needs them imports them when
called.
"""

from attention_zoo.data.batching import Batches, LineBatches, PairBatches
from attention_zoo.data.copied_ids import CopiedIds, copied_ids
from attention_zoo.data.dates import generate_dates
from attention_zoo.data.lines import TextLines, generate_date_lines, read_lines
from attention_zoo.data.masking import Marks, MaskedBatches
from attention_zoo.data.orders import generate_orders
from attention_zoo.data.pairs import TextPairs, read_jsonl, read_parallel, read_tsv
from attention_zoo.data.prepared import read_tagged_tfds, read_tfds
from attention_zoo.data.public_tokenizers import PublicTokenizer
from attention_zoo.data.reports import generate_reports
from attention_zoo.data.tag_checks import check_tags
from attention_zoo.data.tagged import TaggedSentences, read_conll
from attention_zoo.data.tagged_batches import EncodedWords, TaggedBatches
from attention_zoo.data.tokenizer import Tokenizer, load_tokenizer, train_tokenizer
from attention_zoo.data.word_vectors import read_word_vectors
from attention_zoo.data.words import Word, split_words

__all__ = [
    "Batches",
    "CopiedIds",
    "EncodedWords",
    "LineBatches",
    "Marks",
    "MaskedBatches",
    "PairBatches",
    "PublicTokenizer",
    "TaggedBatches",
    "TaggedSentences",
    "TextLines",
    "TextPairs",
    "Tokenizer",
    "Word",
    "check_tags",
    "copied_ids",
    "generate_date_lines",
    "generate_dates",
    "generate_orders",
    "generate_reports",
    "load_tokenizer",
    "read_conll",
    "read_jsonl",
    "read_lines",
    "read_parallel",
    "read_tagged_tfds",
    "read_tfds",
    "read_tsv",
    "read_word_vectors",
    "split_words",
    "train_tokenizer",
]
