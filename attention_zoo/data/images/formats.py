"""First bytes of the image formats that are read."""

JPEG, PNG, WEBP = SIGNATURES = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF"
SCAN = b"\xff\xda"
"""The marker of a scan of a JPEG."""
