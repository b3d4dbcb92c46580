/** Entries, contexts, sizes and cuts: each case is run with the functions of pi and with ours, and returns what is compared. */

import { generated, rand } from "./entries.mjs";

const each = (run) => Array.from({ length: 150 }, (_, seed) => run(generated(seed), rand(seed + 1000)));
const SETTINGS = { enabled: true, reserveTokens: 1 };

/** Of version 1: a list, with names and places that have changed since. */
const OLD = [
  { type: "session", id: "s", cwd: "/" },
  { type: "message", message: { role: "user", content: "a" } },
  { type: "message", message: { role: "hookMessage", content: "h" } },
  { type: "compaction", summary: "c", firstKeptEntryIndex: 1 },
  { type: "compaction", summary: "c", firstKeptEntryIndex: 0 },
  { type: "compaction", summary: "c", firstKeptEntryIndex: 99 },
];

export const cases = {
  /** At the leaf, at another entry, at none, and at one that is unknown. */
  contexts: (pi, { settled }) => each((entries, next) => {
    const leaf = entries[Math.floor(next() * entries.length)].id;
    return [undefined, leaf, null, "unknown"].map((id) => settled(() => [
      pi.buildSessionContext(entries, id), pi.buildContextEntries(entries, id).map((entry) => entry.id),
      pi.buildSessionProjection(entries, id).entries.map((each) => [each.sourceEntry.id, each.messages.length]),
    ]));
  }),

  /** Entries, messages and usages are the same objects, which extensions compare. */
  identity: (pi) => each((entries) => {
    const usage = pi.getLastAssistantUsage(entries);
    return [
      pi.buildSessionProjection(entries).entries.every((each) => entries.includes(each.sourceEntry)),
      entries.map((entry) => pi.sessionEntryToContextMessages(entry)[0] === entry.message),
      entries.findIndex((entry) => usage !== undefined && entry.message?.usage === usage),
      entries.indexOf(pi.getLatestCompactionEntry(entries)),
    ];
  }),

  constants: (pi) => [pi.CURRENT_SESSION_VERSION, pi.DEFAULT_COMPACTION_SETTINGS],
  threshold: (pi) => [[1, 2, SETTINGS], [2, 2, SETTINGS], [9, 2, { ...SETTINGS, enabled: false }]].map((values) => pi.shouldCompact(...values)),

  sizes: (pi, { settled }) => each((entries) => settled(() => [
    entries.flatMap((entry) => pi.sessionEntryToContextMessages(entry).map((message) => pi.estimateTokens(message))),
    entries.flatMap((entry) => (entry.message?.usage ? [pi.calculateContextTokens(entry.message.usage)] : [])),
  ])),

  cuts: (pi, { settled }) => each((entries, next) => settled(() => [
    [0, 1, 40, 200, 100_000].map((tokens) => pi.findCutPoint(entries, 0, entries.length, tokens)),
    pi.findCutPoint(entries, 5, 20, Math.floor(next() * 300)), pi.findCutPoint(entries, 3, 3, 10),
    entries.map((_entry, place) => pi.findTurnStartIndex(entries, place, Math.floor(place / 2))),
  ])),

  branches: (pi, { settled }) => each((entries, next) => {
    const byId = new Map(entries.map((entry) => [entry.id, entry]));
    const getEntry = (id) => byId.get(id);
    const getBranch = (id) => {
      const found = [];
      for (let entry = byId.get(id); entry; entry = byId.get(entry.parentId)) found.unshift(entry);
      return found;
    };
    const session = { getEntry, getBranch };
    const [from, to] = [0, 1].map(() => entries[Math.floor(next() * entries.length)].id);
    return settled(() => [
      pi.collectEntriesForBranchSummary(session, from, to), pi.collectEntriesForBranchSummary(session, null, to),
      pi.prepareBranchEntries(entries), [1, 30, 100, 400].map((budget) => pi.prepareBranchEntries(entries, budget)),
    ]);
  }),

  /** Ids are random: what counts is which entry each names. */
  migrations: (pi) => [undefined, 1, 2, 3, 4].map((version) => {
    const entries = structuredClone(OLD);
    if (version !== undefined) entries[0].version = version;
    const result = pi.migrateSessionEntries(entries);
    const place = (id) => (id === undefined || id === null ? id : entries.findIndex((entry) => entry.id === id));
    return [result, entries.map(({ id, parentId, firstKeptEntryId, ...rest }) => [place(id), place(parentId), place(firstKeptEntryId), rest])];
  }),

  files: (pi) => ["", "\n\n", '{}\n\n{"a":1}\n{broken\n 5 ', '  {"type":"session"}\r\n[1]\n'].map((text) => pi.parseSessionEntries(text)),
};
