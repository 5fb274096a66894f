"""Images: readers of captioned and labelled images."""
