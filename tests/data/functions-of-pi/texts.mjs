/** Skills, differences, pictures and what else needs no screen: each case as in `sessions.mjs`. */

import fs from "node:fs";
import path from "node:path";
import zlib from "node:zlib";
import { rand } from "./entries.mjs";

const each = (count, run) => Array.from({ length: count }, (_, seed) => run(rand(seed), seed));
const WORDS = ["a", "b", "c", "same", "two words", "", "  indented", "\ttab", "é ü", "last"];

/** A text of some lines, with or without an end of the last one. */
function textOf(next, most) {
  const lines = Array.from({ length: Math.floor(next() * most) }, () => WORDS[Math.floor(next() * WORDS.length)]);
  return lines.join("\n") + (next() < 0.5 ? "\n" : "");
}

/** Some lines changed, left out or put in. */
function changed(next, text) {
  return text.split("\n").flatMap((line) => {
    const at = next();
    return at < 0.07 ? [] : at < 0.14 ? [line, "new"] : at < 0.2 ? [`${line} more`] : [line];
  }).join("\n");
}

/** Without colours, and without the blanks at ends of lines that comparing words by jsdiff may add. */
const plain = (text) => text.replace(/\x1b\[[0-9;]*m/g, "").replace(/ +$/gm, "");

const SKILLS = {
  "good/SKILL.md": "---\nname: good\ndescription: Good <skill> & \"so\" 'on'\n---\nDo it.\n",
  "other/SKILL.md": "---\nname: named\ndescription: other\n---\nbody\n",
  "noname/SKILL.md": "---\ndescription: no name\n---\nbody\n",
  "nodesc/SKILL.md": "---\nname: nodesc\n---\nbody\n",
  "Bad_Name/SKILL.md": "---\ndescription: bad name\n---\nbody\n",
  "hidden/SKILL.md": "---\nname: hidden-one\ndescription: h\ndisable-model-invocation: true\n---\nb\n",
  "deep/er/SKILL.md": "---\ndescription: deep\n---\nb\n",
  "good/nested/SKILL.md": "---\ndescription: below a skill\n---\nb\n",
  "root.md": "---\nname: rootskill\ndescription: in the folder itself\n---\nb\n",
  "plain.md": "plain\n",
  "node_modules/x/SKILL.md": "---\ndescription: nm\n---\nb\n",
  ".gitignore": "ignored/\n",
  "ignored/SKILL.md": "---\ndescription: ign\n---\nb\n",
  "twin/SKILL.md": "---\nname: named\ndescription: the same name\n---\nb\n",
};

function filled(cwd) {
  const skills = path.join(cwd, ".pi", "skills");
  for (const [name, text] of Object.entries(SKILLS)) {
    fs.mkdirSync(path.dirname(path.join(skills, name)), { recursive: true });
    fs.writeFileSync(path.join(skills, name), text);
  }
  fs.mkdirSync(path.join(cwd, "below", "deeper"), { recursive: true });
  fs.writeFileSync(path.join(cwd, "AGENTS.md"), "outer\n");
  fs.writeFileSync(path.join(cwd, "below", "CLAUDE.md"), "inner\n");
  return skills;
}

const byPath = (one, other) => (one.filePath ?? one.path).localeCompare(other.filePath ?? other.path);
const reported = ({ type, path, collision }) => ({ type, path, collision });

/** What was found; the words of warnings are each program's own. */
function sorted({ skills, diagnostics }) {
  return { skills: skills.toSorted(byPath), diagnostics: diagnostics.map(reported).toSorted(byPath) };
}

/** A picture in grey of a size, as PNG. */
function png(width, height) {
  const chunk = (kind, data) => {
    const body = Buffer.concat([Buffer.from(kind), data]);
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(zlib.crc32(body));
    return Buffer.concat([length, body, sum]);
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width);
  header.writeUInt32BE(height, 4);
  header[8] = 8;
  const rows = zlib.deflateSync(Buffer.alloc((width + 1) * height));
  return Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), chunk("IHDR", header), chunk("IDAT", rows), chunk("IEND", Buffer.alloc(0))]);
}

const PNG = png(3, 2);
const GIF = Buffer.from("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7", "base64");

