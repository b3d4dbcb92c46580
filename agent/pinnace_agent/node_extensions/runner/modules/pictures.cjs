/** Pictures: the agent knows their types, and changes them with the library that it has for its own tools. */

"use strict";

const fs = require("node:fs/promises");
const { ask, now } = require("../wire.cjs");

const HEAD_BYTES = 4100;

/** The type of a picture by the beginning of its file, null: it is none that models or the agent know. Throws if it can't be read. */
async function detectSupportedImageMimeTypeFromFile(file) {
  const handle = await fs.open(file, "r");
  try {
    const { bytesRead, buffer } = await handle.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    return now(undefined, "image_type", buffer.subarray(0, bytesRead).toString("base64")) ?? null;
  } finally {
    await handle.close();
  }
}

/** A picture as PNG, null: it can't be made one. */
async function convertToPng(data, mimeType) {
  if (mimeType === "image/png") return { data, mimeType };
  const png = await ask(undefined, "png", [data]);
  return png ? { data: png, mimeType: "image/png" } : null;
}

/** A picture within limits, by default those of providers; null: it can't be brought within them. */
async function resizeImage(bytes, mimeType, options = {}) {
  const given = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
  const found = await ask(undefined, "fit_image", [given, options ?? {}]);
  if (!found) return null;
  const [[originalWidth, originalHeight], [width, height]] = [found.original, found.size];
  const wasResized = found.data !== given;
  return { data: found.data, mimeType: wasResized ? found.mimeType : mimeType || found.mimeType, originalWidth, originalHeight, width, height, wasResized };
}

/** What a model must know of a picture that was made smaller; undefined: it was not. */
function formatDimensionNote({ wasResized, originalWidth, originalHeight, width, height }) {
  if (!wasResized) return undefined;
  const scale = (originalWidth / width).toFixed(2);
  return `[Image: original ${originalWidth}x${originalHeight}, displayed at ${width}x${height}. Multiply coordinates by ${scale} to map to original image.]`;
}

module.exports = { detectSupportedImageMimeTypeFromFile, convertToPng, resizeImage, formatDimensionNote };
