/**
 * Stands for a name of pi's packages that we lack: it can be imported and extended, and throws an error that names it when
 * it is used. If the user has an installation of pi, it is what that has; else it may be something of ours, which `load` returns
 * and which does not replace pi's where the other names that it is used with come from pi.
 */

"use strict";

const { installed } = require("./installed.cjs");

function missing(specifier, name, load) {
  return standIn(name, () => installed(specifier)?.[name] ?? load?.(), specifier);
}

/** Stands for a function or a class of ours, which is loaded with its first use. */
const later = (name, load) => standIn(name, load);

function standIn(name, load, specifier) {
  let real;
  const found = () => {
    real ??= load();
    if (real === undefined) {
      throw new Error(`${name} of ${specifier} is not available in pinnace; see docs/typescript-extensions.md`);
    }
    // For classes that were made from it before: they extend what stands for it.
    if (real.prototype && real !== linked) Object.setPrototypeOf(target.prototype, (linked = real).prototype);
    return real;
  };
  let linked;
  const target = function () {};
  Object.defineProperty(target, "name", { value: name });
  const stand = new Proxy(target, {
    get(_target, member) {
      // Once there may be instances, `instanceof` must find them.
      if (member === "prototype" && real?.prototype) return real.prototype;
      // What `class … extends`, promises and printing read is no use of it.
      if (member === "prototype" || member === "then" || member === "name" || typeof member === "symbol") return target[member];
      return Reflect.get(found(), member);
    },
    apply: (_target, _self, values) => found()(...values),
    construct: (_target, values, made) => Reflect.construct(found(), values, made === stand ? found() : made),
  });
  return stand;
}

module.exports = { missing, later };
