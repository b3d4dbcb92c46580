/**
 * The components that draw: those of pi's own package, if the client draws surfaces and pi is installed, else ours.
 *
 * The package takes 60 ms and 17 MiB, so it is not loaded where nothing is drawn.
 */

import { createRequire } from "node:module";
import * as own from "./tui.mjs";

const [root, draws] = [process.argv[6] || null, process.argv[8] === "draws"];

/** The package of pi; undefined: it is not used. */
export const real = draws && root !== null ? installed() : undefined;
/** The names of both. */
export const tui = { ...own, ...real };

function installed() {
  try {
    return createRequire(`${root}/package.json`)("@earendil-works/pi-tui");
  } catch {
    return undefined; // an installation that lacks it
  }
}
