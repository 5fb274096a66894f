"""Data: file readers, generated corpora, tokenizers, and batches in a reproducible order.

Importing this package imports neither TensorFlow nor Babel. Functions that need them import them
when they are called.
"""

from attention_zoo.data.batching.batching import Batches, LineBatches, PairBatches
from attention_zoo.data.batching.caption_batches import CaptionBatches, LabelledBatches
from attention_zoo.data.batching.image_text_batches import ImageTextBatches
from attention_zoo.data.batching.masked_batches import MaskedBatches, MaskingIds
from attention_zoo.data.batching.tagged_batches import EncodedWords, TaggedBatches
from attention_zoo.data.images.caption_files import read_captions, read_coco
from attention_zoo.data.images.caption_lines import CaptionLayout
from attention_zoo.data.images.captions import Box, CaptionedImages
from attention_zoo.data.images.images import graph_image, read_image
from attention_zoo.data.images.labelled_images import (
    LabelledImages,
    read_class_folders,
    read_npz_images,
)
from attention_zoo.data.images.tfds_images import read_caption_tfds, read_labelled_tfds
from attention_zoo.data.synthetic.aligned_dates import AlignedPair, generate_aligned_dates
from attention_zoo.data.synthetic.claims import generate_claims
from attention_zoo.data.synthetic.dates import generate_date_lines, generate_dates
from attention_zoo.data.synthetic.digits import (
    Digits,
    clutter_digits,
    generate_digits,
    translate_digits,
)
from attention_zoo.data.synthetic.orders import generate_orders
from attention_zoo.data.synthetic.ranked_claims import generate_ranked_claims
from attention_zoo.data.synthetic.reports import generate_reports
from attention_zoo.data.synthetic.reviews import generate_reviews
from attention_zoo.data.synthetic.scenes import generate_scenes
from attention_zoo.data.text.conll import read_conll
from attention_zoo.data.text.copy_encoding import CopyEncoding, encode_for_copying
from attention_zoo.data.text.labelled import LabelledTexts, TextFields
from attention_zoo.data.text.labelled_fields import join_sentences
from attention_zoo.data.text.labelled_files import (
    read_labelled_csv,
    read_labelled_jsonl,
    read_labelled_tsv,
    read_text_folders,
)
from attention_zoo.data.text.labelled_pairs import LabelledPairs, PairFields
from attention_zoo.data.text.lines import TextLines, read_lines
from attention_zoo.data.text.pairs import TextPairs, read_jsonl, read_parallel
from attention_zoo.data.text.sentences import split_sentences
from attention_zoo.data.text.tables import read_csv, read_tsv
from attention_zoo.data.text.tag_checks import check_tags
from attention_zoo.data.text.tagged import TaggedSentences
from attention_zoo.data.text.tfds import read_tagged_tfds, read_tfds
from attention_zoo.data.text.tfds_labelled import read_text_tfds
from attention_zoo.data.text.word_vectors import read_word_vectors
from attention_zoo.data.text.words import Word, split_words
from attention_zoo.data.tokenizers.public_tokenizers import PublicTokenizer
from attention_zoo.data.tokenizers.sentencepiece_tokenizer import SentencePieceTokenizer
from attention_zoo.data.tokenizers.tokenizer import Tokenizer, load_tokenizer, train_tokenizer

__all__ = [
    "AlignedPair",
    "Batches",
    "Box",
    "CaptionBatches",
    "CaptionLayout",
    "CaptionedImages",
    "CopyEncoding",
    "Digits",
    "EncodedWords",
    "ImageTextBatches",
    "LabelledBatches",
    "LabelledImages",
    "LabelledPairs",
    "LabelledTexts",
    "LineBatches",
    "MaskedBatches",
    "MaskingIds",
    "PairBatches",
    "PairFields",
    "PublicTokenizer",
    "SentencePieceTokenizer",
    "TaggedBatches",
    "TaggedSentences",
    "TextFields",
    "TextLines",
    "TextPairs",
    "Tokenizer",
    "Word",
    "check_tags",
    "clutter_digits",
    "encode_for_copying",
    "generate_aligned_dates",
    "generate_claims",
    "generate_date_lines",
    "generate_dates",
    "generate_digits",
    "generate_orders",
    "generate_ranked_claims",
    "generate_reports",
    "generate_reviews",
    "generate_scenes",
    "graph_image",
    "join_sentences",
    "load_tokenizer",
    "read_caption_tfds",
    "read_captions",
    "read_class_folders",
    "read_coco",
    "read_conll",
    "read_csv",
    "read_image",
    "read_jsonl",
    "read_labelled_csv",
    "read_labelled_jsonl",
    "read_labelled_tfds",
    "read_labelled_tsv",
    "read_lines",
    "read_npz_images",
    "read_parallel",
    "read_tagged_tfds",
    "read_text_folders",
    "read_text_tfds",
    "read_tfds",
    "read_tsv",
    "read_word_vectors",
    "split_sentences",
    "split_words",
    "train_tokenizer",
    "translate_digits",
]
