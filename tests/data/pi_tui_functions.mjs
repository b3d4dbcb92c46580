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
  cases.push({ name, values, value: original[name](...values) });
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
process.stdout.write(`[\n${cases.map((each) => JSON.stringify(each)).join(",\n")}\n]\n`);
process.exit(0);
