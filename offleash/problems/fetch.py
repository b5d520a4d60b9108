"""Downloads a data set of the hub into a Parquet file, in a process of its own that hub.py starts and can kill.

Arguments: id, config or nothing, split or nothing, path. Prints the split. Imports nothing of ours, so that it starts
at once.
"""

import sys

SPLITS = ("test", "validation", "train")


def main(hub: str, config: str, split: str, path: str) -> None:
    """Fetch and write. Images stay encoded: decoding and encoding them again would change their hash."""
    from datasets import DownloadConfig, Image, Sequence, load_dataset

    if not split:  # what is evaluated on comes first
        from datasets import get_dataset_split_names

        names = get_dataset_split_names(hub, config or None)
        split = next((name for name in SPLITS if name in names), names[0])
    data_set = load_dataset(hub, config or None, split=split, download_config=DownloadConfig(max_retries=1))
    for name, kind in data_set.features.items():
        if isinstance(kind, Image):
            data_set = data_set.cast_column(name, Image(decode=False))
        elif isinstance(getattr(kind, "feature", None), Image):
            data_set = data_set.cast_column(name, Sequence(Image(decode=False)))
    data_set.to_parquet(path)
    print(split)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:  # the caller reports whatever the library raises, on one line
        message = " ".join(str(error).split())
        sys.exit(f"{type(error).__name__}: {message}")
