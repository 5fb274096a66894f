"""Signatures and size limits of encoded images."""

MAX_PIXELS = 1 << 26
"""Maximum number of pixels of an image, as in 8192 x 8192. It is checked before decoding."""

MAX_BYTES = 1 << 28
"""Maximum size of an encoded image in bytes."""

MAX_SCANS = 100
"""Maximum number of scans of a JPEG. Each scan may process all pixels; photos have about ten."""

JPEG, PNG, WEBP = SIGNATURES = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF"
SCAN = b"\xff\xda"
