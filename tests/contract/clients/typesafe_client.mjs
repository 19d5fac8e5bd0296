// @typesafe-ai/sdk (npm): three types, the model list, its errors.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
const require = createRequire(process.env.CONTRACT_PACKAGES + "/");
const sdk = await import(pathToFileURL(require.resolve("@typesafe-ai/sdk")));

const client = new sdk.TypeSafeClient({ baseURL: process.argv[2], apiKey: "unused" });
const questions = {
  team: { type: "choice", instructions: "Which team?", criteria: { billing: "money", sales: null } },
  urgent: { type: "noul", instructions: "Needs a reply today." },
  anger: { type: "score", instructions: "How angry?", criteria: ["calm", "angry"] },
};
const out = {};
const reply = await client.systemOne({ model: "m", state: "Charged twice", questions });
out.answers = reply.answers;
out.usage = reply.usage;
out.models = (await client.models.list()).map((model) => model.name);
try {
  await client.systemOne({ model: "nope", state: "s", questions });
} catch (error) {
  out.missing = [error.constructor.name, error.message];
}
console.log(JSON.stringify(out));
