"""Output layers: CRF, copying, maxout, mixtures."""
