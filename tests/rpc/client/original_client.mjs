// Puts the original's RpcClient at the end of a pipe: its methods as lines in, their results and its events as lines out.
//
//   node original_client.mjs RPC_CLIENT_JS OPTIONS_JSON
//
// In:  {"call": NUMBER, "method": NAME, "args": [...]}. Calls run side by side, as in a program that awaits none.
// Out: {"call": NUMBER, "result": VALUE}, {"call": NUMBER, "error": TEXT}, {"event": RECORD}.
// It ends when stdin does and all calls are over.

import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [module, options] = process.argv.slice(2);
const { RpcClient } = await import(pathToFileURL(module).href);
const client = new RpcClient(JSON.parse(options));
const say = (record) => process.stdout.write(`${JSON.stringify(record)}\n`);

client.onEvent((event) => say({ event }));
for await (const line of createInterface({ input: process.stdin })) {
  const { call, method, args } = JSON.parse(line);
  Promise.resolve()
    .then(() => client[method](...args))
    .then(
      (result) => say({ call, result: result ?? null }),
      (error) => say({ call, error: error.message }),
    );
}
