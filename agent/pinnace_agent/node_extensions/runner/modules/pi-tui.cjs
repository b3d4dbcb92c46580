/**
 * The components that draw: those of pi's own package, if the client draws surfaces and pi is installed, else ours.
 *
 * The package takes 60 ms and 17 MiB, so it is not loaded where nothing is drawn.
 */

"use strict";

const { installed } = require("./installed.cjs");
const own = require("./tui.cjs");

/** The package of pi; undefined: it is not used. */
const real = process.argv[8] === "draws" ? installed("@earendil-works/pi-tui") : undefined;
/** The names of both. */
const tui = { ...own, ...real };

module.exports = { real, tui };
