"""Cache of prepared data: examples, vocabularies and token ids of large corpora, on disk."""
