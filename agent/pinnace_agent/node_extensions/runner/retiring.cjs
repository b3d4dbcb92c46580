/**
 * The end of a session's extensions in a process that goes on with those of the next session.
 *
 * What they have registered is dropped at once. Their functions may still be called, and may ask, until the agent forgets them:
 * a command that has replaced the session continues in the next one.
 */

"use strict";

const parts = [];

/** Have a part of this process drop what it keeps of the extensions whenever their session has ended. */
function atRetirement(drop) {
  parts.push(drop);
}

function retire() {
  for (const drop of parts) drop();
}

module.exports = { atRetirement, retire };
