"""Generated corpora: no files, no network, deterministic by seed."""
