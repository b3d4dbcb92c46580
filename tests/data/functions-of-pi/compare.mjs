/** Runs the cases of a module with what pi exports and with what pinnace has in its place: the names of those that differ, and how. */

/** What JSON has no word for. */
function shown(_key, value) {
  if (value instanceof Set) return [...value];
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  return value === undefined ? "undefined" : value;
}

export async function compare(cases, original, ours, more) {
  const runs = { all: 0, failed: 0 };
  const settled = (run) => {
    runs.all += 1;
    try {
      return run();
    } catch (error) {
      runs.failed += 1;
      return error.name;
    }
  };
  const different = {};
  for (const [name, run] of Object.entries(cases)) {
    const failed = (error) => ({ failed: error.stack });
    const of = async (pi) => JSON.stringify(await (async () => run(pi, { ...more, settled }))().catch(failed), shown, 1).split("\n");
    const [wanted, found] = [await of(original), await of(ours)];
    const at = Array.from({ length: Math.max(wanted.length, found.length) }, (_, place) => place).find((place) => wanted[place] !== found[place]);
    const around = (lines) => lines.slice(Math.max(0, at - 5), at + 3);
    if (at !== undefined) different[name] = { wanted: around(wanted), found: around(found) };
  }
  return { ...runs, count: Object.keys(cases).length, different };
}
