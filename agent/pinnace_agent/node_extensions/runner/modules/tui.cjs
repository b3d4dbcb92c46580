/**
 * `@earendil-works/pi-tui`, where pi's own package is not used: texts are measured and cut, keys are recognised, and the
 * components draw plainly.
 */

"use strict";

module.exports = {
  ...require("./texts.cjs"), ...require("./components.cjs"), ...require("./fields.cjs"), ...require("./terminal.cjs"),
};

const COLORS = [
  ...["indexedColor", "rgbColor", "oklchColor", "parseColor", "colorToRgb", "colorToOklch", "colorToHex", "mixColors"],
  ...["foregroundAnsi", "backgroundAnsi", "styleText", "styleTextWithAnsi"],
];
for (const name of COLORS) {
  Object.defineProperty(module.exports, name, { enumerable: true, get: () => require("./colors.cjs")[name] });
}
