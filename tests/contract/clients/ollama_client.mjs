// ollama (npm): systemone, list and the error it raises.
import { createRequire } from "node:module";
const require = createRequire(process.env.CONTRACT_PACKAGES + "/");
const { Ollama } = require("ollama");

const client = new Ollama({ host: process.argv[2] });
const questions = {
  team: { type: "choice", instructions: "Which team?", criteria: { billing: "money", sales: null } },
  urgent: { type: "noul", instructions: "Needs a reply today." },
  anger: { type: "score", instructions: "How angry?", criteria: ["calm", "angry"] },
};
const out = {};
const reply = await client.systemone({ model: "m", state: "Charged twice", questions });
out.answers = reply.answers;
out.models = (await client.list()).models.map((model) => model.name);
try {
  await client.systemone({ model: "nope", state: "s", questions });
} catch (error) {
  out.missing = [error.status_code, error.message];
}
console.log(JSON.stringify(out));
