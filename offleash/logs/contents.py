"""What a problem holds beside its text, as tools keep it: images inside chats, choices and tests under usual names."""

from collections.abc import Mapping

from offleash.data.content import content_hashes
from offleash.files.rows import fields_of

CHOICES = ("choices", "options")
TESTS = ("tests", "test_cases", "unit_tests", "test", "test_list", "verification_info")
IMAGES = ("images", "image")
CONTEXT = ("context", "passage", "story")


def contents_of(fields: Mapping[str, object], chat: object = None) -> str | None:
    """The hashes of what the fields of a problem hold under their usual names, and of the images in its prompt.

    Args:
        fields: Of the problem, for example the `info` of a verifiers row.
        chat: The prompt as messages, whose parts may be images.
    """
    return content_hashes(
        choices=_first(fields, CHOICES),
        images=images_in(chat) or _first(fields, IMAGES),
        tests=_first(fields, TESTS),
        context=_first(fields, CONTEXT),
    )


def images_in(chat: object, attachments: Mapping[str, object] | None = None) -> list[object]:
    """The images of a chat's messages: addresses or data, as they are.

    Args:
        chat: Messages; a plain text has none.
        attachments: Where a log moves long values to, by the hash that "attachment://HASH" names.
    """
    images: list[object] = []
    for message in chat if isinstance(chat, list) else []:
        content = fields_of(message).get("content")
        for part in content if isinstance(content, list) else []:
            image = fields_of(part).get("image", fields_of(part).get("image_url"))
            if isinstance(image, dict):  # {"url": ...} of the OpenAI API
                image = image.get("url")
            if isinstance(image, str):
                image = (attachments or {}).get(image.removeprefix("attachment://"), image)
            if image:
                images.append(image)
    return images


def _first(fields: Mapping[str, object], names: tuple[str, ...]) -> object:
    return next((fields[name] for name in names if fields.get(name)), None)
