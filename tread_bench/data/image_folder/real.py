"""Image files in folders as real images, which samples are compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tread_bench.core.errors import UserError
from tread_bench.data.check import message_of
from tread_bench.data.image_folder.listing import SUFFIXES, listed
from tread_bench.data.image_folder.source import FolderImages
from tread_bench.data.images.decode import Wanted
from tread_bench.data.images.encoded import OnDemand, decoded


class RealFolders(OnDemand):
    """Images in colour in folders and below, cropped to a square, each decoded when it is needed.

    Args:
        folders: paths of the folders.
        image_size: pixels on a side.

    Raises:
        UserError: a folder cannot be read or has no images; later, naming the image and the rule.
    """

    def __init__(self, folders: Sequence[str], image_size: int) -> None:
        found = listed(folders)
        if not found.paths:
            raise UserError(
                f"{', '.join(folders)}: no image files ({', '.join(SUFFIXES)}); data.images needs at least one"
            )
        wanted = Wanted(image_size, 3, enlarge=False, key="data.decoded_size", way_out="take it out")
        super().__init__(FolderImages(found, found.classes), wanted)

    def problems(self) -> Iterator[str]:
        """A message for the first and for the last image if it cannot be used."""
        for item in sorted({0, len(self) - 1}):
            yield from message_of(decoded, self.encoded, item, self.wanted)
