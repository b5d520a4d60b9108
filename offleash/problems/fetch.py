"""A data set of the hub into a Parquet file, as a process of its own that hub.py starts and can end.

Arguments: id, config or nothing, split, path. Imports nothing of ours, so that it starts at once.
"""

import sys


def main(hub: str, config: str, split: str, path: str) -> None:
    """Fetch and write; images stay the bytes they are."""
    from datasets import DownloadConfig, Image, Sequence, load_dataset

    found = load_dataset(hub, config or None, split=split, download_config=DownloadConfig(max_retries=1))
    for name, kind in found.features.items():
        if isinstance(kind, Image):
            found = found.cast_column(name, Image(decode=False))
        elif isinstance(getattr(kind, "feature", None), Image):
            found = found.cast_column(name, Sequence(Image(decode=False)))
    found.to_parquet(path)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:  # whatever the library raises is for the caller to tell, in one line
        message = " ".join(str(error).split())
        sys.exit(f"{type(error).__name__}: {message}")
