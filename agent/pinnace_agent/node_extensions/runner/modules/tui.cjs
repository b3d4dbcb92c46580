/**
 * `@earendil-works/pi-tui`, where pi's own package is not used: texts are measured and cut, keys are recognised, and the
 * components draw plainly.
 */

"use strict";

module.exports = {
  ...require("./texts.cjs"), ...require("./components.cjs"), ...require("./fields.cjs"), ...require("./terminal.cjs"),
};
