"""A fingerprint of a model's folder, so that a run is never continued with other weights at the same path."""

from hashlib import blake2b
from pathlib import Path

BLOCKS, BLOCK = 64, 1 << 14  # of a file of weights: training moves every one of them
WEIGHTS = (".safetensors", ".bin", ".gguf")
READ = (".json", ".jinja", ".model", ".txt", *WEIGHTS)


def fingerprint(folder: str) -> str:
    """Hash of a folder's model files: small ones whole, weights by evenly spaced blocks. '' for a name on the hub."""
    path = Path(folder).expanduser()
    if not path.is_dir():
        return ""
    digest = blake2b(digest_size=12)
    for file in sorted(entry for entry in path.iterdir() if entry.suffix in READ and entry.is_file()):
        size = file.stat().st_size
        digest.update(f"{file.name} {size} ".encode())
        with file.open("rb") as content:
            if file.suffix not in WEIGHTS or size <= BLOCKS * BLOCK:
                digest.update(content.read())
                continue
            for block in range(BLOCKS):
                content.seek((size - BLOCK) * block // (BLOCKS - 1))
                digest.update(content.read(BLOCK))
    return digest.hexdigest()
