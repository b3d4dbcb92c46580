"""Images on their way to a model: what stays as it is, what is made smaller, and what is left out.

All pictures are made here by Pillow, or cut and forged by hand.
"""

import base64
import os
import struct
import subprocess
import sys
import zlib
from io import BytesIO
from pathlib import Path

import pytest
import trio
from PIL import Image

from pinnace_agent.core.installing import how_to_install
from pinnace_agent.tools.base import ToolContext, ToolResult
from pinnace_agent.tools.images.fitting import (
    MAX_BASE64_BYTES,
    MAX_SIDE,
    FittedImage,
    UnfitImage,
    base64_size,
    fit_image,
)
from pinnace_agent.tools.images.header import ImageType, has_end, image_size, image_type
from pinnace_agent.tools.images.results import with_fitting_images
from pinnace_agent.tools.read import ReadTool

ORIENTATION = 0x0112


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    file = BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def decoded(fitted: FittedImage) -> Image.Image:
    image = Image.open(BytesIO(fitted.data))
    image.load()
    assert Image.MIME[image.format or ""] == fitted.mime_type
    return image


def picture(width: int, height: int, mode: str = "RGB") -> Image.Image:
    """Draw a picture that is dark at the left and at the top."""
    line = Image.linear_gradient("L")
    across, down = line.rotate(90).resize((width, height)), line.resize((width, height))
    return Image.merge("RGB", (across, down, across)).convert(mode)


def noise(width: int, height: int) -> Image.Image:
    """Draw what no format can make much smaller."""
    return Image.frombytes("RGB", (width, height), os.urandom(width * height * 3))


async def fit(data: bytes, *, resizes: bool = True) -> FittedImage:
    found = image_type(data)
    assert found is not None
    return await fit_image(data, found, resizes=resizes)


async def refusal(data: bytes) -> str:
    with pytest.raises(UnfitImage) as caught:
        await fit(data)
    return str(caught.value)


def png_header(width: int, height: int) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")


