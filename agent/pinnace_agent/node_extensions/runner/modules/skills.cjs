/** Skills, context files and where resources come from: the agent finds and reads them, here they are put together as in pi. */

"use strict";

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { now } = require("../wire.cjs");

const SKILL = /^<skill name="([^"]+)" location="([^"]+)">\n([\s\S]*?)\n<\/skill>(?:\n\n([\s\S]+))?$/;

/** The parts of a message that names a skill; null: it is none. */
function parseSkillBlock(text) {
  const found = SKILL.exec(text);
  if (found === null) return null;
  const [, name, location, content, message] = found;
  return { name, location, content, userMessage: message?.trim() || undefined };
}

function createSyntheticSourceInfo(file, { source, scope = "temporary", origin = "top-level", baseDir, changelogPath }) {
  return { path: file, source, scope, origin, baseDir, ...(changelogPath ? { changelogPath } : {}) };
}

const SCOPES = { user: "user", project: "project", path: undefined };

/** The skills of a folder or a file, with `source` of them, and what is wrong with them. */
function skillsIn(place, source) {
  const { skills, warnings } = now(undefined, "skills", place);
  return {
    skills: skills.map((each) => {
      const baseDir = path.dirname(each.filePath);
      const info = source in SCOPES ? { source: "local", scope: SCOPES[source], baseDir } : { source, baseDir };
      const { disableModelInvocation, ...rest } = each;
      return { ...rest, baseDir, sourceInfo: createSyntheticSourceInfo(each.filePath, info), disableModelInvocation };
    }),
    diagnostics: warnings.map((each) => ({ type: "warning", message: each.message, path: each.path })),
  };
}

const loadSkillsFromDir = ({ dir, source }) => fs.existsSync(dir) ? skillsIn(dir, source) : { skills: [], diagnostics: [] };

const expanded = (file) => file === "~" || file.startsWith("~/") ? path.join(process.env.HOME || os.homedir(), file.slice(1)) : file;
const isIn = (folder, file) => file === folder || file.startsWith(folder + path.sep);
const identity = (file) => {
  try {
    return fs.realpathSync(file);
  } catch {
    return file;
  }
};

/** The skills of the usual folders and of given paths; of two of a name the first counts. */
function loadSkills({ cwd, agentDir, skillPaths, includeDefaults }) {
  const folders = {
    user: path.join(path.resolve(agentDir ?? now(undefined, "agent_dir")), "skills"), project: path.resolve(cwd, ".pi", "skills"),
  };
  const skills = new Map();
  const files = new Set();
  const diagnostics = [];
  const collisions = [];
  const add = (found) => {
    diagnostics.push(...found.diagnostics);
    for (const skill of found.skills) {
      const file = identity(skill.filePath);
      if (files.has(file)) continue;
      const first = skills.get(skill.name);
      if (first === undefined) {
        skills.set(skill.name, skill);
        files.add(file);
        continue;
      }
      const collision = { resourceType: "skill", name: skill.name, winnerPath: first.filePath, loserPath: skill.filePath };
      collisions.push({ type: "collision", message: `name "${skill.name}" collision`, path: skill.filePath, collision });
    }
  };
  if (includeDefaults) for (const [source, dir] of Object.entries(folders)) add(loadSkillsFromDir({ dir, source }));
  const warn = (message, file) => diagnostics.push({ type: "warning", message, path: file });
  for (const given of skillPaths) {
    const place = path.resolve(cwd, expanded(given.trim()));
    const status = fs.statSync(place, { throwIfNoEntry: false });
    const source = includeDefaults ? undefined : Object.keys(folders).find((each) => isIn(folders[each], place));
    if (status === undefined) warn("skill path does not exist", place);
    else if (status.isDirectory() || (status.isFile() && place.endsWith(".md"))) add(skillsIn(place, source ?? "path"));
    else warn("skill path is not a markdown file", place);
  }
  return { skills: [...skills.values()], diagnostics: [...diagnostics, ...collisions] };
}

const READERS = { read: "the read tool", bash: "bash", indirect: "a tool" };

/** How a system prompt names skills, in the agent's words; empty: it names none. */
function formatSkillsForPrompt(skills, fileReadTool = "read") {
  const text = now(undefined, "skill_list", skills.filter((each) => !each.disableModelInvocation), READERS[fileReadTool] ?? READERS.indirect);
  return text && `\n\n${text}`;
}

/** The context files of a working folder, such as AGENTS.md, from the user's own to the nearest. */
const loadProjectContextFiles = ({ cwd, agentDir }) =>
  now(undefined, "context_files", path.resolve(cwd), path.resolve(agentDir ?? now(undefined, "agent_dir")));

/** Whether a folder brings what is used only if the project is trusted. */
const hasTrustRequiringProjectResources = (cwd) => now(undefined, "needs_trust", path.resolve(cwd));

module.exports = {
  parseSkillBlock, createSyntheticSourceInfo, loadSkills, loadSkillsFromDir, formatSkillsForPrompt, loadProjectContextFiles,
  hasTrustRequiringProjectResources,
};
