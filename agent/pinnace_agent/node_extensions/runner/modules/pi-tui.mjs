/**
 * The components that draw: those of pi's own package, if the client draws surfaces and pi is installed, else ours.
 *
 * The package takes 60 ms and 17 MiB, so it is not loaded where nothing is drawn.
 */

import { installed } from "./installed.mjs";
import * as own from "./tui.mjs";

/** The package of pi; undefined: it is not used. */
export const real = process.argv[8] === "draws" ? installed("@earendil-works/pi-tui") : undefined;
/** The names of both. */
export const tui = { ...own, ...real };
