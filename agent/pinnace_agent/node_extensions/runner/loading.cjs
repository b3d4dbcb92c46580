/** Loads one extension: its module, then its factory with the `pi` of it. */

"use strict";

const { pathToFileURL } = require("node:url");
const { apiOf } = require("./api.cjs");
const { installHooks } = require("./hooks.cjs");
const { addExtension } = require("./registry.cjs");

installHooks();

/** Import the file and call what it exports; returns nothing. What was registered before a failure is the agent's to drop. */
async function loadExtension({ extension: number, path }) {
  const extension = addExtension(number, path);
  const module = await import(pathToFileURL(path).href);
  let factory = module.default ?? module["module.exports"];
  if (typeof factory !== "function" && typeof factory?.default === "function") factory = factory.default;
  if (typeof factory !== "function") {
    throw new Error(`Extension does not export a valid factory function: ${path}`);
  }
  await factory(apiOf(extension));
}

module.exports = { loadExtension };
