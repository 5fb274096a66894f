"""File formats of prepared data: columns in Arrow files and integers in NumPy files."""
