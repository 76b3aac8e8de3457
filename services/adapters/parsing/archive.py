"""Checks of a zip container before any parser opens it: real sizes, no XML entity tricks."""

from __future__ import annotations

import io
import zipfile
import zlib

from services import errors

MAX_ENTRIES = 1_000
MAX_UNPACKED_BYTES = 200_000_000
MAX_RATIO = 100
_BLOCK = 1 << 20
_OLE2 = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_DOCTYPES = tuple("<!DOCTYPE".encode(codec) for codec in ("utf-8", "utf-16-le", "utf-16-be"))
# What zipfile raises on damaged or unusual archives.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, KeyError)


def check_office_archive(data: bytes, name: str) -> None:
    """Refuse what is dangerous or no archive; sizes are counted, not believed.

    Raises DocumentError: `encrypted`, `damaged`, `wrong_type`, `too_expensive` (unpacks to too much) or `dangerous`
    (an XML part declares a DOCTYPE, which is how entities explode or read files).
    """
    if data.startswith(_OLE2):
        if "EncryptedPackage".encode("utf-16-le") in data:
            raise errors.DocumentError(f"{name} needs a password: save it without one", reason="encrypted")
        raise errors.DocumentError(
            f"{name} is an old office file (OLE2) under a new name: save it in the new format",
            reason="wrong_type",
        )
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check_entries(archive, len(data), name)
    except RuntimeError as error:
        # zipfile's way to say that an entry is encrypted.
        raise errors.DocumentError(
            f"{name} needs a password: save it without one", reason="encrypted"
        ) from error
    except _DAMAGE as error:
        raise errors.DocumentError(
            f"{name} is damaged: it is no intact office file", reason="damaged"
        ) from error


def _check_entries(archive: zipfile.ZipFile, packed: int, name: str) -> None:
    entries = archive.infolist()
    declared = sum(entry.file_size for entry in entries)
    if len(entries) > MAX_ENTRIES:
        raise _bomb(name, f"{len(entries):,} entries, more than {MAX_ENTRIES:,}")
    limit = min(MAX_UNPACKED_BYTES, MAX_RATIO * packed)
    if declared > limit:
        raise _bomb(name, f"{declared:,} bytes once unpacked, more than {limit:,}")
    seen = 0
    for entry in entries:
        is_xml = entry.filename.lower().endswith((".xml", ".rels", ".vml"))
        tail = b""
        with archive.open(entry) as part:
            while block := part.read(_BLOCK):
                seen += len(block)
                if seen > limit:
                    raise _bomb(name, f"more than {limit:,} bytes once unpacked")
                if is_xml and any(mark in tail + block for mark in _DOCTYPES):
                    raise errors.DocumentError(
                        f"{name}: {entry.filename} declares a DOCTYPE", reason="dangerous"
                    )
                tail = block[-32:]


def _bomb(name: str, why: str) -> errors.DocumentError:
    return errors.DocumentError(f"{name} has {why}: split it into smaller files", reason="too_expensive")
