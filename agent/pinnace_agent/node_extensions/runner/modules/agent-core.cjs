/** `@earendil-works/pi-agent-core`: types; every value is one that we lack. */

"use strict";
