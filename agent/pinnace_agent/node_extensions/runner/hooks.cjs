/**
 * How modules of extensions are found and read: TypeScript without a build step, and the packages of pi.
 *
 * The packages of pi are answered by modules of ours, also where an extension has its own copy, as pi does. TypeScript is
 * stripped of its types by node, also below `node_modules`; the result is kept with its source. Like the
 * loader of pi: relative imports need no suffix, `.js` may mean `.ts`, imports of types alone need no `type`, and modules
 * have `require`, `__dirname` and `__filename`.
 */

"use strict";

const fs = require("node:fs");
const nodeModule = require("node:module");
const path = require("node:path");
const { fileURLToPath, pathToFileURL } = require("node:url");

const cacheFolder = process.argv[5] || null;
const piFolder = process.argv[6] || null;
/** The folder of the packages of pi where pi is installed: their modules import one another, and not ours. */
const piPackages = piFolder === null ? null : pathToFileURL(`${path.dirname(piFolder)}${path.sep}`).href;
const OURS = new Map([
  ["pi-coding-agent", "coding-agent"], ["pi-ai", "ai"], ["pi-tui", "tui"], ["pi-agent-core", "agent-core"],
  ["typebox", "typebox"],
]);
const PACKAGE = /^(?:@(?:earendil-works|mariozechner)\/(pi-coding-agent|pi-ai|pi-tui|pi-agent-core)|(?:@sinclair\/)?(typebox))(\/.*)?$/;
const TYPESCRIPT = /\.[mc]?tsx?$/;
const NOT_FOUND = new Set(["ERR_MODULE_NOT_FOUND", "ERR_UNSUPPORTED_DIR_IMPORT", "MODULE_NOT_FOUND"]);
const SUFFIXES = ["", ".ts", ".js", ".mts", ".mjs", ".cts", ".cjs", ".tsx", ".json", "/index.ts", "/index.js", "/index.mjs"];
const WRITTEN = new Map([[".js", ".ts"], [".mjs", ".mts"], [".cjs", ".cts"], [".jsx", ".tsx"]]);

function installHooks() {
  nodeModule.registerHooks({ resolve, load });
}

// --- resolving -------------------------------------------------------------------------------------

function resolve(specifier, context, next) {
  const ours = PACKAGE.exec(specifier);
  if (ours && !(piPackages !== null && context.parentURL?.startsWith(piPackages))) {
    if (ours[2] && ours[3]) {
      const validator = validatorOf(specifier, context, next);
      if (validator !== undefined) return validator;
    }
    const name = OURS.get(ours[1] ?? ours[2]);
    const names = wantedNames(context.parentURL, specifier);
    return { url: `pinnace:${name}?specifier=${specifier}&names=${names}`, format: "module", shortCircuit: true };
  }
  try {
    return next(specifier, context);
  } catch (error) {
    if (!NOT_FOUND.has(error.code) || !context.parentURL?.startsWith("file:")) throw error;
    // Of a name that a package.json maps to files (`#name`), node says where it has looked.
    const place = specifier.startsWith("#") ? (error.url ?? specifier) : specifier;
    const file = fileOf(place, context.parentURL) ?? required(specifier, context.parentURL);
    if (file === undefined) throw error;
    return next(context.conditions?.includes("require") ? file : pathToFileURL(file).href, context);
  }
}

/** What validates values is not ours: it comes from the extension's own packages, else from an installation of pi. */
function validatorOf(specifier, context, next) {
  const places = [context.parentURL, piFolder === null ? undefined : pathToFileURL(path.join(piFolder, "package.json")).href];
  for (const parentURL of places) {
    try {
      if (parentURL !== undefined) return next(specifier, { ...context, parentURL });
    } catch {
      // The next place.
    }
  }
  return undefined;
}

/** A path into a package without its suffix, which only `require` completes. */
function required(specifier, parent) {
  try {
    return nodeModule.createRequire(parent).resolve(specifier);
  } catch {
    return undefined;
  }
}

/** The file that a relative or absolute path means to the loader of pi; undefined: there is none. */
function fileOf(specifier, parent) {
  if (!/^(?:\.{1,2}(?:\/|$)|\/|file:)/.test(specifier)) return undefined;
  const url = new URL(specifier.startsWith("/") ? pathToFileURL(specifier).href : specifier, parent);
  if (url.search || url.hash) return undefined;
  const wanted = fileURLToPath(url);
  const written = WRITTEN.get(path.extname(wanted));
  const candidates = SUFFIXES.map((suffix) => wanted + suffix);
  if (written) candidates.splice(1, 0, wanted.slice(0, -path.extname(wanted).length) + written);
  return candidates.find((each) => fs.statSync(each, { throwIfNoEntry: false })?.isFile());
}