export const cases = {
  differences: (pi) => each(300, (next) => {
    const old = textOf(next, 40);
    const present = next() < 0.8 ? changed(next, old) : textOf(next, 12);
    const lines = [undefined, 0, 1, 3, 10][Math.floor(next() * 5)];
    return [pi.generateDiffString(old, present, lines), pi.generateUnifiedPatch("a/b.txt", old, present, lines)];
  }),

  /** The colours are each program's own, and so is which words are marked; the text is not. */
  drawnDifferences: (pi) => {
    pi.initTheme();
    return [
      ...each(60, (next) => {
        const old = textOf(next, 20);
        return plain(pi.renderDiff(pi.generateDiffString(old, changed(next, old)).diff));
      }),
      ...["", "no difference", "+1 a\n+2 b", "-1 a\n-2 b\n+1 c", "-1 \ta b\n+1 \ta c"].map((text) => plain(pi.renderDiff(text))),
    ];
  },

  visualLines: (pi) => ["", "a", "a\nb\nc\nd", "word ".repeat(30)].map((text) => [1, 2, 99].map((most) =>
    [["end", 0], ["start", 1]].map(([keep, padding]) => pi.truncateToVisualLines(text, most, 20, padding, keep)))),

  lineRanges: (pi) => [undefined, null, 0, 1, 5, "7", " ", "x", NaN, {}].flatMap((offset) =>
    [undefined, null, 0, 1, 10, "3", "x"].map((limit) => pi.formatReadLineRange(offset, limit))),

  dimensions: (pi) => [
    { wasResized: false }, { wasResized: true, originalWidth: 4000, originalHeight: 3000, width: 2000, height: 1500 },
    { wasResized: true, originalWidth: 3, originalHeight: 1, width: 2, height: 1 },
  ].map((size) => pi.formatDimensionNote(size)),

  skillBlocks: (pi) => [
    "", "text", '<skill name="a" location="/b">\nbody\n</skill>', '<skill name="a" location="/b">\nbody\nmore\n</skill>\n\n  do it \n',
    '<skill name="a" location="/b">\nbody\n</skill>\n\n \n', ' <skill name="a" location="/b">\nbody\n</skill>', '<skill name="" location="/b">\nb\n</skill>',
    '<skill name="a" location="/b">\n\n</skill>\nno blank line',
  ].map((text) => pi.parseSkillBlock(text)),

  sources: (pi) => [
    ["/a", { source: "local" }], ["/a", { source: "npm:x", scope: "user", origin: "package", baseDir: "/b", changelogPath: "/c" }],
  ].map((values) => pi.createSyntheticSourceInfo(...values)),

  skills: (pi, { cwd }) => {
    const dir = filled(cwd);
    const load = (more) => sorted(pi.loadSkills({ cwd, agentDir: path.join(cwd, "none"), skillPaths: [], includeDefaults: false, ...more }));
    const own = { agentDir: path.join(cwd, ".pi"), includeDefaults: true };
    return [
      ...["user", "project", "path", "mine"].map((source) => sorted(pi.loadSkillsFromDir({ dir, source }))),
      sorted(pi.loadSkillsFromDir({ dir: path.join(cwd, "absent"), source: "mine" })), load({ includeDefaults: true }), load(own),
      load({ skillPaths: [path.join(".pi", "skills", "good")] }), load({ agentDir: path.join(cwd, ".pi"), skillPaths: [dir] }),
      load({ ...own, skillPaths: [`  ${path.join(dir, "root.md")} `, "absent", path.join(dir, ".gitignore")] }),
    ];
  },

  contextFiles: (pi, { cwd }) => {
    filled(cwd);
    const inside = ({ path: file }) => file.startsWith(cwd);
    return ["", "below", path.join("below", "deeper")].map((name) =>
      pi.loadProjectContextFiles({ cwd: path.join(cwd, name), agentDir: path.join(cwd, "none") }).filter(inside));
  },

  trust: (pi, { cwd }) => {
    filled(cwd);
    return [cwd, path.join(cwd, "below")].map((folder) => pi.hasTrustRequiringProjectResources(folder));
  },

  imageTypes: async (pi, { cwd }) => {
    const found = [];
    const heads = [PNG, GIF, Buffer.from([0xff, 0xd8, 0xff, 0xe0]), Buffer.from([0xff, 0xd8, 0xff, 0xf7]), Buffer.from("RIFF....WEBPVP8 "), Buffer.from("text"), Buffer.alloc(0)];
    for (const data of heads) {
      fs.writeFileSync(path.join(cwd, "picture"), data);
      found.push(await pi.detectSupportedImageMimeTypeFromFile(path.join(cwd, "picture")));
    }
    found.push(await pi.detectSupportedImageMimeTypeFromFile(path.join(cwd, "absent")).catch((error) => error.code));
    return found;
  },

  /** Bytes of a picture that was encoded anew are each program's own. */
  pictures: async (pi) => {
    const size = ({ data, ...rest }) => rest;
    const bytes = new Uint8Array(PNG);
    const made = await pi.convertToPng(GIF.toString("base64"), "image/gif");
    return [
      await pi.convertToPng("as it is", "image/png"), made.mimeType, Buffer.from(made.data, "base64").subarray(0, 8),
      await pi.convertToPng("bm90IGFuIGltYWdl", "image/gif"), await pi.resizeImage(bytes, "image/png"),
      size(await pi.resizeImage(bytes, "image/png", { maxWidth: 2, maxHeight: 2 })), size(await pi.resizeImage(new Uint8Array(png(2500, 40)), "image/png")),
      await pi.resizeImage(new Uint8Array([1, 2, 3]), "image/png"), bytes.length,
    ];
  },

  powerShell: async (pi, { cwd }) => {
    const refusal = (error) => error.message;
    const tool = pi.createPowerShellTool(cwd);
    return [
      await pi.createLocalPowerShellOperations().exec("ls", "/", { onData() {} }).catch(refusal),
      (() => { try { return pi.getPowerShellConfig(); } catch (error) { return error.message; } })(),
      tool.name, typeof tool.execute, tool.description.length > 0, pi.createPowerShellToolDefinition(cwd).name,
    ];
  },

  wrappedTools: async (pi) => {
    const definition = { name: "n", label: "l", description: "d", parameters: { type: "object" }, executionMode: "sequential", execute: async (...values) => values.map((value) => value?.id ?? value) };
    const tools = pi.wrapRegisteredTools([{ definition }], { createToolContext: (id) => ({ id: `ctx of ${id}` }) });
    const [wrapped] = tools;
    return [Object.keys(wrapped).sort(), await wrapped.execute("1", { a: 1 }, null, null), pi.wrapRegisteredTool({ definition }, {}).label];
  },

  places: (pi) => [pi.getReadmePath, pi.getDocsPath, pi.getExamplesPath].map((each) => path.relative(pi.getPackageDir(), each())),
};
