"""Finds images, videos and sounds that the texts have no placeholder for, or too many."""

from collections.abc import Iterator

from mypt_records.chat import MEDIA, Chat
from mypt_records.checks.registry import check
from mypt_spec.findings import Finding


@check("MYP132")
def media_count(chat: Chat) -> Iterator[Finding]:
    """Finds lists of media that are longer or shorter than there are placeholders.

    A part without data of its own is a placeholder, too; one with data may be of the list or not.
    """
    rejected = (*chat.messages[: chat.shared], *chat.rejected) if chat.rejected else chat.messages
    for key, kind in MEDIA.items():
        messages = chat.messages if key == f"{kind}s" else rejected
        media = chat.extras.get(key)
        if not isinstance(media, list) or not media:
            continue
        tag = f"<{kind}>"
        parts = [p.value for m in messages for p in m.media if p.value.get("type") == kind]
        places = sum(t.text.count(tag) for m in messages for t in m.content or ())
        places += sum(part.keys() == {"type"} for part in parts)
        with_data = sum(part.keys() != {"type"} for part in parts)
        if len(media) not in (places, places + with_data):
            message = f'"{key}" has {len(media)}, the messages have {places} `{tag}`'
            hint = f"write `{tag}` once for each, where it belongs"
            yield Finding("MYP132", message, f"/{key}", help=hint)
