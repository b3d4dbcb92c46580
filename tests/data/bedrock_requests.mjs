// Sends the requests of a list through the original's client of Amazon Bedrock, one after the other.
// Arguments: its module, and a file with the list.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { streamSimple } = await import(pathToFileURL(process.argv[2]));
for (const { model, context, options, env } of JSON.parse(readFileSync(process.argv[3], "utf8"))) {
  const before = { ...process.env };
  Object.assign(process.env, env);
  const last = await streamSimple(model, context, options).result();
  if (last.stopReason === "error") console.log(JSON.stringify(last.errorMessage));
  process.env = before;
}