const IMPORT = /\b(?:import|export)\s+(type\s+)?([\w$\s,{}*]*?)\s*from\s*(["'])([^"'\n]+)\3/g;

/** The names that a module imports from a package: those that we lack become values that fail when they are used. */
function wantedNames(parent, specifier) {
  if (!parent?.startsWith("file:")) return "";
  const names = new Set();
  for (const [, , clause, , from] of textOf(fileURLToPath(parent)).matchAll(IMPORT)) {
    if (from !== specifier) continue;
    const named = /\{([^}]*)\}/.exec(clause)?.[1] ?? "";
    for (const each of named.split(",")) {
      const name = each.trim().replace(/^type\s+/, "").split(/\s+as\s+/)[0];
      if (/^[\w$]+$/.test(name) && name !== "default") names.add(name);
    }
  }
  return [...names].sort().join(",");
}

function textOf(file) {
  return fs.readFileSync(file, "utf8");
}

// --- loading ---------------------------------------------------------------------------------------

function load(url, context, next) {
  if (url.startsWith("pinnace:")) return { format: "module", source: facade(new URL(url)), shortCircuit: true };
  if (!url.startsWith("file:")) return next(url, context);
  const file = fileURLToPath(url);
  // The loader of pi needs no attribute to import JSON.
  if (file.endsWith(".json") && !context.conditions?.includes("require")) {
    return { format: "module", source: `export default ${textOf(file)};`, shortCircuit: true };
  }
  if (!TYPESCRIPT.test(file)) return next(url, context);
  return { ...withoutTypes(file), shortCircuit: true };
}

/** A module that has the names of ours, and a value that fails when it is used for each other name that is imported. */
function facade(url) {
  const name = url.pathname;
  const specifier = url.searchParams.get("specifier");
  const wanted = (url.searchParams.get("names") || "").split(",").filter(Boolean);
  const names = Object.keys(require(`./modules/${name}.cjs`)).filter((each) => each !== "default");
  const lines = [
    `const $require = process.getBuiltinModule("node:module").createRequire(${JSON.stringify(__filename)});`,
    `const $ours = $require("./modules/${name}.cjs");`,
    'const { missing: $missing } = $require("./modules/missing.cjs");',
    "export default $ours.default ?? $ours;",
  ];
  // Those of pi's own package go before ours, where it is used.
  const mayBeReal = name === "tui";
  if (mayBeReal) lines.push('const { real: $real } = $require("./modules/pi-tui.cjs");');
  const single = wanted.filter((each) => each !== "default" && (mayBeReal || !names.includes(each)));
  for (const each of single) {
    const first = mayBeReal ? `$real?.${each} ?? ` : "";
    lines.push(`const _${each} = ${first}$ours.${each} ?? $missing(${JSON.stringify(specifier)}, ${JSON.stringify(each)});`);
    lines.push(`export { _${each} as ${each} };`);
  }
  // The others in one statement: there are some hundred, of which most are not used.
  lines.push(`export const { ${names.filter((each) => !single.includes(each)).join(", ")} } = $ours;`);
  return lines.join("\n");
}

/** The source of a TypeScript module as JavaScript, and its format. */
function withoutTypes(file) {
  const source = textOf(file);
  const place = cacheFolder === null ? null : placeOf(file);
  let code = place === null ? undefined : kept(place, file, source);
  if (code === undefined) {
    code = withoutUnused(strip(source, file));
    if (place !== null) keep(place, { format: FORMAT, node: process.version, file, source, code });
  }
  const isCommon = file.endsWith(".cts") || (!file.endsWith(".mts") && !isModule(code) && /\b(?:module\.exports|exports\.\w+\s*=)/.test(code));
  return isCommon ? { format: "commonjs", source: code } : { format: "module", source: withCommon(code) };
}

function strip(source, file) {
  try {
    return nodeModule.stripTypeScriptTypes(source, { mode: "strip" });
  } catch (error) {
    // Enums, namespaces and parameter properties are code.
    if (error.code !== "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX") throw located(error, file);
  }
  try {
    return nodeModule.stripTypeScriptTypes(source, { mode: "transform" });
  } catch (error) {
    throw located(error, file);
  }
}

function located(error, file) {
  error.message = `${file}: ${error.message}`;
  return error;
}

const isModule = (code) => /^\s*(?:import\b(?!\s*\()|export\b)/m.test(code) || /\bimport\.meta\b/.test(code);

/** Drop imports of names that only types used: what is left of the file does not have them. */
function withoutUnused(code) {
  const statements = [...code.matchAll(/^[ \t]*import\s+([\w$\s,{}*]+?)\s+from\s*(["'])([^"'\n]+)\2[ \t]*;?/gm)];
  let rest = code;
  for (const { 0: text } of statements) rest = rest.replace(text, "");
  rest = codeOf(rest);
  const isUsed = (local) => new RegExp(`(?<![\\w$])${local.replaceAll("$", "\\$")}(?![\\w$])`).test(rest);
  return code.replace(/^[ \t]*import\s+([\w$\s,{}*]+?)\s+from\s*(["'])([^"'\n]+)\2[ \t]*;?/gm, (text, clause, quote, from) => {
    if (PACKAGE.test(from)) return text;
    const named = /\{([^}]*)\}/.exec(clause);
    const outside = clause.replace(/\{[^}]*\}/, "").split(",").map((each) => each.trim()).filter(Boolean);
    const keptOutside = outside.filter((each) => isUsed(each.replace(/^\*\s+as\s+/, "")));
    const all = named ? named[1].split(",").map((each) => each.trim()).filter(Boolean) : [];
    const keptNamed = all.filter((each) => isUsed(each.split(/\s+as\s+/).at(-1)));
    if (keptOutside.length === outside.length && keptNamed.length === all.length) return text;
    const lines = "\n".repeat(text.split("\n").length - 1); // so that lines keep their numbers
    const parts = [...keptOutside, ...(keptNamed.length ? [`{ ${keptNamed.join(", ")} }`] : [])];
    return parts.length ? `import ${parts.join(", ")} from ${quote}${from}${quote};${lines}` : lines;
  });
}

const REGEX_BEFORE = /(?:^|[(,=:[!&|?{};+\-*%~^<>}]|\b(?:return|typeof|case|in|of|delete|void|throw|new|else|do|await|yield))\s*$/;
const LITERALS = { "'": /'(?:[^'\\\n]|\\[\s\S])*'?/y, '"': /"(?:[^"\\\n]|\\[\s\S])*"?/y };
const COMMENT = /\/\/.*|\/\*[\s\S]*?(?:\*\/|$)/y;
const REGEX = /\/(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/\w*/y;
const TEMPLATE = /(?:[^`\\$]|\\[\s\S]|\$(?!\{))*/y;

/** What is code in a text: comments, strings, regular expressions and the texts of templates are blanks. */
function codeOf(text) {
  const open = []; // of each template that is being read, the braces that its code has open
  let code = "";
  let at = 0;
  const skip = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.test(text);
    if (found) at = pattern.lastIndex;
    return found;
  };
  const template = () => {
    skip(TEMPLATE);
    if (text[at] === "$") open.push(0);
    at += text[at] === "$" ? 2 : 1;
    code += " ";
  };
  while (at < text.length) {
    const char = text[at];
    if (char === "/" && (skip(COMMENT) || (REGEX_BEFORE.test(code.slice(-20)) && skip(REGEX)))) {
      code += " ";
    } else if (char in LITERALS) {
      skip(LITERALS[char]);
      code += '""'; // after a value, "/" divides
    } else if (char === "`" || (char === "}" && open.at(-1) === 0)) {
      if (char === "}") open.pop();
      at += 1;
      template();
    } else {
      if (open.length > 0) open[open.length - 1] += { "{": 1, "}": -1 }[char] ?? 0;
      code += char;
      at += 1;
    }
  }
  return code;
}

/** Give a module what CommonJS has, on its first line. */
function withCommon(code) {
  const lacks = (name) => new RegExp(`(?<![\\w$.])${name}(?![\\w$])`).test(code) && !new RegExp(`\\b(?:const|let|var|function)\\s+(?:\\{[^}]*\\b)?${name}\\b`).test(code);
  const lines = [];
  if (lacks("require")) lines.push("const require = process.getBuiltinModule('node:module').createRequire(import.meta.url);");
  if (lacks("__filename")) lines.push("const __filename = import.meta.filename;");
  if (lacks("__dirname")) lines.push("const __dirname = import.meta.dirname;");
  return lines.join(" ") + code;
}

// --- the cache -------------------------------------------------------------------------------------

/** Changes with what is made of a source. */
const FORMAT = 3;

/** The file for what was made of a source file; two of a very long path may have the same. */
const placeOf = (file) => path.join(cacheFolder, "stripped", `${Buffer.from(file).toString("base64url").slice(-200)}.json`);

/** What was made of exactly this source; compared with it, since to hash it takes longer to load than to read it. */
function kept(place, file, source) {
  try {
    const found = JSON.parse(textOf(place));
    const isIt = found.format === FORMAT && found.node === process.version && found.file === file && found.source === source;
    return isIt && typeof found.code === "string" ? found.code : undefined;
  } catch {
    return undefined;
  }
}

function keep(place, entry) {
  try {
    fs.mkdirSync(path.dirname(place), { recursive: true, mode: 0o700 });
    const whole = `${place}.${process.pid}`;
    fs.writeFileSync(whole, JSON.stringify(entry), { mode: 0o600 });
    fs.renameSync(whole, place);
  } catch {
    // A cache that can't be written makes the next start slower, no more.
  }
}

module.exports = { installHooks };
