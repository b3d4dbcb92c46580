/**
 * Stands for a name of pi's packages that we lack: it can be imported and extended, and throws an error that names it when
 * it is used. If the user has an installation of pi, it is what that has; else it may be something of ours, which does not
 * replace pi's where the other names that it is used with come from pi.
 */

import { createRequire } from "node:module";

const root = process.argv[6] || null;

export function missing(specifier, name, ours) {
  let real;
  const found = () => {
    if (real === undefined && root !== null) {
      try {
        real = createRequire(`${root}/package.json`)(specifier.replace("@mariozechner/", "@earendil-works/"))[name];
      } catch {
        // As without an installation.
      }
    }
    real ??= ours;
    if (real === undefined) throw new Error(`${name} of ${specifier} is not available in pinnace; see docs/typescript-extensions.md`);
    return real;
  };
  const target = function () {};
  return new Proxy(target, {
    get(_target, member) {
      // What `class … extends`, promises and printing read is no use of it.
      if (member === "prototype" || member === "then" || member === "name" || typeof member === "symbol") return target[member];
      return Reflect.get(found(), member);
    },
    apply: (_target, _self, values) => found()(...values),
    construct: (_target, values, made) => Reflect.construct(found(), values, made === _target ? undefined : made),
  });
}
