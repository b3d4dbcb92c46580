"""Converts an image to the limits of providers: size and type. Most images are within them and stay unchanged.

Size and end are read from the header; only an image that must change, or seems damaged, is decoded, by Pillow, which is
imported then and may be missing. Decoding runs in a thread, one image at a time, so that memory is bounded by one of
`MAX_PIXELS`. Has no knowledge of tools, results or settings. Rule R-TOL-05.
"""

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from pinnace_agent.core.installing import how_to_install
from pinnace_agent.core.surroundings import PerAgent
from pinnace_agent.shell.truncation import format_size
from pinnace_agent.tools.images.header import ImageSize, ImageType, has_end, image_size

if TYPE_CHECKING:
    from PIL.Image import Image, Transpose

MAX_SIDE: Final = 2000
"""Pixels: providers scale down larger images, or reject them if a request has many."""

MAX_BASE64_BYTES: Final = 4_718_592
"""4.5 MiB: providers reject 5 MB and more of base64."""

MAX_SOURCE_BYTES: Final = 32 * 1024 * 1024
"""The file size of an image to resize. A photograph of 50 megapixels has some 20 MB; a file is held as a whole."""

MAX_PIXELS: Final = 64_000_000
"""The pixels of a decoded image: 256 MB with 4 bytes each. Cameras have 50 million; a header may claim billions."""

_JPEG_QUALITY: Final = 80
_JPEG_LADDER: Final = (85, 70, 55, 40)
"""Tried in this order when neither the PNG nor the JPEG of a size is small enough."""

_SHRINKING: Final = 0.75
_FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP", "BMP")
"""The formats that Pillow may decode: most of its vulnerabilities were in decoders of rarer ones."""

_ORIENTATION_TAG: Final = 0x0112

_TURNED: Final = frozenset({"TRANSPOSE", "ROTATE_270", "TRANSVERSE", "ROTATE_90"})
"""Transpositions that swap width and height."""

_one_at_a_time: Final = PerAgent(lambda: trio.CapacityLimiter(1))


class UnfitImage(Exception):
    """An image can't be shown to a model; the text gives the reason and what to do."""


class ImageLimits(NamedTuple):
    """How large an image may be; by default as providers take it."""

    max_width: int = MAX_SIDE
    max_height: int = MAX_SIDE
    max_base64_bytes: int = MAX_BASE64_BYTES
    jpeg_quality: int = _JPEG_QUALITY

    def admit(self, size: ImageSize, length: int) -> bool:
        """Return whether an image of this size and length in bytes is within them."""
        return size.width <= self.max_width and size.height <= self.max_height and self.are_kept_by(length)

    def are_kept_by(self, length: int) -> bool:
        """Return whether a length in bytes is within them."""
        return base64_size(length) < self.max_base64_bytes


PROVIDERS: Final = ImageLimits()
"""Those of providers."""


class FittedImage(NamedTuple):
    """An image that can be sent to a model."""

    data: bytes
    mime_type: str
    notes: tuple[str, ...] = ()
    """The changes, a line each; the model may have to convert coordinates."""
    original_size: ImageSize | None = None
    """Upright; None: the image is as it was."""


def base64_size(size: int) -> int:
    """Return the length in base64."""
    return (size + 2) // 3 * 4


def is_within_limits(size: ImageSize, length: int) -> bool:
    """Return whether an image of this size and length in bytes can be sent unchanged."""
    return PROVIDERS.admit(size, length)


async def fit_image(
    data: bytes, found: ImageType, *, resizes: bool = True, limits: ImageLimits = PROVIDERS
) -> FittedImage:
    """Return an image within the limits: the same bytes if they are, else scaled down and encoded anew.

    Cancelling ends the wait at once; a running thread finishes alone, and the next image waits for it.

    Args:
        data: The whole file.
        found: Its type.
        resizes: False leaves images as large as they are; only the type and the limit of bytes count.
        limits: What the image must be within.

    Raises:
        UnfitImage: It is damaged, too large to decode, can't be made small enough, or Pillow is missing.
    """
    size = image_size(data, found)
    is_small = size is not None and (limits.admit(size, len(data)) if resizes else limits.are_kept_by(len(data)))
    if is_small and found != "image/bmp" and has_end(data, found):
        return FittedImage(data, found)
    if size is not None and size.width * size.height > MAX_PIXELS:
        raise UnfitImage(f"with {size.width}x{size.height} pixels it is too large to be opened.")
    return await trio.to_thread.run_sync(
        _fit, data, found, is_small, resizes, limits, limiter=_one_at_a_time.get(), abandon_on_cancel=True
    )


