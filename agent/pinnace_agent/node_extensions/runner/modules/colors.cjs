/**
 * Colors of `pi-tui`: made, read, mixed, and written as sequences of a terminal.
 *
 * A color is one of 256 of the terminal, of sRGB (channels 0 to 255), or of OKLCH, whose matrices are those of its author, Björn
 * Ottosson. One that sRGB lacks is shown with its hue and lightness and as much chroma as there is. OKHSL is not there.
 */

"use strict";

function finite(value, name) {
  if (!Number.isFinite(value)) throw new Error(`${name} must be finite`);
}
function within(value, name, most) {
  if (value < 0 || value > most) throw new Error(`${name} must be between 0 and ${most}: ${value}`);
}

function indexedColor(index) {
  const isOne = Number.isInteger(index) && index >= 0 && index <= 255;
  if (!isOne) throw new Error(`ANSI color index must be an integer from 0 to 255: ${index}`);
  return Object.freeze({ kind: "indexed", index });
}

function rgbColor(r, g, b) {
  for (const [name, value] of Object.entries({ r, g, b })) {
    finite(value, name);
    within(value, name, 255);
  }
  return Object.freeze({ kind: "rgb", r, g, b });
}

function oklchColor(l, c, h) {
  for (const [name, value] of Object.entries({ l, c, h })) finite(value, name);
  within(l, "l", 1);
  if (c < 0) throw new Error(`c must not be negative: ${c}`);
  return Object.freeze({ kind: "oklch", l, c, h: turned(h) });
}
const turned = (degrees) => ((degrees % 360) + 360) % 360;

const NUMBER = "[+-]?(?:\\d+(?:\\.\\d*)?|\\.\\d+)(?:e[+-]?\\d+)?";
const OKLCH = new RegExp(`^oklch\\(\\s*(${NUMBER})(%?)\\s+(${NUMBER})\\s+(${NUMBER})(?:deg)?\\s*\\)$`, "i");

/** A color as text: `#rgb`, `#rrggbb`, `oklch(l c h)`; or its number among 256. */
function parseColor(value) {
  if (typeof value === "number") return indexedColor(value);
  const [, hex] = /^#((?:[\da-f]{3}){1,2})$/i.exec(value) ?? [];
  if (hex) {
    const whole = hex.length === 3 ? hex.replace(/./g, "$&$&") : hex;
    return rgbColor(...whole.match(/../g).map((digits) => Number.parseInt(digits, 16)));
  }
  const [, l, percent, c, h] = OKLCH.exec(value) ?? [];
  if (l !== undefined) return oklchColor(Number(l) / (percent ? 100 : 1), Number(c), Number(h));
  throw new Error(`Invalid color value: ${value}`);
}

// --- spaces ----------------------------------------------------------------------------------------

const times = (matrix, vector) => matrix.map((row) => row.reduce((sum, factor, at) => sum + factor * vector[at], 0));
const LMS_OF_LINEAR = [
  [0.4122214694707629, 0.5363325372617349, 0.0514459932675022],
  [0.2119034958178251, 0.6806995506452344, 0.1073969535369405],
  [0.0883024591900564, 0.2817188391361215, 0.6299787016738222],
];
const LAB_OF_LMS = [
  [0.210454268309314, 0.793617774702305, -0.0040720430116193],
  [1.9779985324311684, -2.42859224204858, 0.450593709617411],
  [0.0259040424655478, 0.7827717124575296, -0.8086757549230774],
];
const LMS_OF_LAB = [
  [1, 0.3963377773761749, 0.2158037573099136],
  [1, -0.1055613458156586, -0.0638541728258133],
  [1, -0.0894841775298119, -1.2914855480194092],
];
const LINEAR_OF_LMS = [
  [4.0767416360759583, -3.3077115392580629, 0.2309699031821043],
  [-1.2684379732850315, 2.6097573492876882, -0.341319376002657],
  [-0.0041960761386756, -0.7034186179359362, 1.7076146940746117],
];
const linearOf = (channel) => (channel <= 0.04045 ? channel / 12.92 : ((channel + 0.055) / 1.055) ** 2.4);
const encoded = (linear) => (linear > 0.0031308 ? 1.055 * linear ** (1 / 2.4) - 0.055 : 12.92 * linear);
const byte = (linear) => Math.round(Math.min(1, Math.max(0, encoded(linear))) * 255);

const NEARLY = 1e-7;
const GRAY_BELOW = 1e-7;
const HALVINGS = 20;

function rgbOfOklch({ l, c, h }) {
  const angle = (h * Math.PI) / 180;
  const linearAt = (chroma) => {
    const lms = times(LMS_OF_LAB, [l, chroma * Math.cos(angle), chroma * Math.sin(angle)]);
    return times(LINEAR_OF_LMS, lms.map((each) => each ** 3));
  };
  const isThere = (linear) => linear.every((each) => each >= -NEARLY && each <= 1 + NEARLY);
  let found = linearAt(c);
  if (!isThere(found)) {
    let [low, high] = [0, c];
    found = linearAt(0);
    for (let step = 0; step < HALVINGS; step++) {
      const chroma = (low + high) / 2;
      const linear = linearAt(chroma);
      if (isThere(linear)) [low, found] = [chroma, linear];
      else high = chroma;
    }
  }
  const [r, g, b] = found.map(byte);
  return { r, g, b };
}

