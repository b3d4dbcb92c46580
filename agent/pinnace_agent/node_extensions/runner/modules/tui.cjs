/**
 * `@earendil-works/pi-tui`, where pi's own package is not used: texts are measured and cut, keys are recognised, and the
 * components draw plainly.
 */

"use strict";

/** The keys of the client, as the user has them: what components of pi ask for. */
const getKeybindings = () => require("../keys.cjs").keybindings();

module.exports = { getKeybindings, ...require("./texts.cjs"), ...require("./components.cjs"), ...require("./fields.cjs") };