async def as_png(data: bytes) -> bytes:
    """Return an image as PNG, upright. Cancelling is as with `fit_image`.

    Raises:
        UnfitImage: It is damaged, too large to decode, or Pillow is missing.
    """
    return await trio.to_thread.run_sync(_as_png, data, limiter=_one_at_a_time.get(), abandon_on_cancel=True)


def _as_png(data: bytes) -> bytes:
    try:
        with _opened(data) as image:
            transposition = _transposition(image)
            return _png(_plain(image if transposition is None else image.transpose(transposition)))
    except ImportError:
        raise UnfitImage(f"to convert it needs Pillow: {how_to_install('images')}") from None


@contextmanager
def _opened(data: bytes) -> "Generator[Image, None, None]":
    """Decode an image; what goes wrong in the block is a fault of the image. Raises ImportError without Pillow."""
    import PIL.Image

    try:
        with _silence(), PIL.Image.open(BytesIO(data), formats=_FORMATS) as image:
            if image.width * image.height > MAX_PIXELS:
                raise UnfitImage(f"with {image.width}x{image.height} pixels it is too large to be opened.")
            yield image
    except UnfitImage:
        raise
    except Exception as error:  # a decoder may raise anything for a damaged file
        raise UnfitImage("it is damaged, or of a kind that can't be decoded.") from error


def _fit(data: bytes, found: ImageType, is_small: bool, resizes: bool, limits: ImageLimits) -> FittedImage:
    try:
        with _opened(data) as image:
            if is_small and found != "image/bmp":
                image.load()
                return FittedImage(data, found)  # its end seems damaged, but it can be decoded
            return _changed(image, found, resizes, limits)
    except ImportError:
        raise UnfitImage(_without_pillow(found, is_small)) from None


