"""Images of a problem as data: addresses, so that a problem is whole in one row."""

from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

from offleash.errors import OffleashError
from offleash.files.problems_rows import shown
from offleash.problems.values import structured

KINDS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"BM": "image/bmp",
    b"II*\x00": "image/tiff",
    b"MM\x00*": "image/tiff",
}


def images_of(value: object, folder: Path) -> tuple[str, ...]:
    """A column of images: one or a list of bytes, of {bytes, path} as the hub stores them, of paths or addresses."""
    value = structured(value)
    if value is None or value in ("", []):
        return ()
    many = value if isinstance(value, list) else [value]
    return tuple(_address(one, folder) for one in many if one is not None)


def address(data: bytes) -> str:
    """The data: address of an image, its kind told by its first bytes."""
    kind = next((kind for start, kind in KINDS.items() if data.startswith(start)), None)
    if kind is None and data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    if kind is None:
        raise OffleashError(f"an image begins with {shown(data[:8])}, which is not PNG, JPEG, GIF, WebP, BMP or TIFF.")
    return f"data:{kind};base64,{b64encode(data).decode()}"


def _address(value: object, folder: Path) -> str:
    if isinstance(value, Mapping):
        value = value.get("bytes") or value.get("path") or value.get("url")
    if isinstance(value, bytes):
        return address(value)
    if not isinstance(value, str):
        raise OffleashError(f"an image is {shown(value)}; give its bytes, its path or its data: address.")
    if value.startswith("data:"):
        return value
    if "://" in value:
        raise OffleashError(
            f"the image {shown(value)} is on the network, where it may change. Download it and give its path."
        )
    try:
        return address((folder / value).read_bytes())
    except (OSError, ValueError) as error:
        raise OffleashError(f"the image {shown(value)} cannot be read beside the file ({error}).") from None
