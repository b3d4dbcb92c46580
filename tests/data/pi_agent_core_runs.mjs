// Makes pi-agent-core-runs-of-pi-1.5.2.json: what stands for the outcomes of runs of pi-agent-core, each generated from a number.
//
//     node tests/data/pi_agent_core_runs.mjs FOLDER > tests/data/pi-agent-core-runs-of-pi-1.5.2.json
//     node tests/data/pi_agent_core_runs.mjs FOLDER loop 17
//
// FOLDER is the package @earendil-works/pi-agent-core 1.5.2 with its dependencies, as npm installs it. With a kind and a number
// it prints the outcome itself.

import { digests, outcomeOf } from "./functions-of-pi/loops.mjs";

const [, , folder, kind, seed] = process.argv;
const original = await import(`${folder}/dist/index.js`);
const found = kind ? await outcomeOf(original, kind, Number(seed)) : await digests(original, 60);
console.log(JSON.stringify(found, null, 1));