@contextmanager
def _silence() -> Generator[None, None, None]:
    """Suppress warnings of decoders. Used by one thread at a time, since the filter is global."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _without_pillow(found: ImageType, is_small: bool) -> str:
    if found == "image/bmp":
        return f"BMP must be converted for models, and that needs Pillow: {how_to_install('images')}"
    if is_small:
        return "its end is missing."
    return f"it is larger than models take, and making it smaller needs Pillow: {how_to_install('images')}"


def _changed(image: "Image", found: ImageType, resizes: bool, limits: ImageLimits) -> FittedImage:
    notes: list[str] = []
    # A camera's JPEG may have a small copy as a second frame, which is no animation.
    if found in {"image/gif", "image/webp"} and getattr(image, "n_frames", 1) > 1:
        notes.append("[The image is animated; only its first frame is shown.]")
    transposition = _transposition(image)
    original = ImageSize(*image.size)
    if transposition is not None and transposition.name in _TURNED:
        original = ImageSize(original.height, original.width)
    # A JPEG can be decoded at a reduced size, by a power of two; other formats ignore this.
    image.draft(None, (2 * limits.max_width, 2 * limits.max_height))
    upright = _plain(image if transposition is None else image.transpose(transposition))
    if found == "image/bmp":
        notes.append("[Image converted from image/bmp to image/png.]")
        converted = _png(upright)
        if limits.admit(original, len(converted)) or (not resizes and limits.are_kept_by(len(converted))):
            return FittedImage(converted, "image/png", tuple(notes), original)
    if not resizes:
        raise UnfitImage(
            f"it is larger than models take ({format_size(limits.max_base64_bytes)}), and images are not resized."
        )
    size = _fitted_size(original, limits)
    while True:
        scaled = upright if size == upright.size else _resized(upright, size)
        if (found_smaller := _encoded(scaled, limits)) is not None:
            break
        if size == (1, 1):
            raise UnfitImage(f"it can't be made smaller than {format_size(limits.max_base64_bytes)}.")
        size = ImageSize(*(max(1, int(side * _SHRINKING)) for side in size))
    if size != original:
        scale = original.width / size.width
        notes.append(
            f"[Image: original {original.width}x{original.height}, displayed at {size.width}x{size.height}. "
            f"Multiply coordinates by {scale:.2f} to map to original image.]"
        )
    return FittedImage(*found_smaller, tuple(notes), original)


def _transposition(image: "Image") -> "Transpose | None":
    """Return the transposition of the metadata that makes an image upright; None if they are damaged."""
    from PIL.Image import Transpose

    try:
        orientation = image.getexif().get(_ORIENTATION_TAG)
    except Exception:  # a parser may raise anything for damaged metadata, and the image may be valid
        return None
    if not isinstance(orientation, int) or orientation not in range(2, 9):
        return None
    return (
        Transpose.FLIP_LEFT_RIGHT,
        Transpose.ROTATE_180,
        Transpose.FLIP_TOP_BOTTOM,
        Transpose.TRANSPOSE,
        Transpose.ROTATE_270,
        Transpose.TRANSVERSE,
        Transpose.ROTATE_90,
    )[orientation - 2]


def _resized(image: "Image", size: ImageSize) -> "Image":
    from PIL.Image import Resampling

    return image.resize(size, Resampling.LANCZOS)  # pyright: ignore[reportUnknownMemberType]  # numpy's types


def _plain(image: "Image") -> "Image":
    """Return the image in 8-bit grey or colour, with transparency if it has any, to scale and encode it."""
    if image.mode.startswith("I"):  # 16 bits; a plain conversion would clip values above 255
        wide = image.convert("I")
        return wide.point(lambda value: value * (1 / 256)).convert("L")  # pyright: ignore[reportUnknownMemberType]
    if image.mode in {"L", "LA", "RGB", "RGBA"}:
        # A colour key for transparency is lost when scaling mixes it with its neighbours.
        return image.convert("RGBA") if "transparency" in image.info else image
    if image.mode == "1":
        return image.convert("L")
    return image.convert("RGBA" if image.has_transparency_data else "RGB")


def _fitted_size(size: ImageSize, limits: ImageLimits) -> ImageSize:
    """Scale down to the limits, width first, then height."""
    width, height = size
    if width > limits.max_width:
        width, height = limits.max_width, max(1, round(height * limits.max_width / width))
    if height > limits.max_height:
        width, height = max(1, round(width * limits.max_height / height)), limits.max_height
    return ImageSize(width, height)


def _encoded(image: "Image", limits: ImageLimits) -> tuple[bytes, str] | None:
    """Return the smaller of PNG and JPEG within the limit, else the best JPEG within it, or None."""
    opaque = _opaque(image)
    candidates = [(_png(image), "image/png"), (_jpeg(opaque, limits.jpeg_quality), "image/jpeg")]
    if fitting := [each for each in candidates if limits.are_kept_by(len(each[0]))]:
        return min(fitting, key=lambda each: len(each[0]))
    for quality in _JPEG_LADDER:
        if limits.are_kept_by(len(data := _jpeg(opaque, quality))):
            return data, "image/jpeg"
    return None


def _opaque(image: "Image") -> "Image":
    """Return the image with transparent parts in white."""
    if image.mode not in {"LA", "RGBA"}:
        return image
    import PIL.Image

    colour = image.convert("RGBA")
    paper = PIL.Image.new("RGB", image.size, "white")
    paper.paste(colour, mask=colour.getchannel("A"))
    return paper


def _png(image: "Image") -> bytes:
    return _saved(image, "PNG")


def _jpeg(image: "Image", quality: int) -> bytes:
    return _saved(image, "JPEG", quality=quality)


def _saved(image: "Image", kind: str, **options: int) -> bytes:
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()