KINDS: list[tuple[str, ImageType, dict[str, object]]] = [
    ("PNG", "image/png", {}),
    ("JPEG", "image/jpeg", {}),
    ("JPEG", "image/jpeg", {"progressive": True}),
    ("GIF", "image/gif", {}),
    ("WEBP", "image/webp", {}),
    ("WEBP", "image/webp", {"lossless": True}),
    ("WEBP", "image/webp", {"exif": b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0"}),
    ("BMP", "image/bmp", {}),
]


@pytest.mark.parametrize(("kind", "found", "options"), KINDS)
@pytest.mark.parametrize("size", [(1, 1), (2000, 3), (300, 200), (2001, 40)])
def test_a_header_contains_the_size(
    kind: str, found: ImageType, options: dict[str, object], size: tuple[int, int]
) -> None:
    data = encoded(picture(*size), kind, **options)

    assert image_type(data) == found
    assert image_size(data, found) == size
    assert has_end(data, found)
    assert not has_end(data[: len(data) // 2], found)


@pytest.mark.parametrize(("kind", "found", "options"), KINDS)
def test_a_header_cut_anywhere_gives_no_size_or_the_right_one(
    kind: str, found: ImageType, options: dict[str, object]
) -> None:
    data = encoded(picture(300, 200), kind, **options)

    assert {image_size(data[:length], found) for length in range(700)} <= {None, (300, 200)}


@pytest.mark.parametrize(("kind", "found", "options"), KINDS[:-1])
async def test_an_image_within_the_limits_stays_as_it_is(
    kind: str, found: ImageType, options: dict[str, object]
) -> None:
    data = encoded(picture(2000, 30), kind, **options)

    assert await fit(data) == FittedImage(data, found)


async def test_an_image_that_is_too_wide_or_too_high_is_scaled_down() -> None:
    for size, expected in {
        (4000, 3000): (2000, 1500),
        (2001, 3): (2000, 3),
        (3, 2001): (3, 2000),
        (1, 20000): (1, 2000),
        (20000, 1): (2000, 1),
        (3000, 5000): (1200, 2000),
    }.items():
        fitted = await fit(encoded(picture(*size), "PNG"))

        assert decoded(fitted).size == expected
        assert fitted.notes == (
            f"[Image: original {size[0]}x{size[1]}, displayed at {expected[0]}x{expected[1]}. "
            f"Multiply coordinates by {size[0] / expected[0]:.2f} to map to original image.]",
        )


async def test_a_drawing_stays_a_png_and_a_photograph_becomes_a_jpeg() -> None:
    drawing = Image.new("RGB", (2400, 1200), "white")
    drawing.paste("red", (100, 100, 900, 900))

    assert (await fit(encoded(drawing, "PNG"))).mime_type == "image/png"
    assert (await fit(encoded(noise(2100, 300), "PNG"))).mime_type == "image/jpeg"


async def test_a_rotated_photograph_is_put_upright() -> None:
    for orientation, corner in {1: (0, 0), 3: (1, 1), 6: (1, 0), 8: (0, 1), 2: (1, 0), 4: (0, 1), 5: (0, 0)}.items():
        exif = Image.Exif()
        exif[ORIENTATION] = orientation
        fitted = await fit(encoded(picture(3000, 1000), "JPEG", exif=exif))
        image = decoded(fitted).convert("L")

        is_turned = orientation >= 5
        assert image.size == ((667, 2000) if is_turned else (2000, 667))
        assert f"original {'1000x3000' if is_turned else '3000x1000'}," in fitted.notes[0]
        corners = {
            (x, y): image.getpixel((x * (image.width - 1), y * (image.height - 1))) for x in (0, 1) for y in (0, 1)
        }
        assert min(corners, key=lambda each: corners[each] or 0) == corner, orientation


async def test_damaged_metadata_do_not_matter() -> None:
    data = encoded(picture(3000, 30), "JPEG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff\xff\xff")

    assert decoded(await fit(data)).size == (2000, 20)


async def test_noise_is_encoded_ever_worse_and_then_made_smaller() -> None:
    fitted = await fit(encoded(noise(2000, 2000), "PNG"))

    assert fitted.mime_type == "image/jpeg"
    assert base64_size(len(fitted.data)) < MAX_BASE64_BYTES
    assert max(decoded(fitted).size) <= MAX_SIDE


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "PA", "RGBA", "CMYK", "I;16", "YCbCr"])
async def test_pictures_of_all_modes_are_scaled(mode: str) -> None:
    kind = "JPEG" if mode in {"CMYK", "YCbCr"} else "PNG"
    source = (
        picture(2500, 100).convert("L") if mode == "I;16" else picture(2500, 100).convert(mode.replace("PA", "RGBA"))
    )
    if mode == "PA":
        source = source.quantize(16)
        source.info["transparency"] = 3
    if mode == "I;16":
        wide = source.convert("I").point(lambda value: value * 257)
        source = Image.frombytes("I;16", wide.size, wide.convert("I;16").tobytes())
    image = decoded(await fit(encoded(source, kind)))

    assert image.size == (2000, 80)
    # The right end is bright and the left dark: nothing was inverted, clipped or left blank.
    grey = image.convert("L").crop((10, 40, 1990, 41)).tobytes()
    assert grey[0] < 110, grey[0]
    assert grey[-1] > 140, grey[-1]


async def test_transparency_is_kept_or_put_on_white() -> None:
    clear = Image.new("RGBA", (2500, 50), (255, 0, 0, 0))
    image = decoded(await fit(encoded(clear, "PNG"))).convert("RGBA")

    assert image.getpixel((5, 5)) in [(255, 0, 0, 0), (0, 0, 0, 0), (255, 255, 255, 255)]


async def test_a_bitmap_becomes_a_png() -> None:
    small = await fit(encoded(picture(30, 20), "BMP"))
    large = await fit(encoded(picture(2500, 20), "BMP"))

    assert decoded(small).size == (30, 20)
    assert (small.mime_type, small.notes) == ("image/png", ("[Image converted from image/bmp to image/png.]",))
    assert decoded(large).size == (2000, 16)
    assert [note[:17] for note in large.notes] == ["[Image converted ", "[Image: original "]


@pytest.mark.parametrize("kind", ["GIF", "WEBP"])
async def test_of_an_animation_that_is_too_large_the_first_frame_is_shown(kind: str) -> None:
    def animation(width: int) -> bytes:
        frames = [Image.new("RGB", (width, 20), colour) for colour in ("red", "blue", "green")]
        return encoded(frames[0], kind, save_all=True, append_images=frames[1:])

    small, large = animation(200), animation(2200)

    assert (await fit(small)).data == small
    fitted = await fit(large)
    red, green, blue = decoded(fitted).convert("RGB").split()
    assert (red.getextrema()[1], green.getextrema()[0]) > (200, 0)
    assert blue.getextrema() != (255, 255)
    assert fitted.notes[0] == "[The image is animated; only its first frame is shown.]"


async def test_what_is_damaged_is_refused() -> None:
    for kind in ("PNG", "JPEG", "GIF", "WEBP", "BMP"):
        data = encoded(noise(300, 200), kind)

        assert "damaged" in await refusal(data[: len(data) // 2]), kind
        assert "damaged" in await refusal(data[:60]), kind


async def test_a_picture_with_more_behind_its_end_stays_as_it_is() -> None:
    data = encoded(picture(30, 20), "JPEG") + b"\0" * 5000

    assert (await fit(data)).data == data


async def test_a_header_that_claims_billions_of_pixels_is_not_believed() -> None:
    gif = bytearray(encoded(picture(3, 2), "GIF"))
    gif[6:10] = struct.pack("<HH", 50000, 50000)
    jpeg = bytearray(encoded(picture(3, 2), "JPEG"))
    frame = jpeg.index(b"\xff\xc0")
    jpeg[frame + 5 : frame + 9] = struct.pack(">HH", 50000, 50000)
    bmp = bytearray(encoded(picture(3, 2), "BMP"))
    bmp[18:26] = struct.pack("<ii", 50000, -50000)
    for bomb in (png_header(50000, 50000), bytes(gif), bytes(jpeg), bytes(bmp)):
        assert await refusal(bomb) == "with 50000x50000 pixels it is too large to be opened."


async def test_resizing_that_is_switched_off_leaves_the_size() -> None:
    data = encoded(picture(2500, 20), "PNG")

    assert (await fit(data, resizes=False)).data == data
    assert decoded(await fit(encoded(picture(2500, 20), "BMP"), resizes=False)).size == (2500, 20)
    with pytest.raises(UnfitImage, match="images are not resized"):
        await fit(encoded(noise(1500, 1500), "PNG"), resizes=False)


async def test_images_are_made_smaller_one_at_a_time_and_can_be_left() -> None:
    data = encoded(noise(1600, 1600), "PNG")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fit, data)
        with trio.move_on_after(0.05) as scope:
            await fit(data)

        assert scope.cancelled_caught
        assert image_size(data, "image/png") == (1600, 1600)


def test_without_pillow_small_images_stay_and_others_are_left_out_with_advice(tmp_path: Path) -> None:
    (tmp_path / "PIL").mkdir()
    (tmp_path / "PIL/__init__.py").write_text("raise ImportError\n")
    (tmp_path / "small").write_bytes(encoded(picture(30, 20), "PNG"))
    (tmp_path / "large").write_bytes(encoded(picture(2500, 20), "PNG"))
    (tmp_path / "bitmap").write_bytes(encoded(picture(30, 20), "BMP"))
    (tmp_path / "cut").write_bytes(encoded(picture(30, 20), "PNG")[:-9])
    program = """
import sys, trio
from pinnace_agent.tools.images.fitting import UnfitImage, fit_image
from pinnace_agent.tools.images.header import image_type

async def main():
    for name in ("small", "large", "bitmap", "cut"):
        data = open(name, "rb").read()
        try:
            print((await fit_image(data, image_type(data))).data == data)
        except UnfitImage as error:
            print(error)

trio.run(main)
"""
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines() == [
        "True",
        "it is larger than models take, and making it smaller needs Pillow: " + how_to_install("images"),
        "BMP must be converted for models, and that needs Pillow: " + how_to_install("images"),
        "its end is missing.",
    ]


async def read(folder: Path, *, supports_images: bool = True, resizes_images: bool = True) -> ToolResult:
    context = ToolContext(
        str(folder), "c1", lambda _: None, {}, supports_images=supports_images, resizes_images=resizes_images
    )
    return await ReadTool().execute({"path": "f"}, context)


async def test_read_attaches_a_resized_image_with_a_notice(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(encoded(noise(2500, 400), "PNG"))
    text, image = (await read(tmp_path)).content

    assert text["type"] == "text"
    assert text["text"] == (
        "Read image file [image/jpeg]\n"
        "[Image: original 2500x400, displayed at 2000x320. Multiply coordinates by 1.25 to map to original image.]"
    )
    assert image["type"] == "image"
    assert image_size(base64.b64decode(image["data"]), "image/jpeg") == (2000, 320)


async def test_read_leaves_the_size_where_resizing_is_switched_off(tmp_path: Path) -> None:
    data = encoded(picture(2500, 4), "PNG")
    (tmp_path / "f").write_bytes(data)
    _, image = (await read(tmp_path, resizes_images=False)).content

    assert image == {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": "image/png"}


async def test_read_gives_the_reason_for_an_omitted_image(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(png_header(50000, 50000))

    assert (await read(tmp_path)).content == [
        {
            "type": "text",
            "text": "Read image file [image/png]\n"
            "[Image omitted: with 50000x50000 pixels it is too large to be opened.]",
        }
    ]


async def test_read_does_not_hold_an_image_that_is_too_large_to_be_made_smaller(tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        file.write(png_header(10, 10))
        file.truncate(40 << 20)
    (block,) = (await read(tmp_path)).content

    assert block["type"] == "text"
    assert "its file is too large (40.0MB, the limit is 32.0MB)" in block["text"]


def result_with(*images: bytes, kind: str = "image/png") -> ToolResult:
    return ToolResult(
        [
            {"type": "text", "text": "here"},
            *({"type": "image", "data": base64.b64encode(each).decode(), "mimeType": kind} for each in images),  # type: ignore[list-item]  # a generator of image blocks
        ],
        {"kept": True},
    )


async def test_images_of_any_result_are_made_smaller() -> None:
    small, large = encoded(picture(30, 20), "PNG"), encoded(noise(2500, 20), "PNG")
    before = result_with(small, large)
    result = await with_fitting_images(before, resizes=True)

    assert result.content[:2] == before.content[:2]
    assert result.details == {"kept": True}
    image = result.content[2]
    assert image["type"] == "image"
    assert image["mimeType"] == "image/jpeg"
    assert image_size(base64.b64decode(image["data"]), "image/jpeg") == (2000, 16)


async def test_images_of_a_result_that_fit_or_can_not_be_changed_stay() -> None:
    for data in (encoded(picture(30, 20), "JPEG"), b"no image", png_header(50000, 50000), png_header(9000, 9)):
        before = result_with(data)

        assert await with_fitting_images(before, resizes=True) == before
    odd = ToolResult([{"type": "image", "data": "no base64 %%%", "mimeType": "image/png"}])
    assert await with_fitting_images(odd, resizes=True) == odd


async def test_images_of_a_result_stay_where_resizing_is_switched_off() -> None:
    before = result_with(encoded(picture(2500, 2), "PNG"))

    assert await with_fitting_images(before, resizes=False) is before