const CUBE = [0, 95, 135, 175, 215, 255];
const GRAYS = Array.from({ length: 24 }, (_, at) => 8 + 10 * at);
const FIRST_OF_CUBE = 16;
const FIRST_GRAY = 232;

function rgbOfIndex(index) {
  const of = (r, g, b) => ({ r, g, b });
  if (index >= FIRST_GRAY) return of(...Array(3).fill(GRAYS[index - FIRST_GRAY]));
  if (index >= FIRST_OF_CUBE) {
    const at = index - FIRST_OF_CUBE;
    return of(CUBE[Math.floor(at / 36)], CUBE[Math.floor(at / 6) % 6], CUBE[at % 6]);
  }
  if (index === 7) return of(192, 192, 192);
  if (index === 8) return of(128, 128, 128);
  const level = index < 8 ? 128 : 255;
  return of(...[1, 2, 4].map((bit) => (index & bit ? level : 0)));
}

function colorToRgb(color) {
  if (color.kind === "indexed") return rgbOfIndex(color.index);
  if (color.kind === "oklch") return rgbOfOklch(color);
  return { r: color.r, g: color.g, b: color.b };
}

function colorToOklch(color) {
  if (color.kind === "oklch") return { l: color.l, c: color.c, h: color.h };
  const { r, g, b } = colorToRgb(color);
  const lms = times(LMS_OF_LINEAR, [r, g, b].map((each) => linearOf(each / 255)));
  const [l, x, y] = times(LAB_OF_LMS, lms.map(Math.cbrt));
  return { l, c: Math.hypot(x, y), h: ((Math.atan2(y, x) * 180) / Math.PI + 360) % 360 };
}

function colorToHex(color) {
  const digits = Object.values(colorToRgb(color)).map((each) => Math.round(each).toString(16).padStart(2, "0"));
  return `#${digits.join("")}`;
}

/** A color between two, around the shorter way of their hues; a gray has the hue of the other. */
function mixColors(first, second, amount, space = "oklch") {
  finite(amount, "amount");
  within(amount, "amount", 1);
  const between = (one, other) => one + (other - one) * amount;
  if (space === "srgb") {
    const [one, other] = [colorToRgb(first), colorToRgb(second)];
    return rgbColor(between(one.r, other.r), between(one.g, other.g), between(one.b, other.b));
  }
  const [one, other] = [colorToOklch(first), colorToOklch(second)];
  const begin = one.c < GRAY_BELOW ? other.h : one.h;
  const end = other.c < GRAY_BELOW ? begin : other.h;
  const turn = ((end - begin + 540) % 360) - 180;
  return oklchColor(between(one.l, other.l), between(one.c, other.c), begin + turn * amount);
}

// --- sequences -------------------------------------------------------------------------------------

const nearest = (values, wanted) =>
  values.reduce((best, value, at) => (Math.abs(wanted - value) < Math.abs(wanted - values[best]) ? at : best), 0);
const brightness = ([r, g, b]) => 0.299 * r + 0.587 * g + 0.114 * b;

/** The nearest of the colors that all terminals with 256 have. */
function indexOf({ r, g, b }) {
  const channels = [r, g, b];
  const cube = channels.map((each) => nearest(CUBE, each));
  const gray = nearest(GRAYS, Math.round(brightness(channels)));
  const distance = (values) => brightness(channels.map((each, at) => (each - values[at]) ** 2));
  const isGray = Math.max(...channels) - Math.min(...channels) < 10;
  if (isGray && distance(Array(3).fill(GRAYS[gray])) < distance(cube.map((at) => CUBE[at]))) return FIRST_GRAY + gray;
  return FIRST_OF_CUBE + 36 * cube[0] + 6 * cube[1] + cube[2];
}

function sequence(color, mode, ground) {
  if (color.kind === "indexed") return `\x1b[${ground};5;${color.index}m`;
  const rgb = colorToRgb(color);
  if (mode !== "truecolor") return `\x1b[${ground};5;${indexOf(rgb)}m`;
  return `\x1b[${ground};2;${Object.values(rgb).map(Math.round).join(";")}m`;
}
const foregroundAnsi = (color, mode) => sequence(color, mode, 38);
const backgroundAnsi = (color, mode) => sequence(color, mode, 48);

const STYLES = [["bold", 1, 22], ["dim", 2, 22], ["italic", 3, 23], ["underline", 4, 24], ["inverse", 7, 27], ["strikethrough", 9, 29]];

/** A text in a style; what is opened first is closed last, and once. */
function styleTextWithAnsi(text, foreground, background, options) {
  const begins = [];
  const ends = new Set();
  const open = (begin, end) => {
    begins.push(begin);
    ends.add(end);
  };
  if (foreground) open(foreground, 39);
  if (background) open(background, 49);
  for (const [name, begin, end] of STYLES) if (options[name]) open(`\x1b[${begin}m`, end);
  return `${begins.join("")}${text}${[...ends].reverse().map((end) => `\x1b[${end}m`).join("")}`;
}

const styleText = (text, { fg, bg, ...options }, mode) =>
  styleTextWithAnsi(text, fg && foregroundAnsi(fg, mode), bg && backgroundAnsi(bg, mode), options);

module.exports = {
  indexedColor, rgbColor, oklchColor, parseColor, colorToRgb, colorToOklch, colorToHex, mixColors, foregroundAnsi, backgroundAnsi,
  styleText, styleTextWithAnsi,
};
