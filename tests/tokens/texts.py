"""The texts among files and folders: what is UTF-8 without a byte 0, .gz unpacked."""
import gzip
import os
import zlib


def files_of(paths):
    """Files of folders in order of their names; a link is not followed, so nothing comes twice."""
    for path in paths:
        if os.path.isdir(path):
            for folder, folders, names in os.walk(path):
                folders.sort()
                yield from (os.path.join(folder, name) for name in sorted(names))
        else:
            yield path


def texts_of(paths, at_most=1 << 20):
    """Of each file the text, if it is one and has at most so many bytes."""
    for path in files_of(paths):
        if os.path.islink(path) or not os.path.isfile(path) or os.path.getsize(path) > at_most:
            continue
        try:
            with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
                text = file.read(at_most + 1).decode("utf-8")
        except (UnicodeDecodeError, OSError, EOFError, zlib.error):
            continue
        if text and "\0" not in text and len(text) <= at_most:
            yield text
