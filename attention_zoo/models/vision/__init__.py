"""Models of images: captioning, image-text retrieval, glimpses."""
