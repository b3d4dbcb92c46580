// Makes pi-tui-functions-of-pi-1.5.2.json: what functions of pi-tui return for generated values.
//
//     node tests/data/pi_tui_functions.mjs FOLDER > tests/data/pi-tui-functions-of-pi-1.5.2.json
//
// FOLDER is the package @earendil-works/pi-tui 1.5.2 with its dependencies, as npm installs it.

const [, , folder] = process.argv;
const original = await import(`${folder}/dist/index.js`);

let seed = 11;
function below(limit) {
  seed = (seed * 1103515245 + 12345) % 2 ** 31;
  return Math.floor(seed / 2 ** 16) % limit;
}
const one = (values) => values[below(values.length)];

const cases = [];
function add(name, ...values) {
  let outcome;
  try {
    outcome = { value: original[name](...values) };
  } catch (error) {
    outcome = { error: error.message };
  }
  cases.push({ name, values, ...outcome });
}

const PIECES = ["a", "b", "é", "日", "😀", "\x1b[31m", "\x1b[0m", "\x1b_pi:c\x07", " ", "x\u0301", "\x1b[1;4m"];
for (let each = 0; each < 80; each++) {
  const text = Array.from({ length: below(14) }, () => one(PIECES)).join("");
  add("sliceByColumn", text, below(6), below(8), below(2) === 1);
  add("stripTerminalSequences", text);
  add("replaceControlCharacters", text);
}
const CODES = [97, 65, 32, 13, 57399, 57409, 57348, 0x1f600, 233];
for (let each = 0; each < 80; each++) {
  const shifted = one(["", ":65", "::97", ":65:97"]);
  const modifiers = one(["", ";1", ";2", ";3", ";5", ";65", ";66", ";9", ";2:1", ";2:3"]);
  add("decodeKittyPrintable", `\x1b[${one(CODES)}${shifted}${modifiers}u`);
}
add("decodeKittyPrintable", "a");
const begin = (text, ...bytes) => Buffer.concat([Buffer.from(text, "latin1"), Buffer.from(bytes)]);
const PICTURES = [
  Buffer.from("89504e470d0a1a0a0000000d4948445200000003000000050802", "hex"),
  begin("GIF89a", 3, 0, 5, 0, 0, 0),
  begin("RIFFxxxxWEBPVP8X", 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 4, 0, 0),
  begin("RIFFxxxxWEBPVP8L", 0, 0, 0, 0, 0x2f, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0),
  begin("RIFFxxxxWEBPVP8 ", ...Array(10).fill(0), 3, 0, 5, 0),
  Buffer.from("ffd8ffe000104a46494600010100000100010000ffc00011080005000303012200021101031101", "hex"),
];
for (const picture of PICTURES) {
  for (const type of ["image/png", "image/gif", "image/webp", "image/jpeg", "text/plain"]) {
    for (const cut of [0, 3, 10]) add("getImageDimensions", picture.subarray(0, picture.length - cut).toString("base64"), type);
  }
}
add("getImageDimensions", Buffer.alloc(100, 0xff).fill(0xd8, 1, 2).fill(0, 2).toString("base64"), "image/jpeg");
add("imageFallback", "image/png", { widthPx: 1, heightPx: 2 }, "a.png");
add("hyperlink", "a", "https://a.example");
const COLORS = [
  ...[0, 7, 8, 12, 16, 100, 231, 232, 255].map((index) => ({ kind: "indexed", index })),
  ...Array.from({ length: 25 }, () => ({ kind: "rgb", r: below(256), g: one([below(256), 128]), b: below(2560) / 10.1 })),
  ...[0, 8, 9, 90, 127, 128, 200, 250, 255].map((gray) => ({ kind: "rgb", r: gray, g: gray, b: gray + (gray < 250 ? below(6) : 0) })),
  ...Array.from({ length: 25 }, () => ({ kind: "oklch", l: below(101) / 100, c: below(40) / 100, h: below(3600) / 10 })),
];
for (const color of COLORS) {
  for (const name of ["colorToRgb", "colorToOklch", "colorToHex"]) add(name, color);
  for (const mode of ["truecolor", "256color"]) [add("foregroundAnsi", color, mode), add("backgroundAnsi", color, mode)];
  add("mixColors", color, one(COLORS), below(11) / 10, ...one([[], ["srgb"], ["oklch"]]));
  const flags = ["bold", "dim", "italic", "underline", "inverse", "strikethrough"].filter(() => below(3) === 0);
  const style = { ...Object.fromEntries(flags.map((name) => [name, true])), ...one([{}, { fg: color }, { bg: color }, { fg: color, bg: one(COLORS) }]) };
  add("styleText", "text", style, one(["truecolor", "256color"]));
  add("styleTextWithAnsi", "text", one([null, "", "\x1b[31m"]), one([null, "\x1b[41m"]), style);
}
const TEXTS = [
  ...["#fff", "#A0b1C2", "#12", "#12345g", "oklch(50% 0.1 120)", "oklch(.5 .1 -30deg)", "OKLCH( 1e-1 0 720 )", "oklch(2 0 0)", "oklch(1 -1 0)"],
  ...["oklch(0.5 0.1)", "red", "", 3, 255, 256, -1, 1.5],
];
for (const text of TEXTS) add("parseColor", text);
for (const values of [[0, 0, 0], [1, 0.4, -10], [0.5, 0.1, 725], [2, 0, 0], [0, -1, 0]]) add("oklchColor", ...values);
for (const values of [[0, 0, 0], [255, 1.5, 3], [256, 0, 0], [0, -1, 0]]) add("rgbColor", ...values);
add("mixColors", COLORS[0], COLORS[1], 2);
process.stdout.write(`[\n${cases.map((each) => JSON.stringify(each)).join(",\n")}\n]\n`);
process.exit(0);
